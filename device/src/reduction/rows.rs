//! Kernels for rows: one result per row of a matrix whose rows are a constant distance apart.
//!
//! The host chooses by the shape:
//!
//! - `grid`: one block per row, or several blocks if there are few rows. For long rows.
//! - `warp`: one warp per row. For rows of a few KiB that begin anywhere.
//! - `groups`: one to 32 lanes per row, which load groups. For short rows at 16-byte boundaries.
//! - `elements`: one to 32 lanes per row, which load elements. For short rows that begin anywhere.
//! - `many_groups`: as `groups`, but L2 does not evict the input first. For results larger than L2.
//! - `few_groups`, `few_elements`: as `groups` and `elements`, but each lane has at most one row.
//!
//! The last three are separate kernels, because in one function ptxas gave all loops too few registers
//! to keep their loads in flight together.
//!
//! In `groups`, `many_groups` and `elements` a warp reduces several rows at a time, with several
//! *batches* of rows in flight: neighbouring lanes read contiguous memory, and no load waits for those
//! of another row.
//!
//! Results are reproducible: the order of combination depends only on length, alignment to 16 bytes and
//! launch.

use core::ptr::null_mut;

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCut, ReduceRows},
    reducer::{is_wide, room_words},
};

use super::{
    ACCUMULATORS, CombineOf, Scratch, Team, Vector, VectorReduction,
    finish::finish_by,
    grid::{cut, in_turn, value},
    in_vectors, launch_dependents_late,
};
use crate::{
    Value, block,
    grid::{launch_dependents, thread_index, threads, wait_grid_dependencies},
    memory::{Eviction, Streaming, load16_evicted_if, load16_if},
    thread::{block_dim_x, block_idx_x, thread_idx_x},
    warp::{self, FULL_WARP, Shuffle},
};

/// Reduces rows, each by one or more blocks.
///
/// # Safety
/// The arguments are as their fields document; `tile` is at most 4 groups per thread of a block. The
/// slots are as for [`grid`](super::grid()). There are `rows * share` blocks, of whole warps.
#[inline(always)]
pub unsafe fn rows_grid<F: VectorReduction>(arguments: ReduceRows<F::Element>, scratch: Scratch) {
    launch_dependents_late();
    let (_, row, team) = row_of_block::<F>(arguments);
    // SAFETY: a row's blocks are consecutive, and the last starts after the others. Results are
    // contiguous, each aligned to its type; the slots are valid, as the caller guarantees.
    unsafe {
        let write = #[inline(always)]
        |value| F::write(value, row);
        finish_by::<F>(value::<F>(row, team, 0), row.slots, team, scratch, write);
    }
}

/// Reduces rows, each by one warp.
///
/// # Safety
/// The arguments are as their fields document. Blocks are whole warps.
#[inline(always)]
pub unsafe fn rows_warp<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    const TILE: u64 = (ACCUMULATORS as u32 * WARP_SIZE) as u64;
    let lane = thread_idx_x() % WARP_SIZE;
    let team = Team { thread: lane, threads: WARP_SIZE, block: 0, blocks: 1 };
    let mut row = thread_index() / u64::from(WARP_SIZE);
    launch_dependents_late();
    // SAFETY: a warp's lanes have the same row, and are more than its elements outside of groups.
    unsafe {
        block::assume_whole_warps();
        while row < arguments.rows {
            let cut = ReduceCut { tile: TILE, ..row_of::<F>(arguments, row) };
            let value = warp::reduce(value::<F>(cut, team, 0), CombineOf::<F>::OP);
            // A repeated wait costs nothing, and a flag that avoids it would take a register.
            wait_grid_dependencies();
            if lane == 0 {
                F::write(value, cut);
            }
            row += threads() / u64::from(WARP_SIZE);
        }
    }
}

/// Reduces rows group by group, with one to 32 lanes per row. Only for elements that are loaded as
/// vectors and operations that are not [wide](is_wide); does nothing for others.
///
/// # Safety
/// The arguments are as their fields document. Every row is at a multiple of 16, and `len` is a whole
/// number of groups, less than 2^31. Blocks are whole warps.
#[inline(always)]
pub unsafe fn rows_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() && !is_wide(F::Partial::WORDS) {
        // SAFETY: the conditions of `packed` for groups are those of this function.
        unsafe { packed::<F, Vector>(arguments) };
    }
}

/// Reduces rows element by element, with one to 32 lanes per row. Does nothing for [wide](is_wide)
/// operations.
///
/// # Safety
/// The arguments are as their fields document. `len` is less than 2^31. Blocks are whole warps.
#[inline(always)]
pub unsafe fn rows_elements<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if !is_wide(F::Partial::WORDS) {
        // SAFETY: the conditions of `packed` for elements are those of this function.
        unsafe { packed::<F, One<F::Element>>(arguments) };
    }
}

/// Reduces rows as [`rows_groups`] does, for results that do not fit in the L2 cache.
///
/// # Safety
/// Same as [`rows_groups`].
#[inline(always)]
pub unsafe fn rows_many_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() && !is_wide(F::Partial::WORDS) {
        // SAFETY: the conditions of `packed` for groups are those of this function.
        unsafe { packed::<F, EvictNormal>(arguments) };
    }
}

/// Reduces rows as [`rows_groups`] does, with at most one row per lane.
///
/// # Safety
/// Same as [`rows_groups`]; there are at least `share` threads per row.
#[inline(always)]
pub unsafe fn rows_few_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() {
        // SAFETY: the conditions of `one_batch` for groups are those of this function.
        unsafe { one_batch::<F, Vector>(arguments) };
    }
}

/// Reduces rows as [`rows_elements`] does, with at most one row per lane.
///
/// # Safety
/// Same as [`rows_elements`]; there are at least `share` threads per row.
#[inline(always)]
pub unsafe fn rows_few_elements<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    // SAFETY: the conditions of `one_batch` for elements are those of this function.
    unsafe { one_batch::<F, One<F::Element>>(arguments) };
}

/// Returns the row of this block, its elements with the tile and the slots, and its blocks.
#[inline(always)]
pub(super) fn row_of_block<F: VectorReduction>(
    arguments: ReduceRows<F::Element>,
) -> (u64, ReduceCut<F::Element>, Team) {
    let ReduceRows { share, tile, slots, .. } = arguments;
    // Not 0, but the compiler does not know that.
    let blocks = Ord::max(share as u32, 1);
    let (row, block) = (block_idx_x() / blocks, block_idx_x() % blocks);
    let first_cell = u64::from(row) * u64::from(blocks * room_words(F::Partial::WORDS));
    let slots = slots.wrapping_add(first_cell as usize);
    let row = u64::from(row);
    let of_row = ReduceCut { tile, slots, ..row_of::<F>(arguments, row) };
    (row, of_row, Team { thread: thread_idx_x(), threads: block_dim_x(), block, blocks })
}

#[inline(always)]
pub(super) fn row_of<F: VectorReduction>(
    arguments: ReduceRows<F::Element>,
    row: u64,
) -> ReduceCut<F::Element> {
    let ReduceRows { input, rows, len, pitch, output, form, ddof, .. } = arguments;
    let output = output.wrapping_byte_add((row * F::output_bytes(form)) as usize);
    ReduceCut {
        output,
        results: rows,
        form,
        ddof,
        ..cut(input.wrapping_add((row * pitch) as usize), len)
    }
}

pub(super) trait Unit<F: VectorReduction>: Copy {
    const LEN: u64;
    /// `true` if units are so small that a lane loads twice as many at once.
    const TWICE: bool;
    /// `true` if [`load`](Self::load) returns zeros for a unit that is not wanted.
    const ZEROS: bool;
    type Policy: Copy;
    fn policy() -> Self::Policy;
    /// # Safety
    /// If `wanted`, the unit at `address` is readable and, if it is a group, 16-byte aligned. `any`
    /// points to a readable element.
    unsafe fn load(
        address: *const F::Element,
        wanted: bool,
        any: *const F::Element,
        policy: Self::Policy,
    ) -> Self;
    /// Accumulates the unit, whose first element has this index.
    fn accumulate(self, kept: &mut F::Partial, index: u64);
}

impl<F: VectorReduction> Unit<F> for Vector {
    const LEN: u64 = F::LANES;
    const TWICE: bool = false;
    const ZEROS: bool = true;
    type Policy = ();

    #[inline(always)]
    fn policy() {}

    #[inline(always)]
    unsafe fn load(address: *const F::Element, wanted: bool, _any: *const F::Element, (): ()) -> Self {
        // SAFETY: the group is readable and aligned if wanted, as the caller guarantees.
        unsafe { load16_if::<Streaming>(address.cast(), wanted) }
    }

    #[inline(always)]
    fn accumulate(self, kept: &mut F::Partial, index: u64) {
        F::accumulate_vector(kept, self, index);
    }
}

/// A group that is loaded with the normal L2 eviction policy.
#[derive(Clone, Copy)]
struct EvictNormal(Vector);

impl<F: VectorReduction> Unit<F> for EvictNormal {
    const LEN: u64 = F::LANES;
    const TWICE: bool = false;
    const ZEROS: bool = true;
    type Policy = Eviction;

    #[inline(always)]
    fn policy() -> Eviction {
        Eviction::in_turn()
    }

    #[inline(always)]
    unsafe fn load(
        address: *const F::Element,
        wanted: bool,
        _any: *const F::Element,
        policy: Eviction,
    ) -> Self {
        // SAFETY: the group is readable and aligned if wanted, as the caller guarantees.
        Self(unsafe { load16_evicted_if(address.cast(), wanted, policy) })
    }

    #[inline(always)]
    fn accumulate(self, kept: &mut F::Partial, index: u64) {
        Unit::<F>::accumulate(self.0, kept, index);
    }
}

#[derive(Clone, Copy)]
pub(super) struct One<T>(T);

impl<F: VectorReduction> Unit<F> for One<F::Element> {
    const LEN: u64 = 1;
    const TWICE: bool = true;
    const ZEROS: bool = false;
    type Policy = ();

    #[inline(always)]
    fn policy() {}

    #[inline(always)]
    unsafe fn load(address: *const F::Element, wanted: bool, any: *const F::Element, (): ()) -> Self {
        // Loads an element even if none is wanted: a branch would serialise the loads.
        let address = if wanted { address } else { any };
        // SAFETY: a wanted element and the one at `any` are readable, as the caller guarantees.
        Self(unsafe { *address })
    }

    #[inline(always)]
    fn accumulate(self, kept: &mut F::Partial, index: u64) {
        F::accumulate_one(kept, self.0, index);
    }
}

/// A lane's position in a warp with several lanes per row.
pub(super) struct LaneSlot {
    /// Index of the row in its batch.
    pub(super) place: u32,
    /// Index of the lane in its row.
    pub(super) first: u32,
    pub(super) lanes_log2: u32,
}

impl LaneSlot {
    /// Returns this thread's position, with `share` lanes per row: a power of two.
    #[inline(always)]
    pub(super) fn of(share: u64) -> Self {
        let lanes_log2 = (share as u32).trailing_zeros();
        let lane = thread_idx_x() % WARP_SIZE;
        Self { place: lane >> lanes_log2, first: lane % (1 << lanes_log2), lanes_log2 }
    }
}

/// The rows that a lane reduces at a time: one in each batch of its warp.
#[derive(Clone, Copy)]
struct Turn<T> {
    /// Row in the first batch.
    row: u64,
    start: *const T,
    /// Position of the row in its batch.
    place: u32,
    /// Rows per batch.
    batch: u32,
    /// Rows of all batches together.
    rows: u32,
}

impl<T> Turn<T> {
    #[inline(always)]
    fn has(self, batch: u32) -> bool {
        self.place + batch * self.batch < self.rows
    }

    #[inline(always)]
    fn start_of(self, batch: u32, pitch: u64) -> *const T {
        self.start.wrapping_add((u64::from(batch * self.batch) * pitch) as usize)
    }
}

/// Number of batches whose loads are in flight together.
const BATCHES: u32 = ACCUMULATORS as u32;

/// Reduces several rows per warp, with `share` lanes for each, in several batches.
///
/// # Safety
/// The arguments are as their fields document. `len` is less than 2^31, and a multiple of the unit's; if
/// the unit is a group, every row is at a multiple of 16. Blocks are whole warps.
#[inline(always)]
unsafe fn packed<F: VectorReduction, U: Unit<F>>(arguments: ReduceRows<F::Element>) {
    let ReduceRows { input, rows, pitch, share, .. } = arguments;
    let LaneSlot { place, first, lanes_log2 } = LaneSlot::of(share);
    let batch = WARP_SIZE >> lanes_log2;
    let most = if U::TWICE { 2 * BATCHES * batch } else { BATCHES * batch };
    launch_dependents();
    let mut begin = thread_index() / u64::from(WARP_SIZE) * u64::from(most);
    while begin < rows {
        let row = begin + u64::from(place);
        let turn = Turn {
            row,
            start: input.wrapping_add((row * pitch) as usize),
            place,
            batch,
            rows: Ord::min(rows - begin, u64::from(most)) as u32,
        };
        // SAFETY: rows are as the caller guarantees; all lanes of a warp iterate equally often.
        unsafe {
            let (front, back) = accumulate_rows::<F, U>(arguments, turn, first, 1 << lanes_log2);
            wait_grid_dependencies();
            if first == 0 {
                write::<F, U>(front, 0, arguments, turn);
                if U::TWICE {
                    write::<F, U>(back, BATCHES, arguments, turn);
                }
            }
        }
        begin += threads() / u64::from(WARP_SIZE) * u64::from(most);
    }
}

/// Reduces one batch of rows per warp, with all loads of a row in flight together. For launches with so
/// few rows that the latency of one row determines their duration.
///
/// # Safety
/// Same as [`packed`]; there are at least `share` threads per row.
#[inline(always)]
unsafe fn one_batch<F: VectorReduction, U: Unit<F>>(arguments: ReduceRows<F::Element>) {
    let ReduceRows { input, rows, pitch, share, .. } = arguments;
    let LaneSlot { place, first, lanes_log2 } = LaneSlot::of(share);
    launch_dependents();
    let row = (thread_index() / u64::from(WARP_SIZE) << (WARP_SIZE.trailing_zeros() - lanes_log2))
        + u64::from(place);
    let lanes = 1 << lanes_log2;
    let is_there = row < rows;
    let start = input.wrapping_add((row * pitch) as usize);
    // SAFETY: the row exists if `is_there`, `len` is as the caller guarantees, and `input` is the first
    // element, as there are rows with elements.
    let mut kept = unsafe { accumulate_share::<F, U>(arguments, start, is_there, first, lanes) };
    let mut distance = lanes / 2;
    while distance > 0 {
        // SAFETY: all lanes of the warp reach this together.
        kept = F::combine(kept, unsafe { kept.shuffle_xor(FULL_WARP, distance) });
        distance /= 2;
    }
    wait_grid_dependencies();
    if first == 0 && is_there {
        // SAFETY: the output has a result for every row; the value is of the row's elements.
        unsafe { F::write(kept, row_at::<F, U>(arguments, row, start)) };
    }
}

/// Accumulates every `lanes`th unit of the row at `start`, from unit `first` on, with as many loads in
/// flight as there are [`ACCUMULATORS`].
///
/// # Safety
/// `len` is as for [`packed`], and so is the row at `start` if `is_there`. `input` points to a readable
/// element.
#[inline(always)]
pub(super) unsafe fn accumulate_share<F: VectorReduction, U: Unit<F>>(
    ReduceRows { input, len, .. }: ReduceRows<F::Element>,
    start: *const F::Element,
    is_there: bool,
    first: u32,
    lanes: u32,
) -> F::Partial {
    let units = (len / U::LEN) as u32;
    let policy = U::policy();
    let mut kept = F::IDENTITY;
    let mut step = first;
    // The same in all lanes, so that the loop does not diverge.
    let mut left = units;
    while left > 0 {
        let unit_of = |k: u32| step + k * lanes;
        let loaded: Few<U> = core::array::from_fn(|k| {
            let unit = unit_of(k as u32);
            let address = start.wrapping_add((u64::from(unit) * U::LEN) as usize);
            // SAFETY: wanted units are in an existing row, and the element at `input` exists.
            unsafe { U::load(address, is_there && unit < units, input, policy) }
        });
        in_turn(loaded, |k, loaded| {
            let unit = unit_of(k as u32);
            if (U::ZEROS && F::ZERO_PADDABLE) || (is_there && unit < units) {
                loaded.accumulate(&mut kept, u64::from(unit) * U::LEN);
            }
        });
        step += ACCUMULATORS as u32 * lanes;
        left = left.saturating_sub(ACCUMULATORS as u32 * lanes);
    }
    kept
}

#[inline(always)]
pub(super) fn row_at<F: VectorReduction, U: Unit<F>>(
    arguments: ReduceRows<F::Element>,
    row: u64,
    input: *const F::Element,
) -> ReduceCut<F::Element> {
    let ReduceRows { rows, len, output, form, ddof, .. } = arguments;
    // `F::write` may search a group for the result's element, but not singles. Units of one element are
    // therefore passed as singles.
    let (groups, singles) = if U::LEN > 1 { (len / U::LEN, 0) } else { (0, len) };
    ReduceCut {
        input,
        head: 0,
        groups,
        singles,
        tile: 0,
        slots: null_mut(),
        output: output.wrapping_byte_add((row * F::output_bytes(form)) as usize),
        results: rows,
        form,
        ddof,
    }
}

type Few<P> = [P; ACCUMULATORS];

/// Reduces the rows of `turn`, and returns their values in all lanes. With [`Unit::TWICE`], the second
/// array has the values of the second half of the batches.
///
/// # Safety
/// Same as [`packed`]; called by all lanes of a warp together.
#[inline(always)]
unsafe fn accumulate_rows<F: VectorReduction, U: Unit<F>>(
    arguments: ReduceRows<F::Element>,
    turn: Turn<F::Element>,
    first: u32,
    lanes: u32,
) -> (Few<F::Partial>, Few<F::Partial>) {
    let ReduceRows { input, len, pitch, .. } = arguments;
    let units = (len / U::LEN) as u32;
    let policy = U::policy();
    let (mut front, mut back) = ([F::IDENTITY; ACCUMULATORS], [F::IDENTITY; ACCUMULATORS]);
    let mut step = 0;
    while step < units {
        let unit = step + first;
        let index = u64::from(unit) * U::LEN;
        let load = |from: u32| -> Few<U> {
            core::array::from_fn(|k| {
                let batch = from + k as u32;
                let address = turn.start_of(batch, pitch).wrapping_add(index as usize);
                // SAFETY: wanted units are in an existing row, and the element at `input` exists.
                unsafe { U::load(address, unit < units && turn.has(batch), input, policy) }
            })
        };
        let wanted = |batch| (U::ZEROS && F::ZERO_PADDABLE) || (unit < units && turn.has(batch));
        let loaded = load(0);
        if U::TWICE {
            // These loads are issued before the first ones are used.
            let more = load(BATCHES);
            front = accumulate_few::<F, U>(front, loaded, |k| wanted(k), index);
            back = accumulate_few::<F, U>(back, more, |k| wanted(BATCHES + k), index);
        } else {
            front = accumulate_few::<F, U>(front, loaded, |k| wanted(k), index);
        }
        step += lanes;
    }
    let mut distance = lanes / 2;
    while distance > 0 {
        // SAFETY: all lanes of the warp reach this together.
        unsafe {
            front = meet::<F>(front, distance);
            if U::TWICE {
                back = meet::<F>(back, distance);
            }
        }
        distance /= 2;
    }
    (front, back)
}

/// Accumulates each unit if wanted. Not a closure, because LLVM 7 would pass its arguments through local
/// memory if it is too long to be inlined. The values have names, because LLVM 7 would place indexed
/// arrays there.
#[inline(always)]
fn accumulate_few<F: VectorReduction, U: Unit<F>>(
    [a, b, c, d]: Few<F::Partial>,
    [e, f, g, h]: Few<U>,
    wanted: impl Fn(u32) -> bool,
    index: u64,
) -> Few<F::Partial> {
    [
        accumulate_if::<F, U>(a, e, wanted(0), index),
        accumulate_if::<F, U>(b, f, wanted(1), index),
        accumulate_if::<F, U>(c, g, wanted(2), index),
        accumulate_if::<F, U>(d, h, wanted(3), index),
    ]
}

#[inline(always)]
fn accumulate_if<F: VectorReduction, U: Unit<F>>(
    mut kept: F::Partial,
    loaded: U,
    wanted: bool,
    index: u64,
) -> F::Partial {
    if wanted {
        loaded.accumulate(&mut kept, index);
    }
    kept
}

/// Combines each value with that of the lane at `distance`. The values have names, because LLVM 7 places
/// an array that `map` owns in local memory.
///
/// # Safety
/// All lanes of a warp call it together.
#[inline(always)]
unsafe fn meet<F: VectorReduction>([a, b, c, d]: Few<F::Partial>, distance: u32) -> Few<F::Partial> {
    // SAFETY: all lanes of the warp call it together, as the caller guarantees.
    let with_other =
        |value: F::Partial| F::combine(value, unsafe { value.shuffle_xor(FULL_WARP, distance) });
    [with_other(a), with_other(b), with_other(c), with_other(d)]
}

/// # Safety
/// Same as [`packed`]; called by one lane of each row.
#[inline(always)]
unsafe fn write<F: VectorReduction, U: Unit<F>>(
    values: Few<F::Partial>,
    from: u32,
    arguments: ReduceRows<F::Element>,
    turn: Turn<F::Element>,
) {
    in_turn(values, |k, value| {
        let batch = from + k as u32;
        if turn.has(batch) {
            let row = turn.row + u64::from(batch * turn.batch);
            let start = turn.start_of(batch, arguments.pitch);
            // SAFETY: the output has a result for every row; the value is of the row's elements.
            unsafe { F::write(value, row_at::<F, U>(arguments, row, start)) };
        }
    });
}
