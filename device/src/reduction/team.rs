//! The threads that reduce one input together: a grid, or the part of a grid that reduces one row.

use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Index of the thread in its block, or of the lane if the team is a single warp.
    pub(super) thread: u32,
    /// Number of threads per block, or 32 if the team is a single warp.
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
