//! Sums of `bf16` elements and of their squares. Most elements have at most two [digits](super).

use super::{MeanAndVariance, Moments, OfSingles, Products, with_product, with_product_f64};
use crate::binned::{Each, Float, Sums, Terms, power_f32, power_f64};

/// Sums for means and variances of `bf16`, or of other `f32` numbers with 8 significant bits. A number
/// has at most two digits, unless it is far below the largest number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfBfloats;

/// A thread's sums for [`OfBfloats`]. The sums in double precision are exact and unscaled.
#[derive(Debug, Clone, Copy)]
pub struct KeptOfBfloats {
    /// Constant so large that adding it to a number rounds to the first digit's place.
    large: f64,
    /// Numbers of at least this magnitude have no third digit.
    least: f32,
    first: i32,
    second: f64,
    /// Sums of first digits squared, of first times second digits, and of second digits squared.
    products: [f64; 3],
    /// Sums moved here before the fields above overflow, and all products with a third digit.
    others: Products<3, 6>,
}

/// Bits of a digit's magnitude; products of two digits have twice as many.
const BITS: u32 = f32::WIDTH - 1;

/// Significant bits of a `bf16`.
const SIGNIFICANT: u32 = 8;

const _: () = {
    let most = OfBfloats::CAPACITY as u64;
    assert!(most << BITS < 1 << 31);
    assert!(most << (2 * BITS) <= 1 << f64::MANTISSA_DIGITS);
    // No number has both a first and a third digit.
    assert!(SIGNIFICANT < f32::WIDTH - 1);
};

impl KeptOfBfloats {
    /// Value of [`large`](Self::large) for a unit of 1.
    const LARGE: f64 = 1.5 * power_f64(f64::MANTISSA_DIGITS as i32 - 1);

    /// Extracts the digit from the last places of a sum with a large number whose last 32 bits are 0.
    #[inline(always)]
    fn digit(sum: f64) -> i32 {
        (sum.to_bits() as u32).cast_signed()
    }

    #[inline(always)]
    fn add(&mut self, number: f32) {
        let number = f64::from(number);
        let sum = number + self.large;
        let first = sum - self.large;
        let second = number - first;
        let [aa, ab, bb] = self.products;
        self.first = self.first.wrapping_add(Self::digit(sum));
        self.second += second;
        self.products = [
            with_product_f64(aa, first, first),
            with_product_f64(ab, first, second),
            with_product_f64(bb, second, second),
        ];
    }

    /// Adds a number's third digit, and returns the rest. A number with a third digit has no first one.
    #[inline(always)]
    fn add_third(&mut self, number: f32) -> f32 {
        /// Ratio of a digit's unit to the unit of the digit before it.
        const NEXT: f64 = power_f64(-(f32::WIDTH as i32));
        let (number, large) = (f64::from(number), self.large * NEXT);
        let sum = number + large;
        let rest = number - (sum - large);
        let (b, c) = (Self::digit(sum), Self::digit(rest + large * NEXT));
        let Products { digits: [.., third], low: [.., bc, cc], .. } = &mut self.others;
        *third = third.wrapping_add(c.into());
        (*bc, *cc) = (with_product(*bc, b, c), with_product(*cc, c, c));
        (number - rest) as f32
    }

    /// Returns the exponent of the first digit's unit.
    #[inline(always)]
    fn place(&self) -> i32 {
        const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
        (self.large.to_bits() >> MANTISSA) as i32 - (KeptOfBfloats::LARGE.to_bits() >> MANTISSA) as i32
    }
}

impl Sums for OfBfloats {
    type Term = f32;
    const WORDS: u32 = OfSingles::WORDS;
    const CAPACITY: u32 = (i32::MAX >> BITS) as u32;
    type Near = f32;
    type Digits = Products<3, 6>;
    type Kept = KeptOfBfloats;
    const NOTHING: Self::Digits = OfSingles::NOTHING;

    #[inline(always)]
    fn digits(term: f32) -> f32 {
        term
    }

    #[inline(always)]
    fn deposit(kept: &mut Self::Kept, number: f32) {
        kept.add(number);
    }

    #[inline(always)]
    fn is_short(kept: &Self::Kept, number: f32) -> bool {
        number.abs() >= kept.least
    }

    #[inline(always)]
    fn shortened<T: Terms<f32>>(kept: &mut Self::Kept, numbers: T) -> T {
        // Subtracting 1 makes zeros, which have no digits, the largest. Compares integers, because the
        // compiler would keep the results of the float comparisons in `is_short` until here.
        let short = |number: f32| (number.to_bits() << 1).wrapping_sub(1);
        let mut are_short = true;
        numbers.each(|number| are_short &= short(number) >= short(kept.least));
        if are_short { numbers } else { numbers.map(|number| kept.add_third(number)) }
    }

    #[inline(always)]
    fn keep(others: Self::Digits, bin: u32) -> Self::Kept {
        let place = (f32::LOWEST + bin as i32) * f32::WIDTH as i32;
        // `power_f32` requires 2^-126 at least. Numbers for which this raises the bound have no third
        // digit.
        let least = Ord::max(place - (f32::WIDTH - SIGNIFICANT + 1) as i32, f32::MIN_EXP - 1);
        KeptOfBfloats {
            large: 1.5 * power_f64(f64::MANTISSA_DIGITS as i32 - 1 + place),
            least: power_f32(least),
            first: 0,
            second: 0.0,
            products: [0.0; 3],
            others,
        }
    }

    #[inline(always)]
    fn total(kept: Self::Kept) -> Self::Digits {
        let KeptOfBfloats { first, second, products: [aa, ab, bb], mut others, .. } = kept;
        let (place, width) = (kept.place(), f32::WIDTH as i32);
        let integer = |number: f64, place: i32| (number * power_f64(-place)) as i64;
        let [a, b, _] = &mut others.digits;
        *a = a.wrapping_add(first.into());
        *b = b.wrapping_add(integer(second, place - width));
        let [of_aa, of_ab, _, of_bb, ..] = &mut others.low;
        *of_aa = of_aa.wrapping_add(integer(aa, 2 * place));
        *of_ab = of_ab.wrapping_add(integer(ab, 2 * place - width));
        *of_bb = of_bb.wrapping_add(integer(bb, 2 * (place - width)));
        OfSingles::carried(others, |low| low >> OfSingles::CARRIED)
    }

    #[inline(always)]
    fn plus(a: Self::Digits, b: Self::Digits) -> Self::Digits {
        OfSingles::plus(a, b)
    }

    #[inline(always)]
    fn lowered(digits: Self::Digits, bins: u32) -> Self::Digits {
        OfSingles::lowered(digits, bins)
    }

    #[inline(always)]
    fn map(digits: Self::Digits, of: &mut impl Each) -> Self::Digits {
        OfSingles::map(digits, of)
    }

    #[inline(always)]
    fn of_lanes(digits: Self::Digits) -> Self::Digits {
        OfSingles::of_lanes(digits)
    }

    /// Returns a bound that all magnitudes of the bin are below.
    #[inline(always)]
    fn scale(bin: u32) -> f32 {
        let above = (f32::LOWEST + bin as i32 + 1) * f32::WIDTH as i32 - 1;
        // Infinity for the highest bin.
        power_f32(Ord::min(above, f32::MAX_EXP))
    }

    #[inline(always)]
    fn scaled(term: f32, _above: f32) -> f32 {
        term
    }

    #[inline(always)]
    fn fits(term: f32, above: f32) -> bool {
        term.abs() < above
    }
}

impl Moments for OfBfloats {
    #[inline(always)]
    fn of(digits: Self::Digits, bin: u32, count: u64) -> MeanAndVariance {
        OfSingles::of(digits, bin, count)
    }
}
