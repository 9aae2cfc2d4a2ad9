//! The tree of `unroll_full` after a grid-stride loop, which is the only difference between the two.
//!
//! Removes the **loop over the tree's steps** from `two_pass_warp_sync`: the block size is a
//! compile-time constant, which leaves a load and a combination per element.
//!
//! - Steps: grid-stride loop into a register; then, with the result, barriers and shared memory, as
//!   `unroll_full`. A second launch reduces the blocks' values.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#two_pass_unrolled`. CUDA C twin: `cuda/two_pass_unrolled.cu`.

use super::prelude::*;

entries!(two_pass_unrolled(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_unrolled<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the caller's contract; all threads of the block take part; its size is a power of two from
    // 32 to 1024.
    unsafe {
        // ladder: tree
        let value = steps::load_grid_stride::<T, R>(input, n);
        steps::write_block(output, steps::tree_unrolled::<T, R>(value));
        // ladder: end
    }
}
