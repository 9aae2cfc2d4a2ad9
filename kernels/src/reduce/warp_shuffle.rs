//! Many elements per thread; a shared-memory tree down to 32 values, then xor shuffles.
//!
//! Removes **shared memory and block barriers from the last five steps**: once 32 values are left, the
//! lanes of one warp read each other's registers.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; halving down to 32 values,
//!   each step with a barrier; the first warp finishes with five shuffles; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: five shuffles per block in place of five loads, stores and barriers.
//!
//! Source: write-up E of docs/sources.md, the shuffle variant.
//! Section: `docs/ladder.md#warp_shuffle`. CUDA C twin: `cuda/warp_shuffle.cu`.

use super::prelude::*;

entries!(warp_shuffle(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn warp_shuffle<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx_x();
    // SAFETY: `input` and `output` are as the caller guarantees; every thread writes its own element;
    // after the halving's last block barrier only the first warp, which is whole, accesses the elements.
    unsafe {
        values.set(tid, steps::load_grid_stride::<T, R>(input, n));
        sync_threads();
        steps::halve_to::<T, R>(values, WARP_SIZE);

        if tid < WARP_SIZE {
            // ladder: shuffles
            let mut total = values.get(tid);
            let mut lane_mask = WARP_SIZE / 2;
            while lane_mask > 0 {
                total = R::combine(total, total.shuffle_xor(FULL_WARP, lane_mask));
                lane_mask /= 2;
            }
            // ladder: end
            if tid == 0 {
                *output.add(block_idx_x() as usize) = total;
            }
        }
    }
}
