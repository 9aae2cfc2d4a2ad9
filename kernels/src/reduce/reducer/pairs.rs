//! Operations on pairs of elements, which have the same index in two inputs.

use core::marker::PhantomData;

use warpfold_device::{
    op::Number,
    reduction::{ACCUMULATORS, PairReduction, Vector},
};

use super::{item::Item, op::Sum};

pub(super) trait PairTerm: 'static {
    fn of<N: Number>(a: N, b: N) -> N;
    /// Returns the sum of two vectors' terms, which is zero for vectors of zeros.
    fn of_groups<T: Item>(a: Vector, b: Vector) -> T::Total;
}

pub(super) struct Times;
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

pub(super) struct SumOfPairs<T, M>(PhantomData<(T, M)>);
pub(super) type Dot<T> = SumOfPairs<T, Times>;
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
