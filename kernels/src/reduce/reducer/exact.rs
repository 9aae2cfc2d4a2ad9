//! Means and variances from exact sums of integers and from binned sums of floats. Their bits do not
//! depend on the order of the elements. [`warpfold_abi::moments`] defines the sums and the results.

use core::marker::PhantomData;

use warpfold_abi::{
    binned::{Float, Partial, Running, Sums, Terms},
    moments::{MeanAndVariance, Moments, OfBfloats, OfDoubles, OfHalves, OfSingles, product},
};
use warpfold_device::{
    Value,
    binned::Merge,
    combined_by,
    op::{Number, Operation, Sum},
    reduction::{Reduction, Unrolled, Vector, VectorReduction, count},
};

use super::{
    form::{Double, Forms, MeanVariance, written_as},
    item::{Bf16, F16, Item, Packed, Unpacked, between},
    means::Averaged,
    real::{Floats, MaybeNan},
    skip_nan::{All, NanFilter, Numbers},
    sums::{Add, Sum96},
};

#[inline(always)]
fn output(MeanAndVariance { mean, variance }: MeanAndVariance) -> [f64; 2] {
    [mean, variance]
}

/// An integer type, with the types that hold the sum and the sum of squares of 2^35 elements.
pub(super) trait Exact: Item {
    type Sum: Number;
    type Squares: Value;
    type AddSquares: Operation<Self::Squares>;
    fn sums(self) -> (Self::Sum, Self::Squares);
    fn group_sums(group: Vector) -> (Self::Sum, Self::Squares);
    fn moments(count: u64, sum: Self::Sum, squares: Self::Squares) -> MeanAndVariance;
    fn nearest_of_squares(squares: Self::Squares) -> f64;
}

/// Rounds a sum of fewer than 2^35 magnitudes or products to the nearest `f64`.
#[inline(always)]
fn nearest(sum: u128) -> f64 {
    // A fast path: every row of a matrix rounds a sum, and nearly all sums fit in 64 bits.
    if sum >> 64 == 0 {
        sum as u64 as f64
    } else {
        MeanAndVariance::of_integers(1, sum.cast_signed(), 0, 0).mean
    }
}

macro_rules! exact {
    // The sums of 2^35 elements and of their squares fit in 64 bits.
    (short: $($ty:ty, squares in $squares:ty;)*) => {$(
        impl Exact for $ty {
            type Sum = <Self as Item>::Total;
            type Squares = $squares;
            type AddSquares = Sum;

            #[inline(always)]
            fn sums(self) -> (Self::Sum, $squares) {
                (self.into(), self.total().square() as $squares)
            }

            #[inline(always)]
            fn group_sums(group: Vector) -> (Self::Sum, $squares) {
                (Self::sum(group), Self::sum_squares(group) as $squares)
            }

            #[inline(always)]
            fn moments(count: u64, sum: Self::Sum, squares: $squares) -> MeanAndVariance {
                MeanAndVariance::of_integers(count, sum.into(), squares.into(), 0)
            }

            #[inline(always)]
            fn nearest_of_squares(squares: $squares) -> f64 {
                nearest(squares.into())
            }
        }
    )*};
    // The sums of a vector fit in 64 bits, but the squares of 2^35 elements need 96.
    (longer: $($ty:ident)*) => {$(
        impl Exact for $ty {
            type Sum = <Self as Item>::Total;
            type Squares = Sum96;
            type AddSquares = Add;

            #[inline(always)]
            fn sums(self) -> (Self::Sum, Sum96) {
                (self.into(), (self.total().square() as u64).into())
            }

            #[inline(always)]
            fn group_sums(group: Vector) -> (Self::Sum, Sum96) {
                (Self::sum(group), (Self::sum_squares(group) as u64).into())
            }

            #[inline(always)]
            fn moments(count: u64, sum: Self::Sum, squares: Sum96) -> MeanAndVariance {
                MeanAndVariance::of_integers(count, sum.into(), squares.into(), 0)
            }

            #[inline(always)]
            fn nearest_of_squares(squares: Sum96) -> f64 {
                nearest(squares.into())
            }
        }
    )*};
    // A single square fits in 64 bits, but a sum of squares does not.
    (words: $($ty:ident)*) => {$(
        impl Exact for $ty {
            type Sum = i128;
            type Squares = u128;
            type AddSquares = Sum;

            #[inline(always)]
            fn sums(self) -> (i128, u128) {
                (self.into(), (self.total().square() as u64).into())
            }

            #[inline(always)]
            fn group_sums(group: Vector) -> (i128, u128) {
                let [a, b, c, d] = Self::unpack(group);
                let square = |element: Self| element.sums().1;
                (Self::sum(group).into(), square(a) + square(b) + (square(c) + square(d)))
            }

            #[inline(always)]
            fn moments(count: u64, sum: i128, squares: u128) -> MeanAndVariance {
                MeanAndVariance::of_integers(count, sum, squares, 0)
            }

            #[inline(always)]
            fn nearest_of_squares(squares: u128) -> f64 {
                nearest(squares)
            }
        }
    )*};
    // Squares have 128 bits; their lower and upper halves are added separately.
    (double_words: $($ty:ident: |$element:ident| $magnitude:expr;)*) => {$(
        impl Exact for $ty {
            type Sum = i128;
            type Squares = (u128, u128);
            type AddSquares = (Sum, Sum);

            #[inline(always)]
            fn sums(self) -> (i128, (u128, u128)) {
                let $element = self;
                let magnitude = $magnitude;
                let [lower, upper] = product(magnitude, magnitude);
                (self.into(), (lower.into(), upper.into()))
            }

            #[inline(always)]
            fn group_sums(group: Vector) -> (i128, (u128, u128)) {
                let [a, b] = Self::unpack(group);
                let ((a, (c, e)), (b, (d, f))) = (a.sums(), b.sums());
                (a + b, (c + d, e + f))
            }

            #[inline(always)]
            fn moments(count: u64, sum: i128, (lower, upper): (u128, u128)) -> MeanAndVariance {
                MeanAndVariance::of_integers(count, sum, lower, upper)
            }

            #[inline(always)]
            fn nearest_of_squares(squares: (u128, u128)) -> f64 {
                // For a count of 1 and a sum of 0, the variance is the sum of squares.
                Self::moments(1, 0, squares).variance
            }
        }
    )*};
}

exact! {
    short:
    i8, squares in u64;
    u8, squares in u64;
}
exact!(longer: i16 u16);
exact!(words: i32 u32);
exact! {
    double_words:
    i64: |element| element.unsigned_abs();
    u64: |element| element;
}

macro_rules! averaged {
    ($($ty:ident in $subtotal:ident, $tally:ident: |$group:ident, $interval:ident| $sum:expr, $within:expr;)*) => {$(
        impl Averaged for $ty {
            type Subtotal = $subtotal;
            type Tally = $tally;

            #[inline(always)]
            fn subtotal(self) -> $subtotal {
                self.into()
            }

            #[inline(always)]
            fn subtotal_of($group: Vector) -> $subtotal {
                $sum
            }

            #[inline(always)]
            fn subtotal_within($group: Vector, $interval: Self::Interval) -> (u32, $subtotal) {
                $within
            }

            #[inline(always)]
            fn tally(subtotal: $subtotal) -> $tally {
                subtotal.into()
            }

            #[inline(always)]
            fn total_of(sum: $tally) -> Self::Total {
                i128::from(sum) as Self::Total
            }

            #[inline(always)]
            fn rest_of(sum: $tally) -> u64 {
                (i128::from(sum) >> 64) as u64
            }

            #[inline(always)]
            fn mean_of(sum: $tally, count: u64) -> f64 {
                let sum = i128::from(sum);
                let mean = nearest(sum.unsigned_abs()) / count as f64;
                if sum < 0 { -mean } else { mean }
            }
        }
    )*};
    (packed: $($ty:ident in $subtotal:ident;)*) => {
        averaged! {$(
            $ty in $subtotal, $subtotal: |group, interval| Self::sum(group), Self::count_and_sum(group, interval);
        )*}
    };
    (native: $($ty:ident in $subtotal:ident, $tally:ident;)*) => {
        averaged! {$(
            $ty in $subtotal, $tally: |group, interval| Self::group_sums(group).0 as $subtotal, {
                let (mut count, mut sum) = (0, 0);
                Self::each(group, |element| {
                    let is_in = between(element, interval.map(Into::into));
                    count += u32::from(is_in);
                    sum += if is_in { $subtotal::from(element) } else { 0 };
                });
                (count, sum)
            };
        )*}
    };
}

averaged! {
    packed:
    i8 in i64;
    u8 in u64;
    i16 in i64;
    u16 in u64;
}
averaged! {
    native:
    i32 in i64, Sum96;
    u32 in u64, Sum96;
    i64 in i128, i128;
    u64 in i128, i128;
}

/// An integer type whose magnitudes may not fit in [`Item::Total`].
pub(super) trait Magnitude: Unpacked + 'static {
    fn magnitude(self) -> u64;
    fn magnitudes(group: Vector) -> i128;
}

macro_rules! magnitudes {
    ($($ty:ident: |$element:ident| $magnitude:expr;)*) => {$(
        impl Magnitude for $ty {
            #[inline(always)]
            fn magnitude(self) -> u64 {
                let $element = self;
                $magnitude
            }

            #[inline(always)]
            fn magnitudes(group: Vector) -> i128 {
                let [a, b] = Self::unpack(group);
                i128::from(Magnitude::magnitude(a)) + i128::from(Magnitude::magnitude(b))
            }
        }
    )*};
}

magnitudes! {
    i64: |element| element.unsigned_abs();
    u64: |element| element;
}

pub(super) type L1Norm<T> = Unrolled<L1NormOf<T>>;
pub(super) struct L1NormOf<T>(PhantomData<T>);

impl<T: Magnitude> Reduction for L1NormOf<T> {
    type Element = T;
    type Partial = i128;
    type Output = f64;
    combined_by!(Sum);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> i128 {
        element.magnitude().into()
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> i128 {
        T::magnitudes(vector)
    }

    #[inline(always)]
    fn finish(sum: i128) -> f64 {
        nearest(sum.cast_unsigned())
    }

    written_as!(Double<T>: |sum, arguments| (Self::finish(sum), count(arguments)));
}

pub(super) struct ExactSpread<T>(PhantomData<T>);

impl<T: Exact> Reduction for ExactSpread<T> {
    type Element = T;
    type Partial = (u64, T::Sum, T::Squares);
    type Output = [f64; 2];
    combined_by!((Sum, Sum, T::AddSquares));
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let (sum, squares) = element.sums();
        (1, sum, squares)
    }

    #[inline(always)]
    fn finish((count, sum, squares): Self::Partial) -> [f64; 2] {
        output(T::moments(count, sum, squares))
    }

    written_as!(MeanVariance<T>: |(count, sum, squares), _arguments| {
        (output(T::moments(count, sum, squares)), count)
    });
}

impl<T: Exact> VectorReduction for ExactSpread<T> {
    type Accumulator = Self::Partial;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Self::IDENTITY
    }

    /// Uses one accumulator: only integer additions depend on its value, and their latency is short.
    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, _chain: usize, vector: Vector, _index: u64) {
        let (sum, squares) = T::group_sums(vector);
        *kept = Self::combine(*kept, (<Self as VectorReduction>::LANES, sum, squares));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept
    }
}

pub(super) trait Binned:
    Floats<In = Self::Number> + Unpacked<Total = Self::Number, Terms: Terms<Self::Number>>
{
    type Number: MaybeNan;
    type Moments: Moments<Term = Self::Number>;
}

macro_rules! binned {
    ($($ty:ident in $number:ident, $sums:ident;)*) => {$(
        impl Binned for $ty {
            type Number = $number;
            type Moments = $sums;
        }
    )*};
}

binned! {
    F16 in f32, OfHalves;
    Bf16 in f32, OfBfloats;
    f32 in f32, OfSingles;
    f64 in f64, OfDoubles;
}

#[derive(Clone, Copy)]
pub(super) struct MergeCounted;

impl<S: Sums> Operation<(u64, Partial<S>)> for MergeCounted {
    const IDENTITY: (u64, Partial<S>) = (0, Partial::ZERO);

    #[inline(always)]
    fn combine(a: (u64, Partial<S>), b: (u64, Partial<S>)) -> (u64, Partial<S>) {
        (a.0 + b.0, a.1.plus(b.1))
    }

    #[inline(always)]
    unsafe fn combine_warp((count, sums): (u64, Partial<S>), members: u32) -> Option<(u64, Partial<S>)> {
        // SAFETY: the caller guarantees that the lanes in `members` call this together.
        unsafe { Some((Sum::combine_warp(count, members)?, Merge::combine_warp(sums, members)?)) }
    }
}

/// A statistic computed from the number of elements and the [binned](warpfold_abi::binned) sum of their
/// terms.
pub(super) trait BinnedStatistic<T: Unpacked>: 'static {
    type Sums: Sums<Term = T::Total>;
    type Forms: Forms<T>;
    fn term(number: T::Total) -> T::Total;
    fn finish(count: u64, sums: Partial<Self::Sums>) -> <Self::Forms as Forms<T>>::Output;
}

pub(super) struct CountedBins<T, W, S>(PhantomData<(T, W, S)>);

impl<T, W, S> CountedBins<T, W, S>
where
    T: Unpacked<Total: Float + MaybeNan>,
    W: NanFilter,
    S: BinnedStatistic<T>,
{
    /// Returns 1 and the element's term if the filter `W` counts the element, otherwise zeros.
    #[inline(always)]
    fn counted(element: T) -> (u64, T::Total) {
        let number = element.term();
        if W::counts(number) { (1, S::term(number)) } else { (0, Float::ZERO) }
    }
}

impl<T, W, S> Reduction for CountedBins<T, W, S>
where
    T: Unpacked<Total: Float + MaybeNan>,
    W: NanFilter,
    S: BinnedStatistic<T>,
{
    type Element = T;
    type Partial = (u64, Partial<S::Sums>);
    type Output = <S::Forms as Forms<T>>::Output;
    combined_by!(MergeCounted);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        let (count, term) = Self::counted(element);
        (count, Partial::of(term))
    }

    #[inline(always)]
    fn finish((count, sums): Self::Partial) -> Self::Output {
        S::finish(count, sums)
    }

    written_as!(S::Forms: |(count, sums), _arguments| (S::finish(count, sums), count));
}

impl<T, W, S> VectorReduction for CountedBins<T, W, S>
where
    T: Unpacked<Total: Float + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    W: NanFilter,
    S: BinnedStatistic<T>,
{
    type Accumulator = (u64, Running<S::Sums>);
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        (0, Running::new())
    }

    /// Uses one accumulator: only integer additions depend on its value, and their latency is short.
    #[inline(always)]
    fn accumulate((count, kept): &mut Self::Accumulator, _chain: usize, vector: Vector, _index: u64) {
        *count += u64::from(W::add(kept, T::terms(vector, S::term)));
    }

    #[inline(always)]
    fn close((count, kept): Self::Accumulator) -> Self::Partial {
        (count, kept.close())
    }

    #[inline(always)]
    fn accumulate_one((count, kept): &mut Self::Partial, element: T, _index: u64) {
        let (counted, term) = Self::counted(element);
        *count += counted;
        kept.add(term);
    }
}

pub(super) struct FromMoments;
pub(super) type BinnedSpread<T> = CountedBins<T, All, FromMoments>;
pub(super) type NanBinnedSpread<T> = CountedBins<T, Numbers, FromMoments>;

impl<T: Binned> BinnedStatistic<T> for FromMoments {
    type Sums = T::Moments;
    type Forms = MeanVariance<T>;

    #[inline(always)]
    fn term(number: T::Number) -> T::Number {
        number
    }

    #[inline(always)]
    fn finish(count: u64, sums: Partial<T::Moments>) -> [f64; 2] {
        output(sums.moments(count))
    }
}
