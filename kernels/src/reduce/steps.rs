//! Steps that one kernel of docs/ladder.md introduces and later ones use.

use super::prelude::*;

/// Loads the element at the thread's index in the grid; past the end, returns the identity. Introduced
/// by `interleaved_modulo`.
///
/// # Safety
/// `input` must have `n` readable elements.
#[inline(always)]
pub(crate) unsafe fn load_one<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let i = grid::thread_index();
    if i < n {
        // SAFETY: i < n, the number of readable elements.
        R::map(unsafe { *input.add(i as usize) })
    } else {
        R::IDENTITY
    }
}

/// Loads and combines this thread's elements in a grid-stride loop. Introduced by `grid_stride`.
///
/// # Safety
/// `input` must have `n` readable elements.
#[inline(always)]
pub(crate) unsafe fn load_grid_stride<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let mut value = R::IDENTITY;
    let mut i = grid::thread_index();
    while i < n {
        // SAFETY: i < n, the number of readable elements.
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        i += grid::threads();
    }
    value
}

/// Halves `values` until its first `width` elements hold the result: at each step the lower half of the
/// threads combines the upper half's values into its own, and a block barrier follows. Introduced by
/// `sequential`.
///
/// # Safety
/// All threads of the block must call this after a block barrier. `values` must hold one written element
/// per thread of the block, and `width` must be a power of two.
#[inline(always)]
pub(crate) unsafe fn halve_to<T: Element, R: Reduction<T>>(values: Shared<T>, width: u32) {
    let tid = thread_idx_x();
    let mut s = block_dim_x() / 2;
    while s >= width {
        if tid < s {
            // SAFETY: tid + s < 2 s ≤ the block size; the barrier at the end of a step separates
            // one thread's write from another's read.
            unsafe { values.set(tid, R::combine(values.get(tid), values.get(tid + s))) };
        }
        // SAFETY: the loop's bounds are uniform, so all threads of the block reach the barrier.
        unsafe { sync_threads() };
        s /= 2;
    }
}

/// Combines one value per thread by the tree of `sequential`, in dynamic shared memory. The result is
/// valid in thread 0.
///
/// # Safety
/// All threads of the block must call this, and none may still read the dynamic shared memory.
#[inline(always)]
pub(crate) unsafe fn tree<T: Element, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; after the last barrier,
    // threads read only element 0, which thread 0 wrote.
    unsafe {
        values.set(thread_idx_x(), value);
        sync_threads();
        halve_to::<T, R>(values, 1);
        values.get(0)
    }
}

/// Combines 32 values in the first warp, without block barriers. The result is valid in lane 0.
/// Introduced by `unroll_last_warp`.
///
/// # Safety
/// All lanes of the first warp must call this after a block barrier; `values` has 32 written elements.
#[inline(always)]
pub(crate) unsafe fn finish_in_warp<T: Element, R: Reduction<T>>(values: Shared<T>) -> T {
    let lane = thread_idx_x();
    // SAFETY: lane ^ s < 32; a warp barrier separates every read from the writes of other lanes.
    unsafe {
        let mut value = values.get(lane);
        let mut s = WARP_SIZE / 2;
        while s > 0 {
            let other = values.get(lane ^ s);
            sync_warp(FULL_WARP);
            value = R::combine(value, other);
            values.set(lane, value);
            sync_warp(FULL_WARP);
            s /= 2;
        }
        value
    }
}

/// Combines one value per thread by an unrolled tree. A uniform branch on the block size selects the
/// tree of that size. The result is valid in thread 0. Introduced by `unroll_full`.
///
/// # Safety
/// All threads of the block must call this, and none may still read the dynamic shared memory. The
/// block's size must be a power of two from 32 to 1024.
#[inline(always)]
pub(crate) unsafe fn tree_unrolled<T: Element, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; `BLOCK` is the block's size.
    unsafe {
        values.set(thread_idx_x(), value);
        sync_threads();
        match block_dim_x() {
            1024 => tree_of::<T, R, 1024>(values),
            512 => tree_of::<T, R, 512>(values),
            256 => tree_of::<T, R, 256>(values),
            128 => tree_of::<T, R, 128>(values),
            64 => tree_of::<T, R, 64>(values),
            _ => tree_of::<T, R, 32>(values),
        }
    }
}

/// # Safety
/// All `BLOCK` threads must call this after a block barrier. `values` has `BLOCK` written elements.
#[inline(always)]
unsafe fn tree_of<T: Element, R: Reduction<T>, const BLOCK: u32>(values: Shared<T>) -> T {
    let tid = thread_idx_x();
    // SAFETY: tid + s < 2 s ≤ BLOCK; all threads reach each barrier, which separates one thread's write
    // from another's read; then the first warp has 32 written elements.
    unsafe {
        let mut s = BLOCK / 2;
        while s >= WARP_SIZE {
            if tid < s {
                values.set(tid, R::combine(values.get(tid), values.get(tid + s)));
            }
            sync_threads();
            s /= 2;
        }
        // The other warps return: the first one is still writing the elements that they would read.
        if tid >= WARP_SIZE {
            return R::IDENTITY;
        }
        finish_in_warp::<T, R>(values)
    }
}

/// Combines the block's values in thread 0, in thread order, by reads of 16 bytes. The result is valid
/// in thread 0. Introduced by `two_pass_contiguous`.
///
/// # Safety
/// All threads of the block must call this, and none may still read the dynamic shared memory.
#[inline(always)]
pub(crate) unsafe fn gather_in_thread_0<T: Element, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    let mut total = R::IDENTITY;
    // SAFETY: every thread writes its own element before the barrier; a block has 32 threads or more, so
    // its elements fill whole 16-byte vectors, and dynamic shared memory is 16-byte aligned.
    unsafe {
        values.set(thread_idx_x(), value);
        sync_threads();
        if thread_idx_x() == 0 {
            let mut group = 0;
            while group < block_dim_x() / T::LANES {
                let elements = values.get16(group);
                total = elements.as_ref().iter().fold(total, |total, &value| R::combine(total, value));
                group += 1;
            }
        }
    }
    total
}

/// Loads and combines this thread's share of the blocks' partial results, in a block-stride loop.
///
/// # Safety
/// Each block has published one value in `partials`, and this block has acquired these values.
#[inline(always)]
pub(crate) unsafe fn load_partials<T: Element, R: Reduction<T>>(partials: *const T) -> T {
    let mut value = R::IDENTITY;
    let mut i = thread_idx_x();
    while i < grid_dim_x() {
        // SAFETY: i is below the number of blocks, and each block has published an element.
        value = R::combine(value, unsafe { *partials.add(i as usize) });
        i += block_dim_x();
    }
    value
}

/// Writes the `value` of thread 0 as the block's result.
///
/// # Safety
/// `output` has one element per block.
#[inline(always)]
pub(crate) unsafe fn write_block<T: Element>(output: *mut T, value: T) {
    if thread_idx_x() == 0 {
        // SAFETY: the caller guarantees that `output` has an element for this block.
        unsafe { *output.add(block_idx_x() as usize) = value };
    }
}

shared_array! {
    /// Scratch memory of the block collectives, for values of up to 8 bytes.
    fn block_scratch: reduce_block_scratch = [u32; block::scratch_words::<u64>()]
}

/// Reduces the block's values by a block collective; thread 0 writes the result.
///
/// # Safety
/// All threads of a block of whole warps must call this once; `output` has one element per block.
#[inline(always)]
pub(crate) unsafe fn reduce_and_write<T: Element, R: Reduction<T>>(output: *mut T, value: T) {
    // SAFETY: all threads of a block of whole warps call this once; the array holds 8 bytes per warp.
    unsafe {
        block::assume_whole_warps();
        block::reduce_then(value, R::OP, block_scratch(), |total| write_block(output, total));
    }
}
