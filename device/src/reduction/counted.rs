//! The `counted` kernel, which reads the number of elements from device memory.

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

/// Reduces a buffer whose length is in device memory.
///
/// # Safety
/// The arguments are as their fields document; `most` elements are fewer than 2^37 groups. The slots are
/// as for [`grid`](super::grid()). The block size is a power of two, of whole warps.
#[inline(always)]
pub unsafe fn counted<F: VectorReduction>(arguments: ReduceCounted<F::Element>, scratch: Scratch) {
    let ReduceCounted { input, count, count_words, most, slots, output, found } = arguments;
    // An earlier launch may write the count.
    wait_grid_dependencies();
    // SAFETY: the first `n` elements are readable, because `n` is at most `most`; the slots are valid.
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

/// Returns the number of groups per tile that gives all blocks equally many tiles of equal size. The
/// host computes it for the other kernels. Divides in 32 bits, which is far faster than in 64.
#[inline(always)]
fn tile(groups: u64) -> u64 {
    let blocks = grid_dim_x();
    let most = ACCUMULATORS as u32 * block_dim_x();
    let tiles = ((groups + u64::from(most - 1)) >> most.trailing_zeros()) as u32;
    let rounds = at_least_one(tiles, blocks);
    let steps = groups.div_ceil(u64::from(WARP_SIZE)) as u32;
    u64::from(at_least_one(steps, blocks * rounds) * WARP_SIZE)
}

#[inline(always)]
fn at_least_one(n: u32, by: u32) -> u32 {
    // No divisor is 0, but the compiler does not know that.
    Ord::max(n.div_ceil(Ord::max(by, 1)), 1)
}
