//! Values with an index.

use crate::Value;

/// A value with the index of its element, or of the first element of its group.
#[derive(Clone, Copy)]
pub struct Located<A> {
    /// The value.
    pub value: A,
    /// The index, or [`NOWHERE`] for a value of no element.
    pub index: u64,
}

/// The index of no element, larger than all others.
pub const NOWHERE: u64 = u64::MAX;

impl<A: Value> Value for Located<A> {
    const WORDS: u32 = A::WORDS + u64::WORDS;

    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        self.value.give(to);
        self.index.give(to);
    }

    #[inline(always)]
    fn take(from: &mut impl FnMut() -> u32) -> Self {
        Self { value: A::take(from), index: u64::take(from) }
    }

    #[inline(always)]
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        Self { value: self.value.map_words(through), index: self.index.map_words(through) }
    }
}

/// Returns an index and its element as a result of
/// [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES). Zeros follow the element: partial writes would
/// have to read the rest of their sectors.
///
/// # Safety
/// The element has no padding.
#[inline(always)]
pub unsafe fn located<T: Copy>(index: u64, element: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= size_of::<u64>()) };
    let mut word = 0;
    // SAFETY: the element is no larger than the word, and no more aligned; the caller's contract.
    unsafe { (&raw mut word).cast::<T>().write(element) };
    [index, word]
}
