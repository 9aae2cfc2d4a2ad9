//! A ring of tiles in shared memory, filled ahead by bulk copies.

use super::{Mbarrier, copy_bulk, fence_mbarrier_init};
use crate::{
    Shared,
    thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
};

/// A ring of `STAGES` tiles of `TILE_BYTES`: one is read, the others are in flight.
pub struct Ring<const STAGES: u32, const TILE_BYTES: u32> {
    /// The tiles, 16-byte aligned.
    pub tiles: Shared<u64>,
    /// One mbarrier per tile, whose phase ends when the tile has arrived.
    pub landed: Shared<u64>,
}

impl<const STAGES: u32, const TILE_BYTES: u32> Ring<STAGES, TILE_BYTES> {
    /// Calls `read` in all threads for each tile of the block; these tiles are `grid_dim` apart. In each
    /// iteration, after a block barrier, thread 0 starts to copy the tile `STAGES - 1` iterations ahead
    /// into the stage that was read last, and all threads wait for the current tile.
    ///
    /// # Safety
    /// `body` has `count` readable tiles and, if any, is 16-byte aligned. Called once, by all threads of
    /// the block, with shared memory that nothing else uses. `read` accesses only its tile, while it
    /// runs.
    #[inline(always)]
    pub unsafe fn for_each_tile(&self, body: *const u64, count: u64, mut read: impl FnMut(Shared<u64>)) {
        let step = u64::from(grid_dim_x());
        let ahead = u64::from(STAGES - 1) * step;
        let fetch = |stage, tile: u64| {
            // SAFETY: `fetch` is called only with an existing tile and a free stage.
            unsafe { self.fetch(stage, body.add((tile * u64::from(TILE_BYTES / 8)) as usize)) };
        };

        let mut tile = u64::from(block_idx_x());
        if thread_idx_x() == 0 {
            // SAFETY: the other threads access the mbarriers only after a block barrier.
            unsafe { self.init() };
            for stage in 0..STAGES - 1 {
                let tile = tile + u64::from(stage) * step;
                if tile < count {
                    fetch(stage, tile);
                }
            }
        }
        // The phase of an mbarrier changes once per round of the ring.
        let (mut stage, mut parity) = (0, 0);
        // ladder: turns
        while tile < count {
            // Orders the mbarriers' initialisation and all reads of the previous iteration's tile.
            // SAFETY: `tile` and `count` are the same for all threads of the block.
            unsafe { sync_threads() };
            if thread_idx_x() == 0 && tile + ahead < count {
                // The previous iteration's stage: `STAGES - 1` ahead in the ring is one back.
                fetch(if stage == 0 { STAGES - 1 } else { stage - 1 }, tile + ahead);
            }
            // SAFETY: this tile was fetched `STAGES - 1` iterations ago or before the loop, so that its
            // mbarrier is in the phase with this parity or has just completed it.
            unsafe { self.landed(stage).wait(parity) };
            read(self.tile(stage));
            stage += 1;
            if stage == STAGES {
                (stage, parity) = (0, parity ^ 1);
            }
            tile += step;
        }
        // ladder: end
        // The block may exit, because it has waited for all copies.
    }

    #[inline(always)]
    fn tile(&self, stage: u32) -> Shared<u64> {
        self.tiles.at(stage * (TILE_BYTES / 8))
    }

    #[inline(always)]
    fn landed(&self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.landed.at(stage))
    }

    /// # Safety
    /// Called once, by one thread of the block, before a block barrier.
    #[inline(always)]
    unsafe fn init(&self) {
        for stage in 0..STAGES {
            // One arrival per phase, by the thread that starts the copy.
            // SAFETY: one thread initialises each mbarrier once; a fence and a block barrier follow.
            unsafe { self.landed(stage).init(1) };
        }
        fence_mbarrier_init();
    }

    /// # Safety
    /// `from` is a readable tile, 16-byte aligned. Called by one thread, after all threads of the block
    /// have read the stage's previous tile and passed a block barrier.
    #[inline(always)]
    unsafe fn fetch(&self, stage: u32, from: *const u64) {
        // SAFETY: the stage is free, and all threads have observed the end of its previous phase.
        unsafe {
            self.landed(stage).arrive_expect(TILE_BYTES);
            copy_bulk(self.tile(stage), from, TILE_BYTES, self.landed(stage));
        }
    }
}
