//! What the kernels ask of an operation.

use warpfold_abi::{
    arguments::ReduceCut,
    custom::MOST_OUTPUT_BYTES,
    reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT},
};

use crate::{Value, op::Operation};

/// 16 bytes as they are loaded.
pub type Group = [u32; 4];

/// Chains of a thread's combinations that do not wait for each other: as many as it has loads under way.
pub const CHAINS: usize = GROUPS_IN_FLIGHT as usize;

/// Whether elements are loaded in groups of 16 bytes. Others are loaded one by one.
pub const fn in_groups<T>() -> bool {
    warpfold_abi::custom::in_groups(size_of::<T>() as u64)
}

/// Elements of a group; 1 of those that are loaded one by one.
pub const fn lanes<T>() -> u64 {
    if in_groups::<T>() { GROUP_BYTES as u64 / size_of::<T>() as u64 } else { 1 }
}

/// An operation on elements: what a thread keeps, and how 16 bytes go into it.
pub trait Fold: Sized + 'static {
    /// What lies in memory: of 1, 2, 4, 8 or 16 bytes, at a multiple of its size; or of any other size,
    /// at a multiple of its alignment.
    type Element: Copy + 'static;
    /// What a thread keeps while it loads.
    type Accumulator: Copy;
    /// What threads and blocks hand on.
    type Partial: Value;
    /// How two of those become one.
    type Combine: Operation<Self::Partial>;
    /// The fold for launches that each have only some of the elements. Its partial results say how many
    /// those are, if [`write`](Self::write) calls [`count`]; otherwise it is `Self`.
    type Continued: Fold<Element = Self::Element>;
    /// The operation as a value.
    const COMBINE: Self::Combine;
    /// Bytes of a result.
    const RESULT_BYTES: u64;
    /// Whether a group of zeros changes nothing, so that it need not be left out.
    const TAKES_ZEROS: bool;
    /// Whether a partial result names elements that [`write`](Self::write) reads again.
    const NAMES_ELEMENTS: bool = false;
    /// Whether what is made of an element depends on its index.
    const INDEXED: bool = false;
    /// Elements of a group.
    const LANES: u64 = lanes::<Self::Element>();
    /// Before the first element.
    fn start() -> Self::Accumulator;
    /// Takes the group that begins at element `index`, larger than those before. Not called for elements
    /// that are loaded one by one.
    fn absorb(kept: &mut Self::Accumulator, chain: usize, group: Group, index: u64);
    /// After the last element.
    fn close(kept: Self::Accumulator) -> Self::Partial;
    /// Of a single element.
    fn of(element: Self::Element, index: u64) -> Self::Partial;
    /// Takes the element of this index, larger than those before, into what was made of them by
    /// [`of`](Self::of), or of none.
    #[inline(always)]
    fn absorb_one(kept: &mut Self::Partial, element: Self::Element, index: u64) {
        *kept = combine::<Self>(*kept, Self::of(element, index));
    }
    /// Writes the result of all elements.
    ///
    /// # Safety
    /// The output has [`RESULT_BYTES`](Self::RESULT_BYTES) writable bytes, a whole number of results
    /// behind a multiple of 8; the elements that `partial` names are readable in the input.
    unsafe fn write(partial: Self::Partial, arguments: ReduceCut<Self::Element>);
    /// Writes the result of elements that do not lie one behind the other: that of each index is as far
    /// behind the input as `place_of` says, and a group has its elements from there on.
    ///
    /// # Safety
    /// As [`write`](Self::write), where the elements that `partial` names are at those places.
    #[inline(always)]
    unsafe fn write_apart(
        partial: Self::Partial,
        arguments: ReduceCut<Self::Element>,
        _place_of: impl Fn(u64) -> u64,
    ) {
        // SAFETY: the caller's contract. Whatever reads elements again has a method of its own.
        unsafe { Self::write(partial, arguments) };
    }
}

/// A shorter name of [`Fold::Continued`], for macros.
pub type ContinuedOf<F> = <F as Fold>::Continued;

/// Returns the number of elements of a result, in a launch that has all of them: not for a
/// [`Fold::Continued`].
#[inline(always)]
pub fn count<T>(of: ReduceCut<T>) -> u64 {
    of.groups * lanes::<T>() + of.singles
}

/// Writes the result of a whole launch as [`Fold::write`] does, the last thing that the launch does: 8
/// bytes at a time in one piece, and what is left of them, because the host may look for it meanwhile.
///
/// # Safety
/// As [`Fold::write`]; the output is at a multiple of 8.
#[inline(always)]
pub(super) unsafe fn write_seen<F: Fold>(partial: F::Partial, arguments: ReduceCut<F::Element>) {
    const { assert!(F::RESULT_BYTES <= MOST_OUTPUT_BYTES) };
    let mut result = [0_u64; MOST_OUTPUT_BYTES as usize / size_of::<u64>()];
    let (from, to) = (result.as_mut_ptr(), arguments.output);
    let whole = (F::RESULT_BYTES / size_of::<u64>() as u64) as usize;
    // SAFETY: there is room for the largest result, and at the output for this one; the caller's
    // contract.
    unsafe {
        F::write(partial, ReduceCut { output: from, ..arguments });
        for word in 0..whole {
            to.add(word).write_volatile(*from.add(word));
        }
        let (mut from, mut to) = (from.add(whole).cast::<u8>(), to.add(whole).cast::<u8>());
        if F::RESULT_BYTES & 4 != 0 {
            to.cast::<u32>().write_volatile(*from.cast());
            (from, to) = (from.add(4), to.add(4));
        }
        if F::RESULT_BYTES & 2 != 0 {
            to.cast::<u16>().write_volatile(*from.cast());
            (from, to) = (from.add(2), to.add(2));
        }
        if F::RESULT_BYTES & 1 != 0 {
            to.write_volatile(*from);
        }
    }
}

/// The identity of an operation's partial results.
pub const fn identity<F: Fold>() -> F::Partial {
    <F::Combine as Operation<F::Partial>>::IDENTITY
}

/// Two partial results into one.
#[inline(always)]
pub fn combine<F: Fold>(a: F::Partial, b: F::Partial) -> F::Partial {
    <F::Combine as Operation<F::Partial>>::combine(a, b)
}
