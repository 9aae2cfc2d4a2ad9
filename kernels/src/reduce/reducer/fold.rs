//! The six operations: what a thread keeps, and how 16 bytes go into it.

use super::{
    super::{Element, Max, Min, Sum, SumSq},
    item::{Group, Item, Ordered},
    partial::{Located, NOWHERE, Partial},
};

/// Chains of a thread's combinations that do not wait for each other: as many as it has loads under way.
pub(super) const CHAINS: usize = 4;

/// An operation on elements of type `T`.
pub(super) trait Fold<T: Item> {
    /// What a thread keeps while it loads.
    type Accumulator: Copy;
    /// What threads and blocks hand on.
    type Partial: Partial;
    /// What changes nothing when combined.
    const IDENTITY: Self::Partial;
    /// Whether a group of zeros changes nothing, so that it need not be left out.
    const TAKES_ZEROS: bool;
    /// Before the first element.
    fn start() -> Self::Accumulator;
    /// Takes the group that begins at element `index`, larger than those before.
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, index: u64);
    /// After the last element.
    fn close(kept: Self::Accumulator) -> Self::Partial;
    /// Of a single element.
    fn of(element: T, index: u64) -> Self::Partial;
    /// Two partial results into one.
    fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial;
    /// Writes the result of all elements.
    ///
    /// # Safety
    /// `output` has 16 writable bytes, 8-aligned; the elements that `partial` names are readable in `input`.
    unsafe fn write(partial: Self::Partial, input: Input<T>, output: *mut u64);
}

/// The elements, and how they are cut. The host says how: it knows the address, and every instruction in front
/// of the first load costs a small input time.
#[derive(Clone, Copy)]
pub(super) struct Input<T> {
    pub(super) first: *const T,
    /// Elements before the first 16-byte boundary.
    pub(super) head: u64,
    /// Whole groups of 16 bytes from there on.
    pub(super) groups: u64,
    /// Elements before and behind the groups.
    pub(super) singles: u64,
}

macro_rules! values {
    ($($name:ident: $partial:ident, $identity:ident, $zeros:literal, $group:ident, $of:expr, $combine:ident,
       $write:expr;)*) => {$(
        impl<T: Item> Fold<T> for $name {
            type Accumulator = [T::$partial; CHAINS];
            type Partial = T::$partial;
            const IDENTITY: T::$partial = T::$partial::$identity;
            const TAKES_ZEROS: bool = $zeros;
            #[inline(always)]
            fn start() -> Self::Accumulator {
                [T::$partial::$identity; CHAINS]
            }
            #[inline(always)]
            fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, _index: u64) {
                kept[chain] = kept[chain].$combine(T::$group(group));
            }
            #[inline(always)]
            fn close([a, b, c, d]: Self::Accumulator) -> T::$partial {
                a.$combine(b).$combine(c.$combine(d))
            }
            #[inline(always)]
            fn of(element: T, _index: u64) -> T::$partial {
                $of(element)
            }
            #[inline(always)]
            fn combine(a: T::$partial, b: T::$partial) -> T::$partial {
                a.$combine(b)
            }
            #[inline(always)]
            unsafe fn write(partial: T::$partial, _input: Input<T>, output: *mut u64) {
                // SAFETY: the caller's contract; the result has at most 8 bytes.
                unsafe { $write(output, partial) };
            }
        }
    )*};
}

values! {
    Sum: Total, ZERO, true, sum, T::total, add, |output: *mut u64, total| *output.cast() = total;
    SumSq: Total, ZERO, true, sum_squares, |element: T| element.total().square(), add,
        |output: *mut u64, total| *output.cast() = total;
    Min: Wide, LARGEST, false, least, T::wide, least,
        |output: *mut u64, wide| *output.cast() = T::narrow(wide);
    Max: Wide, SMALLEST, false, greatest, T::wide, greatest,
        |output: *mut u64, wide| *output.cast() = T::narrow(wide);
}

/// The place of the first smallest element.
pub(super) struct ArgMin;
/// The place of the first largest element.
pub(super) struct ArgMax;

/// Of types that do not locate, the extreme of a group with the group's place is enough while loading: which of
/// its elements it is is looked up once, for the one group that is left at the end.
macro_rules! places {
    ($($name:ident: $identity:ident, $group:ident, $before:ident;)*) => {$(
        impl<T: Item> Fold<T> for $name
        where
            T::Wide: Ordered,
            Located<T::Wide>: Partial,
        {
            type Accumulator = Located<T::Wide>;
            type Partial = Located<T::Wide>;
            const IDENTITY: Self::Partial = Located { value: T::Wide::$identity, index: NOWHERE };
            const TAKES_ZEROS: bool = false;
            #[inline(always)]
            fn start() -> Self::Accumulator {
                <Self as Fold<T>>::IDENTITY
            }
            #[inline(always)]
            fn absorb(kept: &mut Self::Accumulator, _chain: usize, group: Group, index: u64) {
                let (value, lane) = T::$group(group);
                // Of equals the first stays; the identity gives way to its equals too.
                if value.$before(kept.value) || kept.index == NOWHERE {
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
            fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial {
                let later = a.index > b.index;
                if b.value.$before(a.value) || (later && !a.value.$before(b.value)) { b } else { a }
            }
            #[inline(always)]
            unsafe fn write(partial: Self::Partial, input: Input<T>, output: *mut u64) {
                let index = partial.index;
                // SAFETY: the caller's contract; the element begins 8 bytes on.
                unsafe {
                    if T::LOCATES {
                        *output = index;
                        *output.add(1).cast() = T::narrow(partial.value);
                        return;
                    }
                    // The element itself: of equals -0 may have been kept of +0, and a NaN has lost its payload.
                    let place = place(partial, input);
                    *output = place;
                    *output.add(1).cast() = *input.first.add(place as usize);
                }
            }
        }
    )*};
}

places! {
    ArgMin: LARGEST, first_least, below;
    ArgMax: SMALLEST, first_greatest, above;
}

/// The element that a partial result comes from: the first equal one of its group, or the single one.
///
/// # Safety
/// The elements that `partial` names are readable.
#[inline(always)]
unsafe fn place<T: Item>(partial: Located<T::Wide>, input: Input<T>) -> u64 {
    let in_group = partial.index >= input.head && partial.index < input.head + input.groups * T::LANES;
    let lanes = if in_group { T::LANES } else { 1 };
    let mut place = partial.index;
    let mut lane = lanes;
    // From the back, so that the first one stays, and no load waits for the one before.
    while lane > 0 {
        lane -= 1;
        let index = partial.index + lane;
        // SAFETY: the group lies inside.
        if unsafe { *input.first.add(index as usize) }.wide().same(partial.value) {
            place = index;
        }
    }
    place
}
