//! The `continued` kernel, for elements that follow those of earlier launches or of other devices.

use warpfold_abi::arguments::{ReduceContinued, ReduceCut};

use super::{
    Scratch, Team, VectorReduction,
    finish::finish_then,
    grid::{no_elements, value},
    meeting::meet,
    span,
};
use crate::{
    grid::launch_dependents,
    value::{load, replace},
    warp::{WARP_SIZE, lane_id},
};

/// Reduces a buffer, and combines the result with that of earlier launches and, in a group of devices,
/// with the results of the other devices.
///
/// # Safety
/// Same as [`grid`](super::grid()). If `before` is not 0, `carried` holds the partial result that an
/// earlier launch of this kernel on the stream has stored for the first `before` elements. Memory
/// through which several devices combine their results is as [`ReduceContinued`] documents, and only
/// launches of this kernel use it.
#[inline(always)]
pub unsafe fn continued<F: VectorReduction>(arguments: ReduceContinued<F::Element>, scratch: Scratch) {
    launch_dependents();
    let ReduceContinued { input, head, groups, singles, tile, before, carried, slots, output, .. } =
        arguments;
    let cut = ReduceCut { input, head, groups, singles, tile, slots, output, ..no_elements() };
    let team = Team::grid();
    // SAFETY: the arguments are as the caller guarantees. One thread writes `carried` and the output; a
    // whole warp calls `meet`.
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
                // An unchanged result is not written again: its element may be in an earlier input.
                if carried.is_null() || replace(value, carried, is_first) {
                    F::write_apart(value, cut, |index| span(cut, index - before));
                }
            }
            if !arguments.meeting.is_null() {
                meet::<F>(value, arguments);
            }
        };
        finish_then::<F>(value, slots, team, scratch, then);
    }
}
