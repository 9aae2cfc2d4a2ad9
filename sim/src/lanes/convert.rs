//! `cvt` between every pair of scalar types.

use super::float::Mode;
use super::soft::{self, Format, Number, Round};
use crate::ast::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) mode: Mode,
    pub(crate) integral: bool,
    pub(crate) width: u32,
}

const TYPES: [Type; 12] = [
    Type::U8,
    Type::S8,
    Type::U16,
    Type::S16,
    Type::U32,
    Type::S32,
    Type::U64,
    Type::S64,
    Type::F16,
    Type::Bf16,
    Type::F32,
    Type::F64,
];

fn code(ty: Type) -> u32 {
    TYPES.iter().position(|&known| known == ty).unwrap_or(0) as u32
}

impl Conversion {
    pub(crate) fn encode(self) -> u32 {
        let types = code(self.to) | code(self.from) << 4 | u32::from(self.integral) << 8;
        types | self.width.ilog2() << 9 | self.mode.encode() << 16
    }

    pub(crate) fn decode(bits: u32) -> Self {
        Self {
            to: TYPES[(bits & 15).min(11) as usize],
            from: TYPES[(bits >> 4 & 15).min(11) as usize],
            mode: Mode::decode(bits >> 16),
            integral: bits >> 8 & 1 == 1,
            width: 1 << (bits >> 9 & 7),
        }
    }

    pub(crate) fn supports(to: Type, from: Type) -> bool {
        TYPES.contains(&to) && TYPES.contains(&from)
    }
}

pub(crate) fn convert(imm: u32, bits: u64) -> u64 {
    let conversion = Conversion::decode(imm);
    let Conversion { to, from, mode, .. } = conversion;
    let result = match (from.is_float(), to.is_float()) {
        (false, false) => integer_to_integer(to, from, mode.sat, bits),
        (false, true) => {
            let value = extend(from, bits);
            let negative = from.is_signed() && (value as i64) < 0;
            let magnitude = if negative { value.wrapping_neg() } else { value };
            let number = soft::from_integer(negative, magnitude);
            let format = Format::of(to);
            mode.finish(format, format.pack(number, mode.round))
        }
        (true, false) => float_to_integer(to, from, mode, bits),
        (true, true) => float_to_float(conversion, bits),
    };
    if to.is_float() { result } else { extend(to, result) & low_bits(conversion.width) }
}

const fn low_bits(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Returns whether a conversion flushes subnormals on the side that has type `ty`: `.ftz` applies to
/// singles only. According to the manual it also flushes singles that become halves; an H200 does not,
/// as directed roundings show.
fn flushes(mode: Mode, ty: Type, other: Type) -> bool {
    mode.ftz && ty == Type::F32 && other != Type::F16
}

/// Returns the value of an integer type, extended to 64 bits by its sign or by zeros.
pub(crate) fn extend(ty: Type, bits: u64) -> u64 {
    let unused = 64 - ty.bits();
    let top = bits << unused;
    if ty.is_signed() { (top as i64 >> unused) as u64 } else { top >> unused }
}

fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn integer_to_integer(to: Type, from: Type, sat: bool, bits: u64) -> u64 {
    let value = extend(from, bits);
    if !sat {
        return value;
    }
    let wide = if from.is_signed() { i128::from(value as i64) } else { i128::from(value) };
    let (least, greatest) = range(to);
    wide.clamp(least, greatest) as u64
}

fn float_to_integer(to: Type, from: Type, mode: Mode, bits: u64) -> u64 {
    let format = Format::of(from);
    let bits = bits & low_bits(from.bits());
    let number = format.unpack(if flushes(mode, from, to) { format.flush(bits) } else { bits });
    let (least, greatest) = range(to);
    let value = match (number, soft::to_integral(number, mode.round)) {
        (_, Some((negative, magnitude))) => {
            let magnitude = magnitude as i128;
            if negative { -magnitude } else { magnitude }
        }
        (Number::Infinite { negative: false }, None) => greatest,
        (Number::Infinite { negative: true }, None) => least,
        // With 64 bits on either side, a NaN converts to the integer with only the top bit set.
        (_, None) if from.bits().max(to.bits()) < 64 => 0,
        (_, None) if to.is_signed() => least,
        (_, None) => 1 << (to.bits() - 1),
    };
    value.clamp(least, greatest) as u64
}

fn float_to_float(conversion: Conversion, bits: u64) -> u64 {
    let Conversion { to, from, mode, integral, .. } = conversion;
    let (source, target) = (Format::of(from), Format::of(to));
    let bits = bits & low_bits(from.bits());
    let bits = if flushes(mode, from, to) { source.flush(bits) } else { bits };
    if source.is_nan(bits) {
        return mode.finish(target, nan(conversion, bits));
    }
    let mode = Mode { ftz: mode.ftz && to == Type::F32, ..mode };
    let mut number = source.unpack(bits);
    if integral && let Some((negative, magnitude)) = integral_part(number, mode.round) {
        number = match magnitude {
            0 => Number::Zero { negative },
            _ => Number::Finite { negative, exponent: 0, significand: magnitude },
        };
    }
    if from == to && !integral {
        return mode.finish(target, bits);
    }
    mode.finish(target, target.pack_as(mode.ftz, number, mode.round))
}

/// Returns the conversion of a NaN. The manual leaves it open; this is the result of an H200.
fn nan(conversion: Conversion, bits: u64) -> u64 {
    let Conversion { to, from, mode, integral, .. } = conversion;
    let (source, target) = (Format::of(from), Format::of(to));
    match (from, to) {
        // Flushing a single takes a separate instruction, which returns the canonical NaN.
        (Type::F32, Type::F64) if mode.ftz => target.carry_nan(source, source.nan()),
        (Type::F64, _) | (_, Type::F64) => target.carry_nan(source, bits),
        // These conversions only move bits.
        (Type::Bf16, Type::F32) => bits << 16,
        _ if from == to && !integral && !(mode.ftz || mode.sat || mode.relu) => bits,
        _ => target.nan(),
    }
}

/// Rounds a finite number that may have a fraction to an integer; returns `None` for other numbers.
fn integral_part(number: Number, round: Round) -> Option<(bool, u128)> {
    match number {
        Number::Finite { exponent, .. } if exponent < 0 => soft::to_integral(number, round),
        _ => None,
    }
}

/// Rounds two singles into the halves of a word, `high` above `low`.
pub(crate) fn pack_halves(imm: u32, high: u32, low: u32) -> u32 {
    let one = |bits: u32| convert(imm, u64::from(bits)) as u32;
    one(high) << 16 | one(low)
}

#[cfg(test)]
mod tests {
    use super::{Conversion, Mode, Round, TYPES, convert};
    use crate::ast::Type;

    fn run(to: Type, from: Type, round: Round, bits: u64) -> u64 {
        let mode = Mode { round, ..Mode::NEAREST };
        let width = to.bits().max(16);
        convert(Conversion { to, from, mode, integral: !to.is_float(), width }.encode(), bits)
    }

    #[test]
    fn conversions_survive_their_encoding() {
        for to in TYPES {
            for from in TYPES {
                let mode = Mode { round: Round::Up, ftz: true, ..Mode::NEAREST };
                let conversion = Conversion { to, from, mode, integral: true, width: 64 };
                assert_eq!(Conversion::decode(conversion.encode()), conversion);
            }
        }
    }

    #[test]
    fn floats_to_integers_agree_with_the_hosts_saturating_casts() {
        let values = [0.0, -0.0, 0.5, -0.5, 1.5, 255.9, -129.0, 3e9, -3e9, 2e19, -2e19, 1e300];
        let more = [f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
        for value in values.into_iter().chain(more) {
            let bits = value.to_bits();
            let to = |ty| run(ty, Type::F64, Round::Zero, bits);
            assert_eq!(to(Type::S32) as u32, value as i32 as u32, "{value}");
            assert_eq!(to(Type::U32) as u32, value as u32, "{value}");
            assert_eq!(to(Type::S64), value as i64 as u64, "{value}");
            assert_eq!(to(Type::U64), value as u64, "{value}");
            assert_eq!(to(Type::S8) as u8, value as i8 as u8, "{value}");
        }
    }

    #[test]
    fn nan_converts_to_the_top_bit_with_64_bit_types() {
        let single = |to| run(to, Type::F32, Round::Zero, f32::NAN.to_bits().into());
        let double = |to| run(to, Type::F64, Round::Zero, f64::NAN.to_bits());
        assert_eq!([single(Type::S32), single(Type::U8)], [0, 0]);
        assert_eq!([single(Type::S64), single(Type::U64)], [1 << 63; 2]);
        assert_eq!([double(Type::S64), double(Type::U64)], [1 << 63; 2]);
        assert_eq!([double(Type::S32), double(Type::U32)], [1 << 31; 2]);
        assert_eq!([double(Type::S8), double(Type::U8)], [0xff80, 0x80]);
    }

    #[test]
    fn ftz_drops_nan_payload_when_widening_to_f64() {
        let widened = |ftz| {
            let mode = Mode { ftz, ..Mode::NEAREST };
            let (to, from) = (Type::F64, Type::F32);
            convert(Conversion { to, from, mode, integral: false, width: 64 }.encode(), 0xff80_0001)
        };
        assert_eq!(widened(false), 0xfff8_0000_2000_0000);
        assert_eq!(widened(true), 0x7fff_ffff_e000_0000);
    }

    #[test]
    fn integers_to_floats_agree_with_the_host() {
        for value in [0, 1, 0x0100_0001, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 1 << 63] {
            let single = |from| run(Type::F32, from, Round::Nearest, value) as u32;
            assert_eq!(single(Type::U64), (value as f32).to_bits());
            assert_eq!(single(Type::S64), (value as i64 as f32).to_bits());
            assert_eq!(single(Type::S32), (value as i32 as f32).to_bits());
        }
    }

    #[test]
    fn halves_round_to_nearest_even() {
        let half = |value: f32| run(Type::F16, Type::F32, Round::Nearest, value.to_bits().into());
        assert_eq!(half(1.0), 0x3c00);
        assert_eq!(half(65504.0), 0x7bff);
        assert_eq!(half(65520.0), 0x7c00);
        assert_eq!(half(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(half(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(half(5.960_464_5e-8), 0x0001);
        assert_eq!(run(Type::F32, Type::F16, Round::Nearest, 0x0001), 0x3380_0000);
    }
}
