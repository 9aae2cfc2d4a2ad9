//! Sums of floats that have the same bits wherever they are made.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::binned::{Float, Partial, Running, Terms};
use warpfold_device::{
    Value,
    binned::Merge,
    combined_by,
    op::Number,
    reduction::{PairReduction, Reduction, Vector, VectorReduction},
    thread::Few,
};

use super::{
    item::Unpacked,
    means::SumAndMean,
    op::{Itself, Magnitude, Square, Term},
    pairs::{DistanceSquared, PairTerm, Times},
    skip_nan::{All, MaybeNan, NanFilter, Numbers},
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

/// A type that binned sums are rounded to.
pub(super) trait Binned: Float + Number {
    /// The words of a sum, and zero: an even number.
    type Words: Copy + 'static;
    /// Returns them.
    fn words(sum: Partial<Self>) -> Self::Words;
}

macro_rules! binned {
    ($($ty:ident)*) => {$(
        impl Binned for $ty {
            type Words = [u32; Partial::<$ty>::WORDS as usize + 1];

            #[inline(always)]
            fn words(sum: Partial<$ty>) -> Self::Words {
                const { assert!(Partial::<$ty>::WORDS % 2 == 1) };
                let (mut words, mut at) = ([0; Partial::<$ty>::WORDS as usize + 1], 0);
                sum.give(&mut |word| {
                    words[at] = word;
                    at += 1;
                });
                words
            }
        }
    )*};
}

binned!(f32 f64);

/// What is written of a binned sum.
pub(super) trait Ending<S: Binned>: 'static {
    /// The result.
    type Output: Copy + 'static;
    /// The result of elements that are counted.
    type Counted: Copy + 'static;
    /// Returns the result.
    fn finish(sum: Partial<S>) -> Self::Output;
    /// Returns the result of elements that are counted.
    fn finish_counted(count: u64, sum: Partial<S>) -> Self::Counted;
}

/// The nearest number to the sum is written.
pub(super) struct Rounded;
/// The words of the sum are written, for those of other devices to be added to it.
pub(super) struct Part;

impl<S: Binned> Ending<S> for Rounded {
    type Output = S;
    type Counted = SumAndMean;

    #[inline(always)]
    fn finish(sum: Partial<S>) -> S {
        sum.sum()
    }

    #[inline(always)]
    fn finish_counted(count: u64, sum: Partial<S>) -> SumAndMean {
        SumAndMean::new(count, sum.sum(), sum.wide().to_bits(), sum.mean(count))
    }
}

/// A number of elements, and the words of their sum.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CountedWords<W> {
    count: u64,
    words: W,
}

impl<S: Binned> Ending<S> for Part {
    type Output = S::Words;
    type Counted = CountedWords<S::Words>;

    #[inline(always)]
    fn finish(sum: Partial<S>) -> S::Words {
        S::words(sum)
    }

    #[inline(always)]
    fn finish_counted(count: u64, sum: Partial<S>) -> CountedWords<S::Words> {
        CountedWords { count, words: S::words(sum) }
    }
}

impl<T, M, W, E> Reduction for BinnedSumOf<T, M, W, E>
where
    T: Unpacked<Total: Binned + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: Term<T::Total>,
    W: NanFilter,
    E: Ending<T::Total>,
{
    type Element = T;
    type Partial = Partial<T::Total>;
    type Output = E::Output;
    combined_by!(Merge);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        Partial::of(M::of(W::term(element.term())))
    }

    #[inline(always)]
    fn finish(sum: Self::Partial) -> E::Output {
        E::finish(sum)
    }
}

impl<T, M, W, E> VectorReduction for BinnedSumOf<T, M, W, E>
where
    T: Unpacked<Total: Binned + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: Term<T::Total>,
    W: NanFilter,
    E: Ending<T::Total>,
{
    type Accumulator = Running<T::Total>;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Running::new()
    }

    /// In one chain, as what waits for the terms before is integer additions alone.
    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, _chain: usize, vector: Vector, _index: u64) {
        W::add(kept, T::terms(vector, M::of));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.close()
    }

    #[inline(always)]
    fn accumulate_one(kept: &mut Self::Partial, element: T, _index: u64) {
        kept.add(M::of(W::term(element.term())));
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

impl<T, M, E> PairReduction for BinnedSumOfPairs<T, M, E>
where
    T: Unpacked<Total: Binned + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: PairTerm,
    E: Ending<T::Total>,
{
    type Reduction = BinnedSumOf<T, Itself, All, E>;

    #[inline(always)]
    fn accumulate(kept: &mut Running<T::Total>, _chain: usize, first: Vector, second: Vector) {
        let (first, second) = (T::terms(first, identity), T::terms(second, identity));
        kept.add(first.zipped(second, M::of));
    }

    #[inline(always)]
    fn map(first: T, second: T) -> Partial<T::Total> {
        Partial::of(M::of(first.term(), second.term()))
    }
}
