//! One element per thread; the tree with the block size as a compile-time constant.
//!
//! Removes the **loop** from the tree: with a constant number of threads every step is unrolled, its
//! offset is an immediate operand, and steps that the block does not need are not generated.
//!
//! - Steps: load; shared memory, barrier; the steps from block / 2 down to 32, each with a block
//!   barrier; the first warp finishes with warp barriers; thread 0 writes `output[block_idx]`. A uniform
//!   branch selects the block size once.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: NVIDIA's reduction walk-through and write-up E of docs/sources.md.
//! Section: `docs/ladder.md#unroll_full`. CUDA C twin: `cuda/unroll_full.cu`.

use super::prelude::*;

entries!(unroll_full(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_full<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; `BLOCK` is the block's size, a
    // power of two from 32 to 1024.
    unsafe {
        values.set(thread_idx_x(), steps::load_one::<T, R>(input, n));
        sync_threads();

        // ladder: tree
        let total = match block_dim_x() {
            1024 => tree_of::<T, R, 1024>(values),
            512 => tree_of::<T, R, 512>(values),
            256 => tree_of::<T, R, 256>(values),
            128 => tree_of::<T, R, 128>(values),
            64 => tree_of::<T, R, 64>(values),
            _ => tree_of::<T, R, 32>(values),
        };
        // ladder: end
        if thread_idx_x() == 0 {
            *output.add(block_idx_x() as usize) = total;
        }
    }
}

/// Combines `BLOCK` values by the tree. The compiler unrolls its loop, which has constant bounds. The
/// result is valid in thread 0.
///
/// # Safety
/// All `BLOCK` threads must call this after a block barrier. `values` has `BLOCK` written elements.
#[inline(always)]
unsafe fn tree_of<T: Element, R: Reduction<T>, const BLOCK: u32>(values: Shared<T>) -> T {
    let tid = thread_idx_x();
    // SAFETY: tid + s < 2 s ≤ BLOCK; a barrier separates one thread's write from another's read.
    unsafe {
        // ladder: tree
        let mut s = BLOCK / 2;
        while s >= WARP_SIZE {
            if tid < s {
                values.set(tid, R::combine(values.get(tid), values.get(tid + s)));
            }
            sync_threads();
            s /= 2;
        }
        // The other warps return: the first one is still writing the elements that they would read.
        if tid >= WARP_SIZE {
            return R::IDENTITY;
        }
        steps::finish_in_warp::<T, R>(values)
        // ladder: end
    }
}
