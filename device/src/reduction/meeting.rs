//! Where launches on several devices meet, so that a group of devices needs one launch each.
//!
//! As blocks do inside one device, each launch leaves its value where the others can reach it; but
//! nobody waits: it also counts itself, and the last one to arrive finds all values there. So launches
//! may run in any order, one behind the other too.

use warpfold_abi::{
    arguments::{ReduceContinued, ReduceCut},
    meeting::{CELL_BYTES, HEAD_BYTES},
    reducer::{CARRIED_BYTES, OUTPUT_BYTES},
};

use super::{
    CombineOf, VectorReduction,
    continued::{load, replace},
    traits::write_seen,
};
use crate::{
    Value,
    atomic::{self, AcqRel, System},
    warp::{self, FULL_WARP, lane_id, sync_warp, warp_vote_ballot},
};

/// Words of a cell, and of what comes before the cells.
const CELL: usize = CELL_BYTES as usize / size_of::<u32>();
const HEAD: usize = HEAD_BYTES as usize / size_of::<u32>();

/// Where in a cell the result begins, and its words.
const RESULT: usize = CARRIED_BYTES as usize / size_of::<u32>();
const RESULT_WORDS: usize = OUTPUT_BYTES as usize / size_of::<u64>();

/// Leaves a value of this launch, which lane 0 has, with the result at its output, and counts the
/// launch. The last one to arrive writes the result of all.
///
/// # Safety
/// Called once in a launch, by a whole warp, behind the launch's output. The arguments are as
/// [`ReduceContinued`] says of a meeting: each rank has one launch, and nothing else uses the meeting,
/// the result or its copies until the last of them has ended.
#[inline(always)]
pub(super) unsafe fn meet<F: VectorReduction>(
    value: F::Partial,
    arguments: ReduceContinued<F::Element>,
) {
    let ReduceContinued { output, meeting, rank, members, arrivals, result, others, copies, .. } =
        arguments;
    let lane = lane_id();
    // SAFETY: the caller's contract. A cell is written by one launch, before that counts itself; all are
    // read behind the last count, which has acquired what came before the others.
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
        // What lane 0 has acquired is there for the others, too.
        sync_warp(FULL_WARP);
        let is_member = u64::from(lane) < members;
        let theirs = if is_member { load(cell(meeting, lane.into())) } else { F::IDENTITY };
        // Lanes combine the same values in another order; one of them says what comes out.
        let all = warp::broadcast(warp::reduce(theirs, CombineOf::<F>::OP), 0);
        let mut winner = 0;
        if F::RELOADS_INPUT {
            // Only the member that has an element could read it again, and has left it.
            let decides = warp_vote_ballot(FULL_WARP, is_member && are_equal(theirs, all));
            winner = decides.trailing_zeros();
        }
        if u64::from(lane) <= copies {
            // By distances, because of an address from memory the compiler does not know that it is one
            // of global memory.
            let behind = if lane == 0 { 0 } else { *others.add(lane as usize - 1) };
            let place = result.wrapping_byte_add(behind as usize);
            if F::RELOADS_INPUT {
                copy_result(cell(meeting, winner.into()).add(RESULT).cast(), place);
            } else {
                let ReduceContinued { input, head, groups, singles, tile, slots, .. } = arguments;
                let of = ReduceCut { input, head, groups, singles, tile, slots, output: place };
                write_seen::<F>(all, of);
            }
        }
    }
}

/// # Safety
/// The meeting has the cell.
#[inline(always)]
unsafe fn cell(meeting: *mut u32, rank: u64) -> *mut u32 {
    // SAFETY: the caller's contract.
    unsafe { meeting.add(HEAD + rank as usize * CELL) }
}

/// Each word in one piece, because the host may look for it meanwhile.
///
/// # Safety
/// There is a result, and room for one.
#[inline(always)]
unsafe fn copy_result(from: *const u64, to: *mut u64) {
    for word in 0..RESULT_WORDS {
        // SAFETY: the caller's contract.
        unsafe { to.add(word).write_volatile(*from.add(word)) };
    }
}

/// Whether two values have the same words.
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
