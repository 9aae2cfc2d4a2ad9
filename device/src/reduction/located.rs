//! Values with their places.

use crate::Value;

/// A value and where its group of elements, or it alone, begins.
#[derive(Clone, Copy)]
pub struct Located<A> {
    /// The value of the element.
    pub value: A,
    /// The index; [`NOWHERE`] for what stands for no element.
    pub index: u64,
}

/// The index of no element: above all others.
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

/// Returns an index and the element there as a result of
/// [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES). The element is followed by zeros: whole words
/// are written, so that no memory has to be read for the rest of its sectors.
///
/// # Safety
/// The element has no padding.
#[inline(always)]
pub unsafe fn located<T: Copy>(index: u64, element: T) -> [u64; 2] {
    const { assert!(size_of::<T>() <= size_of::<u64>()) };
    let mut word = 0;
    // SAFETY: the element is no larger than the word, whose alignment is the largest of any; the
    // caller's contract.
    unsafe { (&raw mut word).cast::<T>().write(element) };
    [index, word]
}
