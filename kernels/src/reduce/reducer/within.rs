//! How many elements lie in an interval, their sum and their mean.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::binned::{Float, Partial, Running, Terms};
use warpfold_device::{
    combined_by,
    reduction::{FilteredReduction, Reduction, Vector, VectorReduction},
};

use super::{
    binned::{Binned, Ending, Part, Rounded},
    exact::MergeCounted,
    item::{Item, Unpacked, between},
    means::{Additive, Averaged, CountAndSum, CountSumMean, Kept},
};

/// The number, the sum and the mean of the elements that lie in an interval.
pub(super) struct Within<T>(PhantomData<T>);

impl<T: Averaged> FilteredReduction for Within<T> {
    type Reduction = CountAndSum<T, CountSumMean>;
    type Interval = T::Interval;

    #[inline(always)]
    fn interval(low: u64, high: u64) -> T::Interval {
        T::interval(low, high)
    }

    #[inline(always)]
    fn accumulate(kept: &mut Kept<T::Subtotal>, interval: T::Interval, chain: usize, vector: Vector) {
        let (count, sum) = T::subtotal_within(vector, interval);
        kept.count += count;
        kept.sums[chain] = kept.sums[chain].plus(sum);
    }

    #[inline(always)]
    fn map(element: T, interval: T::Interval) -> (u64, T::Tally) {
        if element.lies_in(interval) { (1, T::tally(element.subtotal())) } else { (0, T::Tally::NONE) }
    }
}

/// How many floats there are, their [binned](warpfold_abi::binned) sum, and their mean.
pub(super) struct CountAndBinnedSum<T, E>(PhantomData<(T, E)>);

impl<T, E> Reduction for CountAndBinnedSum<T, E>
where
    T: Unpacked<Total: Binned, Terms: Terms<<T as Unpacked>::Total>>,
    E: Ending<T::Total>,
{
    type Element = T;
    type Partial = (u64, Partial<T::Total>);
    type Output = E::Counted;
    combined_by!(MergeCounted);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        (1, Partial::of(element.term()))
    }

    #[inline(always)]
    fn finish((count, sum): Self::Partial) -> E::Counted {
        E::finish_counted(count, sum)
    }
}

impl<T, E> VectorReduction for CountAndBinnedSum<T, E>
where
    T: Unpacked<Total: Binned, Terms: Terms<<T as Unpacked>::Total>>,
    E: Ending<T::Total>,
{
    type Accumulator = (u32, Running<T::Total>);
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        (0, Running::new())
    }

    /// In one chain, as what waits for the terms before is integer additions alone.
    #[inline(always)]
    fn accumulate((count, kept): &mut Self::Accumulator, _chain: usize, vector: Vector, _index: u64) {
        *count += <T as Item>::LANES as u32;
        kept.add(T::terms(vector, identity));
    }

    #[inline(always)]
    fn close((count, kept): Self::Accumulator) -> Self::Partial {
        (count.into(), kept.close())
    }
}

/// The same of the floats that lie in an interval.
pub(super) struct BinnedWithinOf<T, E>(PhantomData<(T, E)>);
/// Of which the sum is rounded.
pub(super) type BinnedWithin<T> = BinnedWithinOf<T, Rounded>;
/// Of which it is what one device has of it.
pub(super) type BinnedWithinPart<T> = BinnedWithinOf<T, Part>;

impl<T, E> FilteredReduction for BinnedWithinOf<T, E>
where
    T: Unpacked<Total: Binned + PartialOrd, Terms: Terms<<T as Unpacked>::Total>>,
    E: Ending<T::Total>,
{
    type Reduction = CountAndBinnedSum<T, E>;
    /// As they are added, in which all elements are as far from one another as before.
    type Interval = [T::Total; 2];

    #[inline(always)]
    fn interval(low: u64, high: u64) -> [T::Total; 2] {
        [T::of_bits(low).term(), T::of_bits(high).term()]
    }

    /// What is outside is a zero, which changes no sum.
    #[inline(always)]
    fn accumulate(
        (count, kept): &mut (u32, Running<T::Total>),
        interval: [T::Total; 2],
        _chain: usize,
        vector: Vector,
    ) {
        kept.add(Terms::map(T::terms(vector, identity), |term| {
            let inside = between(term, interval);
            *count += u32::from(inside);
            if inside { term } else { Float::ZERO }
        }));
    }

    #[inline(always)]
    fn map(element: T, interval: [T::Total; 2]) -> (u64, Partial<T::Total>) {
        let term = element.term();
        if between(term, interval) { (1, Partial::of(term)) } else { (0, Partial::ZERO) }
    }
}
