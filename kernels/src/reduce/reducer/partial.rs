//! Partial results as 32-bit words: through shuffles, through shared memory, and from block to block.

use crate::gpu::{
    FULL_WARP, Shared, Shuffle,
    atomic::{load_relaxed, store_relaxed},
};

/// A partial result.
pub(super) trait Partial: Copy {
    /// Its words.
    type Words: AsRef<[u32]> + AsMut<[u32]> + Copy;
    /// How many those are; at most 4.
    const WORDS: u32 = (size_of::<Self::Words>() / 4) as u32;
    /// All zero.
    const BLANK: Self::Words;
    /// Its words.
    fn to_words(self) -> Self::Words;
    /// The partial result of these words.
    fn from_words(words: Self::Words) -> Self;

    /// That of lane `lane ^ lane_mask`.
    ///
    /// # Safety
    /// All lanes of the warp execute it together.
    #[inline(always)]
    unsafe fn shuffle_xor(self, lane_mask: u32) -> Self {
        let mut words = self.to_words();
        for word in words.as_mut() {
            // SAFETY: the caller's contract.
            *word = unsafe { Shuffle::shuffle_xor(*word, FULL_WARP, lane_mask) };
        }
        Self::from_words(words)
    }

    /// Reads the one at `index` of an array in shared memory.
    ///
    /// # Safety
    /// As [`Shared::get`], of all its words.
    #[inline(always)]
    unsafe fn get(cells: Shared<u32>, index: u32) -> Self {
        let mut words = Self::BLANK;
        for (at, word) in (index * Self::WORDS..).zip(words.as_mut()) {
            // SAFETY: the caller's contract.
            *word = unsafe { cells.get(at) };
        }
        Self::from_words(words)
    }

    /// Writes the one at `index` of an array in shared memory.
    ///
    /// # Safety
    /// As [`Shared::set`], of all its words.
    #[inline(always)]
    unsafe fn set(self, cells: Shared<u32>, index: u32) {
        for (at, &word) in (index * Self::WORDS..).zip(self.to_words().as_ref()) {
            // SAFETY: the caller's contract.
            unsafe { cells.set(at, word) };
        }
    }

    /// Gives it to the block that takes slot `index`. A word travels in one cell with a mark that it is
    /// there, so that neither a fence nor a counter is needed.
    ///
    /// # Safety
    /// The slot is in the workspace and empty; one thread of the grid fills it.
    #[inline(always)]
    unsafe fn publish(self, slots: *mut u64, index: u32) {
        for (at, &word) in (index * Self::WORDS..).zip(self.to_words().as_ref()) {
            // SAFETY: the caller's contract.
            unsafe { store_relaxed(slots.add(at as usize), THERE | u64::from(word)) };
        }
    }

    /// Waits for what another block publishes in slot `index`, and leaves the slot empty.
    ///
    /// # Safety
    /// The slot is in the workspace; one thread of the grid takes it, and another block fills it without
    /// waiting for this one.
    #[inline(always)]
    unsafe fn take(slots: *mut u64, index: u32) -> Self {
        let slot = slots.wrapping_add((index * Self::WORDS) as usize);
        let mut words = Self::BLANK;
        loop {
            let mut there = THERE;
            for (at, word) in words.as_mut().iter_mut().enumerate() {
                // SAFETY: the caller's contract.
                let cell = unsafe { load_relaxed(slot.add(at)) };
                *word = cell as u32;
                there &= cell;
            }
            if there != 0 {
                break;
            }
        }
        for at in 0..Self::WORDS {
            // SAFETY: the caller's contract: the slot was filled, and is not filled again in this launch.
            unsafe { store_relaxed(slot.add(at as usize), 0) };
        }
        Self::from_words(words)
    }
}

/// Set in a cell that holds a word.
const THERE: u64 = 1 << 32;

/// A value and where its group of elements, or it alone, begins.
#[derive(Clone, Copy)]
pub(super) struct Located<A> {
    pub(super) value: A,
    /// [`NOWHERE`] for the identity.
    pub(super) index: u64,
}

/// The index of no element: above all others.
pub(super) const NOWHERE: u64 = u64::MAX;

#[inline(always)]
fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[inline(always)]
fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

macro_rules! partials {
    (4 bytes: $($word:ty)*; 8 bytes: $($double:ty)*) => {
        $(impl Partial for $word {
            type Words = [u32; 1];
            const BLANK: [u32; 1] = [0; 1];
            #[inline(always)]
            fn to_words(self) -> [u32; 1] {
                [crate::gpu::Word::to_bits(self)]
            }
            #[inline(always)]
            fn from_words([word]: [u32; 1]) -> Self {
                crate::gpu::Word::from_bits(word)
            }
        }
        impl Partial for Located<$word> {
            type Words = [u32; 3];
            const BLANK: [u32; 3] = [0; 3];
            #[inline(always)]
            fn to_words(self) -> [u32; 3] {
                let ([value], [low, high]) = (self.value.to_words(), split(self.index));
                [value, low, high]
            }
            #[inline(always)]
            fn from_words([value, low, high]: [u32; 3]) -> Self {
                Self { value: Partial::from_words([value]), index: join([low, high]) }
            }
        })*
        $(impl Partial for $double {
            type Words = [u32; 2];
            const BLANK: [u32; 2] = [0; 2];
            #[inline(always)]
            fn to_words(self) -> [u32; 2] {
                split(crate::gpu::Word::to_bits(self))
            }
            #[inline(always)]
            fn from_words(words: [u32; 2]) -> Self {
                crate::gpu::Word::from_bits(join(words))
            }
        }
        impl Partial for Located<$double> {
            type Words = [u32; 4];
            const BLANK: [u32; 4] = [0; 4];
            #[inline(always)]
            fn to_words(self) -> [u32; 4] {
                let ([a, b], [low, high]) = (self.value.to_words(), split(self.index));
                [a, b, low, high]
            }
            #[inline(always)]
            fn from_words([a, b, low, high]: [u32; 4]) -> Self {
                Self { value: Partial::from_words([a, b]), index: join([low, high]) }
            }
        })*
    };
}

partials!(4 bytes: i32 u32 f32; 8 bytes: i64 u64 f64);
