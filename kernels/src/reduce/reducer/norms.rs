//! The L2 norm: the square root of the sum of squares. No intermediate square overflows or vanishes
//! unless the norm does.
//!
//! The squares of floats of up to 32 bits are added in double precision, in which they are exact. The
//! squares of `f64` are added in three scales (J. L. Blue, *A Portable Fortran Program to Find the
//! Euclidean Norm of a Vector*, ACM Transactions on Mathematical Software 4, 1978). The sums of
//! integers' squares are exact.

use core::marker::PhantomData;

use warpfold_device::{
    combined_by,
    math::{fma, sqrt},
    op::Number,
    reduction::{Reduction, Unrolled, Vector, VectorReduction, count},
};

use super::{
    exact::Exact,
    form::{Double, written_as},
    real::{Floats, Real},
    skip_nan::{All, NanFilter, Numbers},
    sums::{Add, Additive, SquareSum},
};

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
        // A sum of NaN fails this test, and the loop below skips or adds the NaN.
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

    written_as!(Double<T>: |sum, arguments| (sum.root(), count(arguments)));
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

    written_as!(Double<T>: |squares, arguments| (Self::finish(squares), count(arguments)));
}

impl<T: Exact> VectorReduction for ExactNorm<T> {
    type Accumulator = T::Squares;
    type Continued = Self;

    #[inline(always)]
    fn start() -> T::Squares {
        Self::IDENTITY
    }

    /// Uses one accumulator: only integer additions depend on its value, and their latency is short.
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
