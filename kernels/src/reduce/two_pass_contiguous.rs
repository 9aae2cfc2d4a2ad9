//! A contiguous chunk per thread; thread 0 reduces the block's values one by one.
//!
//! Shows **uncoalesced loads**: neighbouring threads read addresses a whole chunk apart, so every load
//! of a warp touches 32 sectors and uses a few bytes of each.
//!
//! - Steps: loop over the thread's chunk of ⌈n / threads⌉ elements; shared memory, barrier; thread 0
//!   loops over the block's values and writes `output[block_idx]`. A second launch reduces the blocks'
//!   values.
//! - Barriers: 1. Shared memory: one element per thread.
//! - The profiler shows: up to 32 sectors per request.
//!
//! Source: write-up E of docs/sources.md, the first of its two-pass kernels.
//! Section: `docs/ladder.md#two_pass_contiguous`. CUDA C twin: `cuda/two_pass_contiguous.cu`.

use core::num::NonZeroU64;

use super::prelude::*;

entries!(two_pass_contiguous(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_contiguous<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: a grid has at least one thread. A plain division would leave a panic path for zero.
    let threads = unsafe { NonZeroU64::new_unchecked(grid::threads()) };
    // ladder: chunk
    let chunk = (n + (threads.get() - 1)) / threads;
    let start = grid::thread_index() * chunk;
    let end = Ord::min(start + chunk, n);
    // ladder: end
    // SAFETY: `element` is only called for i < end, which is at most n.
    let element = |i: u64| R::map(unsafe { *input.add(i as usize) });
    let mut value = R::IDENTITY;
    let mut i = start;
    // Unrolled to have four loads in flight, because LLVM does not unroll a loop with run-time bounds.
    // ladder: chunk
    while i + 4 <= end {
        let four = [element(i), element(i + 1), element(i + 2), element(i + 3)];
        value = four.into_iter().fold(value, R::combine);
        i += 4;
    }
    // ladder: end
    while i < end {
        value = R::combine(value, element(i));
        i += 1;
    }

    let values = dynamic_shared::<T>();
    let mut total = R::IDENTITY;
    // SAFETY: every thread writes its own element before the barrier; a block has 32 threads or more, so
    // its elements fill whole 16-byte vectors, and dynamic shared memory is 16-byte aligned.
    unsafe {
        // ladder: tail
        values.set(thread_idx_x(), value);
        sync_threads();
        if thread_idx_x() == 0 {
            let mut group = 0;
            while group < block_dim_x() / T::LANES {
                let elements = values.get16(group);
                total = elements.as_ref().iter().fold(total, |total, &value| R::combine(total, value));
                group += 1;
            }
            *output.add(block_idx_x() as usize) = total;
        }
        // ladder: end
    }
}
