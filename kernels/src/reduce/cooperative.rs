//! One cooperative launch with a barrier over the whole grid.
//!
//! Removes the **second launch** by making all blocks wait for each other: the launch guarantees that
//! they are resident together, so that waiting ends.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 stores the block's value to
//!   `partials[block_idx]`; grid barrier; block 0 strides over the partials and runs the tree again.
//! - Result: `output[0]`, written by thread 0 of block 0.
//! - The barrier: every block increases one counter, block 0 by so much that the top bit flips when all
//!   have arrived; thread 0 of each block waits for the flip. It works from either state of the bit, so
//!   the counter needs no reset between launches. It must start at zero. Launches that may overlap need
//!   a workspace each.
//! - Barriers: 3 + log2(block), two of them around the wait for the grid; in block 0 1 + log2(block)
//!   more. Shared memory: one element per thread.
//!
//! Source: the reductionMultiBlockCG sample of the CUDA toolkit.
//!
//! Section: `docs/ladder.md#cooperative`. CUDA C twin: `cuda/cooperative.cu`.

use super::prelude::*;
use warpfold_device::atomic::{AcqRel, Atomic, Device, load_acquire};

entries!(cooperative(ReduceOnce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `partials` one element per block; `counter` is as the last launch
/// left it or zero, `output` writable, and no other launch uses these three; all blocks are resident;
/// the launch gives one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn cooperative<T: Element, R: Reduction<T>>(
    ReduceOnce { input, n, partials, counter, output }: ReduceOnce<T>,
) {
    // SAFETY: the tree gets one element per thread; partials[block_idx] is this block's alone until the
    // grid barrier, which all blocks reach.
    unsafe {
        let value = steps::tree::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        if thread_idx_x() == 0 {
            *partials.add(block_idx_x() as usize) = value;
        }
        sync_grid(counter);

        if block_idx_x() == 0 {
            let value = steps::tree::<T, R>(steps::load_partials::<T, R>(partials));
            if thread_idx_x() == 0 {
                *output = value;
            }
        }
    }
}

/// Barrier over the whole grid.
///
/// # Safety
/// All threads of all blocks call it, all blocks are resident together, and `counter` is used
/// by this barrier alone.
#[inline(always)]
unsafe fn sync_grid(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: the caller's contract; the block barriers make thread 0 speak for its block.
    unsafe {
        // ladder: barrier
        sync_threads();
        if thread_idx_x() == 0 {
            let share = if block_idx_x() == 0 { FLIPPED - (grid_dim_x() - 1) } else { 1 };
            let before = Atomic::fetch_add::<AcqRel, Device>(counter, share);
            while (load_acquire(counter) ^ before) & FLIPPED == 0 {}
        }
        sync_threads();
        // ladder: end
    }
}
