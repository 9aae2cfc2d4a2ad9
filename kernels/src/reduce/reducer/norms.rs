//! The L2 norm: the square root of the sum of squares. No square overflows or vanishes on the way to a
//! norm that does not.
//!
//! The squares of floats of up to 32 bits are added in double precision, in which they are exact. Those
//! of `f64` are added in three scales (J. L. Blue, *A Portable Fortran Program to Find the Euclidean
//! Norm of a Vector*, ACM Transactions on Mathematical Software 4, 1978). The sums of integers' squares
//! are exact.

use core::marker::PhantomData;

use warpfold_device::{
    combined_by,
    math::{fma, sqrt},
    op::Number,
    reduction::{Reduction, Unrolled, Vector, VectorReduction},
    value,
};

use super::{
    exact::Exact,
    means::{Add, Additive},
    moments::Real,
    skip_nan::{All, Floats, NanFilter, Numbers},
};

pub(super) trait SquareSum: Additive {
    /// The smallest sum, other than 0, and the largest one of a vector's squares that is added unscaled.
    const MEDIUM: [f64; 2];
    /// Returns a sum whose value is `sum`, which is in the range [`MEDIUM`](Self::MEDIUM).
    fn of_medium(sum: f64) -> Self;
    /// Adds the square of a number of any magnitude.
    fn accumulate(&mut self, number: f64);
    fn root(self) -> f64;
}

/// For floats whose squares are in the range of `f64`.
impl SquareSum for f64 {
    const MEDIUM: [f64; 2] = [0.0, f64::INFINITY];

    #[inline(always)]
    fn of_medium(sum: f64) -> Self {
        sum
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        *self = fma(number, number, *self);
    }

    #[inline(always)]
    fn root(self) -> f64 {
        sqrt(self)
    }
}

value! {
    pub(super) struct InThreeScales {
        /// Numbers below 2^-450, each times 2^600 before it is squared.
        small: f64,
        medium: f64,
        /// Numbers above 2^480, each times 2^-600 before it is squared.
        large: f64,
    }
}

const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

const UP: f64 = power_of_two(600);
const DOWN: f64 = power_of_two(-600);

impl Additive for InThreeScales {
    const NONE: Self = Self { small: 0.0, medium: 0.0, large: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            small: self.small + other.small,
            medium: self.medium + other.medium,
            large: self.large + other.large,
        }
    }
}

impl SquareSum for InThreeScales {
    // A square that underflows is less than 2^-170 of such a sum.
    const MEDIUM: [f64; 2] = [power_of_two(-900), power_of_two(960)];

    #[inline(always)]
    fn of_medium(medium: f64) -> Self {
        Self { medium, ..Self::NONE }
    }

    #[inline(always)]
    fn accumulate(&mut self, number: f64) {
        let magnitude = number.magnitude();
        if magnitude < power_of_two(-450) {
            self.small = fma(number * UP, number * UP, self.small);
        } else if magnitude <= power_of_two(480) {
            self.medium = fma(number, number, self.medium);
        } else {
            self.large = fma(number * DOWN, number * DOWN, self.large);
        }
    }

    #[inline(always)]
    fn root(self) -> f64 {
        let Self { small, medium, large } = self;
        if large != 0.0 {
            sqrt(large + medium * DOWN * DOWN) * UP
        } else if medium != 0.0 {
            sqrt(medium + small * DOWN * DOWN)
        } else {
            sqrt(small) * DOWN
        }
    }
}

pub(super) struct NormOf<T, W>(PhantomData<(T, W)>);
pub(super) type FloatNorm<T> = Unrolled<NormOf<T, All>>;
pub(super) type NanFloatNorm<T> = Unrolled<NormOf<T, Numbers>>;

type Squares<T> = <<T as Floats>::In as Real>::Squares;

impl<T: Floats, W: NanFilter> Reduction for NormOf<T, W> {
    type Element = T;
    type Partial = Squares<T>;
    type Output = f64;
    combined_by!(Add);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Squares<T> {
        let mut sum = Squares::<T>::NONE;
        sum.accumulate(W::term(element.term()).to_f64());
        sum
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> Squares<T> {
        let [least, most] = Squares::<T>::MEDIUM;
        let mut sum = 0.0;
        T::each(vector, |element| sum = fma(element.to_f64(), element.to_f64(), sum));
        // A NaN fails the range test, and is then skipped or added below.
        let is_checked = least > 0.0 || W::SKIPS;
        if !is_checked || (least <= sum && sum <= most) {
            return Squares::<T>::of_medium(sum);
        }
        let mut sum = Squares::<T>::NONE;
        T::each(vector, |element| sum.accumulate(W::term(element).to_f64()));
        sum
    }

    #[inline(always)]
    fn finish(sum: Squares<T>) -> f64 {
        sum.root()
    }
}

pub(super) struct ExactNorm<T>(PhantomData<T>);

impl<T: Exact> Reduction for ExactNorm<T> {
    type Element = T;
    type Partial = T::Squares;
    type Output = f64;
    combined_by!(T::AddSquares);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Squares {
        let (_, squares) = element.sums();
        squares
    }

    #[inline(always)]
    fn finish(squares: T::Squares) -> f64 {
        sqrt(T::nearest_of_squares(squares))
    }
}

impl<T: Exact> VectorReduction for ExactNorm<T> {
    type Accumulator = T::Squares;
    type Continued = Self;

    #[inline(always)]
    fn start() -> T::Squares {
        Self::IDENTITY
    }

    /// Uses one accumulator, because only integer additions depend on the vector before.
    #[inline(always)]
    fn accumulate(kept: &mut T::Squares, _chain: usize, vector: Vector, _index: u64) {
        let (_, squares) = T::group_sums(vector);
        *kept = Self::combine(*kept, squares);
    }

    #[inline(always)]
    fn close(kept: T::Squares) -> T::Squares {
        kept
    }
}
