//! One cooperative launch with a barrier over the whole grid.
//!
//! Removes the **second launch**: all blocks wait for each other. The wait ends, because a cooperative
//! launch guarantees that all blocks are resident together.
//!
//! - Steps: grid-stride loop into a register; shared-memory tree; thread 0 stores the block's value to
//!   `partials[block_idx]`; grid barrier; block 0 strides over the partials and runs the tree again; its
//!   thread 0 writes `output[0]`.
//! - The barrier: each block adds 1 to one counter, except that block 0 adds the amount that flips the
//!   top bit once all blocks have arrived; thread 0 of each block waits for the flip. This works from
//!   either state of the bit, so the counter needs no reset between launches. It must be zero before the
//!   first launch. Launches that may overlap need separate counters and partials.
//! - Barriers: 3 + log2(block), two of them around the wait for the grid; block 0 has 1 + log2(block)
//!   more. Shared memory: one element per thread.
//!
//! Source: the reductionMultiBlockCG sample of the CUDA toolkit.
//! Section: `docs/ladder.md#cooperative`. CUDA C twin: `cuda/cooperative.cu`.

use super::prelude::*;
use warpfold_device::atomic::{AcqRel, Atomic, Device, load_acquire};

entries!(cooperative(ReduceOnce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `partials` one element per block; `output` is writable; `counter`
/// is zero or as the last launch left it; no other launch uses `partials`, `counter` or `output`; all
/// blocks are resident; the launch gives one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn cooperative<T: Element, R: Reduction<T>>(
    ReduceOnce { input, n, partials, counter, output }: ReduceOnce<T>,
) {
    // SAFETY: all threads of the block call `tree`; until the grid barrier, which all blocks reach, only
    // this block accesses partials[block_idx].
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

/// # Safety
/// All threads of all blocks call this, all blocks are resident, and only this barrier uses `counter`.
#[inline(always)]
unsafe fn sync_grid(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: all blocks are resident and call this, as the caller guarantees; the block barriers order
    // thread 0's accesses for the whole block.
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
