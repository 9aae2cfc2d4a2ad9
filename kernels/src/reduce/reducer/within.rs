//! The number, the sum and the mean of the elements in an interval.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::binned::{Float, Partial, Running, Terms};
use warpfold_device::reduction::{FilteredReduction, Vector};

use super::{
    binned::{Binned, BinnedOutput, Part, Rounded},
    exact::{BinnedStatistic, CountedBins},
    form::OneForm,
    item::{Unpacked, between},
    means::{Averaged, CountAndSum, CountSumMean, Kept},
    real::MaybeNan,
    skip_nan::All,
    sums::Additive,
};

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

pub(super) struct Ended<E>(PhantomData<E>);

impl<T, E> BinnedStatistic<T> for Ended<E>
where
    T: Unpacked<Total: Binned>,
    E: BinnedOutput<T::Total>,
{
    type Sums = T::Total;
    type Forms = OneForm<E::Counted>;

    #[inline(always)]
    fn term(number: T::Total) -> T::Total {
        number
    }

    #[inline(always)]
    fn finish(count: u64, sum: Partial<T::Total>) -> E::Counted {
        E::finish_counted(count, sum)
    }
}

pub(super) struct BinnedWithinOf<T, E>(PhantomData<(T, E)>);
pub(super) type BinnedWithin<T> = BinnedWithinOf<T, Rounded>;
pub(super) type BinnedWithinPart<T> = BinnedWithinOf<T, Part>;

impl<T, E> FilteredReduction for BinnedWithinOf<T, E>
where
    T: Unpacked<Total: Binned + MaybeNan + PartialOrd, Terms: Terms<<T as Unpacked>::Total>>,
    E: BinnedOutput<T::Total>,
{
    type Reduction = CountedBins<T, All, Ended<E>>;
    /// The bounds in the type of sums. The conversion to this type preserves the order of elements.
    type Interval = [T::Total; 2];

    #[inline(always)]
    fn interval(low: u64, high: u64) -> [T::Total; 2] {
        [T::of_bits(low).term(), T::of_bits(high).term()]
    }

    /// Replaces elements outside the interval by zero, which changes no sum.
    #[inline(always)]
    fn accumulate(
        (count, kept): &mut (u64, Running<T::Total>),
        interval: [T::Total; 2],
        _chain: usize,
        vector: Vector,
    ) {
        kept.add(Terms::map(T::terms(vector, identity), |term| {
            let inside = between(term, interval);
            *count += u64::from(inside);
            if inside { term } else { Float::ZERO }
        }));
    }

    #[inline(always)]
    fn map(element: T, interval: [T::Total; 2]) -> (u64, Partial<T::Total>) {
        let term = element.term();
        if between(term, interval) { (1, Partial::of(term)) } else { (0, Partial::ZERO) }
    }
}
