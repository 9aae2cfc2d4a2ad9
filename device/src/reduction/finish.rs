//! The end of a kernel: the elements outside of all groups, and the reduction across blocks.

use warpfold_abi::{arguments::ReduceCut, reducer::PRESENT};

use super::{
    CombineOf, Team, VectorReduction, lanes,
    partial::{Cells, is_present, publish, take},
    traits::write_seen,
};
use crate::{
    Shared, Value, block,
    grid::wait_grid_dependencies,
    thread::{Few, block_dim_x, sync_threads, thread_idx_x},
    warp::{self, WARP_SIZE, lane_id},
};

/// Returns the partial result of this thread's *single*: an element before the first group or after the
/// last one. Returns the identity if the thread has none. The threads of the team's first block have the
/// singles, one each. `first` is the index of the first element.
///
/// # Safety
/// The input is readable; a block of the team has no fewer threads than there are singles.
#[inline(always)]
pub(super) unsafe fn single<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    team: Team,
    first: u64,
) -> F::Partial {
    // SAFETY: single elements are before and after the groups, inside the input.
    let of = |index: u64| F::map(unsafe { *arguments.input.add(index as usize) }, first + index);
    of_single(arguments, team, F::IDENTITY, of)
}

/// Calls `of` with the index of this thread's single element; returns `none` if it has none.
#[inline(always)]
pub(super) fn of_single<T, P>(
    arguments: ReduceCut<T>,
    team: Team,
    none: P,
    of: impl FnOnce(u64) -> P,
) -> P {
    let tid = u64::from(team.thread);
    if team.block > 0 || tid >= arguments.singles {
        return none;
    }
    of(single_index(arguments, tid))
}

/// Returns the index of the single with this number among the singles.
#[inline(always)]
pub(super) fn single_index<T>(arguments: ReduceCut<T>, number: u64) -> u64 {
    let ReduceCut { head, groups, .. } = arguments;
    if number < head { number } else { number + groups * lanes::<T>() }
}

/// Reduces the values of all threads of a team of whole blocks, and writes the result.
///
/// # Safety
/// Called once, by all threads of the team, whose last block is dispatched after the others. Slots and
/// blocks are as for [`grid`](super::grid()). The output is at a multiple of 8.
#[inline(always)]
pub(super) unsafe fn finish<F: VectorReduction>(
    value: F::Partial,
    arguments: ReduceCut<F::Element>,
    team: Team,
    scratch: Scratch,
) {
    // SAFETY: the conditions are those of `finish_by`; the output has room for the result.
    unsafe {
        finish_by::<F>(
            value,
            arguments.slots,
            team,
            scratch,
            #[inline(always)]
            |value| write_seen::<F>(value, arguments),
        );
    }
}

/// Reduces as [`finish`] does, but one thread passes the result to `write`, after waiting for earlier
/// launches.
///
/// # Safety
/// Same as [`finish`].
#[inline(always)]
pub(super) unsafe fn finish_by<F: VectorReduction>(
    value: F::Partial,
    slots: *mut u64,
    team: Team,
    scratch: Scratch,
    write: impl FnOnce(F::Partial),
) {
    let by_one = #[inline(always)]
    |value, tid| {
        if tid == 0 {
            write(value);
        }
    };
    // SAFETY: the conditions of `finish_then` are those of this function.
    unsafe { finish_then::<F>(value, slots, team, scratch, by_one) };
}

/// Reduces as [`finish`] does, but all threads of the last block call `then` with the value, which is
/// valid in the first warp, and with their index in the block.
///
/// # Safety
/// Same as [`finish`].
#[inline(always)]
pub(super) unsafe fn finish_then<F: VectorReduction>(
    value: F::Partial,
    slots: *mut u64,
    team: Team,
    scratch: Scratch,
    then: impl FnOnce(F::Partial, u32),
) {
    let (tid, last) = (thread_idx_x(), team.blocks - 1);
    // SAFETY: each block but the last fills its cells once; the last one takes each once; all threads of
    // a block reach the same barriers.
    unsafe {
        block::assume_whole_warps();
        // ladder: ending
        if team.block < last {
            let value = reduce_block::<F>(value, scratch);
            // After this wait, the previous launch has emptied the cells.
            wait_grid_dependencies();
            if tid == 0 {
                publish(value, Cells::of::<F::Partial>(slots, team.block), PRESENT);
            }
            return;
        }
        // One reduction combines the last block's own values and those of the other blocks.
        let mut value = value;
        wait_grid_dependencies();
        let mut block = tid;
        while block < last {
            let cells = Cells::of::<F::Partial>(slots, block);
            value = F::combine(value, take(cells, is_present, 0));
            block += block_dim_x();
        }
        then(reduce_block::<F>(value, scratch), tid);
        // ladder: end
    }
}

/// Shared memory for 32 partial results, one per warp of a block.
pub type Scratch = Shared<u32>;

/// Largest number of warps whose values are combined without shuffles.
const FEW_WARPS: u32 = 8;

/// Reduces the values of a block's threads. The result is valid in all lanes of the first warp.
///
/// # Safety
/// Called once, by all threads of a block of whole warps.
#[inline(always)]
unsafe fn reduce_block<F: VectorReduction>(value: F::Partial, values: Scratch) -> F::Partial {
    let (tid, warps) = (thread_idx_x(), block_dim_x() / WARP_SIZE);
    // SAFETY: lane 0 of each warp writes its element before the barrier; no others are read.
    unsafe {
        let value = warp::reduce(value, CombineOf::<F>::OP);
        if lane_id() == 0 {
            values.set_value(tid / WARP_SIZE, value);
        }
        sync_threads();
        if tid >= WARP_SIZE {
            return value;
        }
        // If values are few and small, each lane reads and combines them all, faster than by shuffles.
        // Larger values would take registers, and so reduce the number of resident blocks.
        if F::Partial::WORDS <= 2 && warps <= FEW_WARPS {
            let few: [_; FEW_WARPS as usize] = core::array::from_fn(|warp| {
                let warp = warp as u32;
                if warp < warps { values.get_value(warp) } else { F::IDENTITY }
            });
            return few.tree_reduce(F::combine);
        }
        let value = if tid < warps { values.get_value(tid) } else { F::IDENTITY };
        warp::reduce(value, CombineOf::<F>::OP)
    }
}
