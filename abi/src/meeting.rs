//! Meetings: memory of one device in which launches on several devices combine their results.
//!
//! A meeting consists of an arrival counter of [`HEAD_BYTES`] and a cell of [`CELL_BYTES`] per member.
//! Each launch writes its partial result to its member's cell, followed by the result of its own
//! elements if the partial result alone does not determine it. Then it increments the counter. The last
//! launch to arrive combines all cells in a fixed order and writes the result, so that no launch waits
//! for another. The counter is zero again afterwards; cells need not be zero.

use crate::reducer::{CARRIED_BYTES, OUTPUT_BYTES};

/// Bytes of the counter, with padding.
pub const HEAD_BYTES: u64 = 64;

/// Bytes of a cell: a partial result, followed by a result.
pub const CELL_BYTES: u64 = (CARRIED_BYTES + OUTPUT_BYTES).next_multiple_of(64);

/// Maximum number of members: one per lane of a warp.
pub const MOST_MEMBERS: u32 = crate::WARP_SIZE;

/// Returns the bytes of a meeting of `members` members.
pub const fn bytes(members: u32) -> u64 {
    HEAD_BYTES + members as u64 * CELL_BYTES
}

/// Returns the offset of a member's cell, in bytes.
pub const fn cell(rank: u32) -> u64 {
    HEAD_BYTES + rank as u64 * CELL_BYTES
}
