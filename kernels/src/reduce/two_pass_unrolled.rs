//! The kernel `unroll_full` with a grid-stride loop in place of one load per thread.
//!
//! Removes the **loop over the tree's steps** from `two_pass_warp_sync`: the block size is a
//! compile-time constant, so the compiler unrolls the loop.
//!
//! - Steps: grid-stride loop into a register; then the steps of `unroll_full`, with the same result,
//!   barriers and shared memory. A second launch reduces the blocks' values.
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
    // SAFETY: `input`, `output` and the shared memory are as the caller guarantees; all threads of the
    // block take part, and the block's size is a power of two from 32 to 1024.
    unsafe {
        // ladder: tree
        let value = steps::load_grid_stride::<T, R>(input, n);
        steps::write_block(output, steps::tree_unrolled::<T, R>(value));
        // ladder: end
    }
}
