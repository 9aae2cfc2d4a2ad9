//! Operations on pairs: the elements of two inputs that have the same index.

use core::marker::PhantomData;

use warpfold_device::{
    op::Number,
    reduction::{ACCUMULATORS, PairReduction, Vector},
};

use super::{item::Item, op::Sum};

/// What of a pair is added up.
pub(super) trait PairTerm: 'static {
    /// Gives the term of two numbers.
    fn of<N: Number>(a: N, b: N) -> N;
    /// The sum over two groups; of zeros, zero.
    fn of_groups<T: Item>(a: Vector, b: Vector) -> T::Total;
}

/// The product of both.
pub(super) struct Times;
/// The square of their difference.
pub(super) struct DistanceSquared;

impl PairTerm for Times {
    #[inline(always)]
    fn of<N: Number>(a: N, b: N) -> N {
        a.multiply(b)
    }

    #[inline(always)]
    fn of_groups<T: Item>(a: Vector, b: Vector) -> T::Total {
        T::dot(a, b)
    }
}

impl PairTerm for DistanceSquared {
    #[inline(always)]
    fn of<N: Number>(a: N, b: N) -> N {
        a.subtract(b).square()
    }

    #[inline(always)]
    fn of_groups<T: Item>(a: Vector, b: Vector) -> T::Total {
        T::squared_distance(a, b)
    }
}

/// The sum of the pairs' terms.
pub(super) struct SumOfPairs<T, M>(PhantomData<(T, M)>);
/// The sum of the products.
pub(super) type Dot<T> = SumOfPairs<T, Times>;
/// The sum of the squared differences.
pub(super) type SquaredDistance<T> = SumOfPairs<T, DistanceSquared>;

impl<T: Item, M: PairTerm> PairReduction for SumOfPairs<T, M> {
    type Reduction = Sum<T>;

    #[inline(always)]
    fn accumulate(kept: &mut [T::Total; ACCUMULATORS], chain: usize, first: Vector, second: Vector) {
        kept[chain] = kept[chain].add(M::of_groups::<T>(first, second));
    }

    #[inline(always)]
    fn map(first: T, second: T) -> T::Total {
        M::of(first.total(), second.total())
    }
}
