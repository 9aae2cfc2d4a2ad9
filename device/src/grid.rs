//! The blocks of a launch: where a thread is in it, what launches have to do with each other, and
//! collectives through global memory.
//!
//! All threads of the grid call a collective together; grid and blocks are one-dimensional, along x.
//! Each works in the caller's device memory ([`GridScratch`]) and in a shared array of
//! [`block::scratch_words`] words.
//!
//! | | launch | valid in |
//! |---|---|---|
//! | [`reduce_then`] | any | thread 0 of the block that is last to arrive |
//! | [`all_reduce`], [`exclusive_scan`], [`inclusive_scan`], [`broadcast`] | cooperative | all threads |
//!
//! A block barrier must lie between two collectives that use the same array, and two launches that may
//! overlap need memory of their own.

use crate::{
    SharedArray, Value,
    atomic::{self, AcqRel, Atomic, Device},
    block,
    op::Operation,
    thread::{block_dim_x, block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
};

/// Index of this thread in the grid. 64 bits, because grids of more than 2^32 threads are legal.
#[inline(always)]
pub fn thread_index() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// Threads of the whole grid: the step of a grid-stride loop.
#[inline(always)]
pub fn threads() -> u64 {
    u64::from(grid_dim_x()) * u64::from(block_dim_x())
}

/// `cudaTriggerProgrammaticLaunchCompletion()`: the next launch of the stream may start, if it was made
/// to overlap with this one. Does nothing before compute capability 9.0.
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: it only lets other kernels run, which see to their own dependencies.
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
}

/// `cudaGridDependencySynchronize()`: waits until the launches before this one in the stream are over,
/// and sees what they have written. Returns at once in a launch that was not made to overlap with them.
/// Does nothing before compute capability 9.0, where there are no others.
#[inline(always)]
pub fn wait_grid_dependencies() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: it waits and does nothing else.
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
}

/// Barrier over the whole grid: every block arrives, then all go on. Orders the memory accesses of all
/// threads.
///
/// Each block adds to `counter`, block 0 so much that the top bit flips when all have arrived. That
/// works from either state of the bit: the counter starts at zero once and is never reset.
///
/// # Safety
/// All threads of all blocks must call it, all blocks must be resident together (a cooperative launch),
/// and `counter` must be used by this barrier alone.
#[inline(always)]
pub unsafe fn sync(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: the caller's contract; the block barriers make thread 0 speak for its block.
    unsafe {
        sync_threads();
        if thread_idx_x() == 0 {
            let share = if block_idx_x() == 0 { FLIPPED - (grid_dim_x() - 1) } else { 1 };
            let before = Atomic::fetch_add::<AcqRel, Device>(counter, share);
            while (atomic::load_acquire(counter) ^ before) & FLIPPED == 0 {}
        }
        sync_threads();
    }
}

/// Device memory in which blocks meet.
#[derive(Debug, Clone, Copy)]
pub struct GridScratch<T> {
    /// One writable value per block.
    pub partials: *mut T,
    /// How blocks tell that they have arrived. Zero before the first launch, and used by one kind of
    /// collective alone: those of a cooperative launch leave it in another state than [`reduce_then`]
    /// does.
    pub counter: *mut u32,
}

/// The values of all threads of the grid into one, in one launch of any kind: blocks leave theirs in
/// memory, and the last one to arrive combines them in their order, so that the result does not depend
/// on which one that is. `then` is called in its first warp. Three block barriers. The counter is zero
/// again afterwards.
///
/// # Safety
/// Called by all threads of the grid; `meeting` is as its fields say, and nothing else uses it or
/// `scratch`.
#[inline(always)]
pub unsafe fn reduce_then<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
    then: impl FnOnce(T),
) {
    let last = grid_dim_x() - 1;
    // SAFETY: a block's place in `partials` is its own until it is counted, which publishes it; the last
    // block has acquired all of them. The barrier's answer is the same for all threads of a block.
    unsafe {
        let value = block::reduce(value, op, scratch);
        let mut arrived = 0;
        if thread_idx_x() == 0 {
            *meeting.partials.add(block_idx_x() as usize) = value;
            arrived = atomic::fetch_inc::<AcqRel, Device>(meeting.counter, last);
        }
        let is_last = thread_idx_x() == 0 && arrived == last;
        if crate::thread::sync_threads_or(is_last.into()) != 0 {
            let value = partials_before::<T, O>(meeting.partials, grid_dim_x());
            block::reduce_then(value, op, scratch, then);
        }
    }
}

/// This thread's share of the first `count` blocks' values.
///
/// # Safety
/// They were published in `partials` and acquired by this block.
#[inline(always)]
unsafe fn partials_before<T: Value, O: Operation<T>>(partials: *const T, count: u32) -> T {
    let (mut value, mut block) = (O::IDENTITY, thread_idx_x());
    while block < count {
        // SAFETY: the caller's contract.
        value = O::combine(value, unsafe { *partials.add(block as usize) });
        block += block_dim_x();
    }
    value
}

/// Publishes the value of each block, and waits for those of all others.
///
/// # Safety
/// As [`all_reduce`]; `value` is valid in thread 0.
#[inline(always)]
unsafe fn publish<T: Value>(value: T, meeting: GridScratch<T>) {
    // SAFETY: a block's place is its own; the grid's barrier orders the writes before the reads.
    unsafe {
        if thread_idx_x() == 0 {
            *meeting.partials.add(block_idx_x() as usize) = value;
        }
        sync(meeting.counter);
    }
}

/// The values of all threads of the grid into one, valid in all of them.
///
/// # Safety
/// Called by all threads of a cooperative launch; `meeting` is as its fields say, and nothing else uses
/// it or `scratch`. A barrier of the grid must lie between two collectives that use the same memory.
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: the caller's contract; the grid's barrier is one of the block as well.
    unsafe {
        publish(block::reduce(value, op, scratch), meeting);
        block::all_reduce(partials_before::<T, O>(meeting.partials, grid_dim_x()), op, scratch)
    }
}

/// The values of the grid's threads before each thread, combined in their order, and the value of the
/// whole grid; both valid in all threads. The operation must be commutative here, because the blocks'
/// values are reduced.
///
/// # Safety
/// As [`all_reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract; block barriers lie between the uses of `scratch`.
    unsafe {
        let (before, of_block) = block::exclusive_scan(value, op, scratch);
        publish(of_block, meeting);
        let before_block = partials_before::<T, O>(meeting.partials, block_idx_x());
        let before_block = block::all_reduce(before_block, op, scratch);
        sync_threads();
        let whole = partials_before::<T, O>(meeting.partials, grid_dim_x());
        (O::combine(before_block, before), block::all_reduce(whole, op, scratch))
    }
}

/// [`exclusive_scan`] that takes each thread's own value in.
///
/// # Safety
/// As [`all_reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract.
    let (before, whole) = unsafe { exclusive_scan(value, op, meeting, scratch) };
    (O::combine(before, value), whole)
}

/// The value of thread 0 of block `block`, in all threads of the grid.
///
/// # Safety
/// As [`all_reduce`], with the same `block` in all of them, which the grid has.
#[inline(always)]
pub unsafe fn broadcast<T: Value>(value: T, block: u32, meeting: GridScratch<T>) -> T {
    // SAFETY: the caller's contract.
    unsafe {
        publish(value, meeting);
        *meeting.partials.add(block as usize)
    }
}
