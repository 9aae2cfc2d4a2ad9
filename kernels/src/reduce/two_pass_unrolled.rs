//! `unroll_full` with a grid-stride loop in front of its tree, in place of one element per thread: the
//! loop is the only difference.
//!
//! Removes the **loop over the tree's steps** from `two_pass_warp_sync`: the block size is a
//! compile-time constant, and what is left per element is a load and a combination.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; the steps from block / 2 down to
//!   32, each with a block barrier; the first warp finishes with warp barriers; thread 0 writes. The
//!   entry chooses among the block sizes once, by a branch that all threads take alike.
//! - Result: `output[block_idx]`, written by thread 0. A second launch reduces the blocks' values.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: write-up E of docs/sources.md.
//!
//! Section: `docs/ladder.md#two_pass_unrolled`. CUDA C twin: `cuda/two_pass_unrolled.cu`.

use super::prelude::*;

entries!(two_pass_unrolled(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_unrolled<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the input's bounds are checked; all threads of the block take part, and its size is one of
    // those that the tree knows.
    unsafe {
        // ladder: tree
        let value = steps::load_grid_stride::<T, R>(input, n);
        steps::write_block(output, steps::tree_unrolled::<T, R>(value));
        // ladder: end
    }
}
