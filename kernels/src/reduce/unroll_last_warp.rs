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
use crate::gpu::*;

entries!(unroll_last_warp(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_last_warp<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx();
    // SAFETY: every thread writes its own element before the barrier; the tree's contract is met; the
    // first warp is whole.
    unsafe {
        values.set(tid, tree::load_one::<T, R>(input, n));
        sync_block();
        tree::halve_to::<T, R>(values, WARP_SIZE);
        if tid < WARP_SIZE {
            tree::finish_in_warp::<T, R>(values);
            tree::write_block(output, values.get(0));
        }
    }
}
