//! Bulk asynchronous copies bring whole tiles into shared memory while earlier ones are combined.
//!
//! Removes the **loads from the threads**: one instruction of one thread fetches 8 KiB. What is under way
//! occupies no registers, so the bytes in flight no longer depend on how many threads there are.
//!
//! - Steps: the block's tiles go through a ring of four stages. In each turn, behind a block barrier, thread
//!   0 starts the copy of the tile three turns ahead into the stage that the last turn emptied; all threads
//!   wait on the mbarrier of this turn's stage and combine its tile, 16 bytes at a time. What lies before
//!   the first 16-byte boundary and after the last whole tile is loaded from global memory. Shuffles in each
//!   warp, one value per warp through shared memory, shuffles again; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1, and 1 per tile. Shared memory: four tiles of 8 KiB, four mbarriers and 32 elements,
//!   static. No bank conflicts.
//! - The profiler shows: `UBLKCP` in place of `LDG` in the loop, `LDS.128`, waits on `SYNCS`.
//!
//! Source: the suite's own, after the CUDA programming guide's section on bulk copies.

use super::{Element, Reduction, entries, tree};
use crate::{gpu::*, shared_array};

entries!(bulk_copy(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// Tiles in shared memory: one that is combined, the others under way.
const STAGES: u32 = 4;
const TILE_BYTES: u32 = 8 * 1024;

shared_array! {
    /// The tiles, of any element type.
    fn tiles: bulk_copy_tiles = [u64; (STAGES * TILE_BYTES / 8) as usize]
}
shared_array! {
    /// One mbarrier per stage: its tile has landed.
    fn landed: bulk_copy_landed = [u64; STAGES as usize]
}

/// # Safety
/// `input` has `n` readable elements and is aligned for `T`, `output` one writable element per block.
#[inline(always)]
unsafe fn bulk_copy<T: Element + Lanes16, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are the loader's business; all threads of the block take part.
    unsafe {
        let value = load::<T, R>(input, n);
        tree::write_block_by_warps::<T, R>(output, value, tree::shuffle_xor::<T, R>);
    }
}

/// This thread's share of the input.
///
/// # Safety
/// As [`bulk_copy`], called by all threads of the block.
#[inline(always)]
unsafe fn load<T: Element + Lanes16, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let to_boundary = (input as u64).wrapping_neg() % 16 / size_of::<T>() as u64;
    let head = Ord::min(to_boundary, n);
    let count = (n - head) / tile_len::<T>();
    let tiled = count * tile_len::<T>();
    // SAFETY: `head` is at most n; `count` whole tiles follow it, from a 16-byte boundary if any.
    let mut value = unsafe { load_tiles::<T, R>(input.add(head as usize), count) };

    // What no tile covers, as if it were one piece: `head` elements, and those behind the tiles.
    let mut rest = global_idx();
    while rest < n - tiled {
        let i = if rest < head { rest } else { rest + tiled };
        // SAFETY: i < n.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        rest += global_dim();
    }
    value
}

/// Elements of a tile.
const fn tile_len<T>() -> u64 {
    TILE_BYTES as u64 / size_of::<T>() as u64
}

/// This thread's share of the block's tiles, which are `grid_dim` apart.
///
/// # Safety
/// `body` has `count` readable tiles and, if any, starts at a multiple of 16. Called once, by all threads
/// of the block.
#[inline(always)]
unsafe fn load_tiles<T: Element + Lanes16, R: Reduction<T>>(body: *const T, count: u64) -> T {
    let (tid, step) = (thread_idx(), u64::from(grid_dim()));
    let ahead = u64::from(STAGES - 1) * step;
    let fetch = |turn, tile: u64| {
        // SAFETY: callers fetch tiles that are there, and give the stage of a turn to that turn's tile.
        unsafe { Stage::of_turn(turn).fetch(body.add((tile * tile_len::<T>()) as usize)) };
    };

    let mut tile = u64::from(block_idx());
    if tid == 0 {
        // SAFETY: the other threads come to the barriers behind a block barrier.
        unsafe { Stage::<T>::init_all() };
        for turn in 0..STAGES - 1 {
            let tile = tile + u64::from(turn) * step;
            if tile < count {
                fetch(turn, tile);
            }
        }
    }
    let mut values = T::splat(R::IDENTITY);
    let mut turn = 0;
    while tile < count {
        // The mbarriers are there, and everybody has left the last turn's tile.
        // SAFETY: `tile` and `count` are the same for all threads of the block.
        unsafe { sync_block() };
        if tid == 0 && tile + ahead < count {
            // The stage that the last turn left: STAGES - 1 turns on is one turn back.
            fetch(turn + (STAGES - 1), tile + ahead);
        }
        // SAFETY: this turn's tile was fetched STAGES - 1 turns ago or before the loop.
        unsafe { Stage::of_turn(turn).combine_into::<R>(&mut values) };
        turn += 1;
        tile += step;
    }
    // Every copy that was started has been waited for: the block may exit.
    values.as_ref().iter().copied().fold(R::IDENTITY, R::combine)
}

/// A tile's place in shared memory for one turn.
struct Stage<T> {
    tile: Shared<T>,
    landed: Mbarrier,
    /// Of the mbarrier's phase in this turn: it has one phase per time around the ring.
    parity: u32,
}

impl<T: Element + Lanes16> Stage<T> {
    #[inline(always)]
    fn of_turn(turn: u32) -> Self {
        let stage = turn % STAGES;
        Self {
            tile: tiles().cast::<T>().at(stage * tile_len::<T>() as u32),
            landed: Mbarrier::at(landed().at(stage)),
            parity: turn / STAGES % 2,
        }
    }

    /// Initialises the mbarriers of all stages.
    ///
    /// # Safety
    /// Called once, by one thread of the block, in front of a block barrier.
    #[inline(always)]
    unsafe fn init_all() {
        for turn in 0..STAGES {
            // One arrival per phase: the thread's that starts the copy.
            // SAFETY: the caller's contract, and the fence.
            unsafe { Self::of_turn(turn).landed.init(1) };
        }
        fence_mbarrier_init();
    }

    /// Starts the copy of a tile.
    ///
    /// # Safety
    /// `from` is a readable tile, a multiple of 16. Called by one thread; all threads of the block have
    /// waited for the stage's last tile and read it, and a block barrier lies behind that.
    #[inline(always)]
    unsafe fn fetch(self, from: *const T) {
        // SAFETY: the stage is free, and the phase is a new one: the last was seen to end by everybody.
        unsafe {
            self.landed.arrive_expect(TILE_BYTES);
            copy_bulk(self.tile, from, TILE_BYTES, self.landed);
        }
    }

    /// Waits for the tile and combines this thread's share of it, lane by lane.
    ///
    /// # Safety
    /// The tile has been fetched for this turn, and this thread has waited for the one before it.
    #[inline(always)]
    unsafe fn combine_into<R: Reduction<T>>(self, values: &mut T::Lanes) {
        // SAFETY: the caller's contract: the mbarrier is in this phase or at its end.
        unsafe { self.landed.wait(self.parity) };
        let mut group = thread_idx();
        while group < TILE_BYTES / 16 {
            // SAFETY: the group lies in the tile, which starts at a multiple of 16 and has landed.
            let loaded = unsafe { self.tile.get16(group) };
            for (value, &element) in values.as_mut().iter_mut().zip(loaded.as_ref()) {
                *value = R::combine(*value, R::map(element));
            }
            group += block_dim();
        }
    }
}
