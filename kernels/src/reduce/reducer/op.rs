//! Sums, products, counts, extremes and their positions.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::arguments::ReduceCut;
use warpfold_device::{
    combined_by,
    op::{self, Number, Operation},
    reduction::{
        Located, NOWHERE, Reduction, Span, Unrolled, Vector, VectorReduction, count, located, span,
    },
};

use super::{
    form::{Count, Ends, Forms, Place, written_as},
    item::{Item, Ordered},
};

/// A map from numbers to the terms of a sum.
pub(super) trait Term<N>: 'static {
    fn of(number: N) -> N;
}

pub(super) trait TermOf<T: Item>: Term<T::Total> {
    /// Returns the sum of a vector's terms, which is zero for a vector of zeros.
    fn of_group(group: Vector) -> T::Total;
}

macro_rules! terms {
    ($($(#[$attr:meta])* $Name:ident: $of:expr, $of_group:ident;)*) => {$(
        $(#[$attr])*
        pub(super) struct $Name;

        impl<N: Number> Term<N> for $Name {
            #[inline(always)]
            fn of(number: N) -> N {
                $of(number)
            }
        }

        impl<T: Item> TermOf<T> for $Name {
            #[inline(always)]
            fn of_group(group: Vector) -> T::Total {
                T::$of_group(group)
            }
        }
    )*};
}

terms! {
    Itself: identity, sum;
    Square: Number::square, sum_squares;
    Magnitude: Number::magnitude, sum_magnitudes;
}

pub(super) struct SumOf<T, M>(PhantomData<(T, M)>);
pub(super) type Sum<T> = Unrolled<SumOf<T, Itself>>;
pub(super) type SumSq<T> = Unrolled<SumOf<T, Square>>;
pub(super) type SumAbs<T> = Unrolled<SumOf<T, Magnitude>>;

impl<T: Item, M: TermOf<T>> Reduction for SumOf<T, M> {
    type Element = T;
    type Partial = T::Total;
    type Output = T::Total;
    combined_by!(op::Sum);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Total {
        M::of(element.total())
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> T::Total {
        M::of_group(vector)
    }

    #[inline(always)]
    fn finish(sum: T::Total) -> T::Total {
        sum
    }
}

pub(super) trait Counted<T>: 'static {
    fn counts(element: T) -> bool;
    /// Returns the number of a vector's elements that are counted, which is 0 for a vector of zeros.
    fn of_group(group: Vector) -> u64;
}

pub(super) struct CountOf<T, C>(PhantomData<(T, C)>);

impl<T: Copy + 'static, C: Counted<T>> Reduction for CountOf<T, C> {
    type Element = T;
    type Partial = u64;
    type Output = u64;
    combined_by!(op::Sum);
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(element: T, _index: u64) -> u64 {
        C::counts(element).into()
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> u64 {
        C::of_group(vector)
    }

    #[inline(always)]
    fn finish(count: u64) -> u64 {
        count
    }

    written_as!(Count: |found, _arguments| (found, found));
}

pub(super) struct IsNonZero;
pub(super) type NonZero<T> = Unrolled<CountOf<T, IsNonZero>>;

impl<T: Item> Counted<T> for IsNonZero {
    #[inline(always)]
    fn counts(element: T) -> bool {
        element.is_nonzero()
    }

    #[inline(always)]
    fn of_group(group: Vector) -> u64 {
        T::count_nonzero(group).into()
    }
}

pub(super) type Product<T> = Unrolled<ProductOf<T>>;
pub(super) struct ProductOf<T>(PhantomData<T>);

impl<T: Item> Reduction for ProductOf<T> {
    type Element = T;
    type Partial = T::Total;
    type Output = T::Total;
    combined_by!(op::Product);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Total {
        element.total()
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> T::Total {
        T::product(vector)
    }

    #[inline(always)]
    fn finish(product: T::Total) -> T::Total {
        product
    }
}

/// A minimum or maximum of values of type [`Item::Wide`]. With `op::Min` and `op::Max`, NaN beats all
/// numbers.
pub(super) trait Extreme<A: Ordered>: Operation<A> + 'static {
    /// Returns whether `a` replaces `b` as the extreme.
    fn beats(a: A, b: A) -> bool;
}

impl<A: Ordered> Extreme<A> for op::Min {
    #[inline(always)]
    fn beats(a: A, b: A) -> bool {
        a.below(b)
    }
}

impl<A: Ordered> Extreme<A> for op::Max {
    #[inline(always)]
    fn beats(a: A, b: A) -> bool {
        a.above(b)
    }
}

pub(super) struct ExtremeOf<T, E>(PhantomData<(T, E)>);
pub(super) type Min<T> = Unrolled<ExtremeOf<T, op::Min>>;
pub(super) type Max<T> = Unrolled<ExtremeOf<T, op::Max>>;

impl<T: Item, E: Extreme<T::Wide>> Reduction for ExtremeOf<T, E> {
    type Element = T;
    type Partial = T::Wide;
    type Output = T;
    combined_by!(E);
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> T::Wide {
        element.wide()
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> T::Wide {
        T::extreme::<E>(vector)
    }

    #[inline(always)]
    fn finish(wide: T::Wide) -> T {
        T::narrow(wide)
    }
}

pub(super) struct MinMaxOf<T, L, G>(PhantomData<(T, L, G)>);
pub(super) type MinMax<T> = Unrolled<MinMaxOf<T, op::Min, op::Max>>;

impl<T: Item, L: Extreme<T::Wide>, G: Extreme<T::Wide>> Reduction for MinMaxOf<T, L, G> {
    type Element = T;
    type Partial = (T::Wide, T::Wide);
    type Output = [T; 2];
    combined_by!((L, G));
    const INDEXED: bool = false;

    #[inline(always)]
    fn map(element: T, _index: u64) -> Self::Partial {
        (element.wide(), element.wide())
    }

    #[inline(always)]
    fn map_vector(vector: Vector, _index: u64) -> Self::Partial {
        (T::extreme::<L>(vector), T::extreme::<G>(vector))
    }

    #[inline(always)]
    fn finish((least, greatest): Self::Partial) -> [T; 2] {
        [T::narrow(least), T::narrow(greatest)]
    }

    // If all elements are skipped, the extremes are NaN.
    written_as!(Ends<T>: |ends, arguments| {
        let skips_nan = L::IDENTITY.to_f64().is_nan();
        let is_none = skips_nan && ends.0.to_f64().is_nan();
        (Self::finish(ends), if is_none { 0 } else { count(arguments) })
    });
}

/// The index of the first most extreme element, and that element.
///
/// If [`Item::LOCATES`] is `false`, the loading loop keeps a vector's extreme with the index of the
/// vector's first element. The lane is looked up once, after the loop.
pub(super) struct ArgExtremeOf<T, E>(PhantomData<(T, E)>);
pub(super) type ArgMin<T> = ArgExtremeOf<T, op::Min>;
pub(super) type ArgMax<T> = ArgExtremeOf<T, op::Max>;

/// The operation that selects the more extreme of two located values, or the first of equal ones.
#[derive(Clone, Copy)]
pub(super) struct First<E>(PhantomData<E>);

impl<A: Ordered, E: Extreme<A>> Operation<Located<A>> for First<E> {
    const IDENTITY: Located<A> = Located { value: E::IDENTITY, index: NOWHERE };

    #[inline(always)]
    fn combine(a: Located<A>, b: Located<A>) -> Located<A> {
        let later = a.index > b.index;
        if E::beats(b.value, a.value) || (later && !E::beats(a.value, b.value)) { b } else { a }
    }
}

impl<T: Item, E: Extreme<T::Wide>> Reduction for ArgExtremeOf<T, E> {
    type Element = T;
    type Partial = Located<T::Wide>;
    type Output = [u64; 2];
    combined_by!(First<E>);

    #[inline(always)]
    fn map(element: T, index: u64) -> Self::Partial {
        Located { value: element.wide(), index }
    }

    #[inline(always)]
    fn finish(partial: Self::Partial) -> [u64; 2] {
        // SAFETY: elements are numbers, which have no padding.
        unsafe { located(partial.index, T::narrow(partial.value)) }
    }

    const HAS_FORMS: bool = true;

    #[inline(always)]
    fn output_bytes(form: u64) -> u64 {
        <Place as Forms<T>>::bytes(form)
    }

    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the conditions are those of `write_apart`.
        unsafe { Self::write_apart(partial, arguments, |index| span(arguments, index)) };
    }
}

impl<T: Item, E: Extreme<T::Wide>> VectorReduction for ArgExtremeOf<T, E> {
    type Accumulator = Located<T::Wide>;
    type Continued = Self;
    const RELOADS_INPUT: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Self::IDENTITY
    }

    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, _chain: usize, vector: Vector, index: u64) {
        let (value, lane) = T::first_extreme::<E>(vector);
        // Indices ascend, so the first of equal values stays. An empty accumulator is replaced even by a
        // value that equals the identity.
        if E::beats(value, kept.value) || kept.index == NOWHERE {
            *kept = Located { value, index: index + lane };
        }
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept
    }

    #[inline(always)]
    fn accumulate_one(kept: &mut Self::Partial, element: T, index: u64) {
        let value = element.wide();
        if E::beats(value, kept.value) || kept.index == NOWHERE {
            *kept = Located { value, index };
        }
    }

    #[inline(always)]
    unsafe fn write_apart(
        partial: Self::Partial,
        arguments: ReduceCut<T>,
        span_of: impl Fn(u64) -> Span<T>,
    ) {
        // SAFETY: the caller guarantees room for two words at a multiple of 8, and that the elements to
        // which `partial` refers are readable; elements are numbers, which have no padding.
        unsafe {
            // An empty input has nothing to look up.
            if T::LOCATES || partial.index == NOWHERE {
                return Place::write(Self::finish(partial), 0, arguments);
            }
            // Reload the element: a zero may have the other sign in `partial`, and a NaN has lost its
            // payload.
            let Span { first, len } = span_of(partial.index);
            let lane = first_lane(partial, first, len);
            let place = located(partial.index + lane, *first.add(lane as usize));
            Place::write(place, 0, arguments);
        }
    }
}

/// Returns the distance from `first` to the element that `partial` was computed from: the first equal
/// one of `lanes` elements.
///
/// # Safety
/// The elements are readable.
#[inline(always)]
unsafe fn first_lane<T: Item>(partial: Located<T::Wide>, first: *const T, lanes: u64) -> u64 {
    let (mut found, mut lane) = (0, lanes);
    // The loop runs backwards, so that the first match remains and no load waits for another.
    while lane > 0 {
        lane -= 1;
        // SAFETY: the elements are readable, as the caller guarantees.
        if unsafe { *first.add(lane as usize) }.wide().same(partial.value) {
            found = lane;
        }
    }
    found
}
