//! Where launches on several devices meet: memory of one of them, which all can reach.
//!
//! It begins with a counter of [`HEAD_BYTES`]. Behind it each member has a cell of [`CELL_BYTES`], to
//! which its launch writes its partial result, and behind that, where a partial result does not say it,
//! the result of its own elements. Then it counts itself; the last one to arrive finds all cells
//! written, combines them in the order of the members, and writes the result. So nobody waits for
//! anybody, in whatever order the launches run. The counter is zero again afterwards; cells need not be.

use crate::reducer::{CARRIED_BYTES, OUTPUT_BYTES};

/// Bytes of the counter, with what fills them up.
pub const HEAD_BYTES: u64 = 64;

/// Bytes of a cell: a partial result, and behind it a result.
pub const CELL_BYTES: u64 = (CARRIED_BYTES + OUTPUT_BYTES).next_multiple_of(64);

/// Most members: one for each lane of a warp.
pub const MOST_MEMBERS: u32 = crate::WARP_SIZE;

/// Bytes of a meeting of `members` members.
pub const fn bytes(members: u32) -> u64 {
    HEAD_BYTES + members as u64 * CELL_BYTES
}

/// Where in it the cell of a member begins.
pub const fn cell(rank: u32) -> u64 {
    HEAD_BYTES + rank as u64 * CELL_BYTES
}
