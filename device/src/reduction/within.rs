//! The kernel for the elements in an interval.

use warpfold_abi::arguments::{ReduceCut, ReduceWithin};

use super::{
    ACCUMULATORS, Reduction, Scratch, Team, Vector, VectorReduction,
    finish::{finish, of_single},
    grid::{group_at, in_turn, no_elements},
    in_vectors,
};
use crate::{
    grid::launch_dependents,
    memory::{Streaming, load16_if},
};

/// A reduction of only the elements in an interval. [`Self::Reduction`] combines its partial results.
pub trait FilteredReduction: Sized + 'static {
    /// The reduction that combines and finishes the partial results. Its elements have 1, 2, 4 or 8
    /// bytes.
    type Reduction: VectorReduction;
    /// The interval's bounds, converted for comparisons with elements.
    type Interval: Copy;
    /// Returns the interval from [`ReduceWithin::low`] to [`ReduceWithin::high`].
    fn interval(low: u64, high: u64) -> Self::Interval;
    /// Accumulates the elements of a vector that are in the interval; `chain` is as in
    /// [`VectorReduction::accumulate`]. A thread accumulates fewer than 2^32 elements.
    fn accumulate(kept: &mut Accumulator<Self>, interval: Self::Interval, chain: usize, group: Vector);
    /// Returns the partial result of one element: the identity if it is outside the interval.
    fn map(element: Element<Self>, interval: Self::Interval) -> Partial<Self>;
}

type Element<W> = <<W as FilteredReduction>::Reduction as Reduction>::Element;
type Accumulator<W> = <<W as FilteredReduction>::Reduction as VectorReduction>::Accumulator;
type Partial<W> = <<W as FilteredReduction>::Reduction as Reduction>::Partial;

/// Reduces the elements of a buffer that are in an interval.
///
/// # Safety
/// Same as [`grid`](super::grid()), with at most 2^36 elements.
#[inline(always)]
pub unsafe fn within<W: FilteredReduction>(arguments: ReduceWithin<Element<W>>, scratch: Scratch) {
    const { assert!(in_vectors::<Element<W>>()) };
    launch_dependents();
    let ReduceWithin { input, low, high, head, groups, singles, tile, slots, output } = arguments;
    let cut = ReduceCut { input, head, groups, singles, tile, slots, output, ..no_elements() };
    let (interval, team) = (W::interval(low, high), Team::grid());
    // SAFETY: single elements are outside of the groups, inside the input; all threads finish once.
    unsafe {
        // The single element is loaded before the groups, so that it does not wait for their loads.
        let of = |at: u64| W::map(*input.add(at as usize), interval);
        let single = of_single(cut, team, W::Reduction::IDENTITY, of);
        let kept = W::Reduction::close(accumulate_tiles::<W>(cut, interval, team));
        finish::<W::Reduction>(W::Reduction::combine(kept, single), cut, team, scratch);
    }
}

/// Accumulates this thread's groups, tile by tile, as [`grid`](super::grid()) does. A tile has at least
/// a group per lane of a warp, so a thread takes at most 1/32 of all groups.
///
/// # Safety
/// Same as [`within`].
#[inline(always)]
unsafe fn accumulate_tiles<W: FilteredReduction>(
    arguments: ReduceCut<Element<W>>,
    interval: W::Interval,
    team: Team,
) -> Accumulator<W> {
    let ReduceCut { groups, tile, .. } = arguments;
    let (tid, block) = (team.thread, team.threads);
    let mut kept = W::Reduction::start();
    let mut start = u64::from(team.block) * tile;
    while start < groups {
        // The number of groups fits in 32 bits, in which comparisons are cheap.
        let len = Ord::min(groups - start, tile) as u32;
        let mine = group_at(arguments, start + u64::from(tid));
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            // SAFETY: groups below `len` are inside the input, and start at a 16-byte boundary.
            unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), tid + at < len) }
        });
        in_turn(loaded, |k, group| {
            // Padding must not be accumulated, because zero may be in the interval.
            if tid + (k as u32 * block) < len {
                W::accumulate(&mut kept, interval, k, group);
            }
        });
        start += u64::from(team.blocks) * tile;
    }
    kept
}
