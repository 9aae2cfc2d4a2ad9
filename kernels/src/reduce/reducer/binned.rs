//! Sums of floats that have the same bits wherever they are made.

use core::marker::PhantomData;

use warpfold_abi::{
    arguments::ReduceCut,
    binned::{Float, Partial, Running, Terms},
};
use warpfold_device::{
    binned::Merge,
    reduction::{Fold, Group},
};

use super::{
    item::Unpacked,
    op::{Itself, Magnitude, Square, Term},
};

/// The [binned](warpfold_abi::binned) sum of the elements' terms, each rounded to the type of the sum.
pub(super) struct BinnedSumOf<T, M>(PhantomData<(T, M)>);
/// The binned sum of the elements.
pub(super) type BinnedSum<T> = BinnedSumOf<T, Itself>;
/// The binned sum of the elements' squares.
pub(super) type BinnedSumSq<T> = BinnedSumOf<T, Square>;
/// The binned sum of the elements' magnitudes.
pub(super) type BinnedSumAbs<T> = BinnedSumOf<T, Magnitude>;

impl<T, M> Fold for BinnedSumOf<T, M>
where
    T: Unpacked<Total: Float, Terms: Terms<<T as Unpacked>::Total>>,
    M: Term<T::Total>,
{
    type Element = T;
    type Accumulator = Running<T::Total>;
    type Partial = Partial<T::Total>;
    type Combine = Merge;
    const COMBINE: Merge = Merge;
    const RESULT_BYTES: u64 = size_of::<T::Total>() as u64;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Running::new()
    }

    /// In one chain, as what waits for the terms before is integer additions alone.
    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, _chain: usize, group: Group, _index: u64) {
        kept.add(T::terms(group, M::of));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.close()
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Self::Partial {
        let mut kept = Running::new();
        kept.add([M::of(element.term())]);
        kept.close()
    }

    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = partial.sum() };
    }
}
