//! Combination of results across devices in the kernels, so that each device of a group needs one
//! launch.
//!
//! Each launch stores its value and increments a counter; the last one to arrive reads all values. No
//! launch waits for another, so they may run in any order, even one after the other.

use warpfold_abi::{
    arguments::{ReduceContinued, ReduceCut},
    meeting::{CELL_BYTES, HEAD_BYTES},
    reducer::{CARRIED_BYTES, OUTPUT_BYTES},
};

use super::{CombineOf, VectorReduction, grid::no_elements, traits::write_seen};
use crate::{
    Value,
    atomic::{self, AcqRel, System},
    value::{load, replace},
    warp::{self, FULL_WARP, lane_id, sync_warp, warp_vote_ballot},
};

const CELL: usize = CELL_BYTES as usize / size_of::<u32>();
const HEAD: usize = HEAD_BYTES as usize / size_of::<u32>();

const RESULT: usize = CARRIED_BYTES as usize / size_of::<u32>();
const RESULT_WORDS: usize = OUTPUT_BYTES as usize / size_of::<u64>();

/// Publishes this launch's value, which is valid in lane 0, and its result, and increments the arrival
/// counter. The last launch to arrive writes the combined result.
///
/// # Safety
/// Called once per launch, by a whole warp, after the launch has written its output. The arguments are
/// as [`ReduceContinued`] documents for a meeting: each rank has one launch, and nothing else uses the
/// meeting, the result or its copies until the last launch has ended.
#[inline(always)]
pub(super) unsafe fn meet<F: VectorReduction>(
    value: F::Partial,
    arguments: ReduceContinued<F::Element>,
) {
    let ReduceContinued { output, meeting, rank, members, arrivals, result, others, copies, .. } =
        arguments;
    let lane = lane_id();
    // SAFETY: a launch writes its cell before it increments the counter; cells are read after the last
    // increment, which has acquired these writes.
    unsafe {
        let mut is_last = 0;
        if lane == 0 {
            let cell = cell(meeting, rank);
            replace(value, cell, true);
            if F::RELOADS_INPUT {
                copy_result(output, cell.add(RESULT).cast());
            }
            let last = (arrivals - 1) as u32;
            is_last = u32::from(atomic::fetch_inc::<AcqRel, System>(meeting, last) == last);
        }
        if warp::broadcast(is_last, 0) == 0 {
            return;
        }
        // Orders the reads of the other lanes, too, after lane 0's acquire.
        sync_warp(FULL_WARP);
        let is_member = u64::from(lane) < members;
        let theirs = if is_member { load(cell(meeting, lane.into())) } else { F::IDENTITY };
        // Lanes combine the same values in different orders, so the result of lane 0 is used.
        let all = warp::broadcast(warp::reduce(theirs, CombineOf::<F>::OP), 0);
        let mut winner = 0;
        if F::RELOADS_INPUT {
            // Only the member whose input has the element can reload it; that member's cell has the
            // result.
            let decides = warp_vote_ballot(FULL_WARP, is_member && are_equal(theirs, all));
            winner = decides.trailing_zeros();
        }
        if u64::from(lane) <= copies {
            // Copies are addressed by their distances from `result`: the compiler would not know that an
            // address loaded from memory is in global memory.
            let behind = if lane == 0 { 0 } else { *others.add(lane as usize - 1) };
            let place = result.wrapping_byte_add(behind as usize);
            if F::RELOADS_INPUT {
                copy_result(cell(meeting, winner.into()).add(RESULT).cast(), place);
            } else {
                let ReduceContinued { input, head, groups, singles, tile, slots, .. } = arguments;
                let output = place;
                let of =
                    ReduceCut { input, head, groups, singles, tile, slots, output, ..no_elements() };
                write_seen::<F>(all, of);
            }
        }
    }
}

/// # Safety
/// The meeting has a cell for this rank.
#[inline(always)]
unsafe fn cell(meeting: *mut u32, rank: u64) -> *mut u32 {
    // SAFETY: the meeting has a cell for this rank, as the caller guarantees.
    unsafe { meeting.add(HEAD + rank as usize * CELL) }
}

/// Copies a result, each word by one store, because the host may poll it.
///
/// # Safety
/// `from` points to a result, `to` to room for one.
#[inline(always)]
unsafe fn copy_result(from: *const u64, to: *mut u64) {
    for word in 0..RESULT_WORDS {
        // SAFETY: `from` has a result, and `to` has room for one, as the caller guarantees.
        unsafe { to.add(word).write_volatile(*from.add(word)) };
    }
}

#[inline(always)]
fn are_equal<P: Value>(one: P, other: P) -> bool {
    let mut words = [0; warpfold_abi::reducer::WIDE_WORDS as usize];
    let (mut at, mut differ) = (0, 0);
    one.give(&mut |word| {
        words[at] = word;
        at += 1;
    });
    at = 0;
    other.give(&mut |word| {
        differ |= words[at] ^ word;
        at += 1;
    });
    differ == 0
}
