//! How the kernels end: the elements that no group covers, and the blocks' values into one.

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

/// The element of this thread that no group covers, if it has one: there are fewer than two groups'
/// worth, for the threads of the team's first block. `first` is the index of the first element.
///
/// # Safety
/// The input is readable; a block of the team has no fewer threads than there are singles.
#[inline(always)]
pub(super) unsafe fn single<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    team: Team,
    first: u64,
) -> F::Partial {
    // SAFETY: singles lie in front of the groups and behind them.
    let of = |index: u64| F::map(unsafe { *arguments.input.add(index as usize) }, first + index);
    of_single(arguments, team, F::IDENTITY, of)
}

/// What is made of the index of this thread's element that no group covers, or what is there for none.
#[inline(always)]
pub(super) fn of_single<T, P>(
    arguments: ReduceCut<T>,
    team: Team,
    none: P,
    of: impl FnOnce(u64) -> P,
) -> P {
    let ReduceCut { head, groups, singles, .. } = arguments;
    let tid = u64::from(team.thread);
    if team.block > 0 || tid >= singles {
        return none;
    }
    of(if tid < head { tid } else { tid + groups * lanes::<T>() })
}

/// The values of all threads of a team of whole blocks into the result.
///
/// # Safety
/// Called once, by all threads of the team, whose last block is dispatched behind the others; the
/// contract of [`grid`](super::grid()). The output is at a multiple of 8.
#[inline(always)]
pub(super) unsafe fn finish<F: VectorReduction>(
    value: F::Partial,
    arguments: ReduceCut<F::Element>,
    team: Team,
    scratch: Scratch,
) {
    // SAFETY: the caller's contract.
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

/// The same, for whoever writes the result by other means: in one thread, when the launches before are
/// over.
///
/// # Safety
/// As [`finish`].
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
    // SAFETY: the caller's contract.
    unsafe { finish_then::<F>(value, slots, team, scratch, by_one) };
}

/// The same, and all threads of the last block go on with the value, which the first warp has, and their
/// numbers in the block.
///
/// # Safety
/// As [`finish`].
#[inline(always)]
pub(super) unsafe fn finish_then<F: VectorReduction>(
    value: F::Partial,
    slots: *mut u64,
    team: Team,
    scratch: Scratch,
    then: impl FnOnce(F::Partial, u32),
) {
    let (tid, last) = (thread_idx_x(), team.blocks - 1);
    // SAFETY: each block but the last fills its cells, once; the last one takes each once; all threads
    // of a block take the same way.
    unsafe {
        block::assume_whole_warps();
        // ladder: ending
        if team.block < last {
            let value = reduce_block::<F>(value, scratch);
            // The launch before has taken all values.
            wait_grid_dependencies();
            if tid == 0 {
                publish(value, Cells::of::<F::Partial>(slots, team.block), PRESENT);
            }
            return;
        }
        // The last block's own values and those of the others take one reduction together.
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

/// Shared memory of a block for one partial result per warp: 32 times as many words as one has.
pub type Scratch = Shared<u32>;

/// Warps of a block whose values need no shuffles.
const FEW_WARPS: u32 = 8;

/// The values of a block's threads into one, in every lane of the first warp.
///
/// # Safety
/// Called once, by all threads of a block of whole warps.
#[inline(always)]
unsafe fn reduce_block<F: VectorReduction>(value: F::Partial, values: Scratch) -> F::Partial {
    let (tid, warps) = (thread_idx_x(), block_dim_x() / WARP_SIZE);
    // SAFETY: warps are whole; lane 0 of warp w writes element w before the barrier, and the first warp
    // reads the elements that were written.
    unsafe {
        let value = warp::reduce(value, CombineOf::<F>::OP);
        if lane_id() == 0 {
            values.set_value(tid / WARP_SIZE, value);
        }
        sync_threads();
        if tid >= WARP_SIZE {
            return value;
        }
        // A few small values are read by all lanes alike and combined in less time than shuffles take;
        // of larger ones so many at once would cost registers, and so resident blocks.
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
