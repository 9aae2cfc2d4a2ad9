//! A loop over all elements in one thread of the grid.
//!
//! Removes nothing: it is the **worst** GPU kernel, one lane of one warp on one multiprocessor, with a
//! few loads in flight at a time. It shows how fast a program runs on a GPU if it is not parallel.
//!
//! - Launch: one block; all threads but thread 0 exit at once.
//! - Steps: thread 0 loads and combines n times, then writes `output[0]`.
//! - Barriers: none. Shared memory: none.
//! - The profiler shows: one active thread, time proportional to n and to the latency of a load.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#serial`. CUDA C twin: `cuda/serial.cu`.

use super::prelude::*;

entries!(serial(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element.
#[inline(always)]
unsafe fn serial<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // ladder: loop
    if grid::thread_index() == 0 {
        let mut value = R::IDENTITY;
        let mut i = 0;
        while i < n {
            // SAFETY: i < n, the number of readable elements.
            value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
            i += 1;
        }
        // SAFETY: the output is writable, and only this thread accesses it.
        unsafe { *output = value };
    }
    // ladder: end
}
