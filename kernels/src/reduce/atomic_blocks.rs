//! `grid_stride`, then one atomic per block.
//!
//! Removes the **second launch** in the simplest way: the blocks' values meet in one atomic each, few
//! enough not to queue up.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 combines into the result
//!   atomically.
//! - Result: `output[0]`, which must hold the identity before.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - Float sums are not reproducible: the order of the blocks is the order of arrival.
//!
//! Source: write-up D of docs/sources.md; its own run is 10 000 000 integers in 0..10 by 32 blocks of
//! 256.
//!
//! Section: `docs/ladder.md#atomic_blocks`. CUDA C twin: `cuda/atomic_blocks.cu`.

use super::prelude::*;

entries!(atomic_blocks(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements; `output` holds the identity and is used by nothing else; the
/// launch gives one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn atomic_blocks<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: the input's bounds are checked; all threads of the block take part in the tree; the result
    // is only accessed atomically.
    unsafe {
        // ladder: atomic
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        if thread_idx_x() == 0 {
            R::combine_atomically(output, value);
        }
        // ladder: end
    }
}
