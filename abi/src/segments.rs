//! Segments: how elements and segments are shared by blocks, and what a look at their offsets reports.
//!
//! The elements of all segments and the segments' ends make one *path*: each segment's elements, then
//! its end. A block has a *tile* of it, which is as long for all blocks: many elements, many ends of
//! empty segments, or some of each, so that no lengths make one block work longer than another (D.
//! Merrill and M. Garland, *Merge-based Parallel Sparse Matrix-Vector Multiplication*, SC16).

use crate::reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT};

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// Elements and ends of a thread, of elements of so many bytes. Odd, so that neighbouring threads read
/// other banks of shared memory; and no more elements than a block has groups under way for, of which
/// the first and the last need not be whole.
pub const fn items_per_thread(element_bytes: u32) -> u32 {
    let under_way = GROUPS_IN_FLIGHT * GROUP_BYTES / element_bytes;
    if under_way > 32 { 31 } else { under_way - 1 }
}

/// Elements and ends of a tile.
pub const fn tile_items(element_bytes: u32) -> u32 {
    BLOCK * items_per_thread(element_bytes)
}

/// 32-bit words of shared memory that a tile takes: a group with what all threads must know, a word for
/// each end, rounded up to whole groups, and the groups that have its elements.
pub const fn staged_words(element_bytes: u32) -> u32 {
    const GROUP_WORDS: u32 = GROUP_BYTES / 4;
    let largest = if element_bytes > 4 { element_bytes } else { 4 };
    tile_items(element_bytes) * largest / 4 + 4 * GROUP_WORDS
}

/// 64-bit words of the report on offsets: all zero before, then
///
/// 0. the ones' complement of the number of the first segment that is none, or zero if all are;
/// 1. the first offset;
/// 2. the last offset;
/// 3. whether some segment is not as long as the first one: 1 if so.
pub const REPORT_WORDS: u64 = 4;

const _: () = assert!(items_per_thread(8) == 7 && items_per_thread(4) == 15);
const _: () = assert!(items_per_thread(2) == 31 && items_per_thread(1) == 31);
