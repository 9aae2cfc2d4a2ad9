//! Reproducible sums of floats: the bits of a result do not depend on the order of the elements.

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
    real::MaybeNan,
    skip_nan::{All, NanFilter, Numbers},
};

/// The [binned](warpfold_abi::binned) sum of the terms that `M` computes from the elements, each rounded
/// to the type of the sum. A NaN that the filter `W` does not skip makes the sum NaN.
pub(super) struct BinnedSumOf<T, M, W = All, E = Rounded>(PhantomData<(T, M, W, E)>);
pub(super) type BinnedSum<T> = BinnedSumOf<T, Itself>;
pub(super) type BinnedSumSq<T> = BinnedSumOf<T, Square>;
pub(super) type BinnedSumAbs<T> = BinnedSumOf<T, Magnitude>;
pub(super) type NanBinnedSum<T> = BinnedSumOf<T, Itself, Numbers>;
pub(super) type NanBinnedSumSq<T> = BinnedSumOf<T, Square, Numbers>;
pub(super) type NanBinnedSumAbs<T> = BinnedSumOf<T, Magnitude, Numbers>;

pub(super) trait Binned: Float + Number {
    /// The words of a sum, followed by a zero word to make their number even.
    type Words: Copy + 'static;
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

/// The output format of a binned sum.
pub(super) trait BinnedOutput<S: Binned>: 'static {
    type Output: Copy + 'static;
    type Counted: Copy + 'static;
    fn finish(sum: Partial<S>) -> Self::Output;
    fn finish_counted(count: u64, sum: Partial<S>) -> Self::Counted;
}

pub(super) struct Rounded;
/// The words of the sum as output, for addition across devices.
pub(super) struct Part;

impl<S: Binned> BinnedOutput<S> for Rounded {
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

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CountedWords<W> {
    count: u64,
    words: W,
}

impl<S: Binned> BinnedOutput<S> for Part {
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
    E: BinnedOutput<T::Total>,
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
    E: BinnedOutput<T::Total>,
{
    type Accumulator = Running<T::Total>;
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Running::new()
    }

    /// Uses one accumulator: only integer additions depend on its value, and their latency is short.
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

pub(super) struct BinnedSumOfPairs<T, M, E>(PhantomData<(T, M, E)>);
pub(super) type BinnedDot<T> = BinnedSumOfPairs<T, Times, Rounded>;
pub(super) type BinnedSquaredDistance<T> = BinnedSumOfPairs<T, DistanceSquared, Rounded>;
pub(super) type BinnedDotPart<T> = BinnedSumOfPairs<T, Times, Part>;
pub(super) type BinnedSquaredDistancePart<T> = BinnedSumOfPairs<T, DistanceSquared, Part>;

impl<T, M, E> PairReduction for BinnedSumOfPairs<T, M, E>
where
    T: Unpacked<Total: Binned + MaybeNan, Terms: Terms<<T as Unpacked>::Total>>,
    M: PairTerm,
    E: BinnedOutput<T::Total>,
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
