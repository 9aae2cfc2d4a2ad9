//! What the threads of a block do with a tile in which segments end: each walks its elements one by one.

use warpfold_abi::segments::BLOCK;

use super::{
    Ahead, Span,
    tile::{Staged, Tile},
};
use crate::{Shared, reduction::VectorReduction, thread::thread_idx_x};

/// No segment of a tile.
pub(super) const NONE: u32 = u32::MAX;

/// What a thread finds among its elements.
pub(super) struct Walk<F: VectorReduction> {
    /// The value before the first end, of which threads before may have a part, unless it is in the
    /// place of an element.
    pub(super) held: F::Partial,
    /// The segment that ends there, or, in its place, that segment's last element; or [`NONE`].
    pub(super) first: u32,
    /// The value behind the last end.
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
    /// Leaves where segments of a tile end, a bit for each, and, where results have no place instead of
    /// elements, which it is; and writes the results of segments that have no element.
    ///
    /// # Safety
    /// As [`close`](Self::close).
    #[inline(always)]
    pub(super) unsafe fn mark_ends(&self, tile: Tile, staged: Staged, ahead: Ahead) {
        let tid = thread_idx_x();
        // SAFETY: offsets of the tile's segments are there.
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

    /// The same of one end, if there is one, by its offset.
    ///
    /// # Safety
    /// As [`close`](Self::close), called once for each end.
    #[inline(always)]
    unsafe fn mark_end(&self, tile: Tile, staged: Staged, end: u32, offset: u32) {
        if end >= tile.ends {
            return;
        }
        let to = self.behind(tile, offset);
        // SAFETY: each thread writes halves of its own.
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

    /// This thread's bits: of its elements, which it walks.
    ///
    /// # Safety
    /// As [`close`](Self::close), behind the barrier after [`mark_ends`](Self::mark_ends).
    #[inline(always)]
    unsafe fn bits(&self) -> u32 {
        // SAFETY: the caller's contract.
        let bits = unsafe { bits_from(self.room.flags(), thread_idx_x() * Self::ITEMS) };
        bits & ((1 << Self::ITEMS) - 1)
    }

    /// Walks this thread's elements of a tile, and leaves the value of each segment that ends there in
    /// the place of its last element; of the first one without what other threads have.
    ///
    /// # Safety
    /// As [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn walk_in_place(&self, tile: Tile, staged: Staged) -> Walk<F> {
        // SAFETY: the caller's contract; a thread's elements are whole steps.
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

    /// The same, `STEP` elements at a time, all of which are read before the first is done with.
    ///
    /// # Safety
    /// As [`walk_in_place`](Self::walk_in_place), by a number that divides a thread's elements.
    #[inline(always)]
    unsafe fn walk_by<const STEP: usize>(&self, tile: Tile, staged: Staged) -> Walk<F> {
        // SAFETY: the caller's contract.
        let (bits, from) = (unsafe { self.bits() }, thread_idx_x() * Self::ITEMS);
        let first = if bits == 0 { NONE } else { from + bits.trailing_zeros() };
        let (mut open, mut bits, mut at) = (F::IDENTITY, bits, from);
        while at < from + Self::ITEMS {
            // SAFETY: elements of the tile are there. An end's place is this thread's, which has read
            // it.
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

    /// Writes what [`walk_in_place`](Self::walk_in_place) has left, but for the tile's first segment.
    ///
    /// # Safety
    /// As [`close`](Self::close), behind a barrier after [`finish_first`](Self::finish_first).
    #[inline(always)]
    pub(super) unsafe fn write_in_place(&self, tile: Tile, staged: Staged) {
        let places = staged.ends::<F::Element>();
        let mut end = thread_idx_x();
        // SAFETY: places and values are there.
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

    /// Walks this thread's elements of a tile, and writes the results of segments that begin and end
    /// there.
    ///
    /// # Safety
    /// As [`bits`](Self::bits).
    #[inline(always)]
    pub(super) unsafe fn walk(&self, tile: Tile, staged: Staged) -> Walk<F> {
        let (places, from) = (self.room.places(), thread_idx_x() * Self::ITEMS);
        let mut walk = Walk { held: F::IDENTITY, first: NONE, open: F::IDENTITY };
        // SAFETY: elements, bits and places are there, and for each bit which segment it is of.
        unsafe {
            let mut index = if F::INDEXED { self.index_of(tile, staged, from) } else { 0 };
            let bits = self.bits();
            let to = Ord::min(from + Self::ITEMS, tile.len);
            let element = |at| if at < to { Some(staged.element::<F::Element>(at)) } else { None };
            let (mut at, mut next) = (from, element(from));
            while let Some(this) = next {
                // Before this one is done with.
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

    /// The index in its segment of element `at` of a tile.
    ///
    /// # Safety
    /// As [`bits`](Self::bits).
    #[inline(always)]
    unsafe fn index_of(&self, tile: Tile, staged: Staged, at: u32) -> u64 {
        let places = staged.ends::<F::Element>();
        let (mut least, mut most) = (0, tile.ends);
        // SAFETY: numbers are below that of ends.
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

/// 32 bits from one on.
///
/// # Safety
/// There is a word behind the one that has it.
#[inline(always)]
unsafe fn bits_from(words: Shared<u32>, from: u32) -> u32 {
    // SAFETY: the caller's contract.
    let [low, high] = unsafe { [words.get(from / 32), words.get(from / 32 + 1)] };
    ((u64::from(high) << 32 | u64::from(low)) >> (from % 32)) as u32
}
