//! Operations: what a thread keeps, and how 16 bytes go into it.

use core::marker::PhantomData;

use warpfold_abi::{arguments::ReduceCut, reducer::OUTPUT_BYTES};
use warpfold_device::{
    op::{self, Number, Operation},
    reduction::{CHAINS, Fold, Group, Located, NOWHERE, write_located},
    thread::Few,
};

use super::item::{Item, Ordered};

/// What of an element is added up.
pub(super) trait Term: 'static {
    /// Of a number that is added.
    fn of_total<N: Number>(total: N) -> N;
    /// Of one element.
    #[inline(always)]
    fn of<T: Item>(element: T) -> T::Total {
        Self::of_total(element.total())
    }
    /// The sum over a group; of zeros, zero.
    fn of_group<T: Item>(group: Group) -> T::Total;
}

/// The element itself.
pub(super) struct Itself;
/// Its square.
pub(super) struct Square;

impl Term for Itself {
    #[inline(always)]
    fn of_total<N: Number>(total: N) -> N {
        total
    }

    #[inline(always)]
    fn of_group<T: Item>(group: Group) -> T::Total {
        T::sum(group)
    }
}

impl Term for Square {
    #[inline(always)]
    fn of_total<N: Number>(total: N) -> N {
        total.square()
    }

    #[inline(always)]
    fn of_group<T: Item>(group: Group) -> T::Total {
        T::sum_squares(group)
    }
}

/// Its magnitude.
pub(super) struct Magnitude;

impl Term for Magnitude {
    #[inline(always)]
    fn of_total<N: Number>(total: N) -> N {
        total.magnitude()
    }

    #[inline(always)]
    fn of_group<T: Item>(group: Group) -> T::Total {
        T::sum_magnitudes(group)
    }
}

/// The sum of the elements' terms.
pub(super) struct SumOf<T, M>(PhantomData<(T, M)>);
/// The sum of the elements.
pub(super) type Sum<T> = SumOf<T, Itself>;
/// The sum of the elements' squares.
pub(super) type SumSq<T> = SumOf<T, Square>;
/// The sum of the elements' magnitudes.
pub(super) type SumAbs<T> = SumOf<T, Magnitude>;

impl<T: Item, M: Term> Fold for SumOf<T, M> {
    type Element = T;
    type Accumulator = [T::Total; CHAINS];
    type Partial = T::Total;
    type Combine = op::Sum;
    const COMBINE: op::Sum = op::Sum;
    const RESULT_BYTES: u64 = size_of::<T::Total>() as u64;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [T::Total::ZERO; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        kept[chain] = kept[chain].add(M::of_group::<T>(group));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> T::Total {
        a.add(b).add(c.add(d))
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> T::Total {
        M::of(element)
    }

    #[inline(always)]
    unsafe fn write(total: T::Total, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = total };
    }
}

/// The product of the elements.
pub(super) struct Product<T>(PhantomData<T>);

impl<T: Item> Fold for Product<T> {
    type Element = T;
    type Accumulator = [T::Total; CHAINS];
    type Partial = T::Total;
    type Combine = op::Product;
    const COMBINE: op::Product = op::Product;
    const RESULT_BYTES: u64 = size_of::<T::Total>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [T::Total::ONE; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        kept[chain] = kept[chain].multiply(T::product(group));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> T::Total {
        kept.in_pairs(Number::multiply)
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> T::Total {
        element.total()
    }

    #[inline(always)]
    unsafe fn write(product: T::Total, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = product };
    }
}

/// How many elements are not zero.
pub(super) struct NonZero<T>(PhantomData<T>);

impl<T: Item> Fold for NonZero<T> {
    type Element = T;
    type Accumulator = [u64; CHAINS];
    type Partial = u64;
    type Combine = op::Sum;
    const COMBINE: op::Sum = op::Sum;
    const RESULT_BYTES: u64 = size_of::<u64>() as u64;
    const TAKES_ZEROS: bool = true;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [0; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        kept[chain] += u64::from(T::count_nonzero(group));
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> u64 {
        kept.in_pairs(Number::add)
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> u64 {
        element.is_nonzero().into()
    }

    #[inline(always)]
    unsafe fn write(count: u64, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output = count };
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
pub(super) struct ExtremeOf<T, E>(PhantomData<(T, E)>);
/// The smallest element; NaN if there is one.
pub(super) type Min<T> = ExtremeOf<T, op::Min>;
/// The largest element; NaN if there is one.
pub(super) type Max<T> = ExtremeOf<T, op::Max>;

impl<T: Item, E: Extreme<T::Wide>> Fold for ExtremeOf<T, E> {
    type Element = T;
    type Accumulator = [T::Wide; CHAINS];
    type Partial = T::Wide;
    type Combine = E;
    const COMBINE: E = E::OP;
    const RESULT_BYTES: u64 = size_of::<T>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [E::IDENTITY; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        kept[chain] = E::combine(kept[chain], T::extreme::<E>(group));
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Accumulator) -> T::Wide {
        E::combine(E::combine(a, b), E::combine(c, d))
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> T::Wide {
        element.wide()
    }

    #[inline(always)]
    unsafe fn write(wide: T::Wide, arguments: ReduceCut<T>) {
        // SAFETY: the caller's contract.
        unsafe { *arguments.output.cast() = T::narrow(wide) };
    }
}

/// The smallest element and the largest one; NaN both if there is one.
pub(super) struct MinMax<T>(PhantomData<T>);

impl<T: Item> Fold for MinMax<T> {
    type Element = T;
    type Accumulator = [(T::Wide, T::Wide); CHAINS];
    type Partial = (T::Wide, T::Wide);
    type Combine = (op::Min, op::Max);
    const COMBINE: Self::Combine = (op::Min, op::Max);
    const RESULT_BYTES: u64 = 2 * size_of::<T>() as u64;
    const TAKES_ZEROS: bool = false;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        [Self::Combine::IDENTITY; CHAINS]
    }

    #[inline(always)]
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
        let both = (T::extreme::<op::Min>(group), T::extreme::<op::Max>(group));
        kept[chain] = Self::Combine::combine(kept[chain], both);
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        kept.in_pairs(Self::Combine::combine)
    }

    #[inline(always)]
    fn of(element: T, _index: u64) -> Self::Partial {
        (element.wide(), element.wide())
    }

    #[inline(always)]
    unsafe fn write((least, greatest): Self::Partial, arguments: ReduceCut<T>) {
        let output = arguments.output.cast();
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
