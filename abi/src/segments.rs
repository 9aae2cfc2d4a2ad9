//! Segments: how elements and segments are shared by blocks, and what a look at their offsets reports.
//!
//! The elements of all segments and the segments' ends make one *path*: each segment's elements, then
//! its end. A block has a *tile* of it, which is as long for all blocks: many elements, many ends of
//! empty segments, or some of each, so that no lengths make one block work longer than another (D.
//! Merrill and M. Garland, *Merge-based Parallel Sparse Matrix-Vector Multiplication*, SC16).

use crate::reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT};

/// Threads of a block.
pub const BLOCK: u32 = 128;

/// Most tiles that a block takes one after the other.
pub const MOST_TILES: u32 = 16;

/// Tiles in shared memory: one that is worked on, the others under way.
pub const STAGES: u32 = 3;

/// Bytes of a line of the cache, at whose boundaries tiles are brought: a copy of a warp that lies
/// across them takes more of what connects the memory with the multiprocessors.
pub const LINE_BYTES: u32 = 128;

/// Whether elements of `element_bytes` bytes are brought to shared memory, not read where they are.
pub const fn is_staged(element_bytes: u32) -> bool {
    crate::custom::in_groups(element_bytes as u64)
}

/// Elements and ends of a thread, for elements of `element_bytes` bytes. Odd, so that neighbouring
/// threads read other banks of shared memory; and, of elements that are [staged](is_staged), no more
/// than a block has groups for, of which the first and the last need not be whole.
pub const fn items_per_thread(element_bytes: u32) -> u32 {
    let of_groups = GROUPS_IN_FLIGHT * GROUP_BYTES / element_bytes;
    match of_groups.saturating_sub(1) | 1 {
        0..3 => 3,
        items @ 3..31 => items,
        31.. => 31,
    }
}

/// Elements and ends of a tile.
pub const fn tile_items(element_bytes: u32) -> u32 {
    BLOCK * items_per_thread(element_bytes)
}

/// Where the parts of a block's shared memory begin, in 32-bit words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Of a tile: the groups that have its elements, and behind them half a word for each end of a
    /// segment. There are [`STAGES`], from the beginning on.
    pub tile: u32,
    /// Half a word for each element, where results have no place instead of elements; else nothing.
    pub places: u32,
    /// A bit for each element, and one word more.
    pub flags: u32,
    /// How many words those are.
    pub flag_words: u32,
    /// Two words for each tile of the block.
    pub tiles: u32,
    /// Words of all parts.
    pub words: u32,
}

/// The layout for elements of `element_bytes` bytes; `in_place` if results need no places of their own.
pub const fn layout(element_bytes: u32, in_place: bool) -> Layout {
    let items = tile_items(element_bytes);
    // An end takes no more than the element that a tile has less for it; of bytes it takes one more.
    let bytes = items * if element_bytes < 2 || !is_staged(element_bytes) { 2 } else { element_bytes };
    let tile = (bytes + LINE_BYTES + 2 * GROUP_BYTES).next_multiple_of(LINE_BYTES) / 4;
    let places = STAGES * tile;
    let flags = places + if in_place { 0 } else { items.div_ceil(2) };
    let flag_words = items.div_ceil(32) + 1;
    let tiles = (flags + flag_words).next_multiple_of(2);
    Layout { tile, places, flags, flag_words, tiles, words: tiles + 2 * MOST_TILES }
}

/// Words of shared memory beside that layout, where a partial result has `words`: for the collectives,
/// which keep one of each of 32 warps and one of the block; and for another one that the block keeps,
/// with two words more.
pub const fn scratch_words(words: u32) -> u32 {
    (crate::WARP_SIZE + 2) * words + 2
}

/// 64-bit words of the report on offsets: all zero before, then
///
/// 0. the ones' complement of the number of the first segment that is none, or zero if all are;
/// 1. the first offset;
/// 2. the last offset;
/// 3. whether some segment is not as long as the first one: 1 if so.
pub const REPORT_WORDS: u64 = 4;

const _: () = assert!(items_per_thread(8) == 7 && items_per_thread(4) == 15);
const _: () = assert!(items_per_thread(16) == 3 && items_per_thread(64) == 3);
const _: () = assert!(layout(1, false).flag_words <= BLOCK && tile_items(1) < 1 << 15);
