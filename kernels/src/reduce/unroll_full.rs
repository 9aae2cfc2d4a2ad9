//! One element per thread; the tree with the block size as a compile-time constant.
//!
//! Removes the **loop** from the tree: with the number of threads known, every step is written out, its
//! offset an immediate operand, and steps that the block does not need are not there.
//!
//! - Steps: load; shared memory, barrier; the steps from block / 2 down to 32, each with a block barrier;
//!   the first warp finishes with warp barriers; thread 0 writes. The entry chooses among the block sizes
//!   once, by a branch that all threads take alike.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: NVIDIA's reduction walk-through and write-up E of docs/sources.md.

use super::{Element, Reduction, entries, tree};

entries!(unroll_full(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_full<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part, and its size is one of
    // those that the tree knows.
    unsafe {
        let value = tree::load_one::<T, R>(input, n);
        tree::write_block(output, tree::reduce_block_unrolled::<T, R>(value));
    }
}
