//! Values with an index.

use crate::Value;

/// A value with the index of its element, or of the first element of its [`Vector`](super::Vector).
#[derive(Clone, Copy)]
pub struct Located<A> {
    /// The value.
    pub value: A,
    /// The index, or [`NOWHERE`] if there is no element.
    pub index: u64,
}

/// The index that stands for no element, larger than all indices of elements.
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
/// [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES). Zeros fill the element's word, because a
/// partial write would cause a read of the rest of the memory sector.
///
/// # Safety
/// The element has no padding.
#[inline(always)]
pub unsafe fn located<T: Copy>(index: u64, element: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= size_of::<u64>()) };
    let mut word = 0;
    // SAFETY: the element is no larger than the word and needs no larger alignment; it has no padding.
    unsafe { (&raw mut word).cast::<T>().write(element) };
    [index, word]
}
