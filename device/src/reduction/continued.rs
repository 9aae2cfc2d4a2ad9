//! The `continued` kernel, for elements after those that earlier launches or other devices reduce.

use warpfold_abi::arguments::{ReduceContinued, ReduceCut};

use super::{Scratch, Team, VectorReduction, finish::finish_then, grid::value, meeting::meet};
use crate::{
    grid::launch_dependents,
    value::{load, replace},
    warp::{WARP_SIZE, lane_id},
};

/// Reduces a buffer, and combines the result with that of the elements before it.
///
/// # Safety
/// As [`grid`](super::grid()); `carried` holds what an earlier launch of this kernel in the stream has
/// stored for the first `before` elements. A meeting, if any, is as [`ReduceContinued`] documents, and
/// is of launches of this kernel only.
#[inline(always)]
pub unsafe fn continued<F: VectorReduction>(arguments: ReduceContinued<F::Element>, scratch: Scratch) {
    launch_dependents();
    let ReduceContinued { input, head, groups, singles, tile, before, carried, slots, output, .. } =
        arguments;
    let (cut, team) = (ReduceCut { input, head, groups, singles, tile, slots, output }, Team::grid());
    // SAFETY: the caller's contract. One thread writes `carried` and the output; a whole warp meets.
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
                // An unchanged result is written already, and may name an element of an earlier launch.
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
