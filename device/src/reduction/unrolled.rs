//! Any reduction in the form that the kernels run, with independent accumulators.

use core::marker::PhantomData;

use super::traits::{ACCUMULATORS, Reduction, Vector, VectorReduction};

/// A [`Reduction`] with a partial result per load in flight as accumulator.
pub struct Unrolled<R>(PhantomData<R>);

impl<R: Reduction> Reduction for Unrolled<R> {
    type Element = R::Element;
    type Partial = R::Partial;
    type Output = R::Output;
    const IDENTITY: R::Partial = R::IDENTITY;
    const INDEXED: bool = R::INDEXED;
    const ZERO_PADDABLE: bool = R::ZERO_PADDABLE;

    #[inline(always)]
    fn map(element: R::Element, index: u64) -> R::Partial {
        R::map(element, index)
    }

    #[inline(always)]
    fn map_vector(vector: Vector, index: u64) -> R::Partial {
        R::map_vector(vector, index)
    }

    #[inline(always)]
    fn combine(a: R::Partial, b: R::Partial) -> R::Partial {
        R::combine(a, b)
    }

    #[inline(always)]
    unsafe fn combine_warp(partial: R::Partial, members: u32) -> Option<R::Partial> {
        // SAFETY: the caller's contract.
        unsafe { R::combine_warp(partial, members) }
    }

    #[inline(always)]
    fn finish(partial: R::Partial) -> R::Output {
        R::finish(partial)
    }
}

impl<R: Reduction> VectorReduction for Unrolled<R> {
    type Accumulator = [R::Partial; ACCUMULATORS];
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [R::IDENTITY; ACCUMULATORS]
    }

    #[inline(always)]
    fn accumulate(accumulator: &mut Self::Accumulator, chain: usize, vector: Vector, index: u64) {
        accumulator[chain] = R::combine(accumulator[chain], R::map_vector(vector, index));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> R::Partial {
        R::combine(R::combine(a, b), R::combine(c, d))
    }
}
