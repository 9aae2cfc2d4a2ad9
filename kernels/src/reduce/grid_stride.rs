//! Many elements per thread, combined in a register before the tree.
//!
//! Removes most of the **tree**: its cost is paid once per resident thread, not once per element. The
//! grid has only as many blocks as are resident at once, and strides over the input.
//!
//! - Steps: grid-stride loop into a register; shared memory, barrier; log2(block) times: combine,
//!   barrier; thread 0 writes `output[block_idx]`.
//! - Barriers: 1 + log2(block). Shared memory: one element per thread. No bank conflicts.
//! - The profiler shows: loads of 4 or 8 bytes per thread, one at a time, coalesced.
//!
//! Source: NVIDIA's reduction walk-through and write-up D of docs/sources.md.
//! Section: `docs/ladder.md#grid_stride`. CUDA C twin: `cuda/grid_stride.cu`.

use super::prelude::*;

entries!(grid_stride(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
pub(super) unsafe fn grid_stride<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // ladder: loop
    let mut value = R::IDENTITY;
    let mut i = grid::thread_index();
    while i < n {
        // SAFETY: i < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        i += grid::threads();
    }
    // SAFETY: all threads of the block take part in the tree, and `output` has an element per block.
    unsafe { steps::write_block(output, steps::tree::<T, R>(value)) };
    // ladder: end
}
