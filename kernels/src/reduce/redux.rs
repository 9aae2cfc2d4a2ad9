//! Each warp reduces its values in one instruction.
//!
//! Removes the **five shuffles** of a warp: since compute capability 8.0 the hardware reduces 32-bit
//! integers over a warp by itself.
//!
//! - Steps: grid-stride loop into a register; `redux.sync` in each warp; lane 0 writes to shared memory,
//!   barrier; the first warp reads one value per warp and reduces again; thread 0 writes.
//! - Result: `output[block_idx]`, written by thread 0.
//! - Barriers: 1. Shared memory: 32 elements, static.
//! - 32-bit integers alone: the instruction has no other types before compute capability 10.0.
//! - The profiler shows: two `REDUX` where `shuffle_two_level` has ten shuffles.
//!
//! Source: the reduction sample of the CUDA toolkit.

use super::{Element, Max, Min, Reduction, Sum, SumSq, entries, tree};
use crate::gpu::*;

entries!(redux(input: *const T, n: u64, output: *mut T) for i32 u32);

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block.
#[inline(always)]
unsafe fn redux<T: Element, R: WarpReduction<T>>(input: *const T, n: u64, output: *mut T) {
    // SAFETY: the input's bounds are checked; all threads of the block take part.
    unsafe {
        let value = tree::load_grid_stride::<T, R>(input, n);
        tree::write_block_by_warps::<T, R>(output, value, R::in_warp);
    }
}

/// A reduction that the hardware does over a warp.
trait WarpReduction<T>: Reduction<T> {
    /// The combined value of all lanes, in all lanes.
    ///
    /// # Safety
    /// All 32 lanes of the warp must call it together.
    unsafe fn in_warp(value: T) -> T;
}

macro_rules! warp_reductions {
    ($($ty:ty, $name:ident: $function:path;)*) => {$(
        impl WarpReduction<$ty> for $name {
            #[inline(always)]
            unsafe fn in_warp(value: $ty) -> $ty {
                // SAFETY: the caller's contract.
                unsafe { $function(FULL_WARP, value) }
            }
        }
    )*};
}

warp_reductions! {
    i32, Sum: redux_add_i32;
    i32, Min: redux_min_i32;
    i32, Max: redux_max_i32;
    i32, SumSq: redux_add_i32;
    u32, Sum: redux_add_u32;
    u32, Min: redux_min_u32;
    u32, Max: redux_max_u32;
    u32, SumSq: redux_add_u32;
}
