//! Sums of `f16` elements and of their squares, which need no bins.

use super::{MeanAndVariance, Moments, Products, Words, mean_and_variance, scaled, with_product_f64};
use crate::binned::{Each, Sums, power_f64};

/// Sums for means and variances of `f16`, or of other multiples of 2^-24 below 2^16.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfHalves;

impl OfHalves {
    /// Exponent of the numbers' unit; the exponent of their squares' unit is twice this one.
    const UNIT: i32 = -24;
    /// Number of bits of a square below its *front*; these lower bits are summed separately.
    const BEHIND: u32 = 40;
    /// Number of bits of a low sum after a carry.
    const CARRIED: u32 = 48;

    /// Carries low sums into the high ones. `carry` shifts a low sum right by `CARRIED` bits.
    #[inline(always)]
    fn carried(
        Products { digits, low: [a, b, c], high: [d, e, f] }: <Self as Sums>::Digits,
        carry: impl Fn(i64) -> i64,
    ) -> <Self as Sums>::Digits {
        let left = |low: i64| low & ((1 << Self::CARRIED) - 1);
        let carried = |high: i32, low: i64| high.wrapping_add(carry(low) as i32);
        Products {
            digits,
            low: [left(a), left(b), left(c)],
            high: [carried(d, a), carried(e, b), carried(f, c)],
        }
    }
}

/// A thread's sums for [`OfHalves`], exact in double precision.
#[derive(Debug, Clone, Copy)]
pub struct KeptOfHalves {
    sum: f64,
    /// Sum of the squares' fronts, plus [`LARGE`](Self::LARGE).
    fronts: f64,
    rests: f64,
    high: [i32; 3],
}

impl KeptOfHalves {
    /// Exponent of the fronts' unit.
    const FRONT: i32 = 2 * OfHalves::UNIT + OfHalves::BEHIND as i32;
    /// Constant so large that adding it to a square rounds to the fronts' unit.
    const LARGE: f64 = power_f64(f64::MANTISSA_DIGITS as i32 - 1 + Self::FRONT);
}

const _: () = {
    // Number of bits of a number and of a front, each in its unit; the rest of a square has fewer.
    let bits = 40;
    let units = (1_u64 << bits) as f64;
    assert!(units * power_f64(OfHalves::UNIT) == 65_536.0);
    assert!(units * power_f64(KeptOfHalves::FRONT) == 65_536.0 * 65_536.0);
    // A carried sum and `CAPACITY` terms are below 2^52 units: the sum of fronts keeps its last place.
    let most = ((OfHalves::CAPACITY as u64) << bits) + (1 << OfHalves::CARRIED);
    assert!(most <= 1 << (f64::MANTISSA_DIGITS - 1));
    assert!(bits + 35 - OfHalves::CARRIED < 31 && OfHalves::CARRIED + 5 <= 64);
};

impl Sums for OfHalves {
    type Term = f32;
    const WORDS: u32 = 9;
    const CAPACITY: u32 = (1 << 12) - (1 << 8);
    type Near = f64;
    /// `low` holds the sums of the numbers, of the squares' fronts, and of the squares' rests.
    type Digits = Products<0, 3>;
    type Kept = KeptOfHalves;
    const NOTHING: Self::Digits = Products { digits: [], low: [0; 3], high: [0; 3] };

    #[inline(always)]
    fn digits(scaled: f32) -> f64 {
        scaled.into()
    }

    /// Adds a number and its square. The square's front is the change of the rounded sum of fronts.
    #[inline(always)]
    fn deposit(kept: &mut Self::Kept, number: f64) {
        let fronts = with_product_f64(kept.fronts, number, number);
        kept.sum += number;
        kept.rests += with_product_f64(kept.fronts - fronts, number, number);
        kept.fronts = fronts;
    }

    #[inline(always)]
    fn keep(Products { low: [sum, fronts, rests], high, .. }: Self::Digits, _bin: u32) -> Self::Kept {
        KeptOfHalves {
            sum: sum as f64 * const { power_f64(Self::UNIT) },
            fronts: KeptOfHalves::LARGE + fronts as f64 * const { power_f64(KeptOfHalves::FRONT) },
            rests: rests as f64 * const { power_f64(2 * Self::UNIT) },
            high,
        }
    }

    #[inline(always)]
    fn total(KeptOfHalves { sum, fronts, rests, high }: Self::Kept) -> Self::Digits {
        let sum = sum * const { power_f64(-Self::UNIT) };
        let fronts = (fronts - KeptOfHalves::LARGE) * const { power_f64(-KeptOfHalves::FRONT) };
        let rests = rests * const { power_f64(-2 * Self::UNIT) };
        let sums = Products { digits: [], low: [sum as i64, fronts as i64, rests as i64], high };
        Self::carried(sums, |low| low >> Self::CARRIED)
    }

    #[inline(always)]
    fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits {
        let ([c, d, e], [f, g, h]) = (a.low, b.low);
        let low = [c.wrapping_add(f), d.wrapping_add(g), e.wrapping_add(h)];
        let ([c, d, e], [f, g, h]) = (a.high, b.high);
        let high = [c.wrapping_add(f), d.wrapping_add(g), e.wrapping_add(h)];
        Self::carried(Products { digits: [], low, high }, |low| low >> Self::CARRIED)
    }

    /// Returns the sums unchanged, because there is only one bin.
    #[inline(always)]
    fn lowered(digits: Self::Digits, _bins: u32) -> Self::Digits {
        digits
    }

    #[inline(always)]
    fn map(
        Products { digits, low: [a, b, c], high: [d, e, f] }: Self::Digits,
        of: &mut impl Each,
    ) -> Self::Digits {
        Products {
            digits,
            low: [of.double(a), of.double(b), of.double(c)],
            high: [of.single(d), of.single(e), of.single(f)],
        }
    }

    #[inline(always)]
    fn of_lanes(digits: Self::Digits) -> Self::Digits {
        Self::carried(digits, |low| (low.cast_unsigned() >> Self::CARRIED).cast_signed())
    }

    #[inline(always)]
    fn scaled(term: f32, _scale: f32) -> f32 {
        term
    }

    #[inline(always)]
    fn fits(term: f32, _scale: f32) -> bool {
        term.abs() < 65_536.0
    }

    #[inline(always)]
    fn bin(_term: f32) -> u32 {
        0
    }
}

impl Moments for OfHalves {
    #[inline(always)]
    fn of(Products { low, high, .. }: Self::Digits, _bin: u32, count: u64) -> MeanAndVariance {
        let sum = |at: usize| Words::NOTHING.then(high[at].into(), 0).then(low[at], Self::CARRIED);
        let squares = sum(1).raised(Self::BEHIND).plus(sum(2));
        let MeanAndVariance { mean, variance } = mean_and_variance(count, sum(0), squares);
        MeanAndVariance { mean: scaled(mean, Self::UNIT), variance: scaled(variance, 2 * Self::UNIT) }
    }
}
