//! Coalesced grid-stride loads; thread 0 still reduces the block's values one by one.
//!
//! Removes the **uncoalesced loads**: neighbouring threads read neighbouring elements.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; thread 0 loops over the block's
//!   values, 16 bytes a load as nvcc makes of the twin, and writes.
//! - Result: `output[block_idx]`, written by thread 0. A second launch reduces the blocks' values.
//! - Barriers: 1. Shared memory: one element per thread.
//! - The profiler shows: 4 sectors per request for 4-byte elements; a long tail in which one thread works.
//!
//! Source: write-up E of docs/sources.md.

use super::{Element, Reduction, entries, tree};
use crate::gpu::Lanes16;

entries!(two_pass_interleaved(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_interleaved<T: Element + Lanes16, R: Reduction<T>>(
    input: *const T,
    n: u64,
    output: *mut T,
) {
    // SAFETY: the input's bounds are checked; all threads of the block take part.
    unsafe {
        let value = tree::load_grid_stride::<T, R>(input, n);
        tree::write_block(output, tree::gather_in_thread_0::<T, R>(value));
    }
}
