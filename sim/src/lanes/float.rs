//! Floating-point functions on scalars, as PTX defines them.

use super::soft::{self, BRAIN, DOUBLE, Format, HALF, Number, Round, SINGLE};
use crate::ast::Type;

/// The canonical NaN: every `f32` arithmetic operation whose result is a NaN returns this one.
const NAN: f32 = f32::from_bits(0x7fff_ffff);
/// The NaN that `f64` arithmetic returns for an invalid operation.
const NAN64: u64 = 0xfff8_0000_0000_0000;

/// Replaces a NaN by the canonical one.
///
/// This tests the bits, because Rust leaves open which NaN the host's arithmetic returns, and so the
/// compiler treats all NaNs as equivalent.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { NAN.to_bits() } else { bits })
}

/// Replaces a subnormal by the zero of its sign.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

#[inline(always)]
pub(crate) fn flush_half(bits: u16) -> u16 {
    HALF.flush(u64::from(bits)) as u16
}

#[inline(always)]
pub(crate) fn flush_halves(word: u32) -> u32 {
    u32::from(flush_half(word as u16)) | u32::from(flush_half((word >> 16) as u16)) << 16
}

/// Replaces a subnormal result by the zero of its sign. `exact` is the result in double precision. If
/// `exact` is subnormal when rounded to 24 bits with an unbounded exponent, the result is flushed, even
/// if it was rounded up to the least normal number.
#[inline(always)]
pub(crate) fn flush_rounded(rounded: f32, exact: f64) -> f32 {
    // The midpoint of the least normal number and the next lower number of 24 bits: 2^-126 - 2^-151.
    const LEAST: f64 = f64::from_bits(0x380f_ffff_f000_0000);
    let bits = rounded.to_bits();
    f32::from_bits(if exact.abs() < LEAST { bits & 0x8000_0000 } else { bits })
}

/// Replaces a NaN result of `f64` arithmetic by the first NaN operand in the given order, made quiet.
/// Branchless, so that it is vectorised.
#[inline(always)]
pub(crate) fn propagate(result: f64, operands: [f64; 3]) -> f64 {
    let of_rest = |rest: u64, x: f64| if x.is_nan() { x.to_bits() } else { rest };
    let first = operands.into_iter().rev().fold(NAN64, of_rest);
    let quiet = f64::from_bits(first | 0x0008_0000_0000_0000);
    if result.is_nan() { quiet } else { result }
}

/// Returns `a * b + c` with one rounding; `fused` is set if the host has an instruction for that.
#[inline(always)]
pub(crate) fn fma(fused: bool, a: f32, b: f32, c: f32) -> f32 {
    if fused { a.mul_add(b, c) } else { fma_to_odd(a, b, c) as f32 }
}

/// Returns `a * b + c` as a double that converts to the `f32` nearest to the exact result.
///
/// The product is exact in double precision. The sum is rounded to odd, which suffices because a double
/// has 53 bits, at least 24 + 2.
#[inline(always)]
pub(crate) fn fma_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    let inexact = (error > 0.0) | (error < 0.0);
    let outwards = (error > 0.0) == (sum > 0.0);
    let odd = if outwards { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let adjust = inexact & (bits & 1 == 0);
    f64::from_bits(if adjust { odd } else { bits })
}

/// Divides as `div.approx` does: the reciprocal of a finite divisor above 2^126 is 0.
#[inline(always)]
pub(crate) fn quotient(a: f32, b: f32) -> f32 {
    const LARGEST: f32 = f32::from_bits(0x7e80_0000);
    let vanishes = b.abs() > LARGEST;
    canonical(a / if vanishes & !b.is_nan() { f32::INFINITY.copysign(b) } else { b })
}

/// Returns the result of `min`: a number wins over a NaN, and -0 is below +0.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    let first = (a < b) | ((a == b) & a.is_sign_negative()) | b.is_nan();
    canonical(if first { a } else { b })
}

/// Returns the result of `max`: a number wins over a NaN, and -0 is below +0.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    let first = (a > b) | ((a == b) & a.is_sign_positive()) | b.is_nan();
    canonical(if first { a } else { b })
}

/// Returns the result of `min.NaN`: a NaN wins over a number.
#[inline(always)]
pub(crate) fn min_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() | b.is_nan() { NAN } else { min(a, b) }
}

/// Returns the result of `max.NaN`: a NaN wins over a number.
#[inline(always)]
pub(crate) fn max_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() | b.is_nan() { NAN } else { max(a, b) }
}

#[inline(always)]
pub(crate) fn min64(a: f64, b: f64) -> f64 {
    let first = (a < b) | ((a == b) & a.is_sign_negative()) | b.is_nan();
    propagate(if first { a } else { b }, [b, a, 0.0])
}

#[inline(always)]
pub(crate) fn max64(a: f64, b: f64) -> f64 {
    let first = (a > b) | ((a == b) & a.is_sign_positive()) | b.is_nan();
    propagate(if first { a } else { b }, [b, a, 0.0])
}

/// Applies `f`, which changes only the sign bit, to a double. A NaN keeps its sign and becomes quiet.
#[inline(always)]
pub(crate) fn signed64(a: u64, f: impl Fn(u64) -> u64) -> u64 {
    if DOUBLE.is_nan(a) { DOUBLE.carry_nan(DOUBLE, a) } else { f(a) }
}

/// Applies `f`, which changes only the sign bit, to a half. A NaN becomes the canonical NaN.
#[inline(always)]
pub(crate) fn signed_half(format: Format, a: u16, f: impl Fn(u16) -> u16) -> u16 {
    if format.is_nan(a.into()) { format.nan() as u16 } else { f(a) }
}

#[inline(always)]
pub(crate) fn signed_halves(format: Format, word: u32, f: impl Fn(u16) -> u16) -> u32 {
    let [low, high] = [word as u16, (word >> 16) as u16].map(|half| signed_half(format, half, &f));
    u32::from(low) | u32::from(high) << 16
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extreme {
    pub(crate) max: bool,
    pub(crate) nan: bool,
    pub(crate) xorsign: bool,
    pub(crate) ftz: bool,
}

pub(crate) fn extreme(how: Extreme, a: f32, b: f32) -> f32 {
    let (a, b) = if how.ftz { (flush(a), flush(b)) } else { (a, b) };
    if how.nan && (a.is_nan() || b.is_nan()) {
        return NAN;
    }
    let pick = if how.max { max } else { min };
    if how.xorsign {
        let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
        let picked = pick(a.abs(), b.abs());
        return if picked.is_nan() { NAN } else { f32::from_bits(picked.to_bits() | sign) };
    }
    pick(a, b)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    Fma,
    Min,
    Max,
    MinNan,
    MaxNan,
    Exp2,
    Tanh,
}

const OPERATIONS: [Arithmetic; 12] = [
    Arithmetic::Add,
    Arithmetic::Sub,
    Arithmetic::Mul,
    Arithmetic::Div,
    Arithmetic::Sqrt,
    Arithmetic::Fma,
    Arithmetic::Min,
    Arithmetic::Max,
    Arithmetic::MinNan,
    Arithmetic::MaxNan,
    Arithmetic::Exp2,
    Arithmetic::Tanh,
];

const ROUNDS: [Round; 5] = [Round::Nearest, Round::Zero, Round::Down, Round::Up, Round::Away];

/// Rounding and range of an operation, encoded in the instruction's constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) round: Round,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    /// Set for `.xorsign.abs`: compares magnitudes, and gives the result the sign of the product.
    pub(crate) xorsign: bool,
}

impl Mode {
    pub(crate) const NEAREST: Self =
        Self { round: Round::Nearest, ftz: false, sat: false, relu: false, xorsign: false };

    /// Encodes the mode in seven bits.
    pub(crate) fn encode(self) -> u32 {
        let flags = u32::from(self.ftz) << 3 | u32::from(self.sat) << 4;
        self.round as u32 | flags | u32::from(self.relu) << 5 | u32::from(self.xorsign) << 6
    }

    pub(crate) fn decode(bits: u32) -> Self {
        Self {
            round: ROUNDS[(bits & 7).min(4) as usize],
            ftz: bits >> 3 & 1 == 1,
            sat: bits >> 4 & 1 == 1,
            relu: bits >> 5 & 1 == 1,
            xorsign: bits >> 6 & 1 == 1,
        }
    }

    /// Applies flushing, `.sat` and `.relu` to a rounded result.
    pub(crate) fn finish(self, format: Format, bits: u64) -> u64 {
        let bits = if self.ftz { format.flush(bits) } else { bits };
        let negative = bits & format.sign_bit() != 0;
        let nan = format.is_nan(bits);
        if self.relu {
            return if nan {
                format.nan()
            } else if negative {
                0
            } else {
                bits
            };
        }
        if !self.sat {
            return bits;
        }
        let one = format.pack(soft::from_integer(false, 1), Round::Nearest);
        if nan || negative { 0 } else { bits.min(one) }
    }
}

pub(crate) fn soft_constant(operation: Arithmetic, mode: Mode, ty: Type) -> u32 {
    let format = match ty {
        Type::F16 | Type::F16x2 => 0,
        Type::Bf16 | Type::Bf16x2 => 1,
        _ => 2,
    };
    let packed = matches!(ty, Type::F16x2 | Type::Bf16x2);
    mode.encode() | (operation as u32) << 8 | format << 16 | u32::from(packed) << 18
}

/// Executes an operation on words: one value, or two halves side by side.
pub(crate) fn soft_words(imm: u32, [a, b, c]: [u32; 3]) -> u32 {
    let format = [HALF, BRAIN, SINGLE][(imm >> 16 & 3) as usize];
    let one =
        |a: u32, b: u32, c: u32| soft(imm, format, [u64::from(a), u64::from(b), u64::from(c)]) as u32;
    if imm >> 18 & 1 == 0 {
        return one(a, b, c);
    }
    let low = one(a & 0xffff, b & 0xffff, c & 0xffff);
    low | one(a >> 16, b >> 16, c >> 16) << 16
}

/// Executes an operation on doubles. A NaN operand is propagated in the order second, third, first. In
/// divisions, which the hardware runs as instruction sequences, the first operand takes precedence.
pub(crate) fn soft_doubles(imm: u32, operands: [u64; 3]) -> u64 {
    let [a, b, c] = operands.map(f64::from_bits);
    let order = if operation(imm) == Arithmetic::Div { [a, b, c] } else { [b, c, a] };
    propagate(f64::from_bits(soft(imm, DOUBLE, operands)), order).to_bits()
}

fn operation(imm: u32) -> Arithmetic {
    OPERATIONS[(imm >> 8 & 0xff) as usize]
}

fn soft(imm: u32, format: Format, operands: [u64; 3]) -> u64 {
    let mode = Mode::decode(imm);
    let operation = operation(imm);
    let [x, y, z] = operands.map(|bits| if mode.ftz { format.flush(bits) } else { bits });
    let [a, b, c] = [x, y, z].map(|bits| format.unpack(bits));
    let number = match operation {
        Arithmetic::Add => soft::add(a, b, mode.round),
        Arithmetic::Sub => soft::add(a, format.unpack(y ^ format.sign_bit()), mode.round),
        Arithmetic::Mul => soft::mul(a, b),
        Arithmetic::Div => soft::div(a, b),
        Arithmetic::Sqrt => soft::sqrt(a),
        Arithmetic::Fma => soft::add(soft::mul(a, b), c, mode.round),
        Arithmetic::Min | Arithmetic::Max | Arithmetic::MinNan | Arithmetic::MaxNan => {
            return soft_extreme_modified(operation, format, mode, x, y);
        }
        Arithmetic::Exp2 => return mode.finish(format, exp2_cut(format, mode.ftz, x)),
        Arithmetic::Tanh => through_double(format, x, f64::tanh),
    };
    mode.finish(format, format.pack_as(mode.ftz, number, mode.round))
}

/// Computes `ex2` of a half as an H200 does: truncates the operand to 23 bits of fraction, and the
/// result to its last bit. Above the format's range the result is still infinite.
fn exp2_cut(format: Format, ftz: bool, bits: u64) -> u64 {
    const STEP: f64 = (1 << 23) as f64;
    let number = through_double(format, bits, |x| ((x * STEP).trunc() / STEP).exp2());
    let cut = format.pack_as(ftz, number, Round::Zero);
    let nearest = format.pack(number, Round::Nearest);
    if nearest == format.infinity() { nearest } else { cut }
}

fn through_double(format: Format, bits: u64, f: impl Fn(f64) -> f64) -> Number {
    let double = DOUBLE.pack(format.unpack(bits), Round::Nearest);
    DOUBLE.unpack(f(f64::from_bits(double)).to_bits())
}

fn soft_extreme_modified(operation: Arithmetic, format: Format, mode: Mode, a: u64, b: u64) -> u64 {
    if !mode.xorsign {
        return mode.finish(format, soft_extreme(operation, format, a, b));
    }
    let magnitude = |bits: u64| bits & !format.sign_bit();
    let picked = soft_extreme(operation, format, magnitude(a), magnitude(b));
    if picked == format.nan() { picked } else { picked | (a ^ b) & format.sign_bit() }
}

fn soft_extreme(operation: Arithmetic, format: Format, a: u64, b: u64) -> u64 {
    let wins = matches!(operation, Arithmetic::MinNan | Arithmetic::MaxNan);
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => return format.nan(),
        (true, false) => return if wins { format.nan() } else { b },
        (false, true) => return if wins { format.nan() } else { a },
        (false, false) => {}
    }
    // Sign-magnitude order: negative numbers are ordered inversely to their bits.
    let key = |bits: u64| {
        let magnitude = (bits & !format.sign_bit()) as i64;
        if bits & format.sign_bit() == 0 { magnitude } else { -1 - magnitude }
    };
    let max = matches!(operation, Arithmetic::Max | Arithmetic::MaxNan);
    if (key(a) > key(b)) == max { a } else { b }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

impl Property {
    pub(crate) fn decode(imm: u32) -> Self {
        match imm {
            0 => Self::Finite,
            1 => Self::Infinite,
            2 => Self::Number,
            3 => Self::NotANumber,
            4 => Self::Normal,
            _ => Self::Subnormal,
        }
    }

    pub(crate) fn holds(self, format: Format, bits: u64) -> bool {
        let magnitude = bits & !format.sign_bit();
        let flushed = format.flush(magnitude);
        match self {
            Self::Finite => magnitude < format.infinity(),
            Self::Infinite => magnitude == format.infinity(),
            Self::Number => magnitude <= format.infinity(),
            Self::NotANumber => magnitude > format.infinity(),
            // Zeros count as normal.
            Self::Normal => flushed == magnitude && magnitude < format.infinity(),
            Self::Subnormal => magnitude != 0 && flushed == 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Sine,
    Cosine,
    Logarithm,
    Power,
    HyperbolicTangent,
    ReciprocalRoot,
}

impl Function {
    pub(crate) fn decode(imm: u32) -> Self {
        match imm {
            0 => Self::Sine,
            1 => Self::Cosine,
            2 => Self::Logarithm,
            3 => Self::Power,
            4 => Self::HyperbolicTangent,
            _ => Self::ReciprocalRoot,
        }
    }

    pub(crate) fn of_single(self, x: f32) -> f32 {
        let x = f64::from(x);
        let value = match self {
            Self::Sine => x.sin(),
            Self::Cosine => x.cos(),
            Self::Logarithm => x.log2(),
            Self::Power => x.exp2(),
            Self::HyperbolicTangent => x.tanh(),
            Self::ReciprocalRoot => 1.0 / x.sqrt(),
        };
        canonical(value as f32)
    }
}

/// Widens a narrow float to single precision, which is exact.
pub(crate) fn widen(format: Format, bits: u16) -> f32 {
    f32::from_bits(SINGLE.pack(format.unpack(u64::from(bits)), Round::Nearest) as u32)
}

#[cfg(test)]
mod tests {
    use super::{Mode, Round, SINGLE, canonical, fma};

    #[test]
    fn fused_multiply_add_rounds_once() {
        let mut state = 1_u64;
        let mut next = || {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f32::from_bits((state >> 32) as u32)
        };
        for _ in 0..200_000 {
            let (a, b) = (next(), next());
            // Half of the sums nearly cancel, where a second rounding would show.
            let c = if next() > 0.0 { next() } else { -(a * b) };
            let (got, expected) = (fma(false, a, b, c), a.mul_add(b, c));
            assert!(
                got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                "{a:e} * {b:e} + {c:e}: {got:e} instead of {expected:e}"
            );
        }
    }

    /// The product has 25 bits and is half way between two singles, so the small addend decides the
    /// rounding.
    #[test]
    fn fma_addend_decides_ties() {
        let mut ties = 0;
        for (x, y) in (0..4000_u32).map(|step| (4097 + step % 40 * 26, 4099 + step / 40 * 14)) {
            let (a, b) = (x as f32, y as f32);
            ties += u32::from(x * y < 1 << 25);
            for c in [2.0_f32.powi(-100), -2.0_f32.powi(-100), 2.0_f32.powi(-40), 0.0] {
                for (a, c) in [(a, c), (-a, c)] {
                    let (got, expected) = (fma(false, a, b, c), a.mul_add(b, c));
                    assert_eq!(got.to_bits(), expected.to_bits(), "{a} * {b} + {c:e}: {got}");
                }
            }
        }
        assert_eq!(ties, 4000, "odd products of 25 bits");
    }

    #[test]
    fn saturation_takes_nan_and_negative_zero_to_zero() {
        let mode = Mode { sat: true, ..Mode::NEAREST };
        let saturated = |x: f32| mode.finish(SINGLE, u64::from(x.to_bits()));
        assert_eq!(saturated(f32::NAN), 0);
        assert_eq!(saturated(-0.0), 0);
        assert_eq!(saturated(f32::INFINITY), u64::from(1.0_f32.to_bits()));
        assert_eq!(canonical(-f32::NAN).to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn modes_survive_their_encoding() {
        for round in [Round::Nearest, Round::Zero, Round::Down, Round::Up, Round::Away] {
            for (ftz, sat) in [(false, false), (true, false), (false, true)] {
                let mode = Mode { round, ftz, sat, relu: false, xorsign: sat };
                assert_eq!(Mode::decode(mode.encode()), mode);
            }
        }
    }
}
