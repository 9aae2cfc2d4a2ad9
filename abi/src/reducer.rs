//! The reducer: how its input is cut, what its blocks need, and how they hand over their values.
//!
//! Every block but the last publishes its partial result in *cells* of 8 bytes, one per 32-bit word of
//! the result: the low half is the word, and [`PRESENT`] says that it is there. The last block waits for
//! the mark, takes the words, and leaves zeros for the next launch. The words of block `b` are in the
//! cells from `b * words` on, so that the cells of all blocks lie together.
//!
//! Where the rows of a matrix have several blocks each, all of this holds of a row's blocks, whose cells
//! begin [`SLOT_BYTES`] per block of the rows before.

/// Bytes of a group: the unit that threads load.
pub const GROUP_BYTES: u32 = 16;

/// Groups that a thread has under way at once, and the chains of combinations that it keeps.
pub const GROUPS_IN_FLIGHT: u32 = 4;

/// Groups of each of two inputs that a thread has under way at once: of both together as many as of one.
pub const PAIRS_IN_FLIGHT: u32 = GROUPS_IN_FLIGHT / 2;

/// Most 32-bit words of a partial result: a [binned sum](crate::binned) of `f64` has four digits of 8
/// bytes and one word.
pub const PARTIAL_WORDS: u32 = 9;

/// Most 32-bit words of a partial result of the operations that are *wide*: the [sums](crate::moments)
/// for means and variances of `f64` have four digits of 8 bytes, ten products of 12, one word, and a
/// count of 8 bytes. What others share memory by would be larger than they need with so many.
pub const WIDE_WORDS: u32 = 41;

/// Whether an operation is wide. Those have none of the kernels whose threads have several columns at
/// once, or whose warps have several batches of rows: there would be too few registers.
pub const fn is_wide(words: u32) -> bool {
    words > PARTIAL_WORDS
}

/// Words that there is room for where a partial result has `words`: [`PARTIAL_WORDS`] or [`WIDE_WORDS`].
pub const fn room_words(words: u32) -> u32 {
    if is_wide(words) { WIDE_WORDS } else { PARTIAL_WORDS }
}

/// Bytes of a cell.
pub const CELL_BYTES: u32 = 8;

/// Bytes of device memory that a block's cells take at most. All of it is zero between launches.
pub const SLOT_BYTES: u64 = slot_bytes(PARTIAL_WORDS);

/// The same of wide operations.
pub const WIDE_SLOT_BYTES: u64 = slot_bytes(WIDE_WORDS);

const fn slot_bytes(words: u32) -> u64 {
    (words * CELL_BYTES) as u64
}

/// Bytes of what one launch leaves to the next one: a partial result, filled up to a multiple of 8.
pub const CARRIED_BYTES: u64 = (WIDE_WORDS as u64 * 4).next_multiple_of(8);

/// Bytes of the part of a binned sum that one of several devices has, filled up likewise.
pub const PART_BYTES: u64 = (PARTIAL_WORDS as u64 * 4).next_multiple_of(8);

/// Set in a cell that holds a word.
pub const PRESENT: u64 = 1 << 32;

/// Bytes of the result: a value of up to 8 bytes; or an index of 8 bytes and the element that it names,
/// or a count and a sum.
pub const OUTPUT_BYTES: u64 = 16;

/// Most elements of an input or a row that are found at once: one for each lane of a warp.
pub const MOST_TOP: u32 = crate::WARP_SIZE;

/// Most threads of a block that finds them.
pub const TOP_BLOCK: u32 = 512;

/// Elements that wait in shared memory, at most, until a warp takes as many as it has lanes.
pub const TOP_QUEUE: u32 = 2 * crate::WARP_SIZE;

/// Most 32-bit words of such an element: a key of 8 bytes, by which it is compared, and its index.
pub const TOP_WORDS: u32 = 4;

/// Bytes of device memory that the cells of a block take at most that hands on what it has found: as
/// those of partial results, for each element. All of it is zero between launches.
pub const TOP_SLOT_BYTES: u64 = (MOST_TOP * TOP_WORDS * CELL_BYTES) as u64;

/// Most threads of a block that reduces columns.
pub const AXIS_BLOCK: u32 = 512;

/// The same by operations that are wide.
pub const WIDE_AXIS_BLOCK: u32 = 256;

/// Tiles of the `bulk` kernel's ring: one that is combined, the others under way.
pub const BULK_STAGES: u32 = 3;

/// Bytes of a tile of the `bulk` kernel.
pub const BULK_TILE_BYTES: u32 = 32 * 1024;

/// Groups of a tile of the `bulk` kernel.
pub const BULK_TILE_GROUPS: u32 = BULK_TILE_BYTES / GROUP_BYTES;

/// Bytes of dynamic shared memory that a block of the `bulk` kernel needs.
pub const BULK_SHARED_BYTES: u32 = BULK_STAGES * BULK_TILE_BYTES;

/// The largest block of the `bulk` kernel, in threads: each thread takes whole turns of a tile.
pub const BULK_LARGEST_BLOCK: u32 = BULK_TILE_GROUPS / GROUPS_IN_FLIGHT;

const _: () = assert!(BULK_TILE_GROUPS.is_multiple_of(GROUPS_IN_FLIGHT * crate::WARP_SIZE));
// What an sm_90 block may have: 227 KiB.
const _: () = assert!(BULK_SHARED_BYTES <= 227 * 1024);
// A phase of an mbarrier counts fewer than 2^20 bytes.
const _: () = assert!(BULK_TILE_BYTES < 1 << 20);
