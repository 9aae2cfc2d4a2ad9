//! The harmonic mean: the number of elements over the sum of their reciprocals.
//!
//! Reciprocals are added in double precision, in two scales, so that none overflows or is subnormal. A
//! zero of either sign has the reciprocal +∞.

use core::{marker::PhantomData, ops::Div};

use warpfold_abi::binned::{Float, Partial};
use warpfold_device::{
    combined_by,
    op::{self, Number},
    reduction::{Reduction, Unrolled},
    value,
};

use super::{
    exact::{BinnedStatistic, CountedBins},
    form::{Double, written_as},
    item::{Item, Unpacked},
    skip_nan::{All, NanFilter, Numbers},
    sums::{Add, Additive, power_of_two},
};

pub(super) struct HarmonicMeanOf<T, W>(PhantomData<(T, W)>);
pub(super) type HarmonicMean<T> = Unrolled<HarmonicMeanOf<T, All>>;
pub(super) type NanHarmonicMean<T> = Unrolled<HarmonicMeanOf<T, Numbers>>;

impl<T: Item, W: NanFilter> Reduction for HarmonicMeanOf<T, W> {
    type Element = T;
    type Partial = (u64, Reciprocals);
    type Output = f64;
    combined_by!((op::Sum, Add));
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let number = element.total().to_f64();
        if W::counts(number) { (1, Reciprocals::of::<T>(number)) } else { Self::IDENTITY }
    }

    #[inline(always)]
    fn finish((count, Reciprocals { near, far }): Self::Partial) -> f64 {
        let count = count as f64;
        if far == 0.0 {
            count * Reciprocals::scale::<T>() / near
        } else {
            count / (far + near * power_of_two(-192)) * power_of_two(-128)
        }
    }

    written_as!(Double<T>: |partial, _arguments| (Self::finish(partial), partial.0));
}

value! {
    pub(super) struct Reciprocals {
        /// The sum of the reciprocals of numbers x with |x| ≥ [`SMALL`], each times
        /// [`scale`](Self::scale).
        near: f64,
        /// The sum of the other reciprocals, each times 2^-128.
        far: f64,
    }
}

/// The least magnitude whose reciprocal is added to `near`. No sum of 2^35 reciprocals overflows.
const SMALL: f64 = power_of_two(-896);

impl Reciprocals {
    /// Returns the scale of `near`. For types of fewer than 8 bytes all reciprocals are near, and the
    /// scale is 1, because 1 / x takes fewer instructions than another division.
    const fn scale<T>() -> f64 {
        if size_of::<T>() == size_of::<f64>() { power_of_two(64) } else { 1.0 }
    }

    #[inline(always)]
    fn of<T>(number: f64) -> Self {
        let is_small = Self::scale::<T>() != 1.0 && number.magnitude() < SMALL;
        let (dividend, number) =
            if is_small { (1.0, number * power_of_two(128)) } else { (Self::scale::<T>(), number) };
        let reciprocal = divide(dividend, number);
        if is_small {
            Self { far: reciprocal, ..Self::NONE }
        } else {
            Self { near: reciprocal, ..Self::NONE }
        }
    }
}

impl Additive for Reciprocals {
    const NONE: Self = Self { near: 0.0, far: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { near: self.near + other.near, far: self.far + other.far }
    }
}

/// Divides; a divisor of zero of either sign gives +∞.
#[inline(always)]
fn divide<N: Number + PartialEq + Div<Output = N>>(dividend: N, number: N) -> N {
    if number == N::ZERO { N::LARGEST } else { dividend / number }
}

/// The harmonic mean from the binned sum of 4 / x. The factor makes the term of each normal x a normal
/// number, except that the term of the smallest magnitude overflows.
pub(super) struct FromReciprocals;
pub(super) type BinnedHarmonicMean<T> = CountedBins<T, All, FromReciprocals>;
pub(super) type NanBinnedHarmonicMean<T> = CountedBins<T, Numbers, FromReciprocals>;

impl<T> BinnedStatistic<T> for FromReciprocals
where
    T: Unpacked<Total: Float + Number + PartialEq + Div<Output = T::Total>>,
{
    type Sums = T::Total;
    type Forms = Double<T>;

    #[inline(always)]
    fn term(number: T::Total) -> T::Total {
        let two = <T::Total as Number>::ONE.add(Number::ONE);
        let term = divide(two.multiply(two), number);
        // If the term of a negative number overflows, the number counts as zero, and its term is +∞.
        if term == Number::SMALLEST { Number::LARGEST } else { term }
    }

    #[inline(always)]
    fn finish(count: u64, sum: Partial<T::Total>) -> f64 {
        4.0 / sum.mean(count)
    }
}
