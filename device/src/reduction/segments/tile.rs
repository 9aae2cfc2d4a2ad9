//! A tile of the path, and how its elements come to shared memory.

use warpfold_abi::{
    reducer::GROUP_BYTES,
    segments::{BLOCK, LINE_BYTES, Layout, is_staged, layout, tile_items},
};

use super::super::{ACCUMULATORS, VectorReduction, grid::in_turn};
use crate::{Shared, Value, copy::copy16, thread::thread_idx_x};

/// Elements and ends of a tile.
pub(super) const fn items<F: VectorReduction>() -> u32 {
    const { tile_items(size_of::<F::Element>() as u32) }
}

/// Whether a partial result has room in the place of an element.
pub const fn in_place<F: VectorReduction>() -> bool {
    !F::INDEXED && staged::<F::Element>() && F::Partial::WORDS as usize * 4 <= size_of::<F::Element>()
}

/// Whether elements are brought to shared memory.
pub(super) const fn staged<T>() -> bool {
    const { is_staged(size_of::<T>() as u32) }
}

/// A tile of a block, as it lies behind the block's first element and segment.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The segment in which it begins.
    pub(super) segment: u32,
    /// The tile's first element.
    pub(super) element: u32,
    /// Elements of the tile.
    pub(super) len: u32,
    /// Ends of segments in the tile.
    pub(super) ends: u32,
}

impl Tile {
    /// In one word, without the segment.
    #[inline(always)]
    pub(super) fn packed(self) -> u64 {
        u64::from(self.ends << 16 | self.len) << 32 | u64::from(self.element)
    }

    /// The block's tile of this number.
    #[inline(always)]
    pub(super) fn unpacked<F: VectorReduction>(packed: u64, number: u32) -> Self {
        let (element, both) = (packed as u32, (packed >> 32) as u32);
        let segment = number * items::<F>() - element;
        Self { segment, element, len: both & 0xffff, ends: both >> 16 }
    }
}

/// Shared memory of a block, in the parts that [`Layout`] says.
#[derive(Clone, Copy)]
pub(super) struct Room {
    whole: Shared<u32>,
    layout: Layout,
}

impl Room {
    #[inline(always)]
    pub(super) fn of<F: VectorReduction>(whole: Shared<u32>) -> Self {
        Self { whole, layout: const { layout(size_of::<F::Element>() as u32, in_place::<F>()) } }
    }

    /// Where a tile is.
    #[inline(always)]
    pub(super) fn stage(self, stage: u32) -> Shared<u32> {
        self.whole.at(stage * self.layout.tile)
    }

    /// Halves of words: for each element that is a segment's last one, which.
    #[inline(always)]
    pub(super) fn places(self) -> Shared<u32> {
        self.whole.at(self.layout.places)
    }

    /// A bit for each element that is a segment's last one.
    #[inline(always)]
    pub(super) fn flags(self) -> Shared<u32> {
        self.whole.at(self.layout.flags)
    }

    /// Clears all of those.
    ///
    /// # Safety
    /// Called by all threads of the block, none of which uses them on this side of the next barrier, or
    /// did behind the last one.
    #[inline(always)]
    pub(super) unsafe fn clear_flags(self) {
        let tid = thread_idx_x();
        if tid < self.layout.flag_words {
            // SAFETY: the caller's contract.
            unsafe { self.flags().set(tid, 0) };
        }
    }

    /// The tiles of the block.
    #[inline(always)]
    pub(super) fn tiles(self) -> Shared<u64> {
        self.whole.at(self.layout.tiles).cast()
    }
}

/// The elements of a tile, in shared memory or, if they are not [`staged`], where they are.
#[derive(Clone, Copy)]
pub(super) struct Staged {
    /// The first of them, where they are.
    first: *const u8,
    /// The line of memory in which the first of them lies, and on.
    groups: Shared<u32>,
    /// Bytes of the line before that.
    skew: u32,
    /// How many there are.
    len: u32,
}

impl Staged {
    /// Those of a tile, in this place; the block's first element is at `input`.
    #[inline(always)]
    pub(super) fn of<T>(input: *const T, tile: Tile, groups: Shared<u32>) -> Self {
        let at = input.addr() as u32 + tile.element * size_of::<T>() as u32;
        let skew = if staged::<T>() { at % LINE_BYTES } else { 0 };
        let first = input.wrapping_add(tile.element as usize).cast();
        Self { first, groups, skew, len: tile.len }
    }

    /// Starts to bring them from global memory. They are there when all threads have waited for their
    /// copies and come to a barrier. Groups may have elements of other tiles, but none from before the
    /// first element of all or behind the last one: there are `before` elements before the block's
    /// first one, or more, if those are a group; and `rest` from there on, or more, if those are what a
    /// block has, and a group.
    ///
    /// # Safety
    /// As [`segments`](super::segments()), called by all threads of the block, none of which still reads
    /// there.
    #[inline(always)]
    pub(super) unsafe fn fetch<T>(self, input: *const T, tile: Tile, [before, rest]: [u32; 2]) {
        if !staged::<T>() {
            return;
        }
        let Self { groups: to, skew, len, .. } = self;
        let (tid, size) = (thread_idx_x(), size_of::<T>() as u32);
        let groups = (skew + len * size).div_ceil(GROUP_BYTES);
        let first = input.wrapping_add(tile.element as usize);
        let line = first.wrapping_byte_sub(skew as usize).cast::<u32>();
        let is_first = (before + tile.element) * size < skew % GROUP_BYTES;
        let begin = skew / GROUP_BYTES + u32::from(is_first);
        let whole = (skew + (rest - tile.element) * size) / GROUP_BYTES;
        let end = Ord::min(whole, groups);
        let (mine, place) = (line.wrapping_add(tid as usize * 4), to.at(tid * 4));
        for k in 0..ACCUMULATORS as u32 {
            let group = tid + k * BLOCK;
            if group < end && (k > 0 || group >= begin) {
                let words = k * BLOCK * 4;
                // SAFETY: the group lies inside, at a 16-byte boundary, and has a place.
                unsafe { copy16(place.at(words), mine.wrapping_add(words as usize)) };
            }
        }
        if is_first || end < groups {
            // SAFETY: the caller's contract.
            unsafe { self.fetch_edges::<T>(line, [begin, end, groups]) };
        }
    }

    /// Brings of the first and the last group what is inside: a thread has a word.
    ///
    /// # Safety
    /// As [`fetch`](Self::fetch); groups from `begin` up to `end` are brought by others.
    #[inline(always)]
    unsafe fn fetch_edges<T>(self, line: *const u32, [begin, end, groups]: [u32; 3]) {
        let Self { groups: to, skew, len, .. } = self;
        let (tid, first) = (thread_idx_x(), skew / GROUP_BYTES);
        let group = if tid < 4 { first } else { groups.wrapping_sub(1) };
        let wanted = groups > first && tid < if groups > first + 1 { 8 } else { 4 };
        if wanted && (group < begin || group >= end) {
            let at = group * 4 + tid % 4;
            // SAFETY: the elements are readable; the group has a place.
            unsafe { to.set(at, word(line, at, skew..skew + len * size_of::<T>() as u32)) };
        }
    }

    /// Halves of words, behind the elements: where in the tile segments end.
    #[inline(always)]
    pub(super) fn ends<T>(self) -> Shared<u32> {
        let bytes = if staged::<T>() { self.skew + self.len * size_of::<T>() as u32 } else { 0 };
        self.groups.behind(bytes.next_multiple_of(GROUP_BYTES))
    }

    /// Where element `index` lies, of whole words.
    #[inline(always)]
    pub(super) fn place<T>(self, index: u32) -> Shared<u32> {
        self.groups.behind(self.skew + index * size_of::<T>() as u32)
    }

    /// Element `index` of the tile.
    ///
    /// # Safety
    /// It is there, behind a barrier.
    #[inline(always)]
    pub(super) unsafe fn element<T: Copy>(self, index: u32) -> T {
        let at = self.skew + index * size_of::<T>() as u32;
        // SAFETY: the caller's contract; elements are plain bits, the lowest of the word.
        unsafe {
            if !staged::<T>() {
                *self.first.cast::<T>().wrapping_add(index as usize)
            } else if size_of::<T>() == 16 {
                let four = self.groups.get16(at / GROUP_BYTES);
                core::mem::transmute_copy(&four)
            } else if size_of::<T>() == 8 {
                let two: u64 = self.place::<T>(index).cast().get(0);
                core::mem::transmute_copy(&two)
            } else if size_of::<T>() == 4 {
                let one = self.place::<T>(index).get(0);
                core::mem::transmute_copy(&one)
            } else {
                let four = self.groups.get(at / 4) >> (8 * (at % 4));
                core::mem::transmute_copy(&four)
            }
        }
    }

    /// All of a thread's elements as one value, where all belong to one segment, of which the tile's
    /// first element has this index.
    ///
    /// # Safety
    /// They are there, behind a barrier; called by threads of the block.
    #[inline(always)]
    pub(super) unsafe fn value<F: VectorReduction>(self, first: u64) -> F::Partial {
        if !staged::<F::Element>() {
            let mut value = F::IDENTITY;
            let mut index = thread_idx_x();
            while index < self.len {
                // SAFETY: the caller's contract.
                let element = unsafe { self.element(index) };
                F::accumulate_one(&mut value, element, first + u64::from(index));
                index += BLOCK;
            }
            return value;
        }
        let Self { groups: from, skew, len, .. } = self;
        let (tid, size, lanes) = (thread_idx_x(), size_of::<F::Element>() as u32, F::LANES as u32);
        let head = Ord::min(skew.wrapping_neg() % GROUP_BYTES / size, len);
        let (groups, before) = ((len - head) / lanes, skew.div_ceil(GROUP_BYTES));
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = tid + k as u32 * BLOCK;
            // SAFETY: whole groups are there behind the head.
            if at < groups { unsafe { from.get16(before + at) } } else { [0; 4] }
        });
        let mut kept = F::start();
        in_turn(loaded, |k, group| {
            let at = tid + k as u32 * BLOCK;
            if F::ZERO_PADDABLE || at < groups {
                F::accumulate(&mut kept, k, group, first + u64::from(head + at * lanes));
            }
        });
        let (mut value, singles) = (F::close(kept), len - groups * lanes);
        if tid < singles {
            let index = if tid < head { tid } else { tid + groups * lanes };
            // SAFETY: singles lie in front of the groups and behind them.
            let single = F::map(unsafe { self.element(index) }, first + u64::from(index));
            value = F::combine(value, single);
        }
        value
    }
}

/// A word of which the bytes in a range are readable; the others are zero.
///
/// # Safety
/// They are.
#[inline(always)]
pub(in super::super) unsafe fn word(base: *const u32, at: u32, readable: core::ops::Range<u32>) -> u32 {
    let mut word = 0;
    let mut byte = 0;
    while byte < 4 {
        let from = at * 4 + byte;
        if from >= readable.start && from < readable.end {
            // SAFETY: the caller's contract.
            let byte_there = unsafe { *base.cast::<u8>().wrapping_add(from as usize) };
            word |= u32::from(byte_there) << (8 * byte);
        }
        byte += 1;
    }
    word
}
