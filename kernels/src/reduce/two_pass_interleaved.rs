//! Coalesced grid-stride loads; thread 0 still reduces the block's values one by one.
//!
//! Removes the **uncoalesced loads**: neighbouring threads read neighbouring elements.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; thread 0 loops over the block's
//!   values by 16-byte loads, which nvcc also generates for the twin, and writes `output[block_idx]`. A
//!   second launch reduces the blocks' values.
//! - Barriers: 1. Shared memory: one element per thread.
//! - The profiler shows: 4 sectors per request for 4-byte elements; a long tail with one active thread.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#two_pass_interleaved`. CUDA C twin: `cuda/two_pass_interleaved.cu`.

use super::prelude::*;

entries!(two_pass_interleaved(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_interleaved<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // ladder: loop
    let mut value = R::IDENTITY;
    let mut i = grid::thread_index();
    while i < n {
        // SAFETY: i < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        i += grid::threads();
    }
    // SAFETY: all threads of the block take part, and `output` has an element per block.
    unsafe { steps::write_block(output, steps::gather_in_thread_0::<T, R>(value)) };
    // ladder: end
}
