//! Who reduces one input together: a grid, or the part of one that a row has.

use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// A thread's place among those that reduce one input together.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Which thread of its block; of a warp alone, which lane.
    pub(super) thread: u32,
    /// Threads of a block.
    pub(super) threads: u32,
    /// Which block of the team.
    pub(super) block: u32,
    /// Blocks of the team.
    pub(super) blocks: u32,
}

impl Team {
    /// The whole grid as one team.
    #[inline(always)]
    pub(super) fn grid() -> Self {
        let (thread, threads) = (thread_idx_x(), block_dim_x());
        Self { thread, threads, block: block_idx_x(), blocks: grid_dim_x() }
    }
}
