//! Sums of floats that have the same bits wherever they are made.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::{
    arguments::ReduceCut,
    binned::{Float, Partial, Running, Terms},
};
use warpfold_device::{
    Value,
    binned::Merge,
    reduction::{Fold, FoldPairs, Group},
    thread::Few,
};

use super::{
    item::Unpacked,
    numbers::{All, MaybeNan, Numbers, Which},
    op::{Itself, Magnitude, Square, Term},
    pairs::{DistanceSquared, PairTerm, Times},
};

/// The [binned](warpfold_abi::binned) sum of the elements' terms, each rounded to the type of the sum.
/// That of NaN is NaN.
pub(super) struct BinnedSumOf<T, M, W = All, E = Rounded>(PhantomData<(T, M, W, E)>);
/// The binned sum of the elements.
pub(super) type BinnedSum<T> = BinnedSumOf<T, Itself>;
/// The binned sum of the elements' squares.
pub(super) type BinnedSumSq<T> = BinnedSumOf<T, Square>;
/// The binned sum of the elements' magnitudes.
pub(super) type BinnedSumAbs<T> = BinnedSumOf<T, Magnitude>;
/// The binned sum of the elements that are numbers.
pub(super) type NanBinnedSum<T> = BinnedSumOf<T, Itself, Numbers>;
/// The binned sum of their squares.
pub(super) type NanBinnedSumSq<T> = BinnedSumOf<T, Square, Numbers>;
/// The binned sum of their magnitudes.
pub(super) type NanBinnedSumAbs<T> = BinnedSumOf<T, Magnitude, Numbers>;

/// What is written of a binned sum.
pub(super) trait Ending<S: Float>: 'static {
    /// Bytes that are written.
    const BYTES: u64;
    /// Writes it.
    ///
    /// # Safety
    /// There are [`BYTES`](Self::BYTES) to be written, behind a multiple of 8.
    unsafe fn write(sum: Partial<S>, output: *mut u64);
    /// Writes what is left of the sum of `count` elements, behind what [`write`](Self::write) writes.
    ///
    /// # Safety
    /// There are [`BYTES_OF_MEAN`](Self::BYTES_OF_MEAN) to be written, at a multiple of 8.
    unsafe fn write_mean(_sum: Partial<S>, _count: u64, _output: *mut u64) {}
    /// Bytes that that writes.
    const BYTES_OF_MEAN: u64 = 0;
}

/// Of the sum, the nearest number is written.
pub(super) struct Rounded;
/// The words of the sum are written, for those of other devices to be added to it.
pub(super) struct Part;

impl<S: Float> Ending<S> for Rounded {
    const BYTES: u64 = size_of::<S>() as u64;

    #[inline(always)]
    unsafe fn write(sum: Partial<S>, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe { *output.cast() = sum.sum() };
    }

    const BYTES_OF_MEAN: u64 = 2 * size_of::<f64>() as u64;

    #[inline(always)]
    unsafe fn write_mean(sum: Partial<S>, count: u64, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe {
            *output = sum.wide().to_bits();
            *output.add(1).cast() = sum.mean(count);
        }
    }
}

impl<S: Float> Ending<S> for Part {
    const BYTES: u64 = Partial::<S>::WORDS as u64 * size_of::<u32>() as u64;

    #[inline(always)]
    unsafe fn write(sum: Partial<S>, output: *mut u64) {
        let mut word_at = output.cast::<u32>();
        sum.give(&mut |word| {
            // SAFETY: the caller's contract, as there are no more words.
            unsafe { *word_at = word };
            word_at = word_at.wrapping_add(1);
        });
    }
}

impl<T, M, W, E> Fold for BinnedSumOf<T, M, W, E>
where
    T: Unpacked<Total: Float + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: Term<T::Total>,
    W: Which,
    E: Ending<T::Total>,
{
    type Element = T;
    type Accumulator = Running<T::Total>;
    type Partial = Partial<T::Total>;
    type Combine = Merge;
    type Continued = Self;
    const COMBINE: Merge = Merge;
    const RESULT_BYTES: u64 = E::BYTES;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Running::new()
    }

    /// In one chain, as what waits for the terms before is integer additions alone.
    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, _chain: usize, group: Group, _index: u64) {
        W::add(kept, T::terms(group, M::of));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.close()
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Self::Partial {
        Partial::of(M::of(W::term(element.term())))
    }

    #[inline(always)]
    fn absorb_one(kept: &mut Self::Partial, element: T, _index: u64) {
        kept.add(M::of(W::term(element.term())));
    }

    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { E::write(partial, arguments.output) };
    }
}

/// The binned sum of the pairs' terms, each rounded to the type of the sum.
pub(super) struct BinnedSumOfPairs<T, M, E>(PhantomData<(T, M, E)>);
/// The binned sum of the products.
pub(super) type BinnedDot<T> = BinnedSumOfPairs<T, Times, Rounded>;
/// The binned sum of the squared differences.
pub(super) type BinnedSquaredDistance<T> = BinnedSumOfPairs<T, DistanceSquared, Rounded>;
/// The part of that of the products that one device has.
pub(super) type BinnedDotPart<T> = BinnedSumOfPairs<T, Times, Part>;
/// The part of that of the squared differences that one device has.
pub(super) type BinnedSquaredDistancePart<T> = BinnedSumOfPairs<T, DistanceSquared, Part>;

impl<T, M, E> FoldPairs for BinnedSumOfPairs<T, M, E>
where
    T: Unpacked<Total: Float + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: PairTerm,
    E: Ending<T::Total>,
{
    type Fold = BinnedSumOf<T, Itself, All, E>;

    #[inline(always)]
    fn absorb(kept: &mut Running<T::Total>, _chain: usize, first: Group, second: Group) {
        let (first, second) = (T::terms(first, identity), T::terms(second, identity));
        kept.add(first.zipped(second, M::of));
    }

    #[inline(always)]
    fn of(first: T, second: T) -> Partial<T::Total> {
        Partial::of(M::of(first.term(), second.term()))
    }
}
