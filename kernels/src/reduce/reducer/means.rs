//! Means, and sums in which 2^35 elements do not overflow.
//!
//! If one launch reduces all elements of a result, their number is known, so partial results are sums
//! alone. With a count for each sum, columns and short rows would take up to twice as long.

use core::marker::PhantomData;

use warpfold_device::{
    Value, combined_by,
    op::{self, Number},
    reduction::{ACCUMULATORS, Reduction, Vector, VectorReduction, count},
};

use super::{
    form::{Double, written_as},
    item::{Bf16, F16, Item, Unpacked, between},
    real::{Floats, Real},
    sums::{Add, Additive, WideSum},
    wide::Widest,
};

pub(super) trait Averaged: Item {
    /// The type of a thread's sums, in which 2^32 elements do not overflow.
    type Subtotal: Additive;
    /// The type of sums in which 2^35 elements do not overflow.
    type Tally: Additive;
    fn subtotal(self) -> Self::Subtotal;
    fn subtotal_of(group: Vector) -> Self::Subtotal;
    fn subtotal_within(group: Vector, interval: Self::Interval) -> (u32, Self::Subtotal);
    fn tally(subtotal: Self::Subtotal) -> Self::Tally;
    /// Converts a sum to [`Item::Total`]: the lower bits for integers, the nearest number for floats.
    fn total_of(sum: Self::Tally) -> Self::Total;
    /// Returns the part of a sum that [`Item::Total`] cannot hold: for integers the upper half of 128
    /// bits, for floats the bits of [`WideSum::wide`].
    fn rest_of(sum: Self::Tally) -> u64;
    fn mean_of(sum: Self::Tally, count: u64) -> f64;
}

/// Returns the number and the sum of a vector's elements for which `counts` returns `true`.
#[inline(always)]
fn gather<T: Floats>(group: Vector, counts: impl Fn(T::In) -> bool) -> (u32, <T::In as Real>::Sums) {
    // The sum starts at −0, the identity of float addition: +0 + −0 is +0.
    let (mut count, mut sum) = (0, -0.0);
    T::each(group, |element| {
        let is_in = counts(element);
        count += u32::from(is_in);
        sum += if is_in { element.to_f64() } else { 0.0 };
    });
    let near = <T::In as Real>::Sums::NEAR;
    if near == f64::INFINITY || sum.magnitude() <= near {
        return (count, WideSum::of_near(sum));
    }
    let mut sums = <T::In as Real>::Sums::NONE;
    T::each(group, |element| {
        if counts(element) {
            sums.accumulate(element.to_f64());
        }
    });
    (count, sums)
}

macro_rules! averaged {
    ($($ty:ident in $number:ident: |$group:ident| $sum:expr;)*) => {$(
        impl Averaged for $ty {
            type Subtotal = <$number as Real>::Sums;
            type Tally = Self::Subtotal;

            #[inline(always)]
            fn subtotal(self) -> Self::Subtotal {
                let mut sum = Self::Subtotal::NONE;
                sum.accumulate(self.term().to_f64());
                sum
            }

            #[inline(always)]
            fn subtotal_of($group: Vector) -> Self::Subtotal {
                $sum
            }

            #[inline(always)]
            fn subtotal_within(group: Vector, interval: [$number; 2]) -> (u32, Self::Subtotal) {
                gather::<Self>(group, |element| between(element, interval))
            }

            #[inline(always)]
            fn tally(subtotal: Self::Subtotal) -> Self::Tally {
                subtotal
            }

            #[inline(always)]
            fn total_of(sum: Self::Tally) -> $number {
                sum.rounded() as $number
            }

            #[inline(always)]
            fn rest_of(sum: Self::Tally) -> u64 {
                WideSum::wide(sum).to_bits()
            }

            #[inline(always)]
            fn mean_of(sum: Self::Tally, count: u64) -> f64 {
                sum.over(count as f64)
            }
        }
    )*};
}

averaged! {
    F16 in f32: |group| Self::sum_widest(group);
    Bf16 in f32: |group| Self::sum_widest(group);
    f32 in f32: |group| Self::sum_widest(group);
    f64 in f64: |group| gather::<Self>(group, |_| true).1;
}

pub(super) trait Written<T: Averaged>: 'static {
    type Output: Copy + 'static;
    fn finish(count: u64, sum: T::Tally) -> Self::Output;
}

pub(super) struct MeanAlone;
pub(super) struct CountSumMean;

impl<T: Averaged> Written<T> for MeanAlone {
    type Output = f64;

    #[inline(always)]
    fn finish(count: u64, sum: T::Tally) -> f64 {
        T::mean_of(sum, count)
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct SumAndMean {
    count: u64,
    /// The sum's words, the lower one first; a sum of one word is followed by zero.
    sum: [u32; 2],
    rest: u64,
    mean: f64,
}

impl SumAndMean {
    #[inline(always)]
    pub(super) fn new<S: Value>(count: u64, sum: S, rest: u64, mean: f64) -> Self {
        let (mut words, mut at) = ([0; 2], 0);
        sum.give(&mut |word| {
            words[at] = word;
            at += 1;
        });
        Self { count, sum: words, rest, mean }
    }
}

impl<T: Averaged> Written<T> for CountSumMean {
    type Output = SumAndMean;

    #[inline(always)]
    fn finish(count: u64, sum: T::Tally) -> Self::Output {
        SumAndMean::new(count, T::total_of(sum), T::rest_of(sum), T::mean_of(sum, count))
    }
}

pub(super) type Subtotals<T> = [<T as Averaged>::Subtotal; ACCUMULATORS];

/// Returns empty accumulators. The elements are listed one by one, because rust-cuda's compiler would
/// place a repeated array of 128-bit sums in local memory.
#[inline(always)]
fn none<T: Averaged>() -> Subtotals<T> {
    let none = T::Subtotal::NONE;
    [none, none, none, none]
}

#[inline(always)]
fn total<T: Averaged>([a, b, c, d]: Subtotals<T>) -> T::Tally {
    T::tally(a.plus(b).plus(c.plus(d)))
}

pub(super) struct Mean<T>(PhantomData<T>);

impl<T: Averaged> Reduction for Mean<T> {
    type Element = T;
    type Partial = T::Tally;
    type Output = f64;
    combined_by!(Add);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Tally {
        T::tally(element.subtotal())
    }

    /// Returns the undivided sum: only [`write`](Reduction::write) knows the number of elements.
    #[inline(always)]
    fn finish(sum: T::Tally) -> f64 {
        T::mean_of(sum, 1)
    }

    written_as!(Double<T>: |sum, arguments| {
        let elements = count(arguments);
        (T::mean_of(sum, elements), elements)
    });
}

impl<T: Averaged> VectorReduction for Mean<T> {
    type Accumulator = Subtotals<T>;
    type Continued = CountAndSum<T, MeanAlone>;

    #[inline(always)]
    fn start() -> Subtotals<T> {
        none::<T>()
    }

    #[inline(always)]
    fn accumulate(kept: &mut Subtotals<T>, chain: usize, vector: Vector, _index: u64) {
        kept[chain] = kept[chain].plus(T::subtotal_of(vector));
    }

    #[inline(always)]
    fn close(kept: Subtotals<T>) -> T::Tally {
        total::<T>(kept)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Kept<S> {
    /// Does not overflow: no thread accumulates 2^32 elements.
    pub(super) count: u32,
    pub(super) sums: [S; ACCUMULATORS],
}

pub(super) struct CountAndSum<T, E>(PhantomData<(T, E)>);

impl<T: Averaged, E: Written<T>> Reduction for CountAndSum<T, E> {
    type Element = T;
    type Partial = (u64, T::Tally);
    type Output = E::Output;
    combined_by!((op::Sum, Add));
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        (1, T::tally(element.subtotal()))
    }

    #[inline(always)]
    fn finish((count, sum): Self::Partial) -> E::Output {
        E::finish(count, sum)
    }
}

impl<T: Averaged, E: Written<T>> VectorReduction for CountAndSum<T, E> {
    type Accumulator = Kept<T::Subtotal>;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Kept<T::Subtotal> {
        Kept { count: 0, sums: none::<T>() }
    }

    #[inline(always)]
    fn accumulate(kept: &mut Kept<T::Subtotal>, chain: usize, vector: Vector, _index: u64) {
        kept.count += <Self as VectorReduction>::LANES as u32;
        kept.sums[chain] = kept.sums[chain].plus(T::subtotal_of(vector));
    }

    #[inline(always)]
    fn close(Kept { count, sums }: Kept<T::Subtotal>) -> Self::Partial {
        (count.into(), total::<T>(sums))
    }
}
