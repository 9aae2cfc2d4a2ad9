//! What several variants share: loading, and the tree in shared memory.

use super::{Element, Reduction};
use crate::gpu::*;

/// The element of this thread, one per thread of the grid; the identity past the end.
///
/// # Safety
/// `input` must have `n` readable elements.
#[inline(always)]
pub(crate) unsafe fn load_one<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let i = global_idx();
    if i < n {
        // SAFETY: i < n.
        unsafe { *input.add(i as usize) }
    } else {
        R::IDENTITY
    }
}

/// This thread's share of a grid-stride loop, combined in a register.
///
/// # Safety
/// `input` must have `n` readable elements.
#[inline(always)]
pub(crate) unsafe fn load_grid_stride<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let mut value = R::IDENTITY;
    let mut i = global_idx();
    while i < n {
        // SAFETY: i < n.
        value = R::combine(value, unsafe { *input.add(i as usize) });
        i += global_dim();
    }
    value
}

/// The lower half of the threads adds the upper half's values, again and again, until `width` values
/// are left at the front of `values`. All threads of the block take part; two barriers' worth of
/// order is the caller's gift: a barrier must precede, and one ends every step.
///
/// # Safety
/// `values` must hold one written element per thread of the block, and `width` must be a power of
/// two.
#[inline(always)]
pub(crate) unsafe fn halve_to<T: Element, R: Reduction<T>>(values: Shared<T>, width: u32) {
    let tid = thread_idx();
    let mut offset = block_dim() / 2;
    while offset >= width {
        if tid < offset {
            // SAFETY: tid + offset < 2 * offset, at most the block's threads; the barrier that ends
            // a step lies between one thread's write and another's read.
            unsafe { values.set(tid, R::combine(values.get(tid), values.get(tid + offset))) };
        }
        // SAFETY: the loop's bounds are the same for all threads of the block.
        unsafe { sync_block() };
        offset /= 2;
    }
}

/// Combines the values of a whole warp by xor shuffles; every lane gets the result.
///
/// # Safety
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub(crate) unsafe fn shuffle_xor<T: Element, R: Reduction<T>>(mut value: T) -> T {
    let mut lane_mask = WARP_SIZE / 2;
    while lane_mask > 0 {
        // SAFETY: the caller's contract.
        value = R::combine(value, unsafe { value.shuffle_xor(FULL_WARP, lane_mask) });
        lane_mask /= 2;
    }
    value
}
