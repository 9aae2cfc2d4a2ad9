//! Coalesced grid-stride loads; the tree with the block size as a compile-time constant.
//!
//! Removes the **loop** from the tree, as `unroll_full` does, behind the grid-stride loop of `two_pass_shared`: what is
//! left per element is a load and a combination.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; the steps from block / 2 down to 32, each with a block barrier;
//!   the first warp finishes with warp barriers; thread 0 writes. The entry chooses among the block sizes
//!   once, by a branch that all threads take alike.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: write-up E of docs/sources.md.

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
        let value = steps::load_grid_stride::<T, R>(input, n);
        steps::write_block(output, steps::tree_unrolled::<T, R>(value));
    }
}
