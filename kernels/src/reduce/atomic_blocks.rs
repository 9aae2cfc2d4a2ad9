//! The grid-stride loop and tree of `grid_stride`, then one atomic per block.
//!
//! Removes the **second launch** in the simplest way: by one atomic per block, with little contention.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 combines the block's value
//!   atomically into `output[0]`, which must hold the identity before the launch.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - Float sums are not reproducible: the blocks' values are combined in the order of arrival.
//!
//! Source: write-up D of docs/sources.md; its run has 10 000 000 integers in 0..10 and 32 blocks of 256.
//! Section: `docs/ladder.md#atomic_blocks`. CUDA C twin: `cuda/atomic_blocks.cu`.

use super::prelude::*;

entries!(atomic_blocks(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements; `output` holds the identity and is used by nothing else; the
/// launch gives one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn atomic_blocks<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the input has `n` elements; all threads of the block call `tree`, which has the shared
    // memory that it needs; the result is only accessed atomically.
    unsafe {
        // ladder: atomic
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        if thread_idx_x() == 0 {
            R::combine_atomically(output, value);
        }
        // ladder: end
    }
}
