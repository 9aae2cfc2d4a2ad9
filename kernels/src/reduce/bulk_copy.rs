//! Bulk asynchronous copies bring whole tiles into shared memory while earlier ones are combined.
//!
//! Removes the **loads from the threads**: one instruction of one thread fetches 8 KiB. What is under
//! way occupies no registers, so the bytes in flight no longer depend on how many threads there are.
//!
//! - Steps: the block's tiles go through a ring of four stages. In each turn, behind a block barrier,
//!   thread 0 starts the copy of the tile three turns ahead into the stage that the last turn emptied;
//!   all threads wait on the mbarrier of this turn's stage and combine its tile, 16 bytes at a time.
//!   What lies before the first 16-byte boundary and after the last whole tile is loaded from global
//!   memory. Shuffles in each warp, one value per warp through shared memory, shuffles again; thread 0
//!   writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1, and 1 per tile. Shared memory: four tiles of 8 KiB, four mbarriers and 32 elements,
//!   static. No bank conflicts.
//! - The profiler shows: `UBLKCP` in place of `LDG` in the loop, `LDS.128`, waits on `SYNCS`.
//!
//! Source: the suite's own, after the CUDA programming guide's section on bulk copies.
//!
//! Section: `docs/hopper.md#bulk_copy`. CUDA C twin: `cuda/bulk_copy.cu`.

use super::prelude::*;
use warpfold_abi::ladder::{BULK_COPY_STAGES as STAGES, BULK_COPY_TILE_BYTES as TILE_BYTES};
use warpfold_device::bulk::Ring;

entries!(bulk_copy(Reduce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    /// The tiles, of any element type.
    fn tiles: bulk_copy_tiles = [u64; STAGES * TILE_BYTES / 8]
}
shared_array! {
    /// One mbarrier per stage: its tile has landed.
    fn landed: bulk_copy_landed = [u64; STAGES]
}

/// # Safety
/// `input` has `n` readable elements and is aligned for `T`, `output` one writable element per block.
#[inline(always)]
unsafe fn bulk_copy<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the input's bounds are the loader's business; all threads of the block take part.
    unsafe { steps::reduce_and_write::<T, R>(output, load::<T, R>(input, n)) };
}

/// This thread's share of the input.
///
/// # Safety
/// As [`bulk_copy`], called by all threads of the block.
#[inline(always)]
unsafe fn load<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let to_boundary = (input as u64).wrapping_neg() % 16 / size_of::<T>() as u64;
    let head = Ord::min(to_boundary, n);
    let count = (n - head) / tile_len::<T>();
    let tiled = count * tile_len::<T>();
    // SAFETY: `head` is at most n; `count` whole tiles follow it, from a 16-byte boundary if any.
    let mut value = unsafe { load_tiles::<T, R>(input.add(head as usize), count) };

    // What no tile covers, as if it were one piece: `head` elements, and those behind the tiles.
    let mut rest = grid::thread_index();
    while rest < n - tiled {
        let i = if rest < head { rest } else { rest + tiled };
        // SAFETY: i < n.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        rest += grid::threads();
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
/// `body` has `count` readable tiles and, if any, starts at a multiple of 16. Called once, by
/// all threads of the block.
#[inline(always)]
unsafe fn load_tiles<T: Element, R: Reduction<T>>(body: *const T, count: u64) -> T {
    let ring = Ring::<STAGES, TILE_BYTES> { tiles: *tiles(), landed: *landed() };
    // ladder: combine
    let mut values = T::splat(R::IDENTITY);
    let combine = |tile: Shared<u64>| {
        let mut group = thread_idx_x();
        while group < TILE_BYTES / 16 {
            // SAFETY: the group lies in the tile, which starts at a multiple of 16 and has landed.
            let loaded = unsafe { tile.cast::<T>().get16(group) };
            for (value, &element) in values.as_mut().iter_mut().zip(loaded.as_ref()) {
                *value = R::combine(*value, R::map(element));
            }
            group += block_dim_x();
        }
    };
    // ladder: end
    // SAFETY: the caller's contract; the ring's memory is this kernel's own.
    unsafe { ring.for_each_tile(body.cast(), count, combine) };
    values.as_ref().iter().copied().fold(R::IDENTITY, R::combine)
}
