//! Coalesced grid-stride loads; the first warp finishes the tree without block barriers.
//!
//! Removes the **block barriers of the last steps** from `two_pass_shared`.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; halving down to 32 values with
//!   block barriers; the first warp finishes with warp barriers; thread 0 writes `output[block_idx]`. A
//!   second launch reduces the blocks' values.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#two_pass_warp_sync`. CUDA C twin: `cuda/two_pass_warp_sync.cu`.

use super::prelude::*;

entries!(two_pass_warp_sync(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_warp_sync<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx_x();
    // SAFETY: `input` and `output` are as the caller guarantees; every thread writes its own element;
    // the halving ends with a block barrier, after which only the first warp accesses the elements.
    unsafe {
        // ladder: tree
        values.set(tid, steps::load_grid_stride::<T, R>(input, n));
        sync_threads();
        steps::halve_to::<T, R>(values, WARP_SIZE);
        if tid < WARP_SIZE {
            let value = steps::finish_in_warp::<T, R>(values);
            steps::write_block(output, value);
        }
        // ladder: end
    }
}
