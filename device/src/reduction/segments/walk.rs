//! Tiles in which segments end: each thread walks its elements one by one.

use warpfold_abi::segments::BLOCK;

use super::{
    Ahead, Span,
    tile::{Staged, Tile},
};
use crate::{Shared, reduction::VectorReduction, thread::thread_idx_x};

pub(super) const NONE: u32 = u32::MAX;

pub(super) struct Walk<F: VectorReduction> {
    /// The value up to the first end, without the parts of earlier threads; unused if results are stored
    /// in place.
    pub(super) held: F::Partial,
    /// The segment that ends first or, if results are stored in place, the last element of that segment;
    /// [`NONE`] if no segment ends.
    pub(super) first: u32,
    /// The value after the last end.
    pub(super) open: F::Partial,
}

impl<F: VectorReduction> Clone for Walk<F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: VectorReduction> Copy for Walk<F> {}

impl<F: VectorReduction> Span<F> {
    /// Stores the ends of a tile's segments and flags the last elements of these segments. Unless
    /// results are stored in place, also stores the segments' numbers and writes the results of empty
    /// segments.
    ///
    /// # Safety
    /// Same as [`close`](Self::close).
    #[inline(always)]
    pub(super) unsafe fn mark_ends(&self, tile: Tile, staged: Staged, ahead: Ahead) {
        let tid = thread_idx_x();
        // SAFETY: the offsets of the tile's segments are readable.
        unsafe {
            self.mark_end(tile, staged, tid, ahead.first);
            self.mark_end(tile, staged, tid + BLOCK, ahead.second);
            let mut end = tid + 2 * BLOCK;
            while end < tile.ends {
                self.mark_end(tile, staged, end, self.end_at(tile, end));
                end += BLOCK;
            }
        }
    }

    /// # Safety
    /// Same as [`close`](Self::close), called once for each end.
    #[inline(always)]
    unsafe fn mark_end(&self, tile: Tile, staged: Staged, end: u32, offset: u32) {
        if end >= tile.ends {
            return;
        }
        let to = self.behind(tile, offset);
        // SAFETY: each thread writes its own half words.
        unsafe {
            staged.ends::<F::Element>().set_half(end, to);
            if !Self::IN_PLACE && end > 0 {
                if self.behind(tile, self.end_at(tile, end - 1)) == to {
                    return self.write(F::IDENTITY, tile.segment + end);
                }
            }
            if to > 0 {
                self.room.flags().set_bits((to - 1) / 32, 1 << ((to - 1) % 32));
                if !Self::IN_PLACE {
                    self.room.places().set_half(to - 1, end);
                }
            }
        }
    }

    /// # Safety
    /// Same as [`close`](Self::close), after the barrier that follows [`mark_ends`](Self::mark_ends).
    #[inline(always)]
    unsafe fn bits(&self) -> u32 {
        // SAFETY: the flags were set before a barrier, and have one more word than elements need.
        let bits = unsafe { bits_from(self.room.flags(), thread_idx_x() * Self::ITEMS) };
        bits & ((1 << Self::ITEMS) - 1)
    }

    /// Walks this thread's elements, and stores the value of each segment that ends among them in place
    /// of its last element. The first segment's value lacks the parts of other threads.
    ///
    /// # Safety
    /// Same as [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn walk_in_place(&self, tile: Tile, staged: Staged) -> Walk<F> {
        // SAFETY: ends and flags were stored before a barrier; `STEP` divides a thread's elements.
        unsafe {
            if Self::ITEMS.is_multiple_of(5) {
                self.walk_by::<5>(tile, staged)
            } else if Self::ITEMS.is_multiple_of(7) {
                self.walk_by::<7>(tile, staged)
            } else {
                self.walk_by::<3>(tile, staged)
            }
        }
    }

    /// Walks `STEP` elements at a time, which are all loaded before the first is accumulated.
    ///
    /// # Safety
    /// Same as [`walk_in_place`](Self::walk_in_place); `STEP` divides a thread's elements.
    #[inline(always)]
    unsafe fn walk_by<const STEP: usize>(&self, tile: Tile, staged: Staged) -> Walk<F> {
        // SAFETY: the flags were set before a barrier, as the caller guarantees.
        let (bits, from) = (unsafe { self.bits() }, thread_idx_x() * Self::ITEMS);
        let first = if bits == 0 { NONE } else { from + bits.trailing_zeros() };
        let (mut open, mut bits, mut at) = (F::IDENTITY, bits, from);
        while at < from + Self::ITEMS {
            // SAFETY: elements of the tile are readable; this thread has read those that it overwrites.
            unsafe {
                if at + STEP as u32 <= tile.len {
                    let loaded: [_; STEP] =
                        core::array::from_fn(|k| staged.element::<F::Element>(at + k as u32));
                    let mut k = 0;
                    while k < STEP {
                        F::accumulate_one(&mut open, loaded[k], 0);
                        if bits & 1 << k != 0 {
                            staged.place::<F::Element>(at + k as u32).set_value(0, open);
                            open = F::IDENTITY;
                        }
                        k += 1;
                    }
                } else {
                    let mut rest = at;
                    while rest < tile.len {
                        F::accumulate_one(&mut open, staged.element(rest), 0);
                        if bits & 1 << (rest - at) != 0 {
                            staged.place::<F::Element>(rest).set_value(0, open);
                            open = F::IDENTITY;
                        }
                        rest += 1;
                    }
                    break;
                }
            }
            bits >>= STEP;
            at += STEP as u32;
        }
        Walk { held: F::IDENTITY, first, open }
    }

    /// Writes the results that [`walk_in_place`](Self::walk_in_place) has stored, except the first one.
    ///
    /// # Safety
    /// Same as [`close`](Self::close), after a barrier that follows
    /// [`finish_first`](Self::finish_first).
    #[inline(always)]
    pub(super) unsafe fn write_in_place(&self, tile: Tile, staged: Staged) {
        let places = staged.ends::<F::Element>();
        let mut end = thread_idx_x();
        // SAFETY: ends and values have been stored before the barrier.
        unsafe {
            if end == 0 {
                end += BLOCK;
            }
            while end < tile.ends {
                let [from, to] = [places.get_half(end - 1), places.get_half(end)];
                let value = if from < to {
                    staged.place::<F::Element>(to - 1).get_value(0)
                } else {
                    F::IDENTITY
                };
                self.write(value, tile.segment + end);
                end += BLOCK;
            }
        }
    }

    /// Walks this thread's elements, and writes the results of segments that begin and end among them.
    ///
    /// # Safety
    /// Same as [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn walk(&self, tile: Tile, staged: Staged) -> Walk<F> {
        let (places, from) = (self.room.places(), thread_idx_x() * Self::ITEMS);
        let mut walk = Walk { held: F::IDENTITY, first: NONE, open: F::IDENTITY };
        // SAFETY: elements, flags and, for each flag that is set, the segment's number are readable.
        unsafe {
            let mut index = if F::INDEXED { self.index_of(tile, staged, from) } else { 0 };
            let bits = self.bits();
            let to = Ord::min(from + Self::ITEMS, tile.len);
            let element = |at| if at < to { Some(staged.element::<F::Element>(at)) } else { None };
            let (mut at, mut next) = (from, element(from));
            while let Some(this) = next {
                // Loads the next element before this one is accumulated.
                next = element(at + 1);
                F::accumulate_one(&mut walk.open, this, index);
                index += 1;
                if bits >> (at - from) & 1 != 0 {
                    let number = places.get_half(at);
                    if walk.first == NONE {
                        (walk.held, walk.first) = (walk.open, number);
                    } else {
                        self.write(walk.open, tile.segment + number);
                    }
                    walk.open = F::IDENTITY;
                    index = 0;
                }
                at += 1;
            }
        }
        walk
    }

    /// # Safety
    /// Same as [`bits`](Self::bits).
    #[inline(always)]
    unsafe fn index_of(&self, tile: Tile, staged: Staged, at: u32) -> u64 {
        let places = staged.ends::<F::Element>();
        let (mut least, mut most) = (0, tile.ends);
        // SAFETY: indices are below the number of ends.
        unsafe {
            while least < most {
                let middle = (least + most) / 2;
                if places.get_half(middle) <= at {
                    least = middle + 1;
                } else {
                    most = middle;
                }
            }
            if least == 0 {
                self.element + u64::from(tile.element + at) - self.begin_of(tile.segment)
            } else {
                u64::from(at.wrapping_sub(places.get_half(least - 1)))
            }
        }
    }
}

/// # Safety
/// The word after the one with the first bit exists.
#[inline(always)]
unsafe fn bits_from(words: Shared<u32>, from: u32) -> u32 {
    // SAFETY: both words exist, as the caller guarantees.
    let [low, high] = unsafe { [words.get(from / 32), words.get(from / 32 + 1)] };
    ((u64::from(high) << 32 | u64::from(low)) >> (from % 32)) as u32
}
