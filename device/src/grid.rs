//! Thread indices in the grid, overlap of launches, and collectives through global memory.
//!
//! All threads of the grid call a collective together; grid and blocks are one-dimensional, along x. A
//! collective needs device memory ([`GridScratch`]) and [`block::scratch_words`] of shared memory.
//!
//! | | launch | valid in |
//! |---|---|---|
//! | [`reduce_then`] | any | the first warp of the last block to arrive |
//! | [`all_reduce`], [`exclusive_scan`], [`inclusive_scan`], [`broadcast`] | cooperative | all threads |
//!
//! A block barrier must separate collectives that use the same array. Overlapping launches need separate
//! memory.

use crate::{
    SharedArray, Value,
    atomic::{self, AcqRel, Atomic, Device},
    block,
    op::Operation,
    thread::{block_dim_x, block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
};

/// Returns the index of this thread in the grid. 64 bits, because grids may exceed 2^32 threads.
#[inline(always)]
pub fn thread_index() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// Returns the number of threads of the grid: the step of a grid-stride loop.
#[inline(always)]
pub fn threads() -> u64 {
    u64::from(grid_dim_x()) * u64::from(block_dim_x())
}

/// `cudaTriggerProgrammaticLaunchCompletion()`: allows the stream's next launch to start if it was
/// enqueued to overlap this one. No effect before compute capability 9.0.
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: only lets dependent kernels start, which wait for their own dependencies.
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
}

/// `cudaGridDependencySynchronize()`: waits until the stream's earlier launches have completed and their
/// writes are visible. Returns at once in a launch that was not enqueued to overlap them. No effect
/// before compute capability 9.0, which has no overlapping launches.
#[inline(always)]
pub fn wait_grid_dependencies() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: waits and has no other effect.
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
}

/// Waits until every block of the grid has arrived; orders the memory accesses of all threads.
///
/// Each block adds to `counter`, block 0 an amount that flips the top bit once all have arrived. This
/// works from either state of the bit, so the counter starts at zero and is never reset.
///
/// # Safety
/// All threads of all blocks must call it, all blocks must be resident together (a cooperative launch),
/// and no other code may use `counter`.
#[inline(always)]
pub unsafe fn sync(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: the caller's contract; the block barriers let thread 0 arrive for its block.
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

/// Device memory that the blocks of a grid exchange values in.
#[derive(Debug, Clone, Copy)]
pub struct GridScratch<T> {
    /// One writable value per block.
    pub partials: *mut T,
    /// Arrival counter, zero before the first launch. To be used by one kind of collective only: those
    /// of a cooperative launch leave it in another state than [`reduce_then`].
    pub counter: *mut u32,
}

/// Reduces the values of all threads of the grid in one launch of any kind. Blocks write their values to
/// memory, and the last block to arrive combines them in block order, whichever block is last, and calls
/// `then` in its first warp. Three block barriers. Resets the counter to zero.
///
/// # Safety
/// Called by all threads of the grid; `meeting` is as its fields require, and nothing else uses it or
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
    // SAFETY: a block owns its element of `partials` until it increments the counter, which publishes
    // it; the last block has acquired all of them. The vote is the same for all threads of a block.
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

/// Combines this thread's share of the first `count` blocks' values.
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

/// Publishes the value of each block and waits for those of all others.
///
/// # Safety
/// Same as [`all_reduce`]; `value` is valid in thread 0.
#[inline(always)]
unsafe fn publish<T: Value>(value: T, meeting: GridScratch<T>) {
    // SAFETY: a block owns its element; the grid barrier orders the writes before the reads.
    unsafe {
        if thread_idx_x() == 0 {
            *meeting.partials.add(block_idx_x() as usize) = value;
        }
        sync(meeting.counter);
    }
}

/// Reduces the values of all threads of the grid; the result is valid in all of them.
///
/// # Safety
/// Called by all threads of a cooperative launch; `meeting` is as its fields require, and nothing else
/// uses it or `scratch`. A grid barrier must separate two collectives that use the same memory.
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: the caller's contract; the grid barrier is also a block barrier.
    unsafe {
        publish(block::reduce(value, op, scratch), meeting);
        block::all_reduce(partials_before::<T, O>(meeting.partials, grid_dim_x()), op, scratch)
    }
}

/// Combines the values of the grid's threads before each thread. Returns that and the value of the whole
/// grid, both valid in all threads. Reduces blocks' values, so that the operation must be commutative.
///
/// # Safety
/// Same as [`all_reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract; block barriers separate the uses of `scratch`.
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

/// [`exclusive_scan`] that includes each thread's own value.
///
/// # Safety
/// Same as [`all_reduce`].
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

/// Returns the value of thread 0 of block `block` in all threads of the grid.
///
/// # Safety
/// Same as [`all_reduce`]; `block` must be in the grid and the same in all threads.
#[inline(always)]
pub unsafe fn broadcast<T: Value>(value: T, block: u32, meeting: GridScratch<T>) -> T {
    // SAFETY: the caller's contract.
    unsafe {
        publish(value, meeting);
        *meeting.partials.add(block as usize)
    }
}
