//! The threads of a block: collectives through shared memory.
//!
//! Blocks are one-dimensional, along x, and of any size up to 1024; the last warp need not be whole. All
//! threads of the block call a collective together. Each works in an array that the caller declares and
//! that is large enough for one value per warp and one more, which its type proves:
//!
//! ```ignore
//! shared_array! { fn scratch: my_kernel_scratch = [u32; block::scratch_words::<f32>()] }
//! let sum = unsafe { block::reduce(value, Sum, scratch()) };
//! ```
//!
//! A block barrier must lie between two collectives that use the same array, because a thread may leave
//! the first one while others still read. Bank conflicts: none for values of one word.
//!
//! | | valid in | block barriers |
//! |---|---|--:|
//! | [`reduce`] | the first warp | 1 |
//! | [`all_reduce`] | all threads | 1 with whole warps, else 2 |
//! | [`inclusive_scan`], [`exclusive_scan`] | all threads | 2 |
//! | [`broadcast`] | all threads | 1 |
//!
//! Votes are barriers: [`thread::sync_threads_count`](crate::thread::sync_threads_count) and its
//! siblings.

use crate::{
    Shared, SharedArray, Value,
    op::Operation,
    thread::{block_dim_x, sync_threads, thread_idx_x},
    warp::{self, WARP_SIZE, lane_id},
};

/// Most warps of a block.
const MAX_WARPS: u32 = 32;

/// Where the value of the whole block is, behind those of its warps.
const WHOLE: u32 = MAX_WARPS;

/// Words of shared memory that collectives on values of this type work in.
pub const fn scratch_words<T: Value>() -> usize {
    ((MAX_WARPS + 1) * T::WORDS) as usize
}

/// Refuses to compile where the array is too small for the type.
struct Fits<T, const LEN: usize>(core::marker::PhantomData<T>);

impl<T: Value, const LEN: usize> Fits<T, LEN> {
    const CHECK: () =
        assert!(LEN >= scratch_words::<T>(), "scratch needs block::scratch_words::<T>() words");
}

/// Warps of the block, the last one perhaps not whole.
#[inline(always)]
fn warps() -> u32 {
    block_dim_x().div_ceil(WARP_SIZE)
}

/// Tells the compiler that the block is made of whole warps, so that collectives need not ask.
///
/// # Safety
/// The launch's blocks are of a multiple of 32 threads.
#[inline(always)]
pub unsafe fn assume_whole_warps() {
    // SAFETY: the caller's contract.
    unsafe { core::hint::assert_unchecked(block_dim_x() % WARP_SIZE == 0) };
}

/// The values of the block's threads into one, valid in the first warp. One block barrier.
///
/// # Safety
/// Called by all threads of the block, none of which still uses `scratch`.
#[inline(always)]
pub unsafe fn reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: the caller's contract.
    unsafe { reduce_in(value, op, *scratch) }
}

/// [`reduce`], in memory of which the caller knows that there are [`scratch_words`].
///
/// # Safety
/// As [`reduce`], and the memory is large enough.
#[inline(always)]
pub(crate) unsafe fn reduce_in<T: Value, O: Operation<T>>(value: T, op: O, scratch: Shared<u32>) -> T {
    // SAFETY: the caller's contract; the other warps' part is over.
    unsafe {
        let value = reduce_warps(value, op, scratch);
        if thread_idx_x() < WARP_SIZE { combine_warps(op, scratch) } else { value }
    }
}

/// [`reduce`], for a first warp that goes on with the result at once: `then` is called in its lanes, in
/// the branch that it is in already. (Behind a function that returns, the two sides of that branch would
/// have to meet again first.)
///
/// # Safety
/// As [`reduce`].
#[inline(always)]
pub unsafe fn reduce_then<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
    then: impl FnOnce(T),
) {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: the caller's contract.
    unsafe {
        reduce_warps(value, op, *scratch);
        if thread_idx_x() < WARP_SIZE {
            then(combine_warps(op, *scratch));
        }
    }
}

/// Leaves the value of each warp in `scratch`, behind a block barrier.
///
/// # Safety
/// As [`reduce`].
#[inline(always)]
unsafe fn reduce_warps<T: Value, O: Operation<T>>(value: T, op: O, scratch: Shared<u32>) -> T {
    // SAFETY: lane 0 of warp w, which every warp has, writes value w of the array, which has one per
    // warp.
    unsafe {
        let value = warp::reduce(value, op);
        if lane_id() == 0 {
            scratch.set_value(thread_idx_x() / WARP_SIZE, value);
        }
        sync_threads();
        value
    }
}

/// The values of the warps into one, valid in all lanes of the calling warp.
///
/// # Safety
/// Called by all lanes of a warp, behind the barrier of [`reduce_warps`]; if that warp is not whole, it
/// must be the only one of the block.
#[inline(always)]
unsafe fn combine_warps<T: Value, O: Operation<T>>(op: O, scratch: Shared<u32>) -> T {
    let lane = lane_id();
    // SAFETY: the warps have written their values; a warp that is not whole is the only one, and its
    // lane 0 has it.
    unsafe {
        let value = if lane < warps() { scratch.get_value(lane) } else { O::IDENTITY };
        warp::reduce(value, op)
    }
}

/// The values of the block's threads into one, valid in all threads. One block barrier in a block of
/// whole warps, each of which combines the warps' values for itself; two in another.
///
/// # Safety
/// As [`reduce`].
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: the caller's contract; the branch is the same for all threads of the block.
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

/// Each thread's value combined with those of the threads before it, in their order, and the value of
/// the whole block; both valid in all threads. Two block barriers.
///
/// # Safety
/// As [`reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract.
    unsafe {
        let value = warp::inclusive_scan(value, op);
        let (before, whole) = before_warp(value, op, scratch);
        (O::combine(before, value), whole)
    }
}

/// The values of the threads before each thread, combined in their order, which is the identity in
/// thread 0; and the value of the whole block. Both valid in all threads. Two block barriers.
///
/// # Safety
/// As [`reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract.
    unsafe {
        let value = warp::inclusive_scan(value, op);
        let previous = warp::before_lane::<T, O>(value);
        let (before, whole) = before_warp(value, op, scratch);
        (O::combine(before, previous), whole)
    }
}

/// The values of the warps before this one, combined in their order, and those of all warps. Two block
/// barriers.
///
/// # Safety
/// As [`reduce`], with the inclusive scan of the warp.
#[inline(always)]
unsafe fn before_warp<T: Value, O: Operation<T>, const LEN: usize>(
    scanned: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    const { Fits::<T, LEN>::CHECK };
    let (tid, block) = (thread_idx_x(), block_dim_x());
    // SAFETY: the last lane of warp w writes value w; the first warp replaces it by what is before warp
    // w. If the first warp is not whole, it is the only one.
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

/// The value of thread `thread`, in all threads. One block barrier.
///
/// # Safety
/// As [`reduce`], with the same `thread` in all of them, which the block has.
#[inline(always)]
pub unsafe fn broadcast<T: Value, const LEN: usize>(
    value: T,
    thread: u32,
    scratch: SharedArray<u32, LEN>,
) -> T {
    const { Fits::<T, LEN>::CHECK };
    // SAFETY: one thread writes, and all read behind the barrier.
    unsafe {
        if thread_idx_x() == thread {
            scratch.set_value(WHOLE, value);
        }
        sync_threads();
        scratch.get_value(WHOLE)
    }
}
