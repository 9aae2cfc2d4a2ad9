//! The kernel for the elements of an interval.

use warpfold_abi::arguments::{ReduceCut, ReduceWithin};

use super::{
    ACCUMULATORS, Reduction, Scratch, Team, Vector, VectorReduction,
    finish::{finish, of_single},
    grid::{group_at, in_turn},
    in_vectors,
};
use crate::{
    grid::launch_dependents,
    memory::{Streaming, load16_if},
};

/// A reduction of the elements in an interval, which go into the partial results of another reduction.
pub trait FilteredReduction: Sized + 'static {
    /// The reduction that combines and finishes them. Its elements have 1, 2, 4 or 8 bytes.
    type Reduction: VectorReduction;
    /// The interval's ends, in the form that elements are compared with.
    type Interval: Copy;
    /// Returns the interval from [`ReduceWithin::low`] to [`ReduceWithin::high`].
    fn interval(low: u64, high: u64) -> Self::Interval;
    /// Accumulates the elements of a vector that are in the interval. No thread has 2^32 elements.
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
/// As [`grid`](super::grid()), with at most 2^36 elements.
#[inline(always)]
pub unsafe fn within<W: FilteredReduction>(arguments: ReduceWithin<Element<W>>, scratch: Scratch) {
    const { assert!(in_vectors::<Element<W>>()) };
    launch_dependents();
    let ReduceWithin { input, low, high, head, groups, singles, tile, slots, output } = arguments;
    let cut = ReduceCut { input, head, groups, singles, tile, slots, output };
    let (interval, team) = (W::interval(low, high), Team::grid());
    // SAFETY: the caller's contract; singles are before and after the groups, inside the input.
    unsafe {
        // Loaded first, so that it does not wait for the other loads.
        let of = |at: u64| W::map(*input.add(at as usize), interval);
        let single = of_single(cut, team, W::Reduction::IDENTITY, of);
        let kept = W::Reduction::close(accumulate_tiles::<W>(cut, interval, team));
        finish::<W::Reduction>(W::Reduction::combine(kept, single), cut, team, scratch);
    }
}

/// Accumulates this thread's groups, tile by tile, as [`grid`](super::grid()) does. A tile has at least
/// a group per lane of a warp, so a thread takes at most a 32nd of all.
///
/// # Safety
/// As [`within`].
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
        // Both fit 32 bits, where comparisons are cheap.
        let len = Ord::min(groups - start, tile) as u32;
        let mine = group_at(arguments, start + u64::from(tid));
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            // SAFETY: groups below `len` lie inside, and start at a 16-byte boundary.
            unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), tid + at < len) }
        });
        in_turn(loaded, |k, group| {
            // Padding must not be accumulated, as zero may be in the interval.
            if tid + (k as u32 * block) < len {
                W::accumulate(&mut kept, interval, k, group);
            }
        });
        start += u64::from(team.blocks) * tile;
    }
    kept
}
