//! Coalesced grid-stride loads; the tree's last warp works without block barriers.
//!
//! Removes the **block barriers of the last steps** from `two_pass_shared`.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; halving down to 32 values with block
//!   barriers; the first warp finishes with warp barriers; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0. A second launch reduces the blocks' values.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//!
//! Source: write-up E of docs/sources.md.

use super::{Element, Reduction, entries, tree};

entries!(two_pass_warp_sync(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_warp_sync<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree.
    unsafe {
        let value = tree::load_grid_stride::<T, R>(input, n);
        tree::write_block_by_first_warp::<T, R>(output, value, tree::finish_in_warp::<T, R>);
    }
}
