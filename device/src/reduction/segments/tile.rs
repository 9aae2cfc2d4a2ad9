//! A tile of the [path](warpfold_abi::segments), and the copies of its elements to shared memory.

use warpfold_abi::{
    reducer::GROUP_BYTES,
    segments::{BLOCK, LINE_BYTES, Layout, is_staged, layout, tile_items},
};

use super::super::{ACCUMULATORS, VectorReduction, grid::in_turn};
use crate::{Shared, Value, copy::copy16, thread::thread_idx_x};

pub(super) const fn items<F: VectorReduction>() -> u32 {
    const { tile_items(size_of::<F::Element>() as u32) }
}

/// Returns whether partial results are stored in place of elements.
pub const fn in_place<F: VectorReduction>() -> bool {
    !F::INDEXED && staged::<F::Element>() && F::Partial::WORDS as usize * 4 <= size_of::<F::Element>()
}

pub(super) const fn staged<T>() -> bool {
    const { is_staged(size_of::<T>() as u32) }
}

/// A tile, relative to the block's first element and segment.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) segment: u32,
    pub(super) element: u32,
    pub(super) len: u32,
    pub(super) ends: u32,
}

impl Tile {
    /// Packs the tile into one word, without the segment, which [`unpacked`](Self::unpacked) derives.
    #[inline(always)]
    pub(super) fn packed(self) -> u64 {
        u64::from(self.ends << 16 | self.len) << 32 | u64::from(self.element)
    }

    #[inline(always)]
    pub(super) fn unpacked<F: VectorReduction>(packed: u64, number: u32) -> Self {
        let (element, both) = (packed as u32, (packed >> 32) as u32);
        let segment = number * items::<F>() - element;
        Self { segment, element, len: both & 0xffff, ends: both >> 16 }
    }
}

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

    #[inline(always)]
    pub(super) fn stage(self, stage: u32) -> Shared<u32> {
        self.whole.at(stage * self.layout.tile)
    }

    /// Returns a half word per element: the number of the segment if the element is its last one.
    #[inline(always)]
    pub(super) fn places(self) -> Shared<u32> {
        self.whole.at(self.layout.places)
    }

    /// Returns a bit for each element, set if it is a segment's last one.
    #[inline(always)]
    pub(super) fn flags(self) -> Shared<u32> {
        self.whole.at(self.layout.flags)
    }

    /// # Safety
    /// Called by all threads of the block; none uses the flags between the last barrier and the next.
    #[inline(always)]
    pub(super) unsafe fn clear_flags(self) {
        let tid = thread_idx_x();
        if tid < self.layout.flag_words {
            // SAFETY: the word exists, and no thread uses the flags meanwhile, as the caller guarantees.
            unsafe { self.flags().set(tid, 0) };
        }
    }

    #[inline(always)]
    pub(super) fn tiles(self) -> Shared<u64> {
        self.whole.at(self.layout.tiles).cast()
    }
}

/// The elements of a tile: in shared memory, or in global memory if they are not [`staged`].
#[derive(Clone, Copy)]
pub(super) struct Staged {
    first: *const u8,
    /// The copy, from the cache line of the first element on.
    groups: Shared<u32>,
    /// Bytes before the first element in that line.
    skew: u32,
    len: u32,
}

impl Staged {
    #[inline(always)]
    pub(super) fn of<T>(input: *const T, tile: Tile, groups: Shared<u32>) -> Self {
        let at = input.addr() as u32 + tile.element * size_of::<T>() as u32;
        let skew = if staged::<T>() { at % LINE_BYTES } else { 0 };
        let first = input.wrapping_add(tile.element as usize).cast();
        Self { first, groups, skew, len: tile.len }
    }

    /// Starts to copy the elements. The copy is complete after all threads have waited for their copies
    /// and passed a barrier. Copied groups may contain elements of other tiles, but must be inside the
    /// input. `before` counts the input's elements before the block's first one, `rest` those from it
    /// on. Both may omit elements more than one group away from the block.
    ///
    /// # Safety
    /// Same as [`segments`](super::segments()), called by all threads of the block, when none still
    /// reads the stage.
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
                // SAFETY: the group is in the input, at a 16-byte boundary, and the stage has room for
                // it.
                unsafe { copy16(place.at(words), mine.wrapping_add(words as usize)) };
            }
        }
        if is_first || end < groups {
            // SAFETY: the elements are readable; no thread reads the stage, as the caller guarantees.
            unsafe { self.fetch_edges::<T>(line, [begin, end, groups]) };
        }
    }

    /// Copies the first and the last group, a word per thread, if they are partly outside the input.
    ///
    /// # Safety
    /// Same as [`fetch`](Self::fetch), which copies the groups in `begin..end`.
    #[inline(always)]
    unsafe fn fetch_edges<T>(self, line: *const u32, [begin, end, groups]: [u32; 3]) {
        let Self { groups: to, skew, len, .. } = self;
        let (tid, first) = (thread_idx_x(), skew / GROUP_BYTES);
        let group = if tid < 4 { first } else { groups.wrapping_sub(1) };
        let wanted = groups > first && tid < if groups > first + 1 { 8 } else { 4 };
        if wanted && (group < begin || group >= end) {
            let at = group * 4 + tid % 4;
            // SAFETY: the elements are readable; the stage has room for the group.
            unsafe { to.set(at, word(line, at, skew..skew + len * size_of::<T>() as u32)) };
        }
    }

    /// Returns the positions of segment ends in the tile, a half word each, after the elements.
    #[inline(always)]
    pub(super) fn ends<T>(self) -> Shared<u32> {
        let bytes = if staged::<T>() { self.skew + self.len * size_of::<T>() as u32 } else { 0 };
        self.groups.behind(bytes.next_multiple_of(GROUP_BYTES))
    }

    /// Returns the words of element `index`. Elements must be whole words.
    #[inline(always)]
    pub(super) fn place<T>(self, index: u32) -> Shared<u32> {
        self.groups.behind(self.skew + index * size_of::<T>() as u32)
    }

    /// # Safety
    /// The element exists, and a barrier follows its copy.
    #[inline(always)]
    pub(super) unsafe fn element<T: Copy>(self, index: u32) -> T {
        let at = self.skew + index * size_of::<T>() as u32;
        // SAFETY: the element has been copied. It is the loaded word's lowest bytes, which may have any
        // bits.
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

    /// Reduces a thread's elements of a tile inside one segment; `first` is the index of the tile's
    /// first element in the segment.
    ///
    /// # Safety
    /// The elements have been copied, before a barrier; called by threads of the block.
    #[inline(always)]
    pub(super) unsafe fn value<F: VectorReduction>(self, first: u64) -> F::Partial {
        if !staged::<F::Element>() {
            let mut value = F::IDENTITY;
            let mut index = thread_idx_x();
            while index < self.len {
                // SAFETY: the element exists and is readable, as the caller guarantees.
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
            // SAFETY: `groups` whole groups begin at group `before`.
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
            // SAFETY: single elements are before and after the groups, in the tile.
            let single = F::map(unsafe { self.element(index) }, first + u64::from(index));
            value = F::combine(value, single);
        }
        value
    }
}

/// Returns word `at`, with zeros in place of bytes outside of `readable`.
///
/// # Safety
/// The bytes in `readable` are readable.
#[inline(always)]
pub(in super::super) unsafe fn word(base: *const u32, at: u32, readable: core::ops::Range<u32>) -> u32 {
    let mut word = 0;
    let mut byte = 0;
    while byte < 4 {
        let from = at * 4 + byte;
        if from >= readable.start && from < readable.end {
            // SAFETY: the byte is in `readable`, and so readable.
            let byte_there = unsafe { *base.cast::<u8>().wrapping_add(from as usize) };
            word |= u32::from(byte_there) << (8 * byte);
        }
        byte += 1;
    }
    word
}
