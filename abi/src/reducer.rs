//! The reducer's input groups, block resources, and exchange of partial results.
//!
//! Every block but the last publishes its partial result in *cells* of 8 bytes, one per 32-bit word of
//! the result: the low half is the word, and [`PRESENT`] marks it as written. The last block waits for
//! the marks, reads the words, and resets the cells to zero for the next launch. The words of block `b`
//! are in the cells from `b * words` on, so that the cells of all blocks are contiguous.
//!
//! If several blocks share a row of a matrix, this holds for each row's blocks; their cells begin at an
//! offset of [`SLOT_BYTES`] per block of the earlier rows.

use crate::custom::in_groups;

/// Bytes of a group, the unit that threads load.
pub const GROUP_BYTES: u32 = 16;

/// Number of groups that a thread loads at once, and of its accumulators.
pub const GROUPS_IN_FLIGHT: u32 = 4;

/// Number of groups that a thread loads at once from each of two inputs: [`GROUPS_IN_FLIGHT`] in all.
pub const PAIRS_IN_FLIGHT: u32 = GROUPS_IN_FLIGHT / 2;

/// Maximum 32-bit words of a partial result: an `f64` [binned sum](crate::binned) has four digits of 8
/// bytes and one word.
pub const PARTIAL_WORDS: u32 = 9;

/// Maximum 32-bit words of a partial result of *wide* operations: the [sums](crate::moments) for means
/// and variances of `f64` have four digits of 8 bytes, ten products of 12, one word, and a count of 8
/// bytes. A separate limit, so that other operations need not reserve as much memory.
pub const WIDE_WORDS: u32 = 41;

/// Returns whether an operation is wide. Wide operations have no kernels with several columns per thread
/// or several batches of rows per warp, for which there are too few registers.
pub const fn is_wide(words: u32) -> bool {
    words > PARTIAL_WORDS
}

/// Returns the words reserved for partial results of `words` words: [`PARTIAL_WORDS`] or [`WIDE_WORDS`].
pub const fn room_words(words: u32) -> u32 {
    if is_wide(words) { WIDE_WORDS } else { PARTIAL_WORDS }
}

/// Bytes of a cell.
pub const CELL_BYTES: u32 = 8;

/// Maximum bytes of device memory for a block's cells. All of it is zero between launches.
pub const SLOT_BYTES: u64 = slot_bytes(PARTIAL_WORDS);

/// [`SLOT_BYTES`] of [wide](is_wide) operations.
pub const WIDE_SLOT_BYTES: u64 = slot_bytes(WIDE_WORDS);

const fn slot_bytes(words: u32) -> u64 {
    (words * CELL_BYTES) as u64
}

/// Bytes that one launch carries over to the next: a partial result, padded to a multiple of 8.
pub const CARRIED_BYTES: u64 = (WIDE_WORDS as u64 * 4).next_multiple_of(8);

/// Bytes of one device's partial result of a [binned sum](crate::binned), padded to a multiple of 8.
pub const PART_BYTES: u64 = (PARTIAL_WORDS as u64 * 4).next_multiple_of(8);

/// Mark of a cell that holds a word.
pub const PRESENT: u64 = 1 << 32;

/// Bytes of the result: a value of up to 8 bytes, an 8-byte index and its element, or a count and a sum.
pub const OUTPUT_BYTES: u64 = 16;

/// Maximum k of the kernels that have one element per lane of a warp; those of [`top`](crate::top) find
/// more.
pub const MOST_TOP: u32 = crate::WARP_SIZE;

/// Maximum threads of a top-k block.
pub const TOP_BLOCK: u32 = 512;

/// Capacity of a warp's queue of candidates: fewer than 32 that wait, and one that each lane adds.
pub const TOP_QUEUE: u32 = 2 * crate::WARP_SIZE;

/// Maximum 32-bit words of a candidate for the top k: its key of 8 bytes and its index.
pub const TOP_WORDS: u32 = 4;

/// Maximum bytes of device memory for the cells of a top-k block: one cell per word of each candidate.
/// All of it is zero between launches.
pub const TOP_SLOT_BYTES: u64 = (MOST_TOP * TOP_WORDS * CELL_BYTES) as u64;

/// Maximum threads of a block that reduces columns.
pub const AXIS_BLOCK: u32 = 512;

/// [`AXIS_BLOCK`] of [wide](is_wide) operations.
pub const WIDE_AXIS_BLOCK: u32 = 256;

/// Returns the number of rows that a thread loads at once of `columns` columns of elements of `bytes`
/// bytes: [`GROUPS_IN_FLIGHT`], or twice as many if loads are small.
pub const fn axis_rows(bytes: u64, columns: u64) -> u32 {
    if columns * bytes <= 8 { 2 * GROUPS_IN_FLIGHT } else { GROUPS_IN_FLIGHT }
}

/// Returns [`axis_rows`], or more if they are less than a group of each column. A multiple of
/// [`GROUPS_IN_FLIGHT`], at most four times as much.
pub const fn axis_group_rows(bytes: u64, columns: u64) -> u32 {
    let rows = axis_rows(bytes, columns);
    let in_group = if in_groups(bytes) { GROUP_BYTES / bytes as u32 } else { 1 };
    if in_group > rows { in_group } else { rows }
}

/// Tiles of the `bulk` kernel's ring: one is reduced, the others are in flight.
pub const BULK_STAGES: u32 = 3;

/// Bytes per tile of the `bulk` kernel.
pub const BULK_TILE_BYTES: u32 = 32 * 1024;

/// Groups per tile of the `bulk` kernel.
pub const BULK_TILE_GROUPS: u32 = BULK_TILE_BYTES / GROUP_BYTES;

/// Bytes of dynamic shared memory per block of the `bulk` kernel.
pub const BULK_SHARED_BYTES: u32 = BULK_STAGES * BULK_TILE_BYTES;

/// Maximum threads of a block of the `bulk` kernel: each loads at least [`GROUPS_IN_FLIGHT`] groups of a
/// tile.
pub const BULK_LARGEST_BLOCK: u32 = BULK_TILE_GROUPS / GROUPS_IN_FLIGHT;

const _: () = assert!(BULK_TILE_GROUPS.is_multiple_of(GROUPS_IN_FLIGHT * crate::WARP_SIZE));
// An sm_90 block has at most 227 KiB of shared memory.
const _: () = assert!(BULK_SHARED_BYTES <= 227 * 1024);
// A phase of an mbarrier counts fewer than 2^20 bytes.
const _: () = assert!(BULK_TILE_BYTES < 1 << 20);
