//! The kernels for pairs: elements of two inputs with the same index.
//!
//! They load as [`grid`](super::grid()) does, 16 bytes of each input at a time. As many bytes are in
//! flight, and so half as many groups of each input. The first input's groups begin at 16-byte
//! boundaries. The second input's groups do, too, in the `aligned` kernel, but not in the `shifted` one,
//! which assembles each from the two aligned groups that contain it. Neighbouring threads share an
//! aligned group; the `shifted` kernel caches loads, so that memory is read once.

use warpfold_abi::{
    arguments::{ReduceCut, ReducePair},
    reducer::{GROUP_BYTES, PAIRS_IN_FLIGHT},
};

use super::{
    Reduction, Scratch, Team, Vector, VectorReduction,
    finish::{finish, of_single},
    grid::{group_at, no_elements},
    in_vectors,
};
use crate::{
    grid::launch_dependents,
    memory::{Cached, Streaming, load16_if},
};

const PAIRS: usize = PAIRS_IN_FLIGHT as usize;

/// A reduction of pairs of elements. [`Self::Reduction`] combines its partial results.
pub trait PairReduction: Sized + 'static {
    /// The reduction that combines and finishes the partial results. Its elements have 1, 2, 4 or 8
    /// bytes.
    type Reduction: VectorReduction;
    /// Accumulates the pairs of two vectors; `chain` is as in [`VectorReduction::accumulate`]. Vectors
    /// of zeros must not change the accumulator.
    fn accumulate(kept: &mut Accumulator<Self>, chain: usize, first: Vector, second: Vector);
    /// Returns the partial result of one pair.
    fn map(first: Element<Self>, second: Element<Self>) -> Partial<Self>;
}

type Element<P> = <<P as PairReduction>::Reduction as Reduction>::Element;
type Accumulator<P> = <<P as PairReduction>::Reduction as VectorReduction>::Accumulator;
type Partial<P> = <<P as PairReduction>::Reduction as Reduction>::Partial;

/// Reduces pairs, with both inputs' groups at 16-byte boundaries.
///
/// # Safety
/// The arguments are as their fields document for the `aligned` kernel. The slots are as for
/// [`grid`](super::grid()). Blocks are whole warps, and have a thread for each single element. No launch
/// that this one may overlap with writes the inputs.
#[inline(always)]
pub unsafe fn pairs_aligned<P: PairReduction>(arguments: ReducePair<Element<P>>, scratch: Scratch) {
    // SAFETY: the second input's groups are aligned, as the caller guarantees.
    unsafe { pairs::<P, Aligned>(arguments, Aligned, scratch) };
}

/// Reduces pairs, with the second input's groups between 16-byte boundaries.
///
/// # Safety
/// Same as [`pairs_aligned`], for the `shifted` kernel.
#[inline(always)]
pub unsafe fn pairs_shifted<P: PairReduction>(arguments: ReducePair<Element<P>>, scratch: Scratch) {
    let groups = arguments.second.wrapping_add(arguments.head as usize);
    let by = Shifted { bytes: groups.addr() as u32 % GROUP_BYTES };
    // SAFETY: each group of the second input begins `by.bytes` bytes after a boundary of 16 bytes. The
    // aligned 16 bytes that contain the group's first and last bytes are readable, as the caller
    // guarantees.
    unsafe { pairs::<P, Shifted>(arguments, by, scratch) };
}

/// The alignment of the second input's groups.
trait Place: Copy {
    type Loaded: Copy;
    /// Loads a group if wanted, otherwise zeros.
    ///
    /// # Safety
    /// If wanted, the aligned groups that contain the group are readable, and `self` is its alignment.
    unsafe fn load(self, group: *const u32, wanted: bool) -> Self::Loaded;
    fn group<T>(self, loaded: Self::Loaded) -> Vector;
}

#[derive(Clone, Copy)]
struct Aligned;

impl Place for Aligned {
    type Loaded = Vector;

    #[inline(always)]
    unsafe fn load(self, group: *const u32, wanted: bool) -> Vector {
        // SAFETY: the group is readable and aligned if wanted, as the caller guarantees.
        unsafe { load16_if::<Streaming>(group, wanted) }
    }

    #[inline(always)]
    fn group<T>(self, loaded: Vector) -> Vector {
        loaded
    }
}

/// Groups that begin `bytes` bytes past 16-byte boundaries: a whole number of elements, not zero.
#[derive(Clone, Copy)]
struct Shifted {
    bytes: u32,
}

impl Place for Shifted {
    type Loaded = [Vector; 2];

    #[inline(always)]
    unsafe fn load(self, group: *const u32, wanted: bool) -> [Vector; 2] {
        let boundary = group.wrapping_byte_sub(self.bytes as usize);
        // SAFETY: both aligned groups are readable if wanted, as the caller guarantees.
        unsafe {
            [
                load16_if::<Cached>(boundary, wanted),
                load16_if::<Cached>(boundary.wrapping_byte_add(GROUP_BYTES as usize), wanted),
            ]
        }
    }

    /// Assembles the group word by word, because an indexed array would be placed in local memory.
    #[inline(always)]
    fn group<T>(self, [[a, b, c, d], [e, f, g, h]]: [Vector; 2]) -> Vector {
        const { assert!(size_of::<T>() <= 8) };
        if size_of::<T>() == 8 {
            return [c, d, e, f];
        }
        // Shifts by eight bytes, by four, and by the rest.
        let far = self.bytes & 8 != 0;
        let by_two = |near: u32, away: u32| if far { away } else { near };
        let (a, b, c, d, e, f) =
            (by_two(a, c), by_two(b, d), by_two(c, e), by_two(d, f), by_two(e, g), by_two(f, h));
        let odd = self.bytes & 4 != 0;
        let by_one = |near: u32, away: u32| if odd { away } else { near };
        let (a, b, c, d, e) = (by_one(a, b), by_one(b, c), by_one(c, d), by_one(d, e), by_one(e, f));
        if size_of::<T>() == 4 {
            return [a, b, c, d];
        }
        let bits = self.bytes % 4 * 8;
        let joined = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> bits) as u32;
        [joined(a, b), joined(b, c), joined(c, d), joined(d, e)]
    }
}

/// # Safety
/// Same as [`pairs_aligned`], with the second input's groups aligned as `place` says.
#[inline(always)]
unsafe fn pairs<P: PairReduction, S: Place>(
    arguments: ReducePair<Element<P>>,
    place: S,
    scratch: Scratch,
) {
    const { assert!(in_vectors::<Element<P>>()) };
    launch_dependents();
    let ReducePair { first, second, head, groups, singles, tile, slots, output } = arguments;
    let input = first;
    let first = ReduceCut { input, head, groups, singles, tile, slots, output, ..no_elements() };
    let second = ReduceCut { input: second, ..first };
    let team = Team::grid();
    // SAFETY: `finish` has the conditions of this function; a single pair has one index in both inputs.
    unsafe {
        // The single pair is loaded before the groups, so that it does not wait for their loads.
        let of = |at: u64| P::map(*first.input.add(at as usize), *second.input.add(at as usize));
        let single = of_single(first, team, P::Reduction::IDENTITY, of);
        let kept = P::Reduction::close(accumulate_tiles::<P, S>(first, second, place, team));
        finish::<P::Reduction>(P::Reduction::combine(kept, single), first, team, scratch);
    }
}

/// # Safety
/// Same as [`pairs`].
#[inline(always)]
unsafe fn accumulate_tiles<P: PairReduction, S: Place>(
    first: ReduceCut<Element<P>>,
    second: ReduceCut<Element<P>>,
    place: S,
    team: Team,
) -> Accumulator<P> {
    let ReduceCut { groups, tile, .. } = first;
    let (tid, block) = (team.thread, team.threads);
    let mut kept = P::Reduction::start();
    let mut start = u64::from(team.block) * tile;
    while start < groups {
        // The tile's number of groups fits in 32 bits, whose comparisons are cheaper.
        let len = Ord::min(groups - start, tile) as u32;
        let mine = start + u64::from(tid);
        let (of_first, of_second) = (group_at(first, mine), group_at(second, mine));
        let loaded: [_; PAIRS] = core::array::from_fn(|k| {
            let at = k as u32 * block;
            let words = at as usize * 4;
            // SAFETY: groups below `len` are in both inputs; `place` is the alignment in the second one.
            unsafe {
                (
                    load16_if::<Streaming>(of_first.wrapping_add(words), tid + at < len),
                    place.load(of_second.wrapping_add(words), tid + at < len),
                )
            }
        });
        let [near, far] = loaded;
        P::accumulate(&mut kept, 0, near.0, place.group::<Element<P>>(near.1));
        P::accumulate(&mut kept, 1, far.0, place.group::<Element<P>>(far.1));
        start += u64::from(team.blocks) * tile;
    }
    kept
}
