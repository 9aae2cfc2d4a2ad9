//! The interleaved tree with consecutive threads: at step s = 1, 2, 4, … thread t adds at 2st.
//!
//! Removes the **divergence** of the modulo tree: the working threads are the first ones, so whole warps
//! work or rest (12 active warp-steps with 256 threads where the modulo tree has 47). In exchange their
//! addresses lie 2s apart, and several lanes hit one bank of shared memory: with 4-byte elements two of
//! them at s = 1, then four, up to a 32nd of the block.
//!
//! - Steps: load to shared memory, barrier; log2(block) times: add, barrier; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread, with **bank conflicts**.
//! - The profiler shows: no divergence, more shared wavefronts than requests.
//!
//! Source: write-ups A and B of docs/sources.md.

use super::{Element, Reduction, entries, tree};
use crate::gpu::*;

entries!(interleaved_strided(input: *const T, n: u64, output: *mut T) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn interleaved_strided<T: Element, R: Reduction<T>>(input: *const T, n: u64, output: *mut T) {
    let values = dynamic_shared::<T>();
    let tid = thread_idx();
    // SAFETY: where 2 s tid is below the block's threads, so is 2 s tid + s; a barrier lies between
    // one thread's write and another's read.
    unsafe {
        values.set(tid, tree::load_one::<T, R>(input, n));
        sync_block();

        let mut s = 1;
        while s < block_dim() {
            let i = 2 * s * tid;
            if i < block_dim() {
                values.set(i, R::combine(values.get(i), values.get(i + s)));
            }
            sync_block();
            s *= 2;
        }
        tree::write_block(output, values.get(0));
    }
}
