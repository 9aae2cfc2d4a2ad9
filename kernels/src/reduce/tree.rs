//! What several variants share: loading, and the tree in shared memory.

use super::{Element, Reduction};
use crate::{gpu::*, shared_array};

/// The element of this thread, one per thread of the grid; the identity past the end.
///
/// # Safety
/// `input` must have `n` readable elements.
#[inline(always)]
pub(crate) unsafe fn load_one<T: Element, R: Reduction<T>>(input: *const T, n: u64) -> T {
    let i = global_idx();
    if i < n {
        // SAFETY: i < n.
        R::map(unsafe { *input.add(i as usize) })
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
        value = R::combine(value, R::map(unsafe { *input.add(i as usize) }));
        i += global_dim();
    }
    value
}

/// The lower half of the threads adds the upper half's values, again and again, until `width` values
/// are left at the front of `values`. All threads of the block take part. The caller puts a block barrier
/// before it; every step ends with one.
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

/// The sequential tree over one value per thread, through dynamic shared memory; valid in thread 0.
///
/// # Safety
/// Called by all threads of the block, none of which may still read the dynamic shared memory.
#[inline(always)]
pub(crate) unsafe fn reduce_block<T: Element, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; thread 0 wrote element 0 in
    // the last step itself, and others read only it.
    unsafe {
        values.set(thread_idx(), value);
        sync_block();
        halve_to::<T, R>(values, 1);
        values.get(0)
    }
}

/// The last steps of the tree in shared memory, by the first warp and without block barriers: after a
/// step the warp's own barrier is enough. Each lane keeps its value in a register and reads its
/// partner's, so that no lane waits for a branch; lane 0's value is the tree's.
///
/// # Safety
/// Called by all lanes of the first warp, with 32 written elements in `values`, behind a block barrier.
#[inline(always)]
pub(crate) unsafe fn finish_in_warp<T: Element, R: Reduction<T>>(values: Shared<T>) -> T {
    let lane = thread_idx();
    // SAFETY: lane ^ offset < 32; a warp barrier separates every read from the writes of other lanes.
    unsafe {
        let mut value = values.get(lane);
        let mut offset = WARP_SIZE / 2;
        while offset > 0 {
            let other = values.get(lane ^ offset);
            sync_warp(FULL_WARP);
            value = R::combine(value, other);
            values.set(lane, value);
            sync_warp(FULL_WARP);
            offset /= 2;
        }
        value
    }
}

/// The tree down to one value per lane of the first warp, which combines those by `in_warp`, without block
/// barriers; its lane 0 writes the block's result.
///
/// # Safety
/// Called by all threads of the block, none of which may still read the dynamic shared memory; `output`
/// has one element per block. `in_warp` is called by all lanes of the first warp with 32 written elements,
/// behind a block barrier, and gives at least lane 0 their combined value.
#[inline(always)]
pub(crate) unsafe fn write_block_by_first_warp<T: Element, R: Reduction<T>>(
    output: *mut T,
    value: T,
    in_warp: unsafe fn(Shared<T>) -> T,
) {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; the tree's contract is met; blocks
    // are whole warps, so the first one is.
    unsafe {
        values.set(thread_idx(), value);
        sync_block();
        halve_to::<T, R>(values, WARP_SIZE);
        // The write belongs in here: behind the branch, its two sides would have to meet again first.
        if thread_idx() < WARP_SIZE {
            write_block(output, in_warp(values));
        }
    }
}

/// The blocks' partial results, strided over the threads of one block.
///
/// # Safety
/// All blocks have published theirs in `partials`, one each, and this block has acquired them.
#[inline(always)]
pub(crate) unsafe fn load_partials<T: Element, R: Reduction<T>>(partials: *const T) -> T {
    let mut value = R::IDENTITY;
    let mut i = thread_idx();
    while i < grid_dim() {
        // SAFETY: i is below the number of blocks.
        value = R::combine(value, unsafe { *partials.add(i as usize) });
        i += block_dim();
    }
    value
}

/// Thread 0 writes the block's result.
///
/// # Safety
/// `output` has one element per block.
#[inline(always)]
pub(crate) unsafe fn write_block<T: Element>(output: *mut T, value: T) {
    if thread_idx() == 0 {
        // SAFETY: the caller's contract.
        unsafe { *output.add(block_idx() as usize) = value };
    }
}

/// The block's values combined one by one, in their order, by thread 0, the only one in which the result
/// is valid. It reads them 16 bytes at a time.
///
/// # Safety
/// Called by all threads of the block, none of which may still read the dynamic shared memory.
#[inline(always)]
pub(crate) unsafe fn gather_in_thread_0<T: Element + Lanes16, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    let mut total = R::IDENTITY;
    // SAFETY: every thread writes its own element before the barrier; a block is 32 threads or more, so
    // that whole groups of 16 bytes hold them, and dynamic shared memory starts at a multiple of 16.
    unsafe {
        values.set(thread_idx(), value);
        sync_block();
        if thread_idx() == 0 {
            let mut group = 0;
            while group < block_dim() / T::LANES {
                let elements = values.get16(group);
                total = elements.as_ref().iter().fold(total, |total, &value| R::combine(total, value));
                group += 1;
            }
        }
    }
    total
}

/// The sequential tree with the block size as a constant, chosen by a branch that all threads take
/// alike; the last warp works without block barriers. Valid in thread 0.
///
/// # Safety
/// Called by all threads of a block of a power of two from 32 to 1024, none of which may still read the
/// dynamic shared memory.
#[inline(always)]
pub(crate) unsafe fn reduce_block_unrolled<T: Element, R: Reduction<T>>(value: T) -> T {
    let values = dynamic_shared::<T>();
    // SAFETY: every thread writes its own element before the barrier; the caller's contract, with the
    // block's own size.
    unsafe {
        values.set(thread_idx(), value);
        sync_block();
        match block_dim() {
            1024 => reduce_block_of::<T, R, 1024>(values),
            512 => reduce_block_of::<T, R, 512>(values),
            256 => reduce_block_of::<T, R, 256>(values),
            128 => reduce_block_of::<T, R, 128>(values),
            64 => reduce_block_of::<T, R, 64>(values),
            _ => reduce_block_of::<T, R, 32>(values),
        }
    }
}

/// # Safety
/// Called by all `BLOCK` threads of a block behind a block barrier, with as many written elements in
/// `values`.
#[inline(always)]
unsafe fn reduce_block_of<T: Element, R: Reduction<T>, const BLOCK: u32>(values: Shared<T>) -> T {
    let tid = thread_idx();
    // SAFETY: as in `halve_to` and `finish_in_warp`, with constant bounds.
    unsafe {
        let mut offset = BLOCK / 2;
        while offset >= WARP_SIZE {
            if tid < offset {
                values.set(tid, R::combine(values.get(tid), values.get(tid + offset)));
            }
            sync_block();
            offset /= 2;
        }
        // The other warps leave here: what they would read is still being written.
        if tid >= WARP_SIZE {
            return R::IDENTITY;
        }
        finish_in_warp::<T, R>(values)
    }
}

/// Each warp reduces its values by `in_warp`, passes one through shared memory, and the first warp
/// reduces those the same way; its lane 0 writes the block's result.
///
/// # Safety
/// Called by all threads of the block; `output` has one element per block. `in_warp` gives every lane, or
/// at least lane 0, the combined value of a whole warp.
#[inline(always)]
pub(crate) unsafe fn write_block_by_warps<T: Element, R: Reduction<T>>(
    output: *mut T,
    value: T,
    in_warp: unsafe fn(T) -> T,
) {
    let values = warp_values().cast::<T>();
    let (tid, warps) = (thread_idx(), block_dim() / WARP_SIZE);
    // SAFETY: warps are whole; lane 0 of warp w writes element w before the barrier, and the first warp
    // reads the elements that were written.
    unsafe {
        let value = in_warp(value);
        if lane_id() == 0 {
            values.set(tid / WARP_SIZE, value);
        }
        sync_block();
        // The write belongs in here: see `write_block_by_first_warp`.
        if tid < WARP_SIZE {
            let value = if tid < warps { values.get(tid) } else { R::IDENTITY };
            write_block(output, in_warp(value));
        }
    }
}

shared_array! {
    /// One value per warp, of any element type.
    fn warp_values: reduce_warp_values = [u64; 32]
}
