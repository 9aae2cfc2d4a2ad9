use rustc_apfloat::ieee::{BFloat, Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Status};

use crate::float::cases::accuracy::Accuracy;
use crate::float::cases::instruction::{Instruction, Mode, Operation, Round, Shape};

pub(super) trait Format: Float + FloatConvert<Quad> + FloatConvert<Double> {
    fn from_double(value: f64, round: rustc_apfloat::Round) -> Self;
}

macro_rules! formats {
    ($($name:ident),*) => {$(
        impl Format for $name {
            fn from_double(value: f64, round: rustc_apfloat::Round) -> Self {
                Double::from_bits(value.to_bits().into()).convert_r(round, &mut false).value
            }
        }
    )*};
}

formats!(Half, BFloat, Single, Double);

pub(super) fn arithmetic<F: Format>(
    instruction: &Instruction,
    shape: Shape,
    operands: [u64; 3],
) -> Result<u64, ()> {
    let &Instruction { operation, mode, accuracy, .. } = instruction;
    // Double-precision approximations that flush read and write the upper word only.
    let upper = |bits: u64| if accuracy == Accuracy::Upper { bits & !0xffff_ffff } else { bits };
    let [a, b, c] = operands.map(|bits| F::from_bits(upper(bits).into()));
    let round = mode.round.into();
    let result = match operation {
        Operation::Add => a.add_r(b, round).value,
        Operation::Sub => a.sub_r(b, round).value,
        Operation::Mul => a.mul_r(b, round).value,
        Operation::Fma => a.mul_add_r(b, c, round).value,
        Operation::Div if accuracy == Accuracy::Quotient => quotient(a, b),
        Operation::Div => a.div_r(b, round).value,
        Operation::Rcp => F::from_u128(1).value.div_r(a, round).value,
        Operation::Sqrt => sqrt(a, mode),
        Operation::Min | Operation::Max => extreme(operation == Operation::Max, mode, a, b),
        Operation::Rsqrt => through_double(a, |x| 1.0 / x.sqrt()),
        Operation::Sin => through_double(a, f64::sin),
        Operation::Cos => through_double(a, f64::cos),
        Operation::Lg2 => through_double(a, f64::log2),
        Operation::Ex2 if F::BITS == 16 => exp2_cut(a),
        Operation::Ex2 => through_double(a, f64::exp2),
        Operation::Tanh => through_double(a, f64::tanh),
        other => panic!("{other:?} is no arithmetic"),
    };
    let wide = [a, b, c].map(|value| -> Quad { value.convert(&mut false).value });
    let bits = flush_tiny(mode, result, |round| exact(operation, wide, round)).to_bits() as u64;
    if shape.is_nan(bits) { Err(()) } else { Ok(upper(bits)) }
}

/// Returns a result in quadruple precision. Returns infinity for operations with exact results, or with
/// results far from the least normal number.
fn exact(operation: Operation, [a, b, c]: [Quad; 3], round: rustc_apfloat::Round) -> Quad {
    match operation {
        Operation::Mul => a.mul_r(b, round).value,
        Operation::Fma => a.mul_add_r(b, c, round).value,
        Operation::Div => a.div_r(b, round).value,
        Operation::Rcp => Quad::from_u128(1).value.div_r(a, round).value,
        _ => Quad::INFINITY,
    }
}

/// Flushes the least normal number, as `.ftz` does, if the exact result would be subnormal when rounded
/// with an unbounded exponent. The wider spacing of subnormals can round such a result up.
///
/// `exact` returns the result in quadruple precision, rounded in the given direction.
pub(super) fn flush_tiny<F: Float + FloatConvert<Quad>>(
    mode: Mode,
    result: F,
    exact: impl Fn(rustc_apfloat::Round) -> Quad,
) -> F {
    use rustc_apfloat::Round::{TowardNegative, TowardPositive, TowardZero};
    let least = F::smallest_normalized();
    if !mode.ftz || result.abs() != least {
        return result;
    }
    let wide = |value: F| -> Quad { value.convert(&mut false).value };
    let part = |power: i32| wide(F::SMALLEST).scalbn(power);
    // With an unbounded exponent, the spacing below the least normal number is half a subnormal step.
    let tiny = match mode.round {
        Round::Nearest => exact(TowardZero).abs() < (wide(least) - part(-2)).value,
        Round::Zero => false,
        Round::Down => {
            result.is_negative() && exact(TowardNegative).abs() <= (wide(least) - part(-1)).value
        }
        Round::Up => {
            !result.is_negative() && exact(TowardPositive).abs() <= (wide(least) - part(-1)).value
        }
    };
    if tiny { F::ZERO.copy_sign(result) } else { result }
}

/// Models the hardware's `ex2` of halves: the argument is truncated to 23 fraction bits, and the result
/// to the fraction bits of its format.
fn exp2_cut<F: Format>(value: F) -> F {
    let step = 23_f64.exp2();
    let power = ((double(value) * step).trunc() / step).exp2();
    match power >= f64::from(F::MAX_EXP + 1).exp2() {
        true => F::INFINITY,
        false => F::from_double(power, rustc_apfloat::Round::TowardZero),
    }
}

/// Divides as `div.approx` does: the reciprocal of a divisor beyond 2^126 is 0.
fn quotient<F: Format>(a: F, b: F) -> F {
    let limit = F::from_u128(1 << 126).value;
    let reciprocal_vanishes = b.is_finite() && b.abs() > limit;
    let divisor = if reciprocal_vanishes { F::INFINITY.copy_sign(b) } else { b };
    (a / divisor).value
}

fn double<F: Format>(value: F) -> f64 {
    let wide: Double = value.convert(&mut false).value;
    f64::from_bits(wide.to_bits() as u64)
}

fn through_double<F: Format>(value: F, f: impl Fn(f64) -> f64) -> F {
    F::from_double(f(double(value)), rustc_apfloat::Round::NearestTiesToEven)
}

/// Computes the correctly rounded root. The host's root is at most one step off; the exact sign of the
/// operand minus the square of the root tells in which direction.
fn sqrt<F: Format>(a: F, mode: Mode) -> F {
    let nearest = match F::BITS {
        32 => through_double(a, |x| f64::from((x as f32).sqrt())),
        _ => through_double(a, f64::sqrt),
    };
    if !nearest.is_finite() || nearest.is_zero() {
        return nearest;
    }
    let wide = |value: F| -> Quad { value.convert(&mut false).value };
    let square = wide(nearest) * wide(nearest);
    assert_eq!(square.status, Status::OK, "the square is exact");
    match mode.round {
        Round::Zero | Round::Down if square.value > wide(a) => nearest.next_down().value,
        Round::Up if square.value < wide(a) => nearest.next_up().value,
        _ => nearest,
    }
}

/// Computes `min` or `max`: a number takes precedence over a NaN unless `.NaN` is given, and -0 is below
/// +0.
fn extreme<F: Format>(max: bool, mode: Mode, a: F, b: F) -> F {
    let (x, y) = if mode.xorsign { (a.abs(), b.abs()) } else { (a, b) };
    let picked = match (x.is_nan(), y.is_nan()) {
        (false, false) => {
            let below = if x.is_zero() && y.is_zero() { x.is_negative() } else { x < y };
            if below == max { y } else { x }
        }
        _ if mode.nan => F::NAN,
        (true, _) => y,
        _ => x,
    };
    let negative = a.is_negative() != b.is_negative();
    if mode.xorsign && negative != picked.is_negative() { -picked } else { picked }
}
