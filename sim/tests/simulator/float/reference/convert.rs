use rustc_apfloat::ieee::{BFloat, Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert};

use crate::float::cases::instruction::{Mode, Shape, Ty};

use super::arithmetic::flush_tiny;
use super::{finish, flush, with_format};

pub(super) fn convert(mode: Mode, to: Ty, from: Ty, bits: u64) -> u64 {
    // Only single precision is flushed, as source or destination. Conversions to halves are excepted:
    // the manual specifies flushing there, but the hardware does not flush.
    let flushing = |ty: Ty, shape: Shape, bits| {
        if mode.ftz && ty == Ty::F32 && to != Ty::F16 { flush(shape, bits) } else { bits }
    };
    match (from.shape(), to.shape()) {
        (Some(shape), None) => {
            let bits = flushing(from, shape, bits);
            with_format!(from, to_integer(mode, to, from, bits))
        }
        (None, Some(shape)) => {
            let bits = with_format!(to, from_integer(mode, integer(from, bits)));
            finish(mode, shape, bits)
        }
        (Some(source), Some(shape)) => {
            let bits = flushing(from, source, bits);
            let kept = Mode { ftz: mode.ftz && to == Ty::F32, ..mode };
            let result = match source.is_nan(bits) {
                true => nan(mode, (to, shape), (from, source), bits),
                false => with_format!(from, between(kept, to, from, bits)),
            };
            finish(kept, shape, result)
        }
        (None, None) => panic!("no floats"),
    }
}

fn is_signed(ty: Ty) -> bool {
    matches!(ty, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
}

fn integer(ty: Ty, bits: u64) -> i128 {
    let unused = 64 - ty.bits();
    let top = bits << unused;
    if is_signed(ty) { i128::from(top as i64 >> unused) } else { i128::from(top >> unused) }
}

/// Clamps to the type's range and extends to its register. A NaN gives the integer whose only set bit is
/// the top one if either side has 64 bits, else 0.
fn to_integer<F: Float>(mode: Mode, to: Ty, from: Ty, bits: u64) -> u64 {
    let value = F::from_bits(bits.into());
    let wide = from.bits().max(to.bits()) == 64;
    let bits = to.bits();
    let whole = match value.is_nan() {
        true if !wide => 0,
        true if is_signed(to) => -1 << (bits - 1),
        true => 1 << (bits - 1),
        false => value.to_i128_r(128, mode.round.into(), &mut false).value,
    };
    let (least, greatest) =
        if is_signed(to) { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    whole.clamp(least, greatest) as u64 & (u64::MAX >> (64 - to.register()))
}

fn from_integer<F: Float>(mode: Mode, value: i128) -> u64 {
    F::from_i128_r(value, mode.round.into()).value.to_bits() as u64
}

/// Returns the conversion of a NaN. f32 and f16 have one NaN, except where bits are moved rather than
/// converted. Conversions from and to f64 keep sign and payload and make the NaN quiet.
fn nan(mode: Mode, (to, shape): (Ty, Shape), (from, source): (Ty, Shape), bits: u64) -> u64 {
    let moved = !mode.integral && !mode.ftz && !mode.sat;
    match (from, to) {
        (Ty::F32, Ty::F32) if moved => bits,
        (Ty::Bf16, Ty::F32) => bits << 16,
        (Ty::F64, _) | (_, Ty::F64) => {
            // A GPU flushes by a separate instruction, which makes the NaN canonical.
            let bits = if mode.ftz && from == Ty::F32 { source.sign() - 1 } else { bits };
            let sign = u64::from(bits & source.sign() != 0) << (shape.bits() - 1);
            let fraction = bits << (64 - source.fraction) >> (64 - shape.fraction);
            sign | shape.infinity() | fraction | 1 << (shape.fraction - 1)
        }
        _ => shape.sign() - 1,
    }
}

fn between<F>(mode: Mode, to: Ty, from: Ty, bits: u64) -> u64
where
    F: FloatConvert<Half>
        + FloatConvert<BFloat>
        + FloatConvert<Single>
        + FloatConvert<Double>
        + FloatConvert<Quad>,
{
    fn rounded<F: FloatConvert<T> + FloatConvert<Quad>, T: Float + FloatConvert<Quad>>(
        mode: Mode,
        value: F,
    ) -> u64 {
        let exact: Quad = value.convert(&mut false).value;
        let result: T = value.convert_r(mode.round.into(), &mut false).value;
        flush_tiny(mode, result, |_| exact).to_bits() as u64
    }
    let value = F::from_bits(bits.into());
    if mode.integral {
        return value.round_to_integral(mode.round.into()).value.to_bits() as u64;
    }
    if to == from {
        return bits;
    }
    match to {
        Ty::F16 => rounded::<F, Half>(mode, value),
        Ty::Bf16 => rounded::<F, BFloat>(mode, value),
        Ty::F32 => rounded::<F, Single>(mode, value),
        _ => rounded::<F, Double>(mode, value),
    }
}
