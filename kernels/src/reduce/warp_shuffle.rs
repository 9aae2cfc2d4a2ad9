//! Many elements per thread; a shared-memory tree down to 32 values, then xor shuffles.
//!
//! Removes **shared memory and block barriers from the last five steps**: once one warp can hold
//! what is left, its lanes read each other's registers.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; halving down to 32 values,
//!   each step with a barrier; the first warp finishes with five shuffles; lane 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: five shuffles per block in place of five loads, stores and barriers.
//!
//! Source: write-up E of docs/sources.md, the shuffle variant.

use super::{Element, Reduction, entries, tree};
use crate::gpu::*;

entries!(warp_shuffle(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn warp_shuffle<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree.
    unsafe {
        let value = tree::load_grid_stride::<T, R>(input, n);
        tree::write_block_by_first_warp::<T, R>(output, value, shuffle::<T, R>);
    }
}

/// 32 values in shared memory combined by shuffles.
///
/// # Safety
/// Called by all lanes of the first warp, behind a block barrier.
#[inline(always)]
unsafe fn shuffle<T: Element, R: Reduction<T>>(values: Shared<T>) -> T {
    // SAFETY: the caller's contract; the warp is whole.
    unsafe { tree::shuffle_xor::<T, R>(values.get(thread_idx())) }
}
