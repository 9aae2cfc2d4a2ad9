//! One launch: blocks publish their partial results, and the last block to finish reduces them.
//!
//! Removes the **second launch**: no block waits for another, yet the last block observes that all
//! others have published.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 stores the block's value to
//!   `partials[block_idx]` and increments the counter. The increment is acquire-release: it publishes
//!   the value (release), and in the last block makes all other blocks' values visible (acquire). The
//!   last block strides over the partials and runs the tree again; its thread 0 writes `output[0]`.
//! - The counter wraps to zero at the last increment, ready for the next launch without a memset. Before
//!   the first launch it must be zero. Launches that may overlap need separate counters and partials.
//! - Barriers: 2 + log2(block); the last block has 1 + log2(block) more. Shared memory: one element per
//!   thread and 4 bytes.
//! - Reproducible: partials are combined in the same order, whichever block is last.
//!
//! Source: write-up E of docs/sources.md, and the threadFenceReduction sample of the CUDA toolkit.
//! Section: `docs/ladder.md#single_pass_last_block`. CUDA C twin: `cuda/single_pass_last_block.cu`.

use super::prelude::*;
use warpfold_device::atomic::{AcqRel, Device, fetch_inc};

entries!(single_pass_last_block(ReduceOnce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    fn is_last: single_pass_last_block_is_last = [u32; 1]
}

/// # Safety
/// `input` has `n` readable elements, `partials` one element per block; `output` is writable; `counter`
/// is zero; no other launch uses `partials`, `counter` or `output`; the launch gives one element of
/// dynamic shared memory per thread.
#[inline(always)]
unsafe fn single_pass_last_block<T: Element, R: Reduction<T>>(
    ReduceOnce { input, n, partials, counter, output }: ReduceOnce<T>,
) {
    let tid = thread_idx_x();
    // SAFETY: all threads of the block call `tree`; only this block accesses partials[block_idx] until
    // the increment; the flag is written before the barrier and read after it, and all threads of the
    // block read the same value, so that the branch is uniform.
    unsafe {
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        // ladder: last
        if tid == 0 {
            *partials.add(block_idx_x() as usize) = value;
            let arrived = fetch_inc::<AcqRel, Device>(counter, grid_dim_x() - 1);
            is_last().set(0, u32::from(arrived == grid_dim_x() - 1));
        }
        sync_threads();
        // ladder: end

        // ladder: last
        if is_last().get(0) == 1 {
            let value = steps::tree::<T, R>(steps::load_partials::<T, R>(partials));
            if tid == 0 {
                *output = value;
            }
        }
        // ladder: end
    }
}
