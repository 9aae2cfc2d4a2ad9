//! Two elements per thread, combined during the load; then the sequential tree.
//!
//! Removes the **idle half**: in a tree over one element per thread, half of the threads only load. Here
//! each thread combines two elements as it loads them, with half as many blocks.
//!
//! - Steps: load and combine elements t and t + block of the block's segment of 2·block; shared memory,
//!   barrier; log2(block) times: combine, barrier; thread 0 writes `output[block_idx]`.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: half the blocks of `sequential`, two loads in flight per thread.
//!
//! Source: NVIDIA's reduction walk-through, write-up A of docs/sources.md.
//! Section: `docs/ladder.md#first_add`. CUDA C twin: `cuda/first_add.cu`.

use super::prelude::*;

entries!(first_add(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn first_add<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // ladder: load
    let segment = 2 * u64::from(block_dim_x()) * u64::from(block_idx_x());
    let first = segment + u64::from(thread_idx_x());
    let load = |i: u64| {
        // SAFETY: i < n, the number of readable elements.
        if i < n { R::map(unsafe { *input.add(i as usize) }) } else { R::IDENTITY }
    };
    // Both loads precede the first use of a value, so two are in flight.
    let (a, b) = (load(first), load(first + u64::from(block_dim_x())));
    // SAFETY: all threads of the block take part, and `output` has an element per block.
    unsafe { steps::write_block(output, steps::tree::<T, R>(R::combine(a, b))) };
    // ladder: end
}
