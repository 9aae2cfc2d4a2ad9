//! One element per thread; the lower half of the threads adds the upper half's values, again and
//! again.
//!
//! Removes the **bank conflicts** and the divergence of the interleaved trees: the working threads
//! are consecutive and so are the addresses they touch.
//!
//! - Steps: load to shared memory, barrier; log2(block) times: add, barrier; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: 12 active warp-steps with 256 threads (4 + 2 + 1 + 1 + 1 + 1 + 1 + 1); half
//!   of the threads idle from the first step on.
//!
//! Source: write-ups A and E of docs/sources.md.

use super::{Element, Reduction, entries, tree};

entries!(sequential(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
pub(super) unsafe fn sequential<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree.
    unsafe {
        let value = tree::load_one::<T, R>(input, n);
        tree::write_block(output, tree::reduce_block::<T, R>(value));
    }
}
