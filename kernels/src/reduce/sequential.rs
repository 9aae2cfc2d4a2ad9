//! One element per thread; at each step the lower half of the threads combines the upper half's values
//! into its own.
//!
//! Removes the **bank conflicts** and the divergence of the interleaved trees: the active threads are
//! consecutive, and access consecutive addresses.
//!
//! - Steps: load to shared memory, barrier; log2(block) times: combine, barrier; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: 12 active warp-steps with 256 threads (4 + 2 + 1 + 1 + 1 + 1 + 1 + 1); half
//!   of the threads idle from the first step on.
//!
//! Source: write-ups A and E of docs/sources.md.
//! Section: `docs/ladder.md#sequential`. CUDA C twin: `cuda/sequential.cu`.

use super::prelude::*;

entries!(sequential(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
pub(super) unsafe fn sequential<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let (tid, i) = (thread_idx_x(), grid::thread_index());
    // SAFETY: i < n where the input is read; tid + s < 2 s ≤ the block size; a barrier separates
    // one thread's write from another's read.
    unsafe {
        values.set(tid, if i < n { R::map(*input.add(i as usize)) } else { R::IDENTITY });
        sync_threads();

        // ladder: tree
        let mut s = block_dim_x() / 2;
        while s > 0 {
            if tid < s {
                values.set(tid, R::combine(values.get(tid), values.get(tid + s)));
            }
            sync_threads();
            s /= 2;
        }
        // ladder: end
        if tid == 0 {
            *output.add(block_idx_x() as usize) = values.get(0);
        }
    }
}
