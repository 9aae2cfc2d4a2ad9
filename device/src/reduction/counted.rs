//! The `counted` kernel: how many elements there are is read from device memory.

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCounted, ReduceCut},
};

use super::{
    ACCUMULATORS, Scratch, VectorReduction,
    grid::{cut, grid},
};
use crate::{
    grid::wait_grid_dependencies,
    thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x},
};

/// # Safety
/// The arguments are what their fields say. The slots are zero when the launches before this one in the
/// stream are over, and no other stream uses them. Blocks are whole warps, of a power of two of threads,
/// and so many that `most` elements make fewer than 2^32 tiles of a warp's groups.
#[inline(always)]
pub unsafe fn counted<F: VectorReduction>(arguments: ReduceCounted<F::Element>, scratch: Scratch) {
    let ReduceCounted { input, count, count_words, most, slots, output, found } = arguments;
    // What the launches before have written may be the count.
    wait_grid_dependencies();
    // SAFETY: the caller's contract; fewer elements than there are remain inside.
    unsafe {
        let mut given = u64::from(*count);
        if count_words > 1 {
            given |= u64::from(*count.add(1)) << 32;
        }
        if block_idx_x() == 0 && thread_idx_x() == 0 {
            *found = given;
        }
        let n = Ord::min(given, most);
        let input = cut(input, n);
        grid::<F>(ReduceCut { tile: tile(input.groups), slots, output, ..input }, scratch)
    }
}

/// Groups of a tile, such that all blocks have as many rounds and the last one is as full as the others:
/// what the host says of the other kernels, in divisions of 32 bits, which are far shorter.
#[inline(always)]
fn tile(groups: u64) -> u64 {
    let blocks = grid_dim_x();
    let most = ACCUMULATORS as u32 * block_dim_x();
    let tiles = ((groups + u64::from(most - 1)) >> most.trailing_zeros()) as u32;
    let rounds = at_least_one(tiles, blocks);
    let steps = groups.div_ceil(u64::from(WARP_SIZE)) as u32;
    u64::from(at_least_one(steps, blocks * rounds) * WARP_SIZE)
}

/// `n` over `by`, rounded up, and 1 where that is 0.
#[inline(always)]
fn at_least_one(n: u32, by: u32) -> u32 {
    // No divisor here is 0, which the compiler does not know.
    Ord::max(n.div_ceil(Ord::max(by, 1)), 1)
}
