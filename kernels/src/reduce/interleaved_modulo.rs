//! One element per thread; at step s = 1, 2, 4, … each thread whose index is a multiple of 2s combines
//! its value with that of the thread at index + s.
//!
//! The baseline: it removes nothing and shows **warp divergence**. Active threads are 2s apart, so
//! until the last steps every warp executes with a few active lanes. With 256 threads the tree takes 8 +
//! 8 + 8 + 8 + 8 + 4 + 2 + 1 = 47 active warp-steps, where consecutive threads need 12. LLVM proves that
//! 2s is a power of two and compiles the remainder to a mask; with a division (from nvcc, in the CUDA C
//! twin) the kernel takes twice the time.
//!
//! - Steps: load to shared memory, barrier; log2(block) times: test, combine, barrier; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread, without bank conflicts: with
//!   4-byte elements the active lanes of a warp access different banks at any s.
//! - The profiler shows: few active threads per warp, many instructions issued.
//!
//! Source: write-ups A and B of docs/sources.md, there the first kernel.
//! Section: `docs/ladder.md#interleaved_modulo`. CUDA C twin: `cuda/interleaved_modulo.cu`.

use core::num::NonZeroU32;

use super::prelude::*;

entries!(interleaved_modulo(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn interleaved_modulo<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    let (tid, i) = (thread_idx_x(), grid::thread_index());
    // SAFETY: i < n where the input is read. The block size is a multiple of 2s, and so is tid, hence
    // tid + s is below the block size. A barrier separates one thread's write from another's read.
    unsafe {
        values.set(tid, if i < n { R::map(*input.add(i as usize)) } else { R::IDENTITY });
        sync_threads();

        // ladder: tree
        let mut s = 1;
        while s < block_dim_x() {
            // 2s is not zero, but a plain `%` would leave a panic path for that case.
            if tid % NonZeroU32::new_unchecked(2 * s) == 0 {
                values.set(tid, R::combine(values.get(tid), values.get(tid + s)));
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
