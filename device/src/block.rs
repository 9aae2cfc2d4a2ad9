//! Collectives of a block's threads, through shared memory.
//!
//! Blocks are one-dimensional, along x, of up to 1024 threads; the last warp may be partial. All threads
//! of the block call a collective together. A collective works in a shared array that the caller
//! declares, with room for one value per warp and one for the block. The length is checked at compile
//! time:
//!
//! ```ignore
//! shared_array! { fn scratch: my_kernel_scratch = [u32; block::scratch_words::<f32>()] }
//! let sum = unsafe { block::reduce(value, Sum, scratch()) };
//! ```
//!
//! A block barrier must separate two collectives that use the same array, because a thread may leave the
//! first one while other threads still read the array. Values of one word cause no bank conflicts.
//!
//! | | valid in | block barriers |
//! |---|---|--:|
//! | [`reduce`] | the first warp | 1 |
//! | [`all_reduce`] | all threads | 1 with whole warps, else 2 |
//! | [`inclusive_scan`], [`exclusive_scan`] | all threads | 2 |
//! | [`broadcast`] | all threads | 1 |
//!
//! Votes are block barriers, too: see [`thread`](crate::thread::sync_threads_count).

use crate::{
    Shared, SharedArray, Value,
    op::Operation,
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::{self, WARP_SIZE, lane_id},
};

const MAX_WARPS: u32 = 32;

/// Index of the block's value in a scratch array, after the values of the block's warps.
const WHOLE: u32 = MAX_WARPS;

/// Returns the words of shared memory that collectives on this type need.
pub const fn scratch_words<T: Value>() -> usize {
    ((MAX_WARPS + 1) * T::WORDS) as usize
}

struct Fits<T, const LEN: usize>(core::marker::PhantomData<T>);

impl<T: Value, const LEN: usize> Fits<T, LEN> {
    const CHECK: () =
        assert!(LEN >= scratch_words::<T>(), "scratch needs block::scratch_words::<T>() words");
}

#[inline(always)]
fn warps() -> u32 {
    block_dim_x().div_ceil(WARP_SIZE)
}

/// Lets the compiler assume that the block consists of whole warps, so that collectives need no check.
///
/// # Safety
/// The launch's block size is a multiple of 32.
#[inline(always)]
pub unsafe fn assume_whole_warps() {
    // SAFETY: the block size is a multiple of 32, as the caller guarantees.
    unsafe { core::hint::assert_unchecked(block_dim_x() % WARP_SIZE == 0) };
}

/// Reduces the values of the block's threads; the result is valid in the first warp. One block barrier.
///
/// # Safety
/// Called by all threads of the block, when none of them still uses `scratch`.
#[inline(always)]
pub unsafe fn reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: the conditions are those of `reduce_in`; `CHECK` ensures that the array is large enough.
    unsafe { reduce_in(value, op, *scratch) }
}

/// # Safety
/// Same as [`reduce`]; the memory has [`scratch_words`] words.
#[inline(always)]
pub(crate) unsafe fn reduce_in<T: Value, O: Operation<T>>(value: T, op: O, scratch: Shared<u32>) -> T {
    // SAFETY: the conditions are those of `reduce`; `combine_warps` follows `reduce_warps`' barrier.
    unsafe {
        let value = reduce_warps(value, op, scratch);
        if thread_idx_x() < WARP_SIZE { combine_warps(op, scratch) } else { value }
    }
}

/// Reduces as [`reduce`] does, and calls `then` with the result in the lanes of the first warp, inside
/// the branch that only this warp takes. (A returned result could be used only after the two sides of
/// the branch have joined.)
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn reduce_then<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
    then: impl FnOnce(T),
) {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: as in `reduce_in`, the first warp combines after all threads have passed the barrier.
    unsafe {
        reduce_warps(value, op, *scratch);
        if thread_idx_x() < WARP_SIZE {
            then(combine_warps(op, *scratch));
        }
    }
}

/// Reduces each warp, writes the warps' values to `scratch`, waits at a block barrier and returns the
/// value of the calling warp.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
unsafe fn reduce_warps<T: Value, O: Operation<T>>(value: T, op: O, scratch: Shared<u32>) -> T {
    // SAFETY: every warp has a lane 0, which writes its own warp's element of the array.
    unsafe {
        let value = warp::reduce(value, op);
        if lane_id() == 0 {
            scratch.set_value(thread_idx_x() / WARP_SIZE, value);
        }
        sync_threads();
        value
    }
}

/// Reduces the values of the warps; the result is valid in all lanes of the calling warp.
///
/// # Safety
/// Called by all lanes of a warp after the barrier of [`reduce_warps`]; a partial warp must be the
/// block's only one.
#[inline(always)]
unsafe fn combine_warps<T: Value, O: Operation<T>>(op: O, scratch: Shared<u32>) -> T {
    let lane = lane_id();
    // SAFETY: each warp wrote its value before the barrier; all existing lanes of this warp take part.
    unsafe {
        let value = if lane < warps() { scratch.get_value(lane) } else { O::IDENTITY };
        warp::reduce(value, op)
    }
}

/// Reduces the values of the block's threads; the result is valid in all threads. One block barrier if
/// all warps are whole, because each then combines all warps' values; otherwise two.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: the conditions are those of `reduce`; the branch is the same for all threads of the block.
    unsafe {
        reduce_warps(value, op, *scratch);
        if block_dim_x() % WARP_SIZE == 0 {
            return combine_warps(op, *scratch);
        }
        if thread_idx_x() < WARP_SIZE {
            let whole: T = combine_warps(op, *scratch);
            if thread_idx_x() == 0 {
                scratch.set_value(WHOLE, whole);
            }
        }
        sync_threads();
        scratch.get_value(WHOLE)
    }
}

/// Combines each thread's value with those of the threads before it, in thread order. Returns the result
/// and the value of the whole block, both valid in all threads. Two block barriers.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: all threads of the block call it together, as the caller guarantees.
    unsafe {
        let value = warp::inclusive_scan(value, op);
        let (before, whole) = before_warp(value, op, scratch);
        (O::combine(before, value), whole)
    }
}

/// Combines the values of the threads before each thread, in thread order; the identity in thread 0.
/// Returns the result and the value of the whole block, both valid in all threads. Two block barriers.
///
/// # Safety
/// Same as [`reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: all threads of the block call it together, as the caller guarantees.
    unsafe {
        let value = warp::inclusive_scan(value, op);
        let previous = warp::before_lane::<T, O>(value);
        let (before, whole) = before_warp(value, op, scratch);
        (O::combine(before, previous), whole)
    }
}

/// Returns the combined value of the warps before this one, and that of all warps. Two block barriers.
///
/// # Safety
/// Same as [`reduce`]; `scanned` is the inclusive scan of the warp.
#[inline(always)]
unsafe fn before_warp<T: Value, O: Operation<T>, const LEN: usize>(
    scanned: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    const { Fits::<T, LEN>::CHECK };
    let (tid, block) = (thread_idx_x(), block_dim_x());
    // SAFETY: the last lane of warp w writes value w, which the first warp replaces by the value of the
    // warps before w. The first warp is partial only if it is the block's only warp.
    unsafe {
        if lane_id() == WARP_SIZE - 1 || tid == block - 1 {
            scratch.set_value(tid / WARP_SIZE, scanned);
        }
        sync_threads();
        if tid < WARP_SIZE {
            let value = if tid < warps() { scratch.get_value(tid) } else { O::IDENTITY };
            let through = warp::inclusive_scan(value, op);
            let before = warp::before_lane::<T, O>(through);
            if tid < warps() {
                scratch.set_value(tid, before);
            }
            if tid == warps() - 1 {
                scratch.set_value(WHOLE, through);
            }
        }
        sync_threads();
        (scratch.get_value(tid / WARP_SIZE), scratch.get_value(WHOLE))
    }
}

/// Returns the value of thread `thread` in all threads. One block barrier.
///
/// # Safety
/// Same as [`reduce`]; `thread` must be in the block and the same in all threads.
#[inline(always)]
pub unsafe fn broadcast<T: Value, const LEN: usize>(
    value: T,
    thread: u32,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: one thread writes, and all read after the barrier.
    unsafe {
        if thread_idx_x() == thread {
            scratch.set_value(WHOLE, value);
        }
        sync_threads();
        scratch.get_value(WHOLE)
    }
}
