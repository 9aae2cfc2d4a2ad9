//! Shuffles inside each warp, one value per warp through shared memory, shuffles again.
//!
//! Removes nearly all **shared memory**: a block passes one value per warp through it, with one barrier,
//! whatever its size.
//!
//! - Steps: grid-stride loop into a register; five shuffles; lane 0 of each warp writes to shared memory,
//!   barrier; the first warp reads one value per warp and shuffles again; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1. Shared memory: 32 elements, static. No bank conflicts.
//! - The profiler shows: ten shuffles per thread of the first warp, five of the others, next to no shared
//!   traffic.
//!
//! Source: the reduction samples of the CUDA toolkit.

use super::{Element, Reduction, entries, tree};

entries!(shuffle_two_level(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block.
#[inline(always)]
unsafe fn shuffle_two_level<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part.
    unsafe {
        let value = tree::load_grid_stride::<T, R>(input, n);
        tree::write_block_by_warps::<T, R>(output, value, tree::shuffle_xor::<T, R>);
    }
}
