//! One element per thread; the tree with the block size as a compile-time constant.
//!
//! Removes the **loop** from the tree: with the number of threads known, every step is written out, its
//! offset an immediate operand, and steps that the block does not need are not there.
//!
//! - Steps: load; shared memory, barrier; the steps from block / 2 down to 32, each with a block
//!   barrier; the first warp finishes with warp barriers; thread 0 writes. The entry chooses among the
//!   block sizes once, by a branch that all threads take alike.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1 + log2(block / 32). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: fewer instructions than the loop, larger code.
//!
//! Source: NVIDIA's reduction walk-through and write-up E of docs/sources.md.
//!
//! Section: `docs/ladder.md#unroll_full`. CUDA C twin: `cuda/unroll_full.cu`.

use super::prelude::*;

entries!(unroll_full(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn unroll_full<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; the tree of the block's own size,
    // which is one of these.
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

/// The tree over a block of `BLOCK` threads: a loop between constants, which the compiler writes out.
/// Valid in thread 0.
///
/// # Safety
/// Called by all `BLOCK` threads of a block behind a block barrier, with as many written elements in
/// `values`.
#[inline(always)]
unsafe fn tree_of<T: Element, R: Reduction<T>, const BLOCK: u32>(values: Shared<T>) -> T {
    let tid = thread_idx_x();
    // SAFETY: tid + s < 2 s, at most BLOCK; a barrier lies between one thread's write and another's
    // read.
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
        // The other warps leave here: what they would read is still being written.
        if tid >= WARP_SIZE {
            return R::IDENTITY;
        }
        steps::finish_in_warp::<T, R>(values)
        // ladder: end
    }
}
