//! Any reduction in the form that the kernels run, with independent accumulators.

use core::{marker::PhantomData, mem::transmute_copy};

use super::traits::{ACCUMULATORS, Reduction, Vector, VectorReduction, in_vectors, lanes};

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

/// Combines the elements of a vector as a tree: its halves, and their halves, down to an element. Not
/// for elements that are loaded one by one.
#[inline(always)]
pub(super) fn map_vector<R: Reduction>(vector: Vector, index: u64) -> R::Partial {
    if !in_vectors::<R::Element>() {
        return R::IDENTITY;
    }
    if size_of::<R::Element>() == size_of::<Vector>() {
        return R::map(element(vector), index);
    }
    let [a, b, c, d] = vector;
    let half = lanes::<R::Element>() / 2;
    R::combine(map_pair::<R>([a, b], index), map_pair::<R>([c, d], index + half))
}

#[inline(always)]
fn map_pair<R: Reduction>(pair: [u32; 2], index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<[u32; 2]>() {
        return R::map(element(pair), index);
    }
    let [a, b] = pair;
    let quarter = lanes::<R::Element>() / 4;
    R::combine(map_word::<R>(a, index), map_word::<R>(b, index + quarter))
}

#[inline(always)]
fn map_word<R: Reduction>(word: u32, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u32>() {
        return R::map(element(word), index);
    }
    let eighth = lanes::<R::Element>() / 8;
    R::combine(map_half::<R>(word as u16, index), map_half::<R>((word >> 16) as u16, index + eighth))
}

#[inline(always)]
fn map_half<R: Reduction>(half: u16, index: u64) -> R::Partial {
    if size_of::<R::Element>() == size_of::<u16>() {
        return R::map(element(half), index);
    }
    R::combine(R::map(element(half as u8), index), R::map(element((half >> 8) as u8), index + 1))
}

#[inline(always)]
fn element<B: Copy, T: Copy>(bits: B) -> T {
    // SAFETY: called with as many bits as an element has, or in code that never runs; any bits are one.
    unsafe { transmute_copy(&bits) }
}
