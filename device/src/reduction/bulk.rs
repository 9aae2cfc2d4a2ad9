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

/// The ring of tiles of the kernel [`bulk`].
pub type BulkRing = Ring<BULK_STAGES, BULK_TILE_BYTES>;

/// Does nothing of elements that are loaded one by one.
///
/// # Safety
/// As [`grid`](super::grid()), but for the tile, which is not used; the launch gives
/// [`BULK_SHARED_BYTES`](warpfold_abi::reducer::BULK_SHARED_BYTES) of dynamic shared memory, and blocks
/// are of a power of two of at most [`BULK_LARGEST_BLOCK`](warpfold_abi::reducer::BULK_LARGEST_BLOCK)
/// threads.
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
        // Whole turns: the block's threads are a power of two, at most 512.
        while at < BULK_TILE_GROUPS {
            let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
                // SAFETY: the group lies in the tile, which starts at a multiple of 16 and has landed.
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
    // SAFETY: the ring's memory is this kernel's own; whole tiles lie inside and start at a 16-byte
    // boundary.
    unsafe { ring.for_each_tile(group_at(arguments, 0).cast(), tiles, accumulate) };
    // Groups behind the last whole tile.
    let mut rest = tiles * u64::from(BULK_TILE_GROUPS) + thread_index();
    // SAFETY: groups below `groups` lie inside; the caller's contract.
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
