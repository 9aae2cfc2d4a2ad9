//! Shuffles inside each warp, one value per warp through shared memory, shuffles again.
//!
//! Removes nearly all **shared memory traffic**: a block of any size passes one value per warp through
//! shared memory, with one barrier.
//!
//! - Steps: grid-stride loop into a register; five shuffles; lane 0 of each warp writes to shared
//!   memory, barrier; the first warp reads one value per warp and shuffles again; thread 0 writes
//!   `output[block_idx]`.
//! - Barriers: 1. Shared memory: 32 elements, static. No bank conflicts.
//! - The profiler shows: ten shuffles per thread of the first warp, five of the others, next to no
//!   shared traffic.
//!
//! Source: the reduction samples of the CUDA toolkit.
//! Section: `docs/ladder.md#shuffle_two_level`. CUDA C twin: `cuda/shuffle_two_level.cu`.

use super::prelude::*;

entries!(shuffle_two_level(Reduce) for i32 u32 i64 u64 f32 f64);

shared_array! {
    fn of_warps: shuffle_two_level_of_warps = [u64; 32]
}

/// # Safety
/// `input` has `n` readable elements, `output` one writable element per block.
#[inline(always)]
unsafe fn shuffle_two_level<T: Element, R: Reduction<T>>(Reduce { input, n, output }: Reduce<T>) {
    let of_warps = of_warps().cast::<T>();
    let (tid, warps) = (thread_idx_x(), block_dim_x() / WARP_SIZE);
    // SAFETY: `input` and `output` are as the caller guarantees; warps are whole; lane 0 of warp w
    // writes element w before the barrier, and the first warp reads only written elements.
    unsafe {
        // ladder: levels
        let value = reduce_warp::<T, R>(steps::load_grid_stride::<T, R>(input, n));
        if lane_id() == 0 {
            of_warps.set(tid / WARP_SIZE, value);
        }
        // ladder: end
        sync_threads();

        if tid < WARP_SIZE {
            let value = if tid < warps { of_warps.get(tid) } else { R::IDENTITY };
            let total = reduce_warp::<T, R>(value);
            if tid == 0 {
                *output.add(block_idx_x() as usize) = total;
            }
        }
    }
}

/// Returns the combined value of all lanes, in all lanes.
///
/// # Safety
/// All 32 lanes of the warp must call this together.
#[inline(always)]
unsafe fn reduce_warp<T: Element, R: Reduction<T>>(mut value: T) -> T {
    // ladder: shuffles
    let mut lane_mask = WARP_SIZE / 2;
    while lane_mask > 0 {
        // SAFETY: the caller guarantees that all 32 lanes call this together.
        value = R::combine(value, unsafe { value.shuffle_xor(FULL_WARP, lane_mask) });
        lane_mask /= 2;
    }
    // ladder: end
    value
}
