//! The sequential tree until one warp can finish it without block barriers.
//!
//! Removes the **block barriers of the last steps**: once 32 values are left, one warp is all that works,
//! and its lanes need only the warp's own barrier.
//!
//! - Steps: load to shared memory, barrier; halving down to 32 values, each step with a block barrier; the
//!   first warp finishes in five steps with warp barriers; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The warp's steps are explicit: lanes of a warp do not run in lock step by themselves, so a volatile
//!   pointer, as older texts have it, is no substitute.
//!
//! Source: NVIDIA's reduction walk-through and write-up E of docs/sources.md.

use super::{Element, Reduction, entries, tree};

entries!(unroll_last_warp(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_last_warp<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree.
    unsafe {
        let value = tree::load_one::<T, R>(input, n);
        tree::write_block_by_first_warp::<T, R>(output, value, tree::finish_in_warp::<T, R>);
    }
}
