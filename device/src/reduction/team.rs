//! The threads that reduce one input together: a grid, or a row's part of one.

use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// A thread's position in a team.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Thread of the block; lane if the team is a single warp.
    pub(super) thread: u32,
    /// Threads per block.
    pub(super) threads: u32,
    pub(super) block: u32,
    pub(super) blocks: u32,
}

impl Team {
    #[inline(always)]
    pub(super) fn grid() -> Self {
        let (thread, threads) = (thread_idx_x(), block_dim_x());
        Self { thread, threads, block: block_idx_x(), blocks: grid_dim_x() }
    }
}
