//! Bulk asynchronous copies load whole tiles into shared memory while earlier ones are combined.
//!
//! Removes the **loads from the threads**: one instruction of one thread copies 8 KiB. Copies in flight
//! occupy no registers, so the bytes in flight do not depend on the number of threads.
//!
//! - Steps: the block's tiles go through a ring of four stages. In each iteration, after a barrier of
//!   the block, thread 0 starts the copy of the tile three ahead into the stage that the last iteration
//!   emptied; all threads wait on the mbarrier of the current stage and combine its tile by 16 bytes.
//!   Elements before the first 16-byte boundary and after the last whole tile are loaded from global
//!   memory. Shuffles in each warp, one value per warp through shared memory, shuffles again; thread 0
//!   writes `output[block_idx]`.
//! - Barriers: 1, and 1 per tile. Shared memory: four tiles of 8 KiB, four mbarriers and 32 elements,
//!   static. No bank conflicts.
//! - The profiler shows: `UBLKCP` in place of `LDG` in the loop, `LDS.128`, waits on `SYNCS`.
//!
//! Source: the suite's own, after the CUDA programming guide's section on bulk copies.
//! Section: `docs/hopper.md#bulk_copy`. CUDA C twin: `cuda/bulk_copy.cu`.

use super::prelude::*;
use warpfold_abi::ladder::{BULK_COPY_STAGES as STAGES, BULK_COPY_TILE_BYTES as TILE_BYTES};
use warpfold_device::bulk::Ring;

entries!(bulk_copy(Reduce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    fn tiles: bulk_copy_tiles = [u64; STAGES * TILE_BYTES / 8]
}
shared_array! {
    /// One mbarrier per stage of the ring.
    fn landed: bulk_copy_landed = [u64; STAGES]
}

/// # Safety
/// `input` has `n` readable elements and is aligned for `T`, `output` one writable element per block.
#[inline(always)]
unsafe fn bulk_copy<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: `input` and `output` are as the caller guarantees; all threads of the block take part.
    unsafe { steps::reduce_and_write::<T, R>(output, load::<T, R>(input, n)) };
}

/// Combines this thread's share of the input.
///
/// # Safety
/// The conditions of [`bulk_copy`] apply, and all threads of the block call this.
#[inline(always)]
unsafe fn load<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let to_boundary = (input as u64).wrapping_neg() % 16 / size_of::<T>() as u64;
    let head = Ord::min(to_boundary, n);
    let count = (n - head) / tile_len::<T>();
    let tiled = count * tile_len::<T>();
    // SAFETY: `head` is at most n; `count` whole tiles follow it, 16-byte aligned if there are any.
    let mut value = unsafe { load_tiles::<T, R>(input.add(head as usize), count) };

    // Elements outside the tiles are indexed as one range: first the `head` elements before the tiles,
    // then the elements after the tiles.
    let mut rest = grid::thread_index();
    while rest < n - tiled {
        let i = if rest < head { rest } else { rest + tiled };
        // SAFETY: i < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        rest += grid::threads();
    }
    value
}

const fn tile_len<T>() -> u64 {
    TILE_BYTES as u64 / size_of::<T>() as u64
}

/// Combines this thread's share of the block's tiles. The block takes every `grid_dim`-th tile.
///
/// # Safety
/// `body` has `count` readable tiles and, if any, is 16-byte aligned. All threads call this once.
#[inline(always)]
unsafe fn load_tiles<T: Element, R: Reduction<T>>(body: *const T, count: u64) -> T {
    let ring = Ring::<STAGES, TILE_BYTES> { tiles: *tiles(), landed: *landed() };
    // ladder: combine
    let mut values = T::splat(R::IDENTITY);
    let combine = |tile: Shared<u64>| {
        let mut group = thread_idx_x();
        while group < TILE_BYTES / 16 {
            // SAFETY: the vector is inside the tile, which is aligned to 16 bytes and has been copied.
            let loaded = unsafe { tile.cast::<T>().get16(group) };
            for (value, &element) in values.as_mut().iter_mut().zip(loaded.as_ref()) {
                *value = R::combine(*value, R::map(element));
            }
            group += block_dim_x();
        }
    };
    // ladder: end
    // SAFETY: the caller guarantees `count` readable, aligned tiles and that all threads call this;
    // nothing else uses the ring's shared memory.
    unsafe { ring.for_each_tile(body.cast(), count, combine) };
    values.as_ref().iter().copied().fold(R::IDENTITY, R::combine)
}
