//! An adapter for any reduction, with independent accumulators.

use core::marker::PhantomData;

use warpfold_abi::arguments::ReduceCut;

use super::traits::{ACCUMULATORS, Reduction, Vector, VectorReduction};

/// A [`Reduction`] whose accumulator has one partial result per load in flight.
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
        // SAFETY: all lanes in `members` call it together, as the caller guarantees.
        unsafe { R::combine_warp(partial, members) }
    }

    #[inline(always)]
    fn finish(partial: R::Partial) -> R::Output {
        R::finish(partial)
    }

    const HAS_FORMS: bool = R::HAS_FORMS;

    #[inline(always)]
    fn output_bytes(form: u64) -> u64 {
        R::output_bytes(form)
    }

    #[inline(always)]
    unsafe fn write(partial: R::Partial, arguments: ReduceCut<R::Element>) {
        // SAFETY: the conditions are those of this function, because `R` has the same input and results.
        unsafe { R::write(partial, arguments) };
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
