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
//! [`GridScratch`].

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

/// Allows the stream's next launch to start if it was enqueued to overlap this one
/// (`cudaTriggerProgrammaticLaunchCompletion()`). No effect before compute capability 9.0.
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: the instruction only lets dependent launches start, which wait for the results they need.
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
}

/// Waits until the stream's earlier launches have completed and their writes are visible
/// (`cudaGridDependencySynchronize()`). Returns at once in a launch that was not enqueued to overlap
/// them. No effect before compute capability 9.0, which has no overlapping launches.
#[inline(always)]
pub fn wait_grid_dependencies() {
    #[cfg(warpfold_sm_90)]
    // SAFETY: the instruction waits and has no other effect.
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
}

/// Waits until every block of the grid has arrived; orders the memory accesses of all threads.
///
/// Each block adds 1 to `counter`, except that block 0 adds the amount that flips the top bit once all
/// blocks have arrived. This works from either state of the bit, so the counter starts at zero and is
/// never reset.
///
/// # Safety
/// All threads of all blocks must call it, all blocks must be resident together (a cooperative launch),
/// and no other code may use `counter`.
#[inline(always)]
pub unsafe fn sync(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: all blocks run at once and use `counter` only here, as the caller guarantees.
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

/// Device memory in which the blocks of a grid exchange values, for the collectives of this module.
#[derive(Debug, Clone, Copy)]
pub struct GridScratch<T> {
    /// One writable value per block.
    pub partials: *mut T,
    /// Arrival counter, zero before the first launch. Use it either for collectives of cooperative
    /// launches or for [`reduce_then`], because these leave it in different states.
    pub counter: *mut u32,
}

/// Reduces the values of all threads of the grid in one launch of any kind. Blocks write their values to
/// memory. The last block to arrive combines them, in an order that does not depend on which block is
/// last, and calls `then` in its first warp. Two block barriers, three in the last block. Resets the
/// counter to zero.
///
/// # Safety
/// Called by all threads of the grid; `meeting` is as its fields document, and nothing else uses it or
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
/// The values were published in `partials` and acquired by this block.
#[inline(always)]
unsafe fn partials_before<T: Value, O: Operation<T>>(partials: *const T, count: u32) -> T {
    let (mut value, mut block) = (O::IDENTITY, thread_idx_x());
    while block < count {
        // SAFETY: the values were published and acquired, as the caller guarantees.
        value = O::combine(value, unsafe { *partials.add(block as usize) });
        block += block_dim_x();
    }
    value
}

/// Publishes the value of each block and waits for all other blocks.
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
/// Called by all threads of a cooperative launch; `meeting` is as its fields document, and nothing else
/// uses it or `scratch`. A grid barrier must separate two collectives that use the same memory.
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    meeting: GridScratch<T>,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: all threads of the grid call it; the grid barrier separates the uses of `scratch`.
    unsafe {
        publish(block::reduce(value, op, scratch), meeting);
        block::all_reduce(partials_before::<T, O>(meeting.partials, grid_dim_x()), op, scratch)
    }
}

/// Combines the values of the grid's threads before each thread. Returns the result and the value of the
/// whole grid, both valid in all threads. The operation must be commutative, because the values of
/// blocks are not combined in block order.
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
    // SAFETY: all threads of the grid call it; block barriers separate the uses of `scratch`.
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

/// Scans as [`exclusive_scan`] does, but includes each thread's own value.
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
    // SAFETY: the callee's conditions are those of this function.
    let (before, whole) = unsafe { exclusive_scan(value, op, meeting, scratch) };
    (O::combine(before, value), whole)
}

/// Returns the value of thread 0 of block `block` in all threads of the grid.
///
/// # Safety
/// Same as [`all_reduce`]; `block` must be in the grid and the same in all threads.
#[inline(always)]
pub unsafe fn broadcast<T: Value>(value: T, block: u32, meeting: GridScratch<T>) -> T {
    // SAFETY: all threads of the grid call it with the same `block`, as the caller guarantees.
    unsafe {
        publish(value, meeting);
        *meeting.partials.add(block as usize)
    }
}
