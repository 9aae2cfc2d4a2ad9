//! The `continued` kernel: its elements come behind others, which launches before have reduced, or
//! launches on other devices reduce meanwhile.

use warpfold_abi::arguments::{ReduceContinued, ReduceCut};

use super::{Scratch, Team, VectorReduction, finish::finish_then, grid::value, meeting::meet};
use crate::{
    Value,
    grid::launch_dependents,
    warp::{WARP_SIZE, lane_id},
};

/// # Safety
/// As of [`grid`](super::grid()); `carried` holds what a launch of the same kernel before this one in
/// the stream has left there for the first `before` elements. Where there is a meeting, it and what is
/// said of it are as [`ReduceContinued`] has them, and the launches that arrive there are of this
/// kernel.
#[inline(always)]
pub unsafe fn continued<F: VectorReduction>(arguments: ReduceContinued<F::Element>, scratch: Scratch) {
    launch_dependents();
    let ReduceContinued { input, head, groups, singles, tile, before, carried, slots, output, .. } =
        arguments;
    let (cut, team) = (ReduceCut { input, head, groups, singles, tile, slots, output }, Team::grid());
    // SAFETY: the caller's contract. One thread alone writes what is carried, and the output; the first
    // warp goes to the meeting whole.
    unsafe {
        let value = value::<F>(cut, team, before);
        let then = #[inline(always)]
        |mut value: F::Partial, tid| {
            if tid >= WARP_SIZE {
                return;
            }
            if lane_id() == 0 {
                let is_first = before == 0 || carried.is_null();
                let earlier = if is_first { F::IDENTITY } else { load::<F::Partial>(carried) };
                value = F::combine(earlier, value);
                // What an earlier element has decided is there already, and may name that element, which
                // is none of this launch's.
                if carried.is_null() || replace(value, carried, is_first) {
                    let among_all = ReduceCut { head: before + head, ..cut };
                    F::write_apart(value, among_all, |index| index - before);
                }
            }
            if !arguments.meeting.is_null() {
                meet::<F>(value, arguments);
            }
        };
        finish_then::<F>(value, slots, team, scratch, then);
    }
}

/// # Safety
/// The value's words are readable.
#[inline(always)]
pub(super) unsafe fn load<P: Value>(words: *const u32) -> P {
    let mut at = 0;
    P::take(&mut || {
        // SAFETY: the caller's contract.
        let word = unsafe { *words.add(at) };
        at += 1;
        word
    })
}

/// Puts a value in the place of another one, and says whether a word of it differs, or whether there was
/// none before.
///
/// # Safety
/// There is room for the value's words, which are readable unless it is the first one.
#[inline(always)]
pub(super) unsafe fn replace<P: Value>(value: P, words: *mut u32, is_first: bool) -> bool {
    let (mut at, mut changed) = (0, is_first);
    value.give(&mut |word| {
        // SAFETY: the caller's contract.
        unsafe {
            changed = changed || *words.add(at) != word;
            *words.add(at) = word;
        }
        at += 1;
    });
    changed
}
