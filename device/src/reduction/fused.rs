//! The `fused` kernels: several reductions of the same elements, which are loaded once.
//!
//! A kernel has all reductions of a list as *parts*. The host chooses some of them in the kernel's text
//! before it loads it, so that the code, the registers and the exchanged words of the others are not
//! compiled.
//!
//! - `grid`: one block per row, or several. For long rows, and for buffers, which are a single row.
//! - `warp`: one to 32 lanes of a warp per row. For all others.

use core::{arch::asm, marker::PhantomData};

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCut, ReduceRows},
    form,
    fused::{MOST_PARTS, results_bytes},
    reducer::WIDE_WORDS,
};

use super::{
    ACCUMULATORS, CombineOf, Reduction, Scratch, Team, Vector, VectorReduction,
    finish::{finish_by, single_index},
    grid::{group_at, in_turn},
    launch_dependents_late,
    rows::{LaneSlot, One, accumulate_share, row_at, row_of, row_of_block},
    single,
    traits::write_seen,
};
use crate::{
    Value,
    grid::{thread_index, threads, wait_grid_dependencies},
    memory::{Streaming, load16_if},
    warp::{self, FULL_WARP, Shuffle},
};

/// Reduces rows by the chosen parts of `F`, each row by one or more blocks. The results of a part are
/// contiguous, and [`results_bytes`] after those of the previous part, in the order of the list.
///
/// # Safety
/// Same as [`rows_grid`](super::rows_grid), with scratch and slots for [`WIDE_WORDS`], and an output for
/// all chosen parts, which are at most [`MOST_PARTS`].
#[inline(always)]
pub unsafe fn fused_grid<F: Parts>(arguments: ReduceRows<F::Element>, scratch: Scratch) {
    const { assert!(sum(F::LARGEST) <= WIDE_WORDS && F::FIRST > 0) };
    launch_dependents_late();
    let (row, of_row, team) = row_of_block::<F>(arguments);
    // SAFETY: the conditions are those of the called functions.
    unsafe {
        // The single element is loaded before the groups, so that it does not wait for their loads.
        let single = single::<F>(of_row, team, 0);
        let value = F::combine(F::close(accumulate_tiles::<F>(of_row, team)), single);
        let write = #[inline(always)]
        |value| F::write_chosen(value, of_row, row);
        finish_by::<F>(value, of_row.slots, team, scratch, write);
    }
}

/// Reduces rows as [`fused_grid`] does, but with `share` lanes of a warp per row. With a tile of zero,
/// the lanes load elements; otherwise they load groups, and the elements around them.
///
/// # Safety
/// The arguments are as their fields document, and the output is as for [`fused_grid`]. With a tile of
/// zero, `len` is less than 2^31; otherwise a row has no more than `4 * share` elements outside of
/// groups. Blocks are whole warps.
#[inline(always)]
pub unsafe fn fused_warp<F: Parts>(arguments: ReduceRows<F::Element>) {
    let ReduceRows { input, rows, len, pitch, share, tile, .. } = arguments;
    let LaneSlot { place, first, lanes_log2 } = LaneSlot::of(share);
    let lanes = 1 << lanes_log2;
    launch_dependents_late();
    let mut begin = (thread_index() / u64::from(WARP_SIZE)) << (WARP_SIZE.trailing_zeros() - lanes_log2);
    while begin < rows {
        let row = begin + u64::from(place);
        let is_there = row < rows;
        // SAFETY: the caller guarantees the rows, and lanes past the last row have `is_there` false or
        // no elements. `input` is the first element, as there are rows with elements. `begin` is the
        // same in all lanes of a warp, so they reach the shuffles together.
        unsafe {
            let (mut value, of_row) = if tile == 0 {
                let start = input.wrapping_add((row * pitch) as usize);
                let value =
                    accumulate_share::<F, One<F::Element>>(arguments, start, is_there, first, lanes);
                (value, row_at::<F, One<F::Element>>(arguments, row, start))
            } else {
                // Lanes without a row combine no elements.
                let arguments = ReduceRows { len: if is_there { len } else { 0 }, ..arguments };
                accumulate_groups::<F>(arguments, row, first, lanes)
            };
            let mut distance = lanes / 2;
            while distance > 0 {
                value = F::combine(value, value.shuffle_xor(FULL_WARP, distance));
                distance /= 2;
            }
            wait_grid_dependencies();
            if first == 0 && is_there {
                F::write_chosen(value, of_row, row);
            }
        }
        begin += threads() / u64::from(WARP_SIZE) << (WARP_SIZE.trailing_zeros() - lanes_log2);
    }
}

/// Accumulates every `lanes`th group of a row from group `first` on, and likewise the elements outside
/// of groups. Returns the partial result and the row.
///
/// # Safety
/// The row is readable, has no more than `4 * lanes` elements outside of groups, and `input` points to a
/// readable element.
#[inline(always)]
unsafe fn accumulate_groups<F: Parts>(
    arguments: ReduceRows<F::Element>,
    row: u64,
    first: u32,
    lanes: u32,
) -> (F::Partial, ReduceCut<F::Element>) {
    let team = Team { thread: first, threads: lanes, block: 0, blocks: 1 };
    let tile = u64::from(ACCUMULATORS as u32 * lanes);
    let of_row = ReduceCut { tile, ..row_of::<F>(arguments, row) };
    // SAFETY: of the row only `of_row.singles` single elements and its groups are read, which the caller
    // guarantees, and otherwise the element at `input`.
    unsafe {
        let mut singles: [F::Element; ACCUMULATORS] = core::array::from_fn(|k| {
            let number = u64::from(first + k as u32 * lanes);
            let single = of_row.input.wrapping_add(single_index(of_row, number) as usize);
            // Loads an element even if there is none: a branch would serialise the loads.
            *(if number < of_row.singles { single } else { arguments.input })
        });
        let mut value = F::close(accumulate_tiles::<F>(of_row, team));
        // A loop, although there are at most four: it has the code of all parts once.
        let mut number = u64::from(first);
        while number < of_row.singles {
            let [single, a, b, c] = singles;
            value = F::combine(value, F::map(single, single_index(of_row, number)));
            singles = [a, b, c, c];
            number += u64::from(lanes);
        }
        (value, of_row)
    }
}

/// Accumulates as [`grid`](super::grid()) does, but the parts are inlined, whatever their size: a call
/// would pass their accumulators through memory.
///
/// # Safety
/// The input is readable; the tile is not zero, and at most 4 groups per thread of the block.
#[inline(always)]
unsafe fn accumulate_tiles<F: Parts>(arguments: ReduceCut<F::Element>, team: Team) -> F::Accumulator {
    let ReduceCut { head, groups, tile, .. } = arguments;
    let mut kept = F::start();
    let mut start = u64::from(team.block) * tile;
    while start < groups {
        let len = Ord::min(groups - start, tile) as u32;
        let mine = group_at(arguments, start + u64::from(team.thread));
        let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
            let at = k as u32 * team.threads;
            // SAFETY: groups below `len` are in the input, and start at a 16-byte boundary.
            unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), team.thread + at < len) }
        });
        let accumulate = #[inline(always)]
        |k, group| {
            let at = team.thread + k as u32 * team.threads;
            if at < len {
                F::accumulate(&mut kept, k, group, head + (start + u64::from(at)) * F::LANES);
            }
        };
        in_turn(loaded, accumulate);
        start += u64::from(team.blocks) * tile;
    }
    kept
}

/// Returns whether a part is chosen. The host replaces the part's bit by zero if it is not. Not `pure`,
/// because the compiler would move the block out of loops, and compile each loop for several choices.
#[inline(always)]
fn is_chosen<const PART: u32>() -> bool {
    let chosen: u32;
    // SAFETY: the instruction sets a register.
    unsafe {
        asm!(
            "{{ .reg .pred part; mov.u32 {0}, {1}; }}",
            out(reg32) chosen,
            const PART,
            options(nomem, nostack, preserves_flags),
        );
    }
    chosen != 0
}

/// A list of reductions of the same elements: [`With`] or [`Nothing`].
pub trait Parts: VectorReduction {
    /// The words of the partial results that have most words, in descending order.
    const LARGEST: Widths;
    /// The bit of the first part, the lowest one: the host expects the results in the order of the bits.
    const FIRST: u32;

    /// Writes the results of the chosen parts for a row.
    ///
    /// # Safety
    /// Same as [`Reduction::write`], for the results of each chosen part of `arguments.results` rows.
    unsafe fn write_chosen(partial: Self::Partial, arguments: ReduceCut<Self::Element>, row: u64);
}

type Widths = [u32; MOST_PARTS as usize];

const fn sum(widths: Widths) -> u32 {
    let (mut sum, mut at) = (0, 0);
    while at < widths.len() {
        sum += widths[at];
        at += 1;
    }
    sum
}

/// Inserts a width into widths in descending order, and leaves out the smallest.
const fn insert(mut width: u32, mut widths: Widths) -> Widths {
    let mut at = 0;
    while at < widths.len() {
        if width > widths[at] {
            (widths[at], width) = (width, widths[at]);
        }
        at += 1;
    }
    widths
}

/// The list without reductions, of elements of type `T`.
pub struct Nothing<T>(PhantomData<T>);

impl<T: Copy + 'static> Reduction for Nothing<T> {
    type Element = T;
    type Partial = ();
    type Output = ();
    const IDENTITY: () = ();
    const INDEXED: bool = false;
    const ZERO_PADDABLE: bool = true;

    #[inline(always)]
    fn map(_element: T, _index: u64) {}

    #[inline(always)]
    fn combine(_: (), _: ()) {}

    #[inline(always)]
    fn finish(_: ()) {}
}

impl<T: Copy + 'static> VectorReduction for Nothing<T> {
    type Accumulator = ();
    type Continued = Self;

    #[inline(always)]
    fn start() {}

    #[inline(always)]
    fn accumulate(_: &mut (), _chain: usize, _vector: Vector, _index: u64) {}

    #[inline(always)]
    fn close(_: ()) {}
}

impl<T: Copy + 'static> Parts for Nothing<T> {
    const LARGEST: Widths = [0; MOST_PARTS as usize];
    const FIRST: u32 = u32::MAX;

    #[inline(always)]
    unsafe fn write_chosen(_: (), _arguments: ReduceCut<T>, _row: u64) {}
}

/// The list with the reduction `F` before those of `R`. `PART` is its bit in the host's choice.
pub struct With<const PART: u32, F, R>(PhantomData<(F, R)>);

/// The partial result of `F`, or the identity if the part is not chosen; then no words are exchanged.
pub struct Chosen<const PART: u32, F: Reduction>(F::Partial);

impl<const PART: u32, F: Reduction> Clone for Chosen<PART, F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<const PART: u32, F: Reduction> Copy for Chosen<PART, F> {}

impl<const PART: u32, F: Reduction> Chosen<PART, F> {
    const NONE: Self = Self(F::IDENTITY);

    #[inline(always)]
    fn of(value: impl FnOnce() -> F::Partial) -> Self {
        if is_chosen::<PART>() { Self(value()) } else { Self::NONE }
    }
}

impl<const PART: u32, F: Reduction> Value for Chosen<PART, F> {
    const WORDS: u32 = F::Partial::WORDS;

    #[inline(always)]
    fn given_words() -> u32 {
        if is_chosen::<PART>() { Self::WORDS } else { 0 }
    }

    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        if is_chosen::<PART>() {
            self.0.give(to);
        }
    }

    #[inline(always)]
    fn take(from: &mut impl FnMut() -> u32) -> Self {
        Self::of(
            #[inline(always)]
            || F::Partial::take(from),
        )
    }

    #[inline(always)]
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        Self::of(
            #[inline(always)]
            || self.0.map_words(through),
        )
    }
}

impl<const PART: u32, F: VectorReduction, R: Parts<Element = F::Element>> Reduction
    for With<PART, F, R>
{
    type Element = F::Element;
    type Partial = (Chosen<PART, F>, R::Partial);
    type Output = ();
    const IDENTITY: Self::Partial = (Chosen::NONE, R::IDENTITY);
    const INDEXED: bool = F::INDEXED || R::INDEXED;
    const ZERO_PADDABLE: bool = F::ZERO_PADDABLE && R::ZERO_PADDABLE;

    #[inline(always)]
    fn map(element: F::Element, index: u64) -> Self::Partial {
        let of = #[inline(always)]
        || F::map(element, index);
        (Chosen::of(of), R::map(element, index))
    }

    #[inline(always)]
    fn combine(a: Self::Partial, b: Self::Partial) -> Self::Partial {
        let of = #[inline(always)]
        || F::combine(a.0.0, b.0.0);
        (Chosen::of(of), R::combine(a.1, b.1))
    }

    /// Combines each part by its own way.
    #[inline(always)]
    unsafe fn combine_warp(partial: Self::Partial, members: u32) -> Option<Self::Partial> {
        let of = #[inline(always)]
        // SAFETY: all members call this together, as the caller guarantees, and make the same choice.
        || unsafe { warp::reduce_among(partial.0.0, CombineOf::<F>::OP, members) };
        // SAFETY: as above.
        let rest = unsafe { warp::reduce_among(partial.1, CombineOf::<R>::OP, members) };
        Some((Chosen::of(of), rest))
    }

    #[inline(always)]
    fn finish(_: Self::Partial) {}
}

impl<const PART: u32, F: VectorReduction, R: Parts<Element = F::Element>> VectorReduction
    for With<PART, F, R>
{
    type Accumulator = (F::Accumulator, R::Accumulator);
    type Continued = Self;

    #[inline(always)]
    fn start() -> Self::Accumulator {
        (F::start(), R::start())
    }

    /// Accumulates all vectors in one chain. The registers of four chains of each part would leave room
    /// for half as many threads, whereas the parts do not wait for each other anyway.
    #[inline(always)]
    fn accumulate(kept: &mut Self::Accumulator, _chain: usize, vector: Vector, index: u64) {
        if is_chosen::<PART>() {
            F::accumulate(&mut kept.0, 0, vector, index);
        }
        R::accumulate(&mut kept.1, 0, vector, index);
    }

    #[inline(always)]
    fn accumulate_one((kept, rest): &mut Self::Partial, element: F::Element, index: u64) {
        if is_chosen::<PART>() {
            F::accumulate_one(&mut kept.0, element, index);
        }
        R::accumulate_one(rest, element, index);
    }

    #[inline(always)]
    fn close(kept: Self::Accumulator) -> Self::Partial {
        let of = #[inline(always)]
        || F::close(kept.0);
        (Chosen::of(of), R::close(kept.1))
    }
}

impl<const PART: u32, F: VectorReduction, R: Parts<Element = F::Element>> Parts for With<PART, F, R> {
    const LARGEST: Widths = insert(F::Partial::WORDS, R::LARGEST);
    const FIRST: u32 = {
        assert!(PART < R::FIRST);
        PART
    };

    #[inline(always)]
    unsafe fn write_chosen(partial: Self::Partial, arguments: ReduceCut<F::Element>, row: u64) {
        let bytes = const { size_of::<F::Output>() as u64 };
        const { assert!(size_of::<F::Output>().is_power_of_two()) };
        let ReduceCut { mut output, results, .. } = arguments;
        // SAFETY: there is room for each result, and elements are readable, as the caller guarantees. A
        // result is at a multiple of its size, because the first one is at a multiple of 8.
        unsafe {
            if is_chosen::<PART>() {
                let output_of_row = output.wrapping_byte_add((row * bytes) as usize);
                let of_row =
                    ReduceCut { output: output_of_row, form: form::OUTPUT, ddof: 0, ..arguments };
                write_seen::<F>(partial.0.0, of_row);
                output = output.wrapping_byte_add(results_bytes(results, bytes) as usize);
            }
            R::write_chosen(partial.1, ReduceCut { output, ..arguments }, row);
        }
    }
}
