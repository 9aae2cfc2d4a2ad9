//! How many elements lie in an interval, and their sum.

use core::marker::PhantomData;

use warpfold_abi::arguments::ReduceCut;
use warpfold_device::{
    op::{self, Number},
    reduction::{CHAINS, Fold, FoldWithin, Group},
};

use super::item::Item;

/// What a thread keeps of some elements.
#[derive(Clone, Copy)]
pub(super) struct Kept<N> {
    /// How many there are: no thread takes 2^32 of them.
    count: u32,
    sums: [N; CHAINS],
}

/// How many elements there are, and their sum.
pub(super) struct CountAndSum<T>(PhantomData<T>);

impl<T: Item> Fold for CountAndSum<T> {
    type Element = T;
    type Accumulator = Kept<T::Total>;
    type Partial = (u64, T::Total);
    type Combine = (op::Sum, op::Sum);
    const COMBINE: Self::Combine = (op::Sum, op::Sum);
    const RESULT_BYTES: u64 = (size_of::<u64>() + size_of::<T::Total>()) as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Kept<T::Total> {
        Kept { count: 0, sums: [T::Total::ZERO; CHAINS] }
    }

    #[inline(always)]
    fn absorb(kept: &mut Kept<T::Total>, chain: usize, group: Group, _index: u64) {
        kept.count += T::LANES as u32;
        kept.sums[chain] = kept.sums[chain].add(T::sum(group));
    }

    /// Adds as [`Sum`](super::op::Sum) does.
    #[inline(always)]
    fn close(Kept { count, sums: [a, b, c, d] }: Kept<T::Total>) -> Self::Partial {
        (count.into(), a.add(b).add(c.add(d)))
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Self::Partial {
        (1, element.total())
    }

    #[inline(always)]
    unsafe fn write((count, sum): Self::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe {
            *arguments.output = count;
            *arguments.output.add(1).cast() = sum;
        }
    }
}

/// The same of the elements that lie in an interval.
pub(super) struct Within<T>(PhantomData<T>);

impl<T: Item> FoldWithin for Within<T> {
    type Fold = CountAndSum<T>;
    type Interval = T::Interval;

    #[inline(always)]
    fn interval(low: u64, high: u64) -> T::Interval {
        T::interval(low, high)
    }

    #[inline(always)]
    fn absorb(kept: &mut Kept<T::Total>, interval: T::Interval, chain: usize, group: Group) {
        let (count, sum) = T::count_and_sum(group, interval);
        kept.count += count;
        kept.sums[chain] = kept.sums[chain].add(sum);
    }

    #[inline(always)]
    fn of(element: T, interval: T::Interval) -> (u64, T::Total) {
        if element.lies_in(interval) { (1, element.total()) } else { (0, T::Total::ZERO) }
    }
}
