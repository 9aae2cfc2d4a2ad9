//! Reference sums of floats, means and variances, in exact arithmetic by their definition. The code is
//! slow, and shares nothing with the library.

use num_bigint::BigInt;

#[derive(Clone, Copy)]
pub(crate) struct Format {
    significand: i64,
    /// Exponent of the smallest positive number.
    smallest: i64,
    /// Exponent of the least power of two that overflows.
    too_large: i64,
    /// The width of a bin, W.
    width: i64,
    /// The places of a bin, K.
    places: i64,
    lowest: i64,
}

pub(crate) const SINGLE: Format =
    Format { significand: 24, smallest: -149, too_large: 128, width: 23, places: 3, lowest: -5 };
pub(crate) const DOUBLE: Format =
    Format { significand: 53, smallest: -1074, too_large: 1024, width: 28, places: 4, lowest: -36 };

/// A finite number: `magnitude * 2^exponent`, or its negative.
#[derive(Clone, Copy)]
struct Parts {
    negative: bool,
    magnitude: u64,
    exponent: i64,
}

impl Parts {
    fn of(number: f64) -> Self {
        let (bits, hidden) = (number.to_bits(), 1 << 52);
        let (fraction, biased) = (bits % hidden, (bits >> 52) as i64 % 2048);
        let magnitude = if biased > 0 { fraction + hidden } else { fraction };
        Self { negative: bits >> 63 > 0, magnitude, exponent: biased.max(1) - 1075 }
    }

    /// Returns the least integer e such that the magnitude is below 2^e.
    fn below(self) -> i64 {
        i64::from(u64::BITS - self.magnitude.leading_zeros()) + self.exponent
    }

    /// Rounds to a multiple of `2^unit`, ties to even.
    fn rounded(self, unit: i64) -> Self {
        let cut = unit - self.exponent;
        if cut <= 0 || self.magnitude == 0 {
            return self;
        }
        // The number is less than half a unit.
        if cut > 60 {
            return Self { magnitude: 0, exponent: unit, ..self };
        }
        let (whole, rest, half) = (self.magnitude >> cut, self.magnitude % (1 << cut), 1 << (cut - 1));
        let up = rest > half || rest == half && whole % 2 == 1;
        Self { magnitude: whole + u64::from(up), exponent: unit, ..self }
    }
}

/// A fixed-point number in words of 32 bits, starting at `2^ORIGIN`.
#[derive(Clone)]
pub(crate) struct Exact([i64; 80]);

const ORIGIN: i64 = -1152;

impl Exact {
    pub(crate) fn sum(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self::of_parts(numbers.into_iter().map(Parts::of))
    }

    fn of_parts(parts: impl Iterator<Item = Parts>) -> Self {
        let mut words = [0; 80];
        for Parts { negative, magnitude, exponent } in parts {
            if magnitude == 0 {
                continue;
            }
            let at = exponent - ORIGIN;
            let mut shifted = u128::from(magnitude) << (at % 32);
            for word in &mut words[at as usize / 32..] {
                let low = (shifted % (1 << 32)) as i64;
                *word += if negative { -low } else { low };
                shifted >>= 32;
                if shifted == 0 {
                    break;
                }
            }
        }
        Self(words)
    }

    /// Returns whether the number is negative, and its magnitude in words of 32 bits.
    fn magnitude(&self) -> (bool, [i64; 80]) {
        let carried = |mut words: [i64; 80]| {
            for at in 0..words.len() - 1 {
                words[at + 1] += words[at] >> 32;
                words[at] %= 1 << 32;
                words[at] += if words[at] < 0 { 1 << 32 } else { 0 };
            }
            words
        };
        let words = carried(self.0);
        let negative = words[words.len() - 1] < 0;
        (negative, if negative { carried(self.0.map(|word| -word)) } else { words })
    }

    /// Rounds to the nearest number of a type, ties to even; returns an infinity on overflow.
    pub(crate) fn nearest(&self, format: Format) -> f64 {
        let (negative, words) = self.magnitude();
        let bit = |at: i64| words[at as usize / 32] >> (at % 32) & 1;
        let Some(top) = (0..80 * 32).rev().find(|&at| bit(at) == 1) else { return 0.0 };
        let last = (top + 1 - format.significand).max(format.smallest - ORIGIN);
        let mut kept = (last..=top).rev().fold(0_i64, |kept, at| 2 * kept + bit(at));
        if bit(last - 1) == 1 && (kept % 2 == 1 || (0..last - 1).any(|at| bit(at) == 1)) {
            kept += 1;
        }
        let exponent = (last + ORIGIN) as i32;
        let power = |exponent: i32| 2_f64.powi(exponent);
        let magnitude = kept as f64 * power(exponent / 2) * power(exponent - exponent / 2);
        let too_large = last + ORIGIN + i64::from(64 - kept.leading_zeros()) > format.too_large;
        let magnitude = if too_large { f64::INFINITY } else { magnitude };
        if negative { -magnitude } else { magnitude }
    }
}

/// Returns the reproducible sum of terms that are numbers of the type.
pub(crate) fn everywhere(terms: &[f64], format: Format) -> f64 {
    let special = |of: fn(f64) -> bool| terms.iter().any(|&term| of(term));
    let (positive, negative) =
        (special(|term| term == f64::INFINITY), special(|term| term == -f64::INFINITY));
    if special(f64::is_nan) || positive && negative {
        return f64::NAN;
    } else if positive || negative {
        return if positive { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    let parts = || terms.iter().map(|&term| Parts::of(term));
    let unit = (highest_bin(terms, format) - format.places + 1) * format.width;
    Exact::of_parts(parts().map(|part| part.rounded(unit))).nearest(format)
}

/// Returns the least t with |term| < 2^((t + 1) * W - 1) for all terms.
fn highest_bin(terms: &[f64], format: Format) -> i64 {
    let bin = |part: Parts| (part.below() + 1 + format.width - 1).div_euclid(format.width) - 1;
    let bins = terms.iter().map(|&term| Parts::of(term)).filter(|part| part.magnitude > 0).map(bin);
    bins.fold(format.lowest, i64::max)
}

#[test]
fn sums_are_exact_and_rounded_once() {
    let nearest = |numbers: &[f64], format| Exact::sum(numbers.iter().copied()).nearest(format);
    assert_eq!(nearest(&[1e300, 1.0, -1e300, 1e-300], DOUBLE), 1.0);
    assert_eq!(nearest(&[1.0, 2_f64.powi(-53)], DOUBLE), 1.0);
    assert_eq!(nearest(&[1.0, 2_f64.powi(-53), 5e-324], DOUBLE), 1.0 + f64::EPSILON);
    assert_eq!(nearest(&[-16_777_217.0], SINGLE), -16_777_216.0);
    assert_eq!(nearest(&[-16_777_219.0], SINGLE), -16_777_220.0);
    assert_eq!(nearest(&[f64::MAX, f64::MAX], DOUBLE), f64::INFINITY);
    assert_eq!(nearest(&[f32::MAX.into(), 2_f64.powi(103)], SINGLE), f64::INFINITY);
    assert_eq!(nearest(&[f32::MAX.into(), 2_f64.powi(102)], SINGLE), f32::MAX.into());
    assert_eq!(nearest(&[-5e-324, -5e-324], DOUBLE), -1e-323);
}

/// Returns the integer nearest to `number * 2^exponent / 2^unit`, ties to even.
fn to_multiple(number: &BigInt, exponent: i64, unit: i64) -> BigInt {
    if exponent >= unit {
        return number << (exponent - unit);
    }
    let cut = unit - exponent;
    // Right shifts of negative integers round down.
    let down: BigInt = number >> cut;
    let (rest, half) = (number - (&down << cut), BigInt::from(1) << (cut - 1));
    let up = rest > half || rest == half && down.bit(0);
    down + i32::from(up)
}

/// Returns the number times `2^exponent`, rounded once.
fn times_power(number: &BigInt, exponent: i64) -> f64 {
    let top = number.bits() as i64 + exponent;
    let unit = (top - 53).max(-1074);
    let kept = u64::try_from(to_multiple(&number.magnitude().clone().into(), exponent, unit));
    let (kept, power) = (kept.expect("it has 54 bits at most") as f64, |k: i64| 2_f64.powi(k as i32));
    let magnitude =
        if top > 1100 { f64::INFINITY } else { kept * power(unit / 2) * power(unit - unit / 2) };
    if *number < BigInt::ZERO { -magnitude } else { magnitude }
}

fn scaled(number: f64, exponent: i64) -> f64 {
    let parts = Parts::of(number);
    let sign = if parts.negative { -1 } else { 1 };
    times_power(&(BigInt::from(parts.magnitude) * sign), parts.exponent + exponent)
}

/// Returns the mean and the variance of integers times `2^unit`.
fn by_sums(numbers: impl Iterator<Item = BigInt>, unit: i64) -> [f64; 2] {
    let (mut n, mut sum, mut squares) = (0_u64, BigInt::ZERO, BigInt::ZERO);
    for number in numbers {
        n += 1;
        squares += &number * &number;
        sum += number;
    }
    let count = n as f64;
    let mean = times_power(&sum, 0) / count;
    let variance = times_power(&(squares * n - &sum * &sum), 0) / count / count;
    [scaled(mean, unit), scaled(variance, 2 * unit)]
}

pub(crate) fn spread_everywhere(elements: &[f64], format: Format) -> [f64; 2] {
    if elements.is_empty() {
        return [f64::NAN; 2];
    }
    if elements.iter().any(|element| !element.is_finite()) {
        return [everywhere(elements, format), f64::NAN];
    }
    let unit = (highest_bin(elements, format) - format.places + 1) * format.width;
    let rounded = |element: f64| {
        let Parts { negative, magnitude, exponent } = Parts::of(element);
        to_multiple(&magnitude.into(), exponent, unit) * if negative { -1 } else { 1 }
    };
    by_sums(elements.iter().map(|&element| rounded(element)), unit)
}

pub(crate) fn spread_of_integers(elements: &[i128]) -> [f64; 2] {
    by_sums(elements.iter().map(|&element| element.into()), 0)
}

#[test]
fn numbers_are_scaled_and_rounded_once() {
    assert_eq!(scaled(0.1, 0), 0.1);
    assert_eq!(scaled(-3.0, 1000), -3.0 * 2_f64.powi(1000));
    assert_eq!(scaled(5e-324, 2000), 2_f64.powi(926));
    // Rounding in two steps would give the next number.
    let above = 1.0 + f64::EPSILON;
    assert_eq!(scaled(above, -1075), 5e-324);
    assert_eq!(scaled(1.0, -1075), 0.0);
    assert_eq!(scaled(3.0, 1023), f64::INFINITY);
    assert_eq!(to_multiple(&BigInt::from(-5), 0, 1), BigInt::from(-2));
    assert_eq!(to_multiple(&BigInt::from(-7), 0, 1), BigInt::from(-4));
    assert_eq!(times_power(&((BigInt::from(1) << 100) + 1), -100), 1.0);
}
