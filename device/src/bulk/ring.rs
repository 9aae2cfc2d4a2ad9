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
    /// One mbarrier per tile, which completes when the tile has arrived.
    pub landed: Shared<u64>,
}

impl<const STAGES: u32, const TILE_BYTES: u32> Ring<STAGES, TILE_BYTES> {
    /// Calls `read` in all threads for each tile of the block; its tiles are `grid_dim` apart. In each
    /// turn, after a block barrier, thread 0 starts the copy of the tile `STAGES - 1` turns ahead into
    /// the stage that was read last, and all threads wait for this turn's tile.
    ///
    /// # Safety
    /// `body` has `count` readable tiles and, if any, is 16-byte aligned. Called once, by all threads of
    /// the block, with shared memory that nothing else uses. `read` accesses only its tile, before it
    /// returns.
    #[inline(always)]
    pub unsafe fn for_each_tile(&self, body: *const u64, count: u64, mut read: impl FnMut(Shared<u64>)) {
        let step = u64::from(grid_dim_x());
        let ahead = u64::from(STAGES - 1) * step;
        let fetch = |stage, tile: u64| {
            // SAFETY: callers pass tiles that exist and a stage that is free.
            unsafe { self.fetch(stage, body.add((tile * u64::from(TILE_BYTES / 8)) as usize)) };
        };

        let mut tile = u64::from(block_idx_x());
        if thread_idx_x() == 0 {
            // SAFETY: the other threads access the mbarriers after a block barrier.
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
            // Orders the mbarriers' initialisation and all reads of the last turn's tile.
            // SAFETY: `tile` and `count` are the same for all threads of the block.
            unsafe { sync_threads() };
            if thread_idx_x() == 0 && tile + ahead < count {
                // The stage of the last turn, because STAGES - 1 turns ahead is one turn back.
                fetch(if stage == 0 { STAGES - 1 } else { stage - 1 }, tile + ahead);
            }
            // SAFETY: this turn's tile was fetched STAGES - 1 turns ago or before the loop, so that its
            // mbarrier is in this phase or has just completed it.
            unsafe { self.landed(stage).wait(parity) };
            read(self.tile(stage));
            stage += 1;
            if stage == STAGES {
                (stage, parity) = (0, parity ^ 1);
            }
            tile += step;
        }
        // ladder: end
        // All copies have been waited for, so the block may exit.
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
            // SAFETY: the caller's contract, and the fence.
            unsafe { self.landed(stage).init(1) };
        }
        fence_mbarrier_init();
    }

    /// # Safety
    /// `from` is a readable tile, 16-byte aligned. Called by one thread, after all threads of the block
    /// have waited for and read the stage's last tile, and then a block barrier.
    #[inline(always)]
    unsafe fn fetch(&self, stage: u32, from: *const u64) {
        // SAFETY: the stage is free, and the phase is new: all threads have observed the last one's end.
        unsafe {
            self.landed(stage).arrive_expect(TILE_BYTES);
            copy_bulk(self.tile(stage), from, TILE_BYTES, self.landed(stage));
        }
    }
}
