//! Values with their places.

use warpfold_device::Value;

/// A value and where its group of elements, or it alone, begins.
#[derive(Clone, Copy)]
pub(super) struct Located<A> {
    pub(super) value: A,
    /// [`NOWHERE`] for the identity.
    pub(super) index: u64,
}

/// The index of no element: above all others.
pub(super) const NOWHERE: u64 = u64::MAX;

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
