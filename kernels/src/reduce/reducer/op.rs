//! Operations: what a thread keeps, and how 16 bytes go into it.

use core::{convert::identity, marker::PhantomData};

use warpfold_abi::{arguments::ReduceCut, reducer::OUTPUT_BYTES};
use warpfold_device::{
    Value,
    op::{self, Number, Operation},
    reduction::{CHAINS, Fold, Group, Located, NOWHERE, write_located},
};

use super::item::{Item, Ordered};

/// What is made of each element, and of each group, and how two of those become one.
pub(super) trait Each<T>: 'static {
    /// What is made of elements.
    type Partial: Value;
    /// How two of those become one.
    type Combine: Operation<Self::Partial>;
    /// The operation as a value.
    const COMBINE: Self::Combine;
    /// Bytes of a result.
    const RESULT_BYTES: u64 = size_of::<Self::Partial>() as u64;
    /// Whether a group of zeros changes nothing.
    const TAKES_ZEROS: bool;
    /// What is made of one element.
    fn of(element: T) -> Self::Partial;
    /// What is made of a group.
    fn of_group(group: Group) -> Self::Partial;
    /// Of what a thread has made of groups.
    #[inline(always)]
    fn close(partial: Self::Partial) -> Self::Partial {
        partial
    }
    /// Writes the result.
    ///
    /// # Safety
    /// There are [`RESULT_BYTES`](Self::RESULT_BYTES) to be written, a whole number of results behind a
    /// multiple of 8.
    #[inline(always)]
    unsafe fn write(result: Self::Partial, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe { *output.cast() = result };
    }
}

/// What is made of all elements, a group at a time, in chains that do not wait for each other.
pub(super) struct InChains<T, E>(PhantomData<(T, E)>);

impl<T: Copy + 'static, E: Each<T>> Fold for InChains<T, E> {
    type Element = T;
    type Accumulator = [E::Partial; CHAINS];
    type Partial = E::Partial;
    type Combine = E::Combine;
    type Continued = Self;
    const COMBINE: E::Combine = E::COMBINE;
    const RESULT_BYTES: u64 = E::RESULT_BYTES;
    const TAKES_ZEROS: bool = E::TAKES_ZEROS;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [E::Combine::IDENTITY; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        kept[chain] = E::Combine::combine(kept[chain], E::of_group(group));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> E::Partial {
        E::close(E::Combine::combine(E::Combine::combine(a, b), E::Combine::combine(c, d)))
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> E::Partial {
        E::of(element)
    }

    #[inline(always)]
    unsafe fn write(result: E::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { E::write(result, arguments.output) };
    }
}

/// What of a number is added up.
pub(super) trait Term<N>: 'static {
    /// What of a number is added up.
    fn of(number: N) -> N;
}

/// What of an element is added up.
pub(super) trait TermOf<T: Item>: Term<T::Total> {
    /// The sum over a group; of zeros, zero.
    fn of_group(group: Group) -> T::Total;
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
            fn of_group(group: Group) -> T::Total {
                T::$of_group(group)
            }
        }
    )*};
}

terms! {
    /// Adds up the elements themselves.
    Itself: identity, sum;
    /// Adds up the elements' squares.
    Square: Number::square, sum_squares;
    /// Adds up the elements' magnitudes.
    Magnitude: Number::magnitude, sum_magnitudes;
}

/// The sum of the elements' terms.
pub(super) struct SumOf<M>(PhantomData<M>);
/// The sum of the elements.
pub(super) type Sum<T> = InChains<T, SumOf<Itself>>;
/// The sum of the elements' squares.
pub(super) type SumSq<T> = InChains<T, SumOf<Square>>;
/// The sum of the elements' magnitudes.
pub(super) type SumAbs<T> = InChains<T, SumOf<Magnitude>>;

impl<T: Item, M: TermOf<T>> Each<T> for SumOf<M> {
    type Partial = T::Total;
    type Combine = op::Sum;
    const COMBINE: op::Sum = op::Sum;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn of(element: T) -> T::Total {
        M::of(element.total())
    }

    #[inline(always)]
    fn of_group(group: Group) -> T::Total {
        M::of_group(group)
    }
}

/// Which elements are counted.
pub(super) trait Counted<T>: 'static {
    /// Whether an element does.
    fn counts(element: T) -> bool;
    /// How many elements of a group do; of zeros, none.
    fn of_group(group: Group) -> u64;
}

/// How many elements count.
pub(super) struct CountOf<C>(PhantomData<C>);

impl<T, C: Counted<T>> Each<T> for CountOf<C> {
    type Partial = u64;
    type Combine = op::Sum;
    const COMBINE: op::Sum = op::Sum;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn of(element: T) -> u64 {
        C::counts(element).into()
    }

    #[inline(always)]
    fn of_group(group: Group) -> u64 {
        C::of_group(group)
    }
}

/// What is not zero.
pub(super) struct IsNonZero;
/// How many elements are not zero.
pub(super) type NonZero<T> = InChains<T, CountOf<IsNonZero>>;

impl<T: Item> Counted<T> for IsNonZero {
    #[inline(always)]
    fn counts(element: T) -> bool {
        element.is_nonzero()
    }

    #[inline(always)]
    fn of_group(group: Group) -> u64 {
        T::count_nonzero(group).into()
    }
}

/// The product of the elements.
pub(super) type Product<T> = InChains<T, ProductOfAll>;
/// The same, of what each element is.
pub(super) struct ProductOfAll;

impl<T: Item> Each<T> for ProductOfAll {
    type Partial = T::Total;
    type Combine = op::Product;
    const COMBINE: op::Product = op::Product;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn of(element: T) -> T::Total {
        element.total()
    }

    #[inline(always)]
    fn of_group(group: Group) -> T::Total {
        T::product(group)
    }
}

/// Which extreme is looked for, among values that elements are compared in.
pub(super) trait Extreme<A: Ordered>: Operation<A> + 'static {
    /// The operation as a value.
    const OP: Self;
    /// Whether `a` takes the place of `b`.
    fn beats(a: A, b: A) -> bool;
}

impl<A: Ordered> Extreme<A> for op::Min {
    const OP: Self = Self;

    #[inline(always)]
    fn beats(a: A, b: A) -> bool {
        a.below(b)
    }
}

impl<A: Ordered> Extreme<A> for op::Max {
    const OP: Self = Self;

    #[inline(always)]
    fn beats(a: A, b: A) -> bool {
        a.above(b)
    }
}

/// The most extreme element.
pub(super) struct ExtremeOf<E>(PhantomData<E>);
/// The smallest element; NaN if there is one.
pub(super) type Min<T> = InChains<T, ExtremeOf<op::Min>>;
/// The largest element; NaN if there is one.
pub(super) type Max<T> = InChains<T, ExtremeOf<op::Max>>;

impl<T: Item, E: Extreme<T::Wide>> Each<T> for ExtremeOf<E> {
    type Partial = T::Wide;
    type Combine = E;
    const COMBINE: E = E::OP;
    const RESULT_BYTES: u64 = size_of::<T>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn of(element: T) -> T::Wide {
        element.wide()
    }

    #[inline(always)]
    fn of_group(group: Group) -> T::Wide {
        T::extreme::<E>(group)
    }

    #[inline(always)]
    unsafe fn write(wide: T::Wide, output: *mut u64) {
        // SAFETY: the caller's contract.
        unsafe { *output.cast() = T::narrow(wide) };
    }
}

/// Two extremes, one behind the other.
pub(super) struct EndsOf<L, G>(PhantomData<(L, G)>);
/// The smallest element and the largest one; NaN both if there is one.
pub(super) type MinMax<T> = InChains<T, EndsOf<op::Min, op::Max>>;

impl<T: Item, L: Extreme<T::Wide>, G: Extreme<T::Wide>> Each<T> for EndsOf<L, G> {
    type Partial = (T::Wide, T::Wide);
    type Combine = (L, G);
    const COMBINE: (L, G) = (L::OP, G::OP);
    const RESULT_BYTES: u64 = 2 * size_of::<T>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn of(element: T) -> Self::Partial {
        (element.wide(), element.wide())
    }

    #[inline(always)]
    fn of_group(group: Group) -> Self::Partial {
        (T::extreme::<L>(group), T::extreme::<G>(group))
    }

    #[inline(always)]
    unsafe fn write((least, greatest): Self::Partial, output: *mut u64) {
        let output = output.cast();
        // SAFETY: the caller's contract.
        unsafe {
            *output = T::narrow(least);
            *output.add(1) = T::narrow(greatest);
        }
    }
}

/// The place of the first most extreme element, and that element.
///
/// Of types that do not locate, the extreme of a group with the group's place is enough while loading:
/// which of its elements it is is looked up once, for the one group that is left at the end.
pub(super) struct PlaceOf<T, E>(PhantomData<(T, E)>);
/// The place of the first smallest element; of the first NaN if there is one.
pub(super) type ArgMin<T> = PlaceOf<T, op::Min>;
/// The place of the first largest element; of the first NaN if there is one.
pub(super) type ArgMax<T> = PlaceOf<T, op::Max>;

/// The more extreme of two located values; of equals the first.
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

impl<T: Item, E: Extreme<T::Wide>> Fold for PlaceOf<T, E> {
    type Element = T;
    type Accumulator = Located<T::Wide>;
    type Partial = Located<T::Wide>;
    type Combine = First<E>;
    type Continued = Self;
    const COMBINE: First<E> = First(PhantomData);
    const RESULT_BYTES: u64 = OUTPUT_BYTES;
    const TAKES_ZEROS: bool = false;
    const NAMES_ELEMENTS: bool = true;
    const INDEXED: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        Self::Combine::IDENTITY
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, _chain: usize, group: Group, index: u64) {
        let (value, lane) = T::first_extreme::<E>(group);
        // Of equals the first stays; the identity gives way to its equals too.
        if E::beats(value, kept.value) || kept.index == NOWHERE {
            *kept = Located { value, index: index + lane };
        }
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept
    }

    #[inline(always)]
    fn of(element: T, index: u64) -> Self::Partial {
        Located { value: element.wide(), index }
    }

    #[inline(always)]
    fn absorb_one(kept: &mut Self::Partial, element: T, index: u64) {
        // As of groups: the first of equals is there already.
        let value = element.wide();
        if E::beats(value, kept.value) || kept.index == NOWHERE {
            *kept = Located { value, index };
        }
    }

    #[inline(always)]
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { Self::write_apart(partial, arguments, |index| index) };
    }

    #[inline(always)]
    unsafe fn write_apart(
        partial: Self::Partial,
        arguments: ReduceCut<T>,
        place_of: impl Fn(u64) -> u64,
    ) {
        let ReduceCut { input, output, .. } = arguments;
        // SAFETY: the caller's contract; the element begins 8 bytes on.
        unsafe {
            // Of no elements too, there is none to look for.
            if T::LOCATES || partial.index == NOWHERE {
                write_located(output, partial.index, T::narrow(partial.value));
                return;
            }
            // The element itself: of equals -0 may have been kept of +0, and a NaN has lost its payload.
            let first = input.add(place_of(partial.index) as usize);
            let lane = first_lane(partial, arguments, first);
            write_located(output, partial.index + lane, *first.add(lane as usize));
        }
    }
}

/// How far the element that a partial result comes from is behind the `first` one that it names: the
/// first equal one of that one's group, or itself, if it is a single one.
///
/// # Safety
/// The elements that `partial` names are readable from `first` on.
#[inline(always)]
unsafe fn first_lane<T: Item>(
    partial: Located<T::Wide>,
    arguments: ReduceCut<T>,
    first: *const T,
) -> u64 {
    let ReduceCut { head, groups, .. } = arguments;
    // A single element that was part of a piece may have such an index, too, but at no boundary.
    let in_group = partial.index >= head
        && partial.index < head + groups * T::LANES
        && (partial.index - head).is_multiple_of(T::LANES);
    let lanes = if in_group { T::LANES } else { 1 };
    let (mut found, mut lane) = (0, lanes);
    // From the back, so that the first one stays, and no load waits for the one before.
    while lane > 0 {
        lane -= 1;
        // SAFETY: the group lies inside.
        if unsafe { *first.add(lane as usize) }.wide().same(partial.value) {
            found = lane;
        }
    }
    found
}
