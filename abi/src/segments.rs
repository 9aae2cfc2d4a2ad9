//! Segmented reduction: how blocks divide elements and segments, and the report on segment offsets.
//!
//! All segments form one *path*: each segment's elements, followed by its end. A block processes *tiles*
//! of the path, all of the same length, which may be many elements, many ends of empty segments, or a
//! mix, so that all blocks do equal work for any segment lengths (D. Merrill and M. Garland,
//! *Merge-based Parallel Sparse Matrix-Vector Multiplication*, SC16).

use crate::reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT};

/// Threads per block.
pub const BLOCK: u32 = 128;

/// Maximum number of tiles that a block processes in turn.
pub const MOST_TILES: u32 = 16;

/// Tiles in shared memory: one is processed, the others are in flight.
pub const STAGES: u32 = 3;

/// Bytes of a cache line. Copies of tiles begin at line boundaries, because a warp's copy that straddles
/// one takes more bandwidth between memory and multiprocessors.
pub const LINE_BYTES: u32 = 128;

/// Returns whether elements of `element_bytes` bytes are staged in shared memory, not read in place.
pub const fn is_staged(element_bytes: u32) -> bool {
    crate::custom::in_groups(element_bytes as u64)
}

/// Returns the number of elements and segment ends per thread. It is odd, so that neighbouring threads
/// read different banks of shared memory. A tile of [staged](is_staged) elements must also fit into
/// [`GROUPS_IN_FLIGHT`] groups per thread, even if its first and last group are partial.
pub const fn items_per_thread(element_bytes: u32) -> u32 {
    let of_groups = GROUPS_IN_FLIGHT * GROUP_BYTES / element_bytes;
    match of_groups.saturating_sub(1) | 1 {
        0..3 => 3,
        items @ 3..31 => items,
        31.. => 31,
    }
}

/// Returns the number of elements and segment ends per tile.
pub const fn tile_items(element_bytes: u32) -> u32 {
    BLOCK * items_per_thread(element_bytes)
}

/// Layout of a block's shared memory, in 32-bit words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Size of one of the [`STAGES`], which begin at word 0: the groups with a tile's elements, then
    /// half a word per segment end.
    pub tile: u32,
    /// Offset of the segments' numbers, half a word per element; empty if results replace elements.
    pub places: u32,
    /// Offset of the flags: one bit per element, and one more word.
    pub flags: u32,
    /// Size of the flags.
    pub flag_words: u32,
    /// Offset of the descriptions of the block's tiles, two words each.
    pub tiles: u32,
    /// Size of all parts.
    pub words: u32,
}

/// Returns the layout for elements of `element_bytes` bytes. If `in_place`, results replace elements.
pub const fn layout(element_bytes: u32, in_place: bool) -> Layout {
    let items = tile_items(element_bytes);
    // A segment end takes half a word: no more than an element, unless the element is a single byte.
    let bytes = items * if element_bytes < 2 || !is_staged(element_bytes) { 2 } else { element_bytes };
    let tile = (bytes + LINE_BYTES + 2 * GROUP_BYTES).next_multiple_of(LINE_BYTES) / 4;
    let places = STAGES * tile;
    let flags = places + if in_place { 0 } else { items.div_ceil(2) };
    let flag_words = items.div_ceil(32) + 1;
    let tiles = (flags + flag_words).next_multiple_of(2);
    Layout { tile, places, flags, flag_words, tiles, words: tiles + 2 * MOST_TILES }
}

/// Returns the words of shared memory besides [`Layout`], for partial results of `words` words: 33
/// results for the collectives, and one result and two words that a block keeps until it ends.
pub const fn scratch_words(words: u32) -> u32 {
    (crate::WARP_SIZE + 2) * words + 2
}

/// 64-bit words of the report on segment offsets, all zero before the check:
///
/// 0. the ones' complement of the index of the first invalid segment, or zero if all are valid;
/// 1. the first offset;
/// 2. the last offset;
/// 3. 1 if some segment's length differs from the first one's.
pub const REPORT_WORDS: u64 = 4;

const _: () = assert!(items_per_thread(8) == 7 && items_per_thread(4) == 15);
const _: () = assert!(items_per_thread(16) == 3 && items_per_thread(64) == 3);
const _: () = assert!(layout(1, false).flag_words <= BLOCK && tile_items(1) < 1 << 15);
