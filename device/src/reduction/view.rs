//! Kernels for views: one result for each position on the kept axes of an array of any strides.
//!
//! - [`view_groups`]: 16 bytes at a time, if the fastest reduced axis is contiguous, in whole groups.
//! - [`view_elements`]: an element at a time.
//!
//! A block computes `across` results, each by several threads, which take its units (elements or groups)
//! in turn. If there are few results, several blocks share each result, to fill the device. Neighbouring
//! threads have neighbouring results or neighbouring units of one result, whichever are closer in
//! memory. A thread's position on the axes advances like an odometer from unit to unit, without
//! divisions.
//!
//! Results are reproducible: the order of combination depends only on shape, strides and launch.

use core::ptr::null_mut;

use warpfold_abi::arguments::{ReduceCut, ReduceView};

use super::{
    ACCUMULATORS, Span, Vector, VectorReduction,
    axis::{AxisScratch, Kept, Place, Single, meet_all},
    in_vectors, launch_dependents_late,
    rows::{One, Unit},
};
use crate::{
    block,
    thread::{block_dim_x, block_idx_x, thread_idx_x},
};

/// Reduces axes of a view by loads of 16 bytes. Does nothing for elements that are loaded one by one.
///
/// # Safety
/// Same as [`view_elements`]; units are groups of 16 bytes, all at multiples of 16.
#[inline(always)]
pub unsafe fn view_groups<F: VectorReduction>(arguments: ReduceView<F::Element>, scratch: AxisScratch) {
    if in_vectors::<F::Element>() {
        // SAFETY: the conditions of `view` for groups are those of this function.
        unsafe { view::<F, Vector>(arguments, scratch) };
    }
}

/// Reduces axes of a view, element by element.
///
/// # Safety
/// The arguments are as their fields document. The slots are as for [`grid`](super::grid()). Blocks are
/// whole warps; their size is a power of two, at most [`AXIS_BLOCK`](warpfold_abi::reducer::AXIS_BLOCK).
/// Each strip of `across` results has `share` blocks; the last strip may be shorter.
#[inline(always)]
pub unsafe fn view_elements<F: VectorReduction>(
    arguments: ReduceView<F::Element>,
    scratch: AxisScratch,
) {
    // SAFETY: the conditions of `view` for elements are those of this function.
    unsafe { view::<F, One<F::Element>>(arguments, scratch) };
}

/// # Safety
/// Same as [`view_groups`] for groups, otherwise as [`view_elements`].
#[inline(always)]
unsafe fn view<F: VectorReduction, U: Loaded<F>>(
    arguments: ReduceView<F::Element>,
    scratch: AxisScratch,
) {
    let ReduceView { input, results, units, rest, slots, output, form, ddof, .. } = arguments;
    let (kept, reduced) = (Axes::kept(arguments), Axes::reduced(arguments));
    let (share, across) = (Ord::max(arguments.share as u32, 1), arguments.across as u32);
    // The block size and `across` are powers of two.
    let height = block_dim_x() >> across.trailing_zeros();
    let (strip, part) = (block_idx_x() / share, block_idx_x() % share);
    let along = arguments.along != 0;
    let low = if along { height } else { across };
    let (inner, outer) = (thread_idx_x() & (low - 1), thread_idx_x() >> low.trailing_zeros());
    let (beside, above) = if along { (outer, inner) } else { (inner, outer) };
    let up = if along { 1 } else { across };
    let result = strip * across + beside;
    let wanted = u32::from(u64::from(result) < results);
    let place = Place { strip, part, share, beside, across, above, height, up, wanted };
    let position = kept.position(if wanted > 0 { result } else { 0 });
    let first = input.wrapping_add(position.along(kept.strides) as usize);
    let (start, step) = (part * height + above, share * height);
    let left = units + u64::from(u64::from(start) < rest);
    let left = if wanted > 0 { left } else { 0 };
    launch_dependents_late();
    // SAFETY: `left` is 0 past the last result; other units are readable, as is `*input`; a block's
    // threads reach the same barriers.
    unsafe {
        block::assume_whole_warps();
        let value = value::<F, U>(first, input, &reduced, [start, step], left);
        let met = meet_all(Kept::<F, Single>::of_first(value), place, slots, scratch);
        let Some(met) = met else { return };
        let at = position.along(output_strides(arguments));
        let all = units * u64::from(step) + rest;
        let of = ReduceCut {
            input: first,
            head: 0,
            groups: 0,
            singles: all * U::LEN,
            tile: 0,
            slots: null_mut(),
            output: output.wrapping_byte_add((at * F::output_bytes(form)) as usize),
            results,
            form,
            ddof,
        };
        let span_of = |index| {
            let distance = reduced.distance(index / U::LEN);
            Span { first: first.wrapping_add(distance as usize), len: U::LEN }
        };
        F::write_apart(met.first(), of, span_of);
    }
}

/// Reduces `left` units (elements or groups) of one result, from unit `start` on, `step` apart. `first`
/// points to the result's first element.
///
/// # Safety
/// The units and the element at `any` are readable; groups are at multiples of 16.
#[inline(always)]
unsafe fn value<F: VectorReduction, U: Loaded<F>>(
    first: *const F::Element,
    any: *const F::Element,
    reduced: &Axes,
    [start, step]: [u32; 2],
    mut left: u64,
) -> F::Partial {
    let mut odometer = Odometer::new(reduced, start, step);
    let (mut unit, step) = (u64::from(start), u64::from(step));
    let mut kept = U::start();
    let turn = if U::TWICE { 2 * PAIR as u64 } else { PAIR as u64 };
    while left > 0 {
        // Fits in 32 bits, in which comparisons are cheap.
        let wanted = Ord::min(left, turn) as u32;
        let mut load = |from: u32| -> [U; PAIR] {
            core::array::from_fn(|k| {
                let address = first.wrapping_add(odometer.at as usize);
                odometer.advance();
                // SAFETY: wanted units and the element at `any` are readable, as the caller guarantees.
                unsafe { U::load(address, from + (k as u32) < wanted, any, U::policy()) }
            })
        };
        let mut accumulate = |[a, b]: [U; PAIR], from: u32| {
            let index = |at: u32| (unit + u64::from(at) * step) * U::LEN;
            if from < wanted {
                a.keep(&mut kept, from as usize, index(from));
            }
            if from + 1 < wanted {
                b.keep(&mut kept, from as usize + 1, index(from + 1));
            }
        };
        let loaded = load(0);
        if U::TWICE {
            // These loads are issued before the first ones are used.
            let more = load(PAIR as u32);
            accumulate(loaded, 0);
            accumulate(more, PAIR as u32);
        } else {
            accumulate(loaded, 0);
        }
        unit += turn * step;
        left -= u64::from(wanted);
    }
    U::close(kept)
}

/// Number of groups that a thread loads at once; of single elements, twice as many. More loads would
/// take the registers that hold the thread's position on the axes.
const PAIR: usize = 2;

trait Loaded<F: VectorReduction>: Unit<F> {
    type Kept: Copy;
    fn start() -> Self::Kept;
    /// Accumulates the unit, whose first element has this index; indices ascend in each chain.
    fn keep(self, kept: &mut Self::Kept, chain: usize, index: u64);
    fn close(kept: Self::Kept) -> F::Partial;
}

impl<F: VectorReduction> Loaded<F> for Vector {
    type Kept = F::Accumulator;

    #[inline(always)]
    fn start() -> Self::Kept {
        F::start()
    }

    #[inline(always)]
    fn keep(self, kept: &mut Self::Kept, chain: usize, index: u64) {
        F::accumulate(kept, chain, self, index);
    }

    #[inline(always)]
    fn close(kept: Self::Kept) -> F::Partial {
        F::close(kept)
    }
}

impl<F: VectorReduction> Loaded<F> for One<F::Element> {
    type Kept = [F::Partial; ACCUMULATORS];

    #[inline(always)]
    fn start() -> Self::Kept {
        [F::IDENTITY; ACCUMULATORS]
    }

    #[inline(always)]
    fn keep(self, kept: &mut Self::Kept, chain: usize, index: u64) {
        <Self as Unit<F>>::accumulate(self, &mut kept[chain], index);
    }

    #[inline(always)]
    fn close([a, b, c, d]: Self::Kept) -> F::Partial {
        F::combine(F::combine(a, b), F::combine(c, d))
    }
}

/// Number of axes whose length is needed: all but the outermost one.
const INNER: usize = 2;

/// Axes, the fastest one first. The outermost one is limited only by the number of positions.
#[derive(Clone, Copy)]
struct Axes {
    lens: [u32; INNER],
    strides: [u64; INNER + 1],
}

#[derive(Clone, Copy)]
struct Position([u32; INNER + 1]);

impl Axes {
    #[inline(always)]
    fn kept<T>(arguments: ReduceView<T>) -> Self {
        let ReduceView { kept_len_0, kept_len_1, .. } = arguments;
        let ReduceView { kept_stride_0, kept_stride_1, kept_stride_outer, .. } = arguments;
        let strides = [kept_stride_0, kept_stride_1, kept_stride_outer];
        Self { lens: [kept_len_0 as u32, kept_len_1 as u32], strides }
    }

    #[inline(always)]
    fn reduced<T>(arguments: ReduceView<T>) -> Self {
        let ReduceView { reduced_len_0, reduced_len_1, .. } = arguments;
        let ReduceView { reduced_stride_0, reduced_stride_1, reduced_stride_outer, .. } = arguments;
        let strides = [reduced_stride_0, reduced_stride_1, reduced_stride_outer];
        Self { lens: [reduced_len_0 as u32, reduced_len_1 as u32], strides }
    }

    #[inline(always)]
    fn position(&self, number: u32) -> Position {
        let [a, b] = self.lens;
        // Neither is 0, but the compiler does not know that.
        let (a, b) = (Ord::max(a, 1), Ord::max(b, 1));
        let rows = number / a;
        Position([number % a, rows % b, rows / b])
    }

    /// Returns the distance in elements from position 0 to position `number`, which may exceed 32 bits.
    #[inline(always)]
    fn distance(&self, number: u64) -> u64 {
        let ([a, b], [s, t, u]) = (self.lens, self.strides);
        let (a, b) = (u64::from(Ord::max(a, 1)), u64::from(Ord::max(b, 1)));
        let rows = number / a;
        number % a * s + rows % b * t + rows / b * u
    }
}

impl Position {
    #[inline(always)]
    fn along(self, [s, t, u]: [u64; INNER + 1]) -> u64 {
        let Self([i, j, k]) = self;
        u64::from(i) * s + u64::from(j) * t + u64::from(k) * u
    }
}

#[inline(always)]
fn output_strides<T>(arguments: ReduceView<T>) -> [u64; INNER + 1] {
    let ReduceView { output_stride_0, output_stride_1, output_stride_outer, .. } = arguments;
    [output_stride_0, output_stride_1, output_stride_outer]
}

/// A position on axes that advances by equal steps.
struct Odometer {
    at: u64,
    /// Digits of the position: its indices on the inner axes. A step adds `steps` to them.
    wheels: [u32; INNER],
    steps: [u32; INNER],
    lens: [u32; INNER],
    /// Distance of a step without a carry, in elements.
    distance: u64,
    /// Correction of `at` for a carry: back along the axis, and one position ahead along the next axis.
    turns: [u64; INNER],
}

impl Odometer {
    #[inline(always)]
    fn new(axes: &Axes, start: u32, step: u32) -> Self {
        let (start, step) = (axes.position(start), axes.position(step));
        let (Position([i, j, _]), Position([p, q, _])) = (start, step);
        let ([a, b], [s, t, u]) = (axes.lens, axes.strides);
        let turn = |len: u32, stride: u64, next: u64| next.wrapping_sub(u64::from(len) * stride);
        Self {
            at: start.along(axes.strides),
            wheels: [i, j],
            steps: [p, q],
            lens: [a, b],
            distance: step.along(axes.strides),
            turns: [turn(a, s, t), turn(b, t, u)],
        }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.wrapping_add(self.distance);
        // A missing axis has length 1, so its digit stays 0. All threads take the same branch.
        if self.lens[0] > 1 {
            let carry = self.turn(0, 0);
            if self.lens[1] > 1 {
                self.turn(1, carry);
            }
        }
    }

    /// Advances one digit and returns the carry. The digit and the increment are less than the axis'
    /// length, which is at most 2^31.
    #[inline(always)]
    fn turn(&mut self, at: usize, carried: u32) -> u32 {
        let (len, shown) = (self.lens[at], self.wheels[at] + self.steps[at] + carried);
        let over = shown >= len;
        self.wheels[at] = if over { shown - len } else { shown };
        self.at = self.at.wrapping_add(if over { self.turns[at] } else { 0 });
        over.into()
    }
}
