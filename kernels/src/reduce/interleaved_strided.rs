//! The interleaved tree with consecutive threads: at step s, thread t combines values 2st and 2st + s.
//!
//! Removes the **divergence** of the modulo tree: the first threads are active, so whole warps are
//! active or idle (12 active warp-steps with 256 threads where the modulo tree has 47). In exchange the
//! addresses of the active threads are 2s apart, and several lanes access one bank of shared memory:
//! with 4-byte elements two lanes at s = 1, then four, up to block / 32 lanes.
//!
//! - Steps: load to shared memory, barrier; log2(block) times: combine, barrier; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread, with **bank conflicts**.
//! - The profiler shows: no divergence, more shared wavefronts than requests.
//!
//! Source: write-ups A and B of docs/sources.md.
//! Section: `docs/ladder.md#interleaved_strided`. CUDA C twin: `cuda/interleaved_strided.cu`.

use super::prelude::*;

entries!(interleaved_strided(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn interleaved_strided<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let (tid, i) = (thread_idx_x(), grid::thread_index());
    // SAFETY: i < n where the input is read; where k = 2 s tid is below the block size, so is k + s; a
    // barrier separates one thread's write from another's read.
    unsafe {
        values.set(tid, if i < n { R::map(*input.add(i as usize)) } else { R::IDENTITY });
        sync_threads();

        // ladder: tree
        let mut s = 1;
        while s < block_dim_x() {
            let k = 2 * s * tid;
            if k < block_dim_x() {
                values.set(k, R::combine(values.get(k), values.get(k + s)));
            }
            sync_threads();
            s *= 2;
        }
        // ladder: end
        if tid == 0 {
            *output.add(block_idx_x() as usize) = values.get(0);
        }
    }
}
