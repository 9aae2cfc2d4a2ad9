//! The `grid` kernel: loads into registers.

use core::ptr::{null, null_mut};

use super::{ACCUMULATORS, Scratch, Team, VectorReduction, finish, in_vectors, lanes, single};
use crate::{
    grid::launch_dependents,
    memory::{Streaming, load16_if},
    thread::Few,
};
use warpfold_abi::{arguments::ReduceCut, form::OUTPUT, reducer::GROUP_BYTES};

/// Reduces a buffer, in one launch.
///
/// # Safety
/// The arguments are as their fields document; `tile` is at most 4 groups per thread of a block. The
/// slots are zero once the earlier launches of the stream have completed, and no other stream uses them.
/// Blocks are whole warps. No launch that this one may overlap with writes the input.
#[inline(always)]
pub unsafe fn grid<F: VectorReduction>(arguments: ReduceCut<F::Element>, scratch: Scratch) {
    launch_dependents();
    // SAFETY: the conditions are those of `finish` and `value`.
    unsafe {
        let team = Team::grid();
        finish::<F>(value::<F>(arguments, team, 0), arguments, team, scratch);
    }
}

/// Reduces this thread's share of the elements; `first` is the index of the first element.
///
/// # Safety
/// The elements are readable; the tile is not zero, and at most 4 groups per thread of the team's
/// blocks.
#[inline(always)]
pub(super) unsafe fn value<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    team: Team,
    first: u64,
) -> F::Partial {
    // SAFETY: the elements are readable, and the tile has a valid size, as the caller guarantees.
    unsafe {
        if !in_vectors::<F::Element>() {
            return one_by_one::<F>(arguments, team, first);
        }
        // The single element is loaded before the groups, so that it does not wait for their loads.
        let single = single::<F>(arguments, team, first);
        let kept = accumulate_tiles::<F>(arguments, team, first);
        F::combine(F::close(kept), single)
    }
}

/// Splits a buffer at 16-byte boundaries, if its elements are loaded in groups. Tile, slots and output
/// are not set.
#[inline(always)]
pub(super) fn cut<T>(input: *const T, n: u64) -> ReduceCut<T> {
    let head = if in_vectors::<T>() {
        let to_boundary = (input.addr() as u64).wrapping_neg() % u64::from(GROUP_BYTES);
        Ord::min(to_boundary / size_of::<T>() as u64, n)
    } else {
        0
    };
    let groups = (n - head) / lanes::<T>();
    let singles = n - groups * lanes::<T>();
    ReduceCut { input, head, groups, singles, ..no_elements() }
}

/// Returns the arguments for no elements, with one result in the form [`OUTPUT`].
#[inline(always)]
pub(super) const fn no_elements<T>() -> ReduceCut<T> {
    ReduceCut {
        input: null(),
        head: 0,
        groups: 0,
        singles: 0,
        tile: 0,
        slots: null_mut(),
        output: null_mut(),
        results: 1,
        form: OUTPUT,
        ddof: 0,
    }
}

#[inline(always)]
pub(super) fn group_at<T>(arguments: ReduceCut<T>, group: u64) -> *const u32 {
    arguments.input.wrapping_add((arguments.head + group * lanes::<T>()) as usize).cast()
}

/// # Safety
/// The input is readable; the tile is not zero, and at most 4 groups per thread of the block.
#[inline(always)]
unsafe fn accumulate_tiles<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    team: Team,
    first: u64,
) -> F::Accumulator {
    let ReduceCut { head, groups, tile, .. } = arguments;
    let (tid, block) = (team.thread, team.threads);
    let mut kept = F::start();
    let mut start = u64::from(team.block) * tile;
    // ladder: tiles
    while start < groups {
        // The number of groups fits in 32 bits, in which comparisons are cheap.
        let len = Ord::min(groups - start, tile) as u32;
        let mine = group_at(arguments, start + u64::from(tid));
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            // SAFETY: groups below `len` are in the input, and start at a 16-byte boundary.
            unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), tid + at < len) }
        });
        in_turn(loaded, |k, group| {
            let at = tid + k as u32 * block;
            if F::ZERO_PADDABLE || at < len {
                let index = first + head + (start + u64::from(at)) * F::LANES;
                F::accumulate(&mut kept, k, group, index);
            }
        });
        start += u64::from(team.blocks) * tile;
    }
    // ladder: end
    kept
}

/// Accumulates elements that are loaded one by one; each counts as a group.
///
/// # Safety
/// Same as [`accumulate_tiles`].
#[inline(always)]
unsafe fn one_by_one<F: VectorReduction>(
    arguments: ReduceCut<F::Element>,
    team: Team,
    first: u64,
) -> F::Partial {
    let ReduceCut { input, groups, tile, .. } = arguments;
    let (tid, block) = (team.thread, team.threads);
    let mut kept = [F::IDENTITY; ACCUMULATORS];
    let mut start = u64::from(team.block) * tile;
    while start < groups {
        let len = Ord::min(groups - start, tile) as u32;
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = tid + k as u32 * block;
            // Loads an element even if `at` is past the tile: a branch would serialise the loads.
            let at = if at < len { at } else { 0 };
            // SAFETY: elements below `len` are in the input, and `len` is not zero.
            unsafe { *input.add((start + u64::from(at)) as usize) }
        });
        in_turn(loaded, |k, element| {
            let at = tid + k as u32 * block;
            if at < len {
                let index = first + start + u64::from(at);
                kept[k] = F::combine(kept[k], F::map(element, index));
            }
        });
        start += u64::from(team.blocks) * tile;
    }
    kept.tree_reduce(F::combine)
}

/// Passes the loaded values to `take`, one by one. Unrolled by hand, because an array that an iterator
/// owns would be placed in local memory.
#[inline(always)]
pub(super) fn in_turn<L>([a, b, c, d]: [L; ACCUMULATORS], mut take: impl FnMut(usize, L)) {
    take(0, a);
    take(1, b);
    take(2, c);
    take(3, d);
}

#[inline(always)]
pub(super) fn each_in_turn<L, M>(
    [a, b, c, d]: [L; ACCUMULATORS],
    mut take: impl FnMut(usize, L) -> M,
) -> [M; ACCUMULATORS] {
    [take(0, a), take(1, b), take(2, c), take(3, d)]
}
