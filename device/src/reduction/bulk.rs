//! The `bulk` kernel: bulk asynchronous copies into a ring of tiles.

use warpfold_abi::{
    arguments::ReduceCut,
    reducer::{BULK_STAGES, BULK_TILE_BYTES, BULK_TILE_GROUPS},
};

use super::{
    ACCUMULATORS, Scratch, Team, VectorReduction, finish,
    grid::{group_at, in_turn},
    in_vectors, single,
};
use crate::{
    Shared,
    bulk::Ring,
    grid::{launch_dependents, thread_index, threads},
    memory::{Streaming, load16},
    thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x},
};

/// The ring of tiles of [`bulk`].
pub type BulkRing = Ring<BULK_STAGES, BULK_TILE_BYTES>;

/// Reduces a buffer through a ring of tiles. Does nothing for elements that are loaded one by one.
///
/// # Safety
/// Same as [`grid`](super::grid()), except that `tile` is not used; the launch provides
/// [`BULK_SHARED_BYTES`](warpfold_abi::reducer::BULK_SHARED_BYTES) of dynamic shared memory; the block
/// size is a power of two, at most [`BULK_LARGEST_BLOCK`](warpfold_abi::reducer::BULK_LARGEST_BLOCK).
#[inline(always)]
pub unsafe fn bulk<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    scratch: Scratch,
    ring: BulkRing,
) {
    let ReduceCut { head, groups, .. } = arguments;
    if !in_vectors::<F::Element>() {
        return;
    }
    launch_dependents();
    let tiles = groups / u64::from(BULK_TILE_GROUPS);
    let (tid, block) = (thread_idx_x(), block_dim_x());
    let mut kept = F::start();
    let mut start = u64::from(block_idx_x()) * u64::from(BULK_TILE_GROUPS);
    let accumulate = |tile: Shared<u64>| {
        let mut at = tid;
        // There is no remainder: the block size is a power of two, at most 512.
        while at < BULK_TILE_GROUPS {
            let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
                // SAFETY: the group is in the tile, which begins at a multiple of 16 and has landed.
                unsafe { tile.cast::<u32>().get16(at + k as u32 * block) }
            });
            in_turn(loaded, |k, group| {
                let group_at = start + u64::from(at + k as u32 * block);
                F::accumulate(&mut kept, k, group, head + group_at * F::LANES);
            });
            at += ACCUMULATORS as u32 * block;
        }
        start += u64::from(grid_dim_x()) * u64::from(BULK_TILE_GROUPS);
    };
    // SAFETY: only this kernel uses the ring; whole tiles are in the input, at 16-byte boundaries.
    unsafe { ring.for_each_tile(group_at(arguments, 0).cast(), tiles, accumulate) };
    let mut rest = tiles * u64::from(BULK_TILE_GROUPS) + thread_index();
    // SAFETY: groups below `groups` are in the input; all threads of the grid finish once.
    unsafe {
        while rest < groups {
            let group = load16::<u32, Streaming>(group_at(arguments, rest));
            F::accumulate(&mut kept, 0, group, head + rest * F::LANES);
            rest += threads();
        }
        let team = Team::grid();
        let value = F::combine(F::close(kept), single::<F>(arguments, team, 0));
        finish::<F>(value, arguments, team, scratch);
    }
}
