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

/// Writes a place and the element there, as [`OUTPUT_BYTES`](warpfold_abi::reducer::OUTPUT_BYTES): the
/// element in front of zeros. Whole words are written, so that no memory has to be read for the rest of
/// its sectors.
///
/// # Safety
/// `OUTPUT_BYTES` bytes are writable at `output`, a multiple of 8. An element is plain bits.
#[inline(always)]
pub unsafe fn write_located<T>(output: *mut u64, index: u64, element: T) {
    const { assert!(size_of::<T>() <= size_of::<u64>()) };
    let mut word = 0;
    // SAFETY: an element is no larger than the word; the caller's contract.
    unsafe {
        (&raw mut word).cast::<T>().write(element);
        *output = index;
        *output.add(1) = word;
    }
}
