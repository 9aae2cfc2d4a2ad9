//! The same kernel and launches as in `grid_stride`: coalesced grid-stride loads and a shared-memory
//! tree. They are repeated here to follow the order of write-up E.
//!
//! Removes the **serial tail** in thread 0.
//!
//! - Steps, result, barriers and shared memory: as `grid_stride`. A second launch reduces the blocks'
//!   values.
//!
//! Source: write-up E of docs/sources.md.
//! Section: `docs/ladder.md#two_pass_shared`. CUDA C twin: `cuda/two_pass_shared.cu`.

use super::grid_stride::grid_stride;
use super::prelude::*;

entries!(two_pass_shared(Reduce) for i32 u32 i64 u64 f32 f64);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block, and the launch gives
/// one element of dynamic shared memory per thread.
#[inline(always)]
unsafe fn two_pass_shared<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    // SAFETY: `grid_stride` has the same conditions as this function.
    // ladder: call
    unsafe { grid_stride::<T, R>(Reduce { input, n, output }) };
    // ladder: end
}
