//! A grid-stride loop per thread, then one atomic per thread.
//!
//! Removes the need for a tree, and shows **contention**: all threads of the grid update the same
//! address, and the memory system serialises the updates.
//!
//! - Steps: grid-stride loop into a register; one atomic per thread into `output[0]`, which must hold
//!   the identity before the launch.
//! - Barriers: none. Shared memory: none.
//! - Float sums are not reproducible: the values are combined in the order of arrival.
//! - An f32 sum treats subnormal numbers as zero, because atomic additions in global memory do.
//! - The profiler shows: as many atomics as threads, all to one address; the compiler aggregates atomics
//!   on 32-bit integers per warp.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#atomic_per_thread`. CUDA C twin: `cuda/atomic_per_thread.cu`.

use super::prelude::*;

entries!(atomic_per_thread(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements; `output` holds the identity and is used by nothing else.
#[inline(always)]
unsafe fn atomic_per_thread<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // ladder: loop
    let mut value = R::IDENTITY;
    let mut i = grid::thread_index();
    while i < n {
        // SAFETY: i < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        i += grid::threads();
    }
    // SAFETY: the output is live memory that is only accessed atomically.
    unsafe { R::combine_atomically(output, value) };
    // ladder: end
}
