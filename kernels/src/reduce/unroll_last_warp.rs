//! The sequential tree until one warp can finish it without block barriers.
//!
//! Removes the **block barriers of the last steps**: once 32 values are left, only one warp is active,
//! and its lanes need only the warp barrier.
//!
//! - Steps: load to shared memory, barrier; halving down to 32 values, each step with a block barrier;
//!   the first warp finishes in five steps with warp barriers; thread 0 writes `output[block_idx]`.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The warp barriers are explicit, because lanes of a warp need not run in lockstep. A volatile
//!   pointer, as in older texts, is no substitute.
//!
//! Source: NVIDIA's reduction walk-through and write-up E of docs/sources.md.
//! Section: `docs/ladder.md#unroll_last_warp`. CUDA C twin: `cuda/unroll_last_warp.cu`.

use super::prelude::*;

entries!(unroll_last_warp(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_last_warp<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx_x();
    // SAFETY: every thread writes its own element; the halving ends with a block barrier, after which
    // only the first warp accesses the elements: tid ^ s < 32, and a warp barrier separates every read
    // from the writes of other lanes.
    unsafe {
        values.set(tid, steps::load_one::<T, R>(input, n));
        sync_threads();
        steps::halve_to::<T, R>(values, WARP_SIZE);

        if tid < WARP_SIZE {
            // ladder: warp
            let mut value = values.get(tid);
            let mut s = WARP_SIZE / 2;
            while s > 0 {
                // All lanes take part, lane t with lane t ^ s: no branch, and no index out of range.
                let other = values.get(tid ^ s);
                sync_warp(FULL_WARP);
                value = R::combine(value, other);
                values.set(tid, value);
                sync_warp(FULL_WARP);
                s /= 2;
            }
            // ladder: end
            if tid == 0 {
                *output.add(block_idx_x() as usize) = value;
            }
        }
    }
}
