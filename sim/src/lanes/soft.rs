//! Floating-point arithmetic in integers: every format, every rounding mode.
//!
//! The host's own arithmetic is used where it gives the same bits; this module serves the directed
//! roundings and the formats that the host lacks.

use crate::ast::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// `.rn`, ties to even.
    Nearest,
    /// `.rz`, towards zero.
    Zero,
    /// `.rm`, towards minus infinity.
    Down,
    /// `.rp`, towards plus infinity.
    Up,
    /// `.rna`, ties away from zero.
    Away,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    fraction: u32,
    exponent: u32,
    /// The NaN that arithmetic returns.
    nan: u64,
}

pub(crate) const HALF: Format = Format { fraction: 10, exponent: 5, nan: 0x7fff };
pub(crate) const BRAIN: Format = Format { fraction: 7, exponent: 8, nan: 0x7fff };
pub(crate) const SINGLE: Format = Format { fraction: 23, exponent: 8, nan: 0x7fff_ffff };
pub(crate) const DOUBLE: Format = Format { fraction: 52, exponent: 11, nan: 0xfff8_0000_0000_0000 };

/// An unpacked number; a finite one is `(-1)^negative * significand * 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Nan,
    Infinite { negative: bool },
    Zero { negative: bool },
    Finite { negative: bool, exponent: i32, significand: u128 },
}

impl Format {
    /// Returns the format of a floating-point type; the format of `.f64` for every other type.
    pub(crate) const fn of(ty: Type) -> Self {
        match ty {
            Type::F16 | Type::F16x2 => HALF,
            Type::Bf16 | Type::Bf16x2 => BRAIN,
            Type::F32 => SINGLE,
            _ => DOUBLE,
        }
    }

    pub(crate) const fn nan(self) -> u64 {
        self.nan
    }

    pub(crate) const fn sign_bit(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    pub(crate) const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    pub(crate) const fn flush(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 { bits & self.sign_bit() } else { bits }
    }

    pub(crate) fn unpack(self, bits: u64) -> Number {
        let negative = bits & self.sign_bit() != 0;
        let fraction = bits & ((1 << self.fraction) - 1);
        let exponent = (bits >> self.fraction) as i32 & ((1 << self.exponent) - 1);
        match (exponent, fraction) {
            (0, 0) => Number::Zero { negative },
            (e, 0) if e == (1 << self.exponent) - 1 => Number::Infinite { negative },
            (e, _) if e == (1 << self.exponent) - 1 => Number::Nan,
            (e, _) => {
                let hidden = if e == 0 { 0 } else { 1 << self.fraction };
                Number::Finite {
                    negative,
                    exponent: e.max(1) - self.bias() - self.fraction as i32,
                    significand: u128::from(fraction | hidden),
                }
            }
        }
    }

    pub(crate) fn pack(self, number: Number, round: Round) -> u64 {
        let sign = |negative| if negative { self.sign_bit() } else { 0 };
        match number {
            Number::Nan => self.nan,
            Number::Infinite { negative } => self.infinity() | sign(negative),
            Number::Zero { negative } => sign(negative),
            Number::Finite { negative, exponent, significand } => {
                sign(negative) | self.round(negative, exponent, significand, round)
            }
        }
    }

    /// Rounds a number into this format, and flushes a subnormal result if `ftz` is set.
    pub(crate) fn pack_as(self, ftz: bool, number: Number, round: Round) -> u64 {
        if ftz { self.pack_flushed(number, round) } else { self.pack(number, round) }
    }

    /// Like [`Self::pack`], but replaces a result below the least normal number by the zero of its sign.
    /// The test uses the result rounded with unbounded exponent, which is finer than the subnormals: a
    /// value that rounds up to the least normal number only at subnormal precision is flushed as well.
    fn pack_flushed(self, number: Number, round: Round) -> u64 {
        match number {
            Number::Finite { negative, exponent, significand }
                if self.is_tiny(negative, exponent, significand, round) =>
            {
                if negative {
                    self.sign_bit()
                } else {
                    0
                }
            }
            _ => self.pack(number, round),
        }
    }

    fn is_tiny(self, negative: bool, exponent: i32, significand: u128, round: Round) -> bool {
        // The bit length of the significand, and the significand rounded to the format's precision.
        let length = 128 - significand.leading_zeros() as i32;
        let precision = self.fraction as i32 + 1;
        let kept = shift_and_round(significand, length - precision, negative, round);
        let carry = i32::from(kept >> precision != 0);
        exponent + length - 1 + carry < 1 - self.bias()
    }

    /// Converts a NaN of another format to a quiet one: keeps the sign and the upper bits of the
    /// payload.
    pub(crate) const fn carry_nan(self, from: Self, bits: u64) -> u64 {
        let sign = if bits & from.sign_bit() == 0 { 0 } else { self.sign_bit() };
        let payload = bits << (64 - from.fraction) >> (64 - self.fraction);
        sign | self.infinity() | payload | self.quiet_bit()
    }

    const fn quiet_bit(self) -> u64 {
        1 << (self.fraction - 1)
    }

    pub(crate) const fn is_nan(self, bits: u64) -> bool {
        bits & !self.sign_bit() > self.infinity()
    }

    /// Returns the magnitude bits of `significand * 2^exponent`, rounded to the format.
    fn round(self, negative: bool, exponent: i32, significand: u128, round: Round) -> u64 {
        if significand == 0 {
            return 0;
        }
        // The value's own exponent determines how many bits are kept: one less for each power of two
        // below the smallest normal number.
        let top = exponent + 127 - significand.leading_zeros() as i32;
        let lowest = (top - self.fraction as i32).max(1 - self.bias() - self.fraction as i32);
        let kept = shift_and_round(significand, lowest - exponent, negative, round);
        // A carry out of the fraction adds one to the exponent, because the fields are adjacent. The
        // exponent field of a subnormal is 0.
        let field = lowest + self.bias() + self.fraction as i32;
        let bits = if kept >> self.fraction == 0 {
            kept
        } else {
            ((field as u128) << self.fraction) + (kept - (1 << self.fraction))
        };
        if bits < u128::from(self.infinity()) {
            return bits as u64;
        }
        let away = match round {
            Round::Nearest | Round::Away => true,
            Round::Zero => false,
            Round::Down => negative,
            Round::Up => !negative,
        };
        if away { self.infinity() } else { self.infinity() - 1 }
    }
}

/// Returns `significand / 2^shift`, rounded to an integer.
fn shift_and_round(significand: u128, shift: i32, negative: bool, round: Round) -> u128 {
    if shift <= 0 {
        return significand << -shift;
    }
    let (whole, rest, half) = if shift >= 128 {
        // The value is below one half; only that it is not zero matters.
        (0, 1, 2)
    } else {
        let half = 1_u128 << (shift - 1);
        (significand >> 1 >> (shift - 1), significand & (half | (half - 1)), half)
    };
    let up = match round {
        Round::Nearest => rest > half || (rest == half && whole & 1 == 1),
        Round::Away => rest >= half,
        Round::Zero => false,
        Round::Down => negative && rest != 0,
        Round::Up => !negative && rest != 0,
    };
    whole + u128::from(up)
}

/// Rounds a number to an integer, returned as its sign and magnitude; `None` for NaN and infinities.
pub(crate) fn to_integral(number: Number, round: Round) -> Option<(bool, u128)> {
    match number {
        Number::Nan | Number::Infinite { .. } => None,
        Number::Zero { negative } => Some((negative, 0)),
        Number::Finite { negative, exponent, significand } => {
            // A significand has at least 8 significant bits here, so the value exceeds every integer
            // type and saturates.
            let value = if exponent > 60 {
                1 << 100
            } else {
                shift_and_round(significand, -exponent, negative, round)
            };
            Some((negative, value))
        }
    }
}

pub(crate) fn from_integer(negative: bool, magnitude: u64) -> Number {
    match magnitude {
        0 => Number::Zero { negative: false },
        _ => Number::Finite { negative, exponent: 0, significand: u128::from(magnitude) },
    }
}

/// Normalises a finite number to top bit 126, so that sums keep the bits that rounding needs.
fn normal(exponent: i32, significand: u128) -> (i32, u128) {
    let shift = significand.leading_zeros() as i32 - 1;
    (exponent - shift, significand << shift)
}

/// Shifts right, and ORs every lost bit into bit 0.
fn shift_sticky(value: u128, shift: u32) -> u128 {
    match shift {
        0 => value,
        1..=127 => value >> shift | u128::from(value << (128 - shift) != 0),
        _ => u128::from(value != 0),
    }
}

/// Returns the exact sum, up to a sticky bit far below any format's precision.
pub(crate) fn add(a: Number, b: Number, round: Round) -> Number {
    use Number::{Finite, Infinite, Nan, Zero};
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinite { negative: x }, Infinite { negative: y }) if x != y => Nan,
        (Infinite { .. }, _) => a,
        (_, Infinite { .. }) => b,
        (Zero { negative: x }, Zero { negative: y }) => {
            Zero { negative: if x == y { x } else { round == Round::Down } }
        }
        (Zero { .. }, _) => b,
        (_, Zero { .. }) => a,
        (
            Finite { negative: an, exponent: ae, significand: am },
            Finite { negative: bn, exponent: be, significand: bm },
        ) => add_finite((an, normal(ae, am)), (bn, normal(be, bm)), round),
    }
}

type Signed = (bool, (i32, u128));

fn add_finite(a: Signed, b: Signed, round: Round) -> Number {
    let (large, small) = if a.1 >= b.1 { (a, b) } else { (b, a) };
    let (negative, (exponent, significand)) = large;
    let distance = (exponent - small.1.0).unsigned_abs();
    let shifted = shift_sticky(small.1.1, distance);
    let significand = if large.0 == small.0 { significand + shifted } else { significand - shifted };
    if significand == 0 {
        return Number::Zero { negative: round == Round::Down };
    }
    Number::Finite { negative, exponent, significand }
}

/// Returns the exact product.
pub(crate) fn mul(a: Number, b: Number) -> Number {
    use Number::{Finite, Infinite, Nan, Zero};
    let sign = negative(a) != negative(b);
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinite { .. }, Zero { .. }) | (Zero { .. }, Infinite { .. }) => Nan,
        (Infinite { .. }, _) | (_, Infinite { .. }) => Infinite { negative: sign },
        (Zero { .. }, _) | (_, Zero { .. }) => Zero { negative: sign },
        (Finite { exponent: ae, significand: am, .. }, Finite { exponent: be, significand: bm, .. }) => {
            Finite { negative: sign, exponent: ae + be, significand: am * bm }
        }
    }
}

/// Returns the quotient, up to a sticky bit.
pub(crate) fn div(a: Number, b: Number) -> Number {
    use Number::{Finite, Infinite, Nan, Zero};
    let sign = negative(a) != negative(b);
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinite { .. }, Infinite { .. }) | (Zero { .. }, Zero { .. }) => Nan,
        (Infinite { .. }, _) | (_, Zero { .. }) => Infinite { negative: sign },
        (Zero { .. }, _) | (_, Infinite { .. }) => Zero { negative: sign },
        (Finite { exponent: ae, significand: am, .. }, Finite { exponent: be, significand: bm, .. }) => {
            let (ae, am) = normal(ae, am);
            let quotient = (am / bm) << 1 | u128::from(am % bm != 0);
            Finite { negative: sign, exponent: ae - be - 1, significand: quotient }
        }
    }
}

pub(crate) fn sqrt(a: Number) -> Number {
    match a {
        Number::Zero { .. } | Number::Infinite { negative: false } => a,
        Number::Finite { negative: false, exponent, significand } => {
            let (mut exponent, mut significand) = normal(exponent, significand);
            if exponent & 1 == 1 {
                (exponent, significand) = (exponent + 1, significand >> 1);
            }
            // The shift above loses no set bit: at most the 53 top bits are in use.
            let root = significand.isqrt();
            let inexact = u128::from(root * root != significand);
            Number::Finite {
                negative: false,
                exponent: exponent / 2 - 1,
                significand: root << 1 | inexact,
            }
        }
        _ => Number::Nan,
    }
}

const fn negative(number: Number) -> bool {
    match number {
        Number::Nan => false,
        Number::Infinite { negative } | Number::Zero { negative } | Number::Finite { negative, .. } => {
            negative
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DOUBLE, Format, HALF, Round, SINGLE, add, div, mul, sqrt, to_integral};

    /// Returns a few thousand bit patterns that cover every corner case of a format.
    fn patterns(format: Format) -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let width = format.fraction + format.exponent + 1;
        let corners = [
            0,
            1,
            2,
            format.infinity(),
            format.infinity() - 1,
            1 << format.fraction,
            (1 << format.fraction) - 1,
            format.nan,
        ];
        let signed = corners.into_iter().flat_map(|c| [c, c | format.sign_bit()]);
        let random = std::iter::from_fn(|| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some((state ^ state >> 29) >> (64 - width))
        });
        signed.chain(random.take(150)).collect()
    }

    #[test]
    fn nearest_agrees_with_the_host_in_double_precision() {
        let all = patterns(DOUBLE);
        for (&x, &y) in all.iter().flat_map(|x| all.iter().map(move |y| (x, y))) {
            let (a, b) = (f64::from_bits(x), f64::from_bits(y));
            let (na, nb) = (DOUBLE.unpack(x), DOUBLE.unpack(y));
            let cases = [
                (add(na, nb, Round::Nearest), a + b),
                (mul(na, nb), a * b),
                (div(na, nb), a / b),
                (sqrt(na), a.sqrt()),
                (add(mul(na, nb), nb, Round::Nearest), a.mul_add(b, b)),
            ];
            for (index, (number, expected)) in cases.into_iter().enumerate() {
                let got = f64::from_bits(DOUBLE.pack(number, Round::Nearest));
                assert!(
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                    "operation {index} of {a:e} and {b:e}: {got:e}, host {expected:e}"
                );
            }
        }
    }

    #[test]
    fn nearest_agrees_with_the_host_in_single_precision() {
        let all = patterns(SINGLE);
        for (&x, &y) in all.iter().flat_map(|x| all.iter().map(move |y| (x, y))) {
            let (a, b) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
            let (na, nb) = (SINGLE.unpack(x), SINGLE.unpack(y));
            let cases = [
                (add(na, nb, Round::Nearest), a + b),
                (mul(na, nb), a * b),
                (div(na, nb), a / b),
                (sqrt(na), a.sqrt()),
                (add(mul(na, nb), nb, Round::Nearest), a.mul_add(b, b)),
            ];
            for (number, expected) in cases {
                let got = f32::from_bits(SINGLE.pack(number, Round::Nearest) as u32);
                assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan());
            }
        }
    }

    #[test]
    fn directed_roundings_bracket_the_exact_value() {
        // 1 + 2^-60 is between 1 and its successor; -1 - 2^-60 likewise.
        let one = DOUBLE.unpack(1.0_f64.to_bits());
        let tiny = DOUBLE.unpack(2.0_f64.powi(-60).to_bits());
        let minus = |bits: u64| DOUBLE.unpack(bits ^ DOUBLE.sign_bit());
        let round = |number, mode| f64::from_bits(DOUBLE.pack(number, mode));
        let sum = add(one, tiny, Round::Up);
        assert_eq!(round(sum, Round::Up), 1.0 + f64::EPSILON);
        assert_eq!(round(sum, Round::Down), 1.0);
        assert_eq!(round(sum, Round::Zero), 1.0);
        let sum = add(minus(1.0_f64.to_bits()), minus(2.0_f64.powi(-60).to_bits()), Round::Up);
        assert_eq!(round(sum, Round::Up), -1.0);
        assert_eq!(round(sum, Round::Down), -1.0 - f64::EPSILON);
        // Towards zero, overflow gives the largest finite number.
        let huge = mul(DOUBLE.unpack(f64::MAX.to_bits()), DOUBLE.unpack(2.0_f64.to_bits()));
        assert_eq!(round(huge, Round::Zero), f64::MAX);
        assert_eq!(round(huge, Round::Down), f64::MAX);
        assert_eq!(round(huge, Round::Up), f64::INFINITY);
    }

    #[test]
    fn to_integral_away_rounds_ties_away_from_zero() {
        let integral = |value: f64| to_integral(DOUBLE.unpack(value.to_bits()), Round::Away);
        for value in [0.25, 0.5, 0.75, 1.0, 1.5, 2.25, 2.5, 3.5 - f64::EPSILON, 1e-300] {
            // The host's `round` also rounds ties away from zero.
            assert_eq!(integral(value), Some((false, value.round() as u128)), "{value:e}");
            assert_eq!(integral(-value), Some((true, value.round() as u128)), "-{value:e}");
        }
    }

    #[test]
    fn a_zero_sum_is_negative_only_when_rounding_down() {
        let one = HALF.unpack(0x3c00);
        let minus_one = HALF.unpack(0xbc00);
        assert_eq!(HALF.pack(add(one, minus_one, Round::Nearest), Round::Nearest), 0);
        assert_eq!(HALF.pack(add(one, minus_one, Round::Down), Round::Down), 0x8000);
    }
}
