//! Kernels that reduce an axis of an array other than the last. The array consists of matrices of equal
//! size, and each column of each matrix has one result. Matrices, and rows, are a constant distance
//! apart.
//!
//! - [`axis_packs`], [`axis_spaced`], [`axis_singles`]: a block reduces a *strip* of neighbouring
//!   columns. In each load, threads side by side read the strip's part of one row; threads above each
//!   other read different rows. If there are few strips, several blocks share each strip, to fill the
//!   device.
//! - [`axis_lanes`]: one thread per column, for matrices that are too small for a block.
//!
//! A thread of a strip accumulates 16 bytes of each of its columns as one [`Vector`], like the kernels
//! that load neighbouring elements. The rows that remain are accumulated one by one, as are those of
//! operations that need their indices.
//!
//! Results are reproducible: the order of combination depends only on the shape and the launch.

use core::{marker::PhantomData, ptr::null_mut};

use warpfold_abi::{
    arguments::{ReduceAxis, ReduceCut},
    reducer::{GROUP_BYTES, PRESENT, axis_group_rows, axis_rows, is_wide},
};

use super::{
    ACCUMULATORS, Span, Vector, VectorReduction,
    grid::in_turn,
    in_vectors, lanes, launch_dependents_late,
    partial::{Cells, is_present, publish, take},
    traits::reinterpret,
};
use crate::{
    Shared, Value, block,
    grid::{thread_index, threads, wait_grid_dependencies},
    thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x},
};

/// Shared memory of a block for one partial result per thread. A block has at most
/// [`AXIS_BLOCK`](warpfold_abi::reducer::AXIS_BLOCK) threads, or
/// [`WIDE_AXIS_BLOCK`](warpfold_abi::reducer::WIDE_AXIS_BLOCK) for [wide](is_wide) operations.
pub type AxisScratch = Shared<u32>;

/// Reduces columns, up to four neighbouring ones (a pack) per thread.
///
/// # Safety
/// The arguments are as their fields document; rows begin at multiples of a pack's size and consist of
/// whole packs; the operation is not [wide](is_wide). The slots are as for [`grid`](super::grid()).
/// There are `share` blocks per strip, of whole warps, of at most
/// [`AXIS_BLOCK`](warpfold_abi::reducer::AXIS_BLOCK) threads.
#[inline(always)]
pub unsafe fn axis_packs<F: VectorReduction>(arguments: ReduceAxis<F::Element>, scratch: AxisScratch) {
    if !is_wide(F::Partial::WORDS) {
        // SAFETY: the conditions of `strip` for packs are those of this function.
        unsafe { strip::<F, Packed>(arguments, scratch) };
    }
}

/// Reduces columns, four per thread, `across` columns apart.
///
/// # Safety
/// Same as [`axis_packs`], but rows may begin at any element.
#[inline(always)]
pub unsafe fn axis_spaced<F: VectorReduction>(arguments: ReduceAxis<F::Element>, scratch: AxisScratch) {
    if !is_wide(F::Partial::WORDS) {
        // SAFETY: the conditions of `strip` are those of this function.
        unsafe { strip::<F, Spaced>(arguments, scratch) };
    }
}

/// Reduces columns, one per thread.
///
/// # Safety
/// Same as [`axis_packs`], but rows may begin at any element, and the operation may be wide.
#[inline(always)]
pub unsafe fn axis_singles<F: VectorReduction>(arguments: ReduceAxis<F::Element>, scratch: AxisScratch) {
    // SAFETY: the conditions of `strip` are those of this function.
    unsafe { strip::<F, Single>(arguments, scratch) };
}

/// Reduces columns, each by one thread alone.
///
/// # Safety
/// The arguments are as their fields document.
#[inline(always)]
pub unsafe fn axis_lanes<F: VectorReduction>(arguments: ReduceAxis<F::Element>) {
    let ReduceAxis { input, matrices, apart, len, pitch, width, .. } = arguments;
    let width = Ord::max(width, 1);
    launch_dependents_late();
    let mut column = thread_index();
    while column < matrices * width {
        let (matrix, at) = (column / width, column % width);
        let first = input.wrapping_add((matrix * apart + at) as usize);
        let mut kept = [F::IDENTITY; ACCUMULATORS];
        let mut row = 0;
        while row < len {
            let loaded: [_; ACCUMULATORS] = core::array::from_fn(|k| {
                let wanted = row + (k as u64) < len;
                let address = if wanted { row + k as u64 } else { row } * pitch;
                // SAFETY: the row is in the matrix.
                unsafe { *first.wrapping_add(address as usize) }
            });
            in_turn(loaded, |k, element| {
                let index = row + k as u64;
                if index < len {
                    F::accumulate_one(&mut kept[k], element, index);
                }
            });
            row += ACCUMULATORS as u64;
        }
        let [a, b, c, d] = kept;
        let value = F::combine(F::combine(a, b), F::combine(c, d));
        wait_grid_dependencies();
        // SAFETY: there is a result for every column; the value is of the column's elements.
        unsafe { write::<F>(value, first, arguments, column) };
        column += threads();
    }
}

/// # Safety
/// `input` is the column's first element; the value is that of the column; the output has room for it.
#[inline(always)]
unsafe fn write<F: VectorReduction>(
    value: F::Partial,
    input: *const F::Element,
    arguments: ReduceAxis<F::Element>,
    column: u64,
) {
    let ReduceAxis { matrices, len, pitch, width, output, form, ddof, .. } = arguments;
    let results = matrices * width;
    let output = output.wrapping_byte_add((column * F::output_bytes(form)) as usize);
    let (head, groups, singles, tile, slots) = (0, 0, len, 0, null_mut());
    let of = ReduceCut { input, head, groups, singles, tile, slots, output, results, form, ddof };
    let span_of = |row| Span { first: input.wrapping_add((row * pitch) as usize), len: 1 };
    // SAFETY: `input` is the column's first element, and the output has room, as the caller guarantees.
    unsafe { F::write_apart(value, of, span_of) };
}

/// Values of at most this many words per thread are published in interleaved [`Cells`]. The addresses of
/// more cells would not fit in the registers of [`AXIS_BLOCK`](warpfold_abi::reducer::AXIS_BLOCK)
/// threads.
const INTERLEAVED_WORDS: u32 = 16;

type Few<T> = [T; ACCUMULATORS];

/// A thread's columns of a [strip](self): at most four, from `first` on, `distance` apart.
pub(super) trait Columns<T> {
    const LEN: usize;
    /// `true` if a thread accumulates its columns as vectors, and not element by element.
    const IN_VECTORS: bool = in_vectors::<T>();
    /// Rows that a thread loads at once, and accumulates one by one.
    const ROWS: u32 = axis_rows(size_of::<T>() as u64, Self::LEN as u64);
    /// Rows that a thread loads at once, and accumulates as vectors.
    const GROUP_ROWS: u32 = axis_group_rows(size_of::<T>() as u64, Self::LEN as u64);
    fn distance(across: u32) -> u32;
    fn first(beside: u32) -> u32;
    /// Loads the first `wanted` of a thread's elements of a row, and the element at `any` in place of
    /// the rest.
    ///
    /// # Safety
    /// Wanted elements, and one at `any`, are readable. For [`Packed`], each address has an aligned
    /// pack.
    unsafe fn load(address: *const T, across: u32, wanted: u32, any: *const T) -> Few<T>;
}

struct Packed;
/// Four columns, `across` apart, so that neighbouring threads access neighbouring elements.
struct Spaced;
pub(super) struct Single;

impl<T: Copy> Columns<T> for Packed {
    const LEN: usize = {
        let most = if in_vectors::<T>() { GROUP_BYTES as usize / size_of::<T>() } else { 1 };
        if most < ACCUMULATORS { most } else { ACCUMULATORS }
    };

    #[inline(always)]
    fn distance(_across: u32) -> u32 {
        1
    }

    #[inline(always)]
    fn first(beside: u32) -> u32 {
        beside * <Self as Columns<T>>::LEN as u32
    }

    #[inline(always)]
    unsafe fn load(address: *const T, _across: u32, wanted: u32, any: *const T) -> Few<T> {
        // Loads a pack even if none is wanted: a branch would serialise the loads.
        let address = if wanted > 0 { address } else { any };
        // SAFETY: the address has a readable, aligned pack, as the caller guarantees: `LEN` elements.
        unsafe {
            match size_of::<T>() * <Self as Columns<T>>::LEN {
                _ if !in_vectors::<T>() => [*address; ACCUMULATORS],
                4 => elements(&*address.cast::<Bytes4>(), <Self as Columns<T>>::LEN),
                8 => elements(&*address.cast::<Bytes8>(), <Self as Columns<T>>::LEN),
                _ => elements(&*address.cast::<Bytes16>(), <Self as Columns<T>>::LEN),
            }
        }
    }
}

impl<T: Copy> Columns<T> for Spaced {
    const LEN: usize = ACCUMULATORS;
    /// The addresses of four columns leave too few registers.
    const IN_VECTORS: bool = false;

    #[inline(always)]
    fn distance(across: u32) -> u32 {
        across
    }

    #[inline(always)]
    fn first(beside: u32) -> u32 {
        beside
    }

    #[inline(always)]
    unsafe fn load(address: *const T, across: u32, wanted: u32, any: *const T) -> Few<T> {
        core::array::from_fn(|at| {
            let there = address.wrapping_add((at as u32 * across) as usize);
            let address = if (at as u32) < wanted { there } else { any };
            // SAFETY: wanted elements and the one at `any` are readable, as the caller guarantees.
            unsafe { *address }
        })
    }
}

impl<T: Copy> Columns<T> for Single {
    const LEN: usize = 1;

    #[inline(always)]
    fn distance(_across: u32) -> u32 {
        1
    }

    #[inline(always)]
    fn first(beside: u32) -> u32 {
        beside
    }

    #[inline(always)]
    unsafe fn load(address: *const T, _across: u32, wanted: u32, any: *const T) -> Few<T> {
        // SAFETY: wanted elements and the one at `any` are readable, as the caller guarantees.
        [unsafe { *if wanted > 0 { address } else { any } }; ACCUMULATORS]
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct Bytes4([u32; 1]);
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Bytes8([u32; 2]);
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Bytes16([u32; 4]);

/// # Safety
/// The bytes are those of `len` elements.
#[inline(always)]
unsafe fn elements<T: Copy, B: Copy>(bytes: &B, len: usize) -> Few<T> {
    let bytes = *bytes;
    let first = (&raw const bytes).cast::<T>();
    core::array::from_fn(|at| {
        // SAFETY: `bytes` holds `len` elements, as the caller guarantees.
        unsafe { first.add(if at < len { at } else { 0 }).read() }
    })
}

/// The partial results of one thread's columns, which are published together.
pub(super) struct Kept<F: VectorReduction, C>(Few<F::Partial>, PhantomData<C>);

impl<F: VectorReduction, C> Clone for Kept<F, C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: VectorReduction, C> Copy for Kept<F, C> {}

impl<F: VectorReduction, C: Columns<F::Element>> Kept<F, C> {
    #[inline(always)]
    fn new() -> Self {
        Self([F::IDENTITY; ACCUMULATORS], PhantomData)
    }

    #[inline(always)]
    pub(super) fn of_first(value: F::Partial) -> Self {
        let mut kept = Self::new();
        kept.0[0] = value;
        kept
    }

    #[inline(always)]
    pub(super) fn first(self) -> F::Partial {
        self.0[0]
    }

    #[inline(always)]
    fn accumulate(&mut self, elements: Few<F::Element>, wanted: u32, row: u64) {
        in_turn(elements, |at, element| {
            if at < C::LEN && (at as u32) < wanted {
                F::accumulate_one(&mut self.0[at], element, row);
            }
        });
    }
}

impl<F: VectorReduction, C: Columns<F::Element> + 'static> Value for Kept<F, C> {
    const WORDS: u32 = C::LEN as u32 * F::Partial::WORDS;

    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        in_turn(self.0, |at, value| {
            if at < C::LEN {
                value.give(to);
            }
        });
    }

    #[inline(always)]
    fn take(from: &mut impl FnMut() -> u32) -> Self {
        let mut value = |at| if at < C::LEN { F::Partial::take(from) } else { F::IDENTITY };
        // Does not use `array::from_fn`, which would place an array of large values in local memory.
        Self([value(0), value(1), value(2), value(3)], PhantomData)
    }

    #[inline(always)]
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        let [a, b, c, d] = self.0;
        let mut of = |value: F::Partial| value.map_words(through);
        Self([of(a), of(b), of(c), of(d)], PhantomData)
    }
}

/// A thread's position in a [strip](self). `share` blocks share the strip; the thread's block has index
/// `part`. The threads of a block form a grid of `height` rows and `across` columns, in which the thread
/// is in row `above` and column `beside`. Threads with `above >= height` have no elements.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) strip: u32,
    pub(super) part: u32,
    pub(super) share: u32,
    pub(super) beside: u32,
    pub(super) across: u32,
    pub(super) above: u32,
    pub(super) height: u32,
    /// Difference between the indices of a thread and of the thread above it.
    pub(super) up: u32,
    /// Number of this thread's columns.
    pub(super) wanted: u32,
}

/// # Safety
/// Same as [`axis_packs`] for [`Packed`], otherwise as [`axis_singles`].
#[inline(always)]
unsafe fn strip<F: VectorReduction, C: Columns<F::Element> + 'static>(
    arguments: ReduceAxis<F::Element>,
    scratch: AxisScratch,
) {
    let ReduceAxis { input, apart, width, share, across, slots, .. } = arguments;
    // Neither is 0, which the compiler does not know.
    let (share, across) = (Ord::max(share as u32, 1), Ord::max(across as u32, 1));
    let strip_len = u64::from(across) * C::LEN as u64;
    let strips = Ord::max(width.div_ceil(strip_len) as u32, 1);
    let (part, strip) = (block_idx_x() % share, block_idx_x() / share);
    let (matrix, start) = (u64::from(strip / strips), u64::from(strip % strips) * strip_len);
    let (beside, above) = (thread_idx_x() % across, thread_idx_x() / across);
    let (first, distance) = (C::first(beside), C::distance(across));
    let columns = Ord::min(width - start, strip_len) as u32;
    let height = Ord::max(block_dim_x() / across, 1);
    let mut wanted = 0;
    while (wanted as usize) < C::LEN {
        if above >= height || first + wanted * distance >= columns {
            break;
        }
        wanted += 1;
    }
    let column = start + u64::from(if wanted > 0 { first } else { 0 });
    let first = input.wrapping_add((matrix * apart + column) as usize);
    let place = Place { strip, part, share, beside, across, above, height, up: across, wanted };
    launch_dependents_late();
    // SAFETY: rows and columns are in the input; blocks fill their own cells, and a strip's last block,
    // dispatched last, takes them; all threads of a block reach the same barriers.
    unsafe {
        block::assume_whole_warps();
        let kept = rows::<F, C>(arguments, first, place);
        let Some(kept) = meet_all(kept, place, slots, scratch) else { return };
        let write_one = #[inline(always)]
        |at, value| {
            if at < C::LEN && (at as u32) < wanted {
                let distance = u64::from(at as u32 * distance);
                let first = first.wrapping_add(distance as usize);
                write::<F>(value, first, arguments, matrix * width + column + distance);
            }
        };
        in_turn(kept.0, write_one);
    }
}

/// Combines the values of all threads of a [strip](self). Returns the columns' values in those threads
/// of the strip's last block that have columns and `above == 0`; `None` in all others.
///
/// # Safety
/// Called once, by all threads of blocks of whole warps, all with room in the scratch. The slots are as
/// for [`grid`](super::grid()), with room for all blocks' columns. A strip's last block starts last.
#[inline(always)]
pub(super) unsafe fn meet_all<F: VectorReduction, C: Columns<F::Element> + 'static>(
    mut kept: Kept<F, C>,
    place: Place,
    slots: *mut u64,
    scratch: AxisScratch,
) -> Option<Kept<F, C>> {
    let Place { strip, part, share, beside, across, above, height, wanted, .. } = place;
    // SAFETY: each block but a strip's last one fills its cells once, and the last one takes them once.
    unsafe {
        wait_grid_dependencies();
        let first_cell = u64::from(strip) * u64::from(share * across * Kept::<F, C>::WORDS);
        let slots = slots.wrapping_add(first_cell as usize);
        let cells = |part: u32| {
            if Kept::<F, C>::WORDS <= INTERLEAVED_WORDS {
                Cells::interleaved::<Kept<F, C>>(slots, part, beside, across)
            } else {
                Cells::of::<Kept<F, C>>(slots, part * across + beside)
            }
        };
        if part + 1 == share && wanted > 0 {
            let mut from = above;
            while from + 1 < share {
                let Kept::<F, C>(others, ..) = take(cells(from), is_present, 0);
                in_turn(others, |at, other| kept.0[at] = F::combine(kept.0[at], other));
                from += height;
            }
        }
        if height > 1 {
            kept = meet(kept, place, scratch);
        }
        if wanted == 0 || above > 0 {
            return None;
        }
        if part + 1 < share {
            publish(kept, cells(part), PRESENT);
            return None;
        }
    }
    Some(kept)
}

/// # Safety
/// Same as [`strip`].
#[inline(always)]
unsafe fn rows<F: VectorReduction, C: Columns<F::Element>>(
    arguments: ReduceAxis<F::Element>,
    first: *const F::Element,
    place: Place,
) -> Kept<F, C> {
    let ReduceAxis { input, len, pitch, .. } = arguments;
    let Place { wanted, above, height, part, share, across, .. } = place;
    let mut kept = Kept::<F, C>::new();
    // Loads four of this thread's rows, its row `from` first, of the `rest` rows from `start` on.
    let load = |start: u64, from: u32, rest: u32| -> Rows<F::Element> {
        let mine = first.wrapping_add(((start + u64::from(above)) * pitch) as usize);
        core::array::from_fn(|k| {
            let row = (from + k as u32) * height;
            let address = mine.wrapping_add((u64::from(row) * pitch) as usize);
            let wanted = if row + above < rest { wanted } else { 0 };
            // SAFETY: wanted elements are in the input, and so is the element at `input`.
            unsafe { C::load(address, across, wanted, input) }
        })
    };
    let turn = height * C::ROWS;
    // The first of the rows that are accumulated one by one, their end, and the turns between them.
    let (mut start, mut end, mut step) = (u64::from(part) * u64::from(turn), len, share);
    if const { C::IN_VECTORS && !F::INDEXED } {
        if wanted == 0 {
            return kept;
        }
        let turn = height * C::GROUP_ROWS;
        start = u64::from(part) * u64::from(turn);
        // Not an array, with which columns of third moments take a third longer.
        let (mut a, mut b, mut c, mut d) = (F::start(), F::start(), F::start(), F::start());
        while start + u64::from(turn) <= len {
            let load = |from| load(start, from, turn);
            let x = load(0);
            let y = if C::GROUP_ROWS > 4 { load(4) } else { x };
            let (z, w) = if C::GROUP_ROWS > 8 { (load(8), load(12)) } else { (x, y) };
            let loaded = [x, y, z, w];
            let column = #[inline(always)]
            |accumulator: &mut F::Accumulator, at: usize| {
                if at < C::LEN {
                    let element = |row: usize| loaded[row / 4][row % 4][at];
                    accumulate_column::<F>(accumulator, C::GROUP_ROWS, element);
                }
            };
            column(&mut a, 0);
            column(&mut b, 1);
            column(&mut c, 2);
            column(&mut d, 3);
            start += u64::from(share) * u64::from(turn);
        }
        let close = |accumulator, at| {
            if at < C::LEN { F::close(accumulator) } else { F::IDENTITY }
        };
        kept.0 = [close(a, 0), close(b, 1), close(c, 2), close(d, 3)];
        (end, step) = (Ord::min(start + u64::from(turn), len), 1);
    }
    while start < end {
        // The number of rows fits in 32 bits, in which comparisons are cheap.
        let rest = Ord::min(end - start, u64::from(turn)) as u32;
        let accumulate = #[inline(always)]
        |kept: &mut Kept<F, C>, loaded: Rows<F::Element>, from: u32| {
            let accumulate = #[inline(always)]
            |k, elements| {
                let row = (from + k as u32) * height + above;
                let wanted = if row < rest { wanted } else { 0 };
                kept.accumulate(elements, wanted, start + u64::from(row));
            };
            in_turn(loaded, accumulate);
        };
        let loaded = load(start, 0, rest);
        if C::ROWS > 4 {
            let more = load(start, 4, rest);
            accumulate(&mut kept, loaded, 0);
            accumulate(&mut kept, more, 4);
        } else {
            accumulate(&mut kept, loaded, 0);
        }
        start += u64::from(step) * u64::from(turn);
    }
    kept
}

/// A thread's elements of four rows.
type Rows<T> = [Few<T>; ACCUMULATORS];

/// Accumulates the elements of `rows` rows of a column, which are whole vectors.
#[inline(always)]
fn accumulate_column<F: VectorReduction>(
    accumulator: &mut F::Accumulator,
    rows: u32,
    element: impl Fn(usize) -> F::Element,
) {
    let accumulate = #[inline(always)]
    |vector, ()| {
        let first = vector * const { lanes::<F::Element>() as usize };
        if first < rows as usize {
            F::accumulate(accumulator, 0, gather(|lane| element(first + lane)), 0);
        }
    };
    in_turn([(); ACCUMULATORS], accumulate);
}

/// Returns the vector of some elements.
#[inline(always)]
fn gather<T: Copy>(element: impl Fn(usize) -> T) -> Vector {
    let byte = |lane| u32::from(reinterpret::<_, u8>(element(lane)));
    let half = |lane| u32::from(reinterpret::<_, u16>(element(lane)));
    let word = |at| match size_of::<T>() {
        1 => {
            let lane = 4 * at;
            byte(lane) | byte(lane + 1) << 8 | byte(lane + 2) << 16 | byte(lane + 3) << 24
        }
        2 => half(2 * at) | half(2 * at + 1) << 16,
        4 => reinterpret(element(at)),
        8 => reinterpret::<_, [u32; 2]>(element(at / 2))[at % 2],
        _ => reinterpret::<_, Vector>(element(0))[at],
    };
    [word(0), word(1), word(2), word(3)]
}

/// Combines the values of threads above each other; the result is valid in the thread with `above == 0`.
///
/// # Safety
/// Called once, by all threads of a block; the scratch has room for a value of each.
#[inline(always)]
unsafe fn meet<F: VectorReduction, C: Columns<F::Element>>(
    kept: Kept<F, C>,
    place: Place,
    scratch: AxisScratch,
) -> Kept<F, C> {
    let Place { above, height, up, .. } = place;
    let tid = thread_idx_x();
    let mut met = kept;
    in_turn(kept.0, |at, value| {
        if at >= C::LEN {
            return;
        }
        let mut value = value;
        let mut step = height.next_power_of_two() / 2;
        // SAFETY: a thread's element in the scratch is its own until the barrier, after which a thread
        // with a smaller `above` reads it; all threads of the block reach all barriers.
        unsafe {
            while step > 0 {
                // A thread stores its value once, after all of its own combinations.
                if above >= step && above < 2 * step && above < height {
                    scratch.set_value(tid, value);
                }
                sync_threads();
                if above < step && above + step < height {
                    value = F::combine(value, scratch.get_value(tid + step * up));
                }
                step /= 2;
            }
            // The scratch is reused for the next column.
            sync_threads();
        }
        met.0[at] = value;
    });
    met
}
