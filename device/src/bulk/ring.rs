//! A ring of tiles in shared memory: bulk copies fill the ones ahead while one is read.

use super::{Mbarrier, copy_bulk, fence_mbarrier_init};
use crate::{
    Shared,
    thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
};

/// `STAGES` tiles of `TILE_BYTES`, of which one is read and the others are under way.
pub struct Ring<const STAGES: u32, const TILE_BYTES: u32> {
    /// The tiles, from a multiple of 16.
    pub tiles: Shared<u64>,
    /// An mbarrier per tile: it has landed.
    pub landed: Shared<u64>,
}

impl<const STAGES: u32, const TILE_BYTES: u32> Ring<STAGES, TILE_BYTES> {
    /// Shows every tile of the block to all its threads, in turn; the block's tiles are `grid_dim`
    /// apart. In each turn, behind a block barrier, thread 0 starts the copy of the tile that is
    /// `STAGES - 1` turns ahead into the stage that the last turn emptied; all threads wait for this
    /// turn's tile.
    ///
    /// # Safety
    /// `body` has `count` readable tiles and, if any, starts at a multiple of 16. Called once,
    /// by all threads of the block, with shared memory that nothing else uses. `read` reads the tile
    /// that it is given, and nothing of it afterwards.
    #[inline(always)]
    pub unsafe fn for_each_tile(&self, body: *const u64, count: u64, mut read: impl FnMut(Shared<u64>)) {
        let step = u64::from(grid_dim_x());
        let ahead = u64::from(STAGES - 1) * step;
        let fetch = |stage, tile: u64| {
            // SAFETY: callers fetch tiles that are there, into a stage that is free.
            unsafe { self.fetch(stage, body.add((tile * u64::from(TILE_BYTES / 8)) as usize)) };
        };

        let mut tile = u64::from(block_idx_x());
        if thread_idx_x() == 0 {
            // SAFETY: the other threads come to the mbarriers behind a block barrier.
            unsafe { self.init() };
            for stage in 0..STAGES - 1 {
                let tile = tile + u64::from(stage) * step;
                if tile < count {
                    fetch(stage, tile);
                }
            }
        }
        // One phase of an mbarrier per time around the ring.
        let (mut stage, mut parity) = (0, 0);
        // ladder: turns
        while tile < count {
            // The mbarriers are there, and everybody has left the last turn's tile.
            // SAFETY: `tile` and `count` are the same for all threads of the block.
            unsafe { sync_threads() };
            if thread_idx_x() == 0 && tile + ahead < count {
                // Into the stage that the last turn left: STAGES - 1 turns on is one turn back.
                fetch(if stage == 0 { STAGES - 1 } else { stage - 1 }, tile + ahead);
            }
            // SAFETY: this turn's tile was fetched STAGES - 1 turns ago or before the loop, so that its
            // mbarrier is in this phase or at its end.
            unsafe { self.landed(stage).wait(parity) };
            read(self.tile(stage));
            stage += 1;
            if stage == STAGES {
                (stage, parity) = (0, parity ^ 1);
            }
            tile += step;
        }
        // ladder: end
        // Every copy that was started has been waited for: the block may exit.
    }

    #[inline(always)]
    fn tile(&self, stage: u32) -> Shared<u64> {
        self.tiles.at(stage * (TILE_BYTES / 8))
    }

    #[inline(always)]
    fn landed(&self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.landed.at(stage))
    }

    /// Initialises the mbarriers of all stages.
    ///
    /// # Safety
    /// Called once, by one thread of the block, in front of a block barrier.
    #[inline(always)]
    unsafe fn init(&self) {
        for stage in 0..STAGES {
            // One arrival per phase: the thread's that starts the copy.
            // SAFETY: the caller's contract, and the fence.
            unsafe { self.landed(stage).init(1) };
        }
        fence_mbarrier_init();
    }

    /// Starts the copy of a tile.
    ///
    /// # Safety
    /// `from` is a readable tile, a multiple of 16. Called by one thread; all threads of the block have
    /// waited for the stage's last tile and read it, and a block barrier lies behind that.
    #[inline(always)]
    unsafe fn fetch(&self, stage: u32, from: *const u64) {
        // SAFETY: the stage is free, and the phase is a new one: the last was seen to end by everybody.
        unsafe {
            self.landed(stage).arrive_expect(TILE_BYTES);
            copy_bulk(self.tile(stage), from, TILE_BYTES, self.landed(stage));
        }
    }
}
