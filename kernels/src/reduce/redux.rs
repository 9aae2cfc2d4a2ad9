//! The reduction of a warp's values in one instruction.
//!
//! Removes the **five shuffles** of a warp: since compute capability 8.0 the hardware reduces 32-bit
//! integers over a warp.
//!
//! - Steps: grid-stride loop into a register; `redux.sync` in each warp; lane 0 writes to shared memory,
//!   barrier; the first warp reads one value per warp and reduces again; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1. Shared memory: 32 elements, static.
//! - 32-bit integers only: the instruction has no other types before compute capability 10.0.
//! - The profiler shows: two `REDUX` where `shuffle_two_level` has ten shuffles.
//!
//! Source: the reduction sample of the CUDA toolkit.
//! Section: `docs/ladder.md#redux`. CUDA C twin: `cuda/redux.cu`.

use super::{Max, Min, Sum, SumSq, prelude::*};
use warpfold_device::warp::{
    redux_add_i32, redux_add_u32, redux_max_i32, redux_max_u32, redux_min_i32, redux_min_u32,
};

entries!(redux(Reduce) for i32 u32);

shared_array! {
    fn of_warps: redux_of_warps = [u32; 32]
}

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block.
#[inline(always)]
unsafe fn redux<T: Element, R: WarpReduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let of_warps = of_warps().cast::<T>();
    let (tid, warps) = (thread_idx_x(), block_dim_x() / WARP_SIZE);
    // SAFETY: `input` and `output` are as the caller guarantees; warps are whole; lane 0 of warp w
    // writes element w before the barrier, and the first warp reads only written elements.
    unsafe {
        // ladder: levels
        let value = R::reduce_warp(steps::load_grid_stride::<T, R>(input, n));
        if lane_id() == 0 {
            of_warps.set(tid / WARP_SIZE, value);
        }
        // ladder: end
        sync_threads();

        if tid < WARP_SIZE {
            let value = if tid < warps { of_warps.get(tid) } else { R::IDENTITY };
            let total = R::reduce_warp(value);
            if tid == 0 {
                *output.add(block_idx_x() as usize) = total;
            }
        }
    }
}

trait WarpReduction<T: Element>: Reduction<T> {
    /// Returns the combined value of all lanes, in all lanes.
    ///
    /// # Safety
    /// All 32 lanes of the warp must call this together.
    unsafe fn reduce_warp(value: T) -> T;
}

macro_rules! warp_reductions {
    ($($ty:ty, $name:ident: $function:path;)*) => {$(
        impl WarpReduction<$ty> for $name {
            #[inline(always)]
            unsafe fn reduce_warp(value: $ty) -> $ty {
                // SAFETY: the caller guarantees that all 32 lanes call this together.
                unsafe { $function(FULL_WARP, value) }
            }
        }
    )*};
}

// ladder: instruction
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
// ladder: end
