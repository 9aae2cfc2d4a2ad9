//! The kernels for rows: a result for each of many equally long pieces of the input, equally far apart.
//!
//! Which is best depends on a row's length alone:
//!
//! - `grid`: one or more blocks per row. Long rows; few rows are shared by several blocks each.
//! - `warp`: one warp, row after row. Rows of a few KiB, wherever they begin.
//! - `groups`: one to 32 lanes per row, by 16 bytes. Short rows that all begin at 16-byte boundaries.
//! - `elements`: one to 32 lanes per row, by elements. Short rows that begin anywhere.
//! - `many_groups`: as `groups`, if results exceed the L2 cache: what is read is not evicted first.
//! - `few_groups`, `few_elements`: the same for at most one row per lane.
//!
//! The last three are separate kernels, because in one function ptxas gave all loops too few registers
//! to keep their loads in flight together.
//!
//! In `groups`, `many_groups` and `elements` a warp has several rows at a time, and several *batches* of
//! these in flight: neighbouring lanes read contiguous memory, and no load waits for another row's.
//!
//! Results are reproducible: length, alignment to 16 bytes and launch decide where values are combined.

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
    traits::output_bytes,
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
    let ReduceRows { share, tile, slots, .. } = arguments;
    // Never 0, which the compiler does not know.
    let blocks = Ord::max(share as u32, 1);
    let (row, block) = (block_idx_x() / blocks, block_idx_x() % blocks);
    let first_cell = u64::from(row) * u64::from(blocks * room_words(F::Partial::WORDS));
    let slots = slots.wrapping_add(first_cell as usize);
    let row = ReduceCut { tile, slots, ..row_of::<F>(arguments, u64::from(row)) };
    let team = Team { thread: thread_idx_x(), threads: block_dim_x(), block, blocks };
    // SAFETY: the caller's contract. A row's blocks are consecutive, and the last starts after the
    // others. Results are contiguous, each aligned to its type.
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
    // SAFETY: the caller's contract; a warp's lanes have the same row, and are more than its singles.
    unsafe {
        block::assume_whole_warps();
        while row < arguments.rows {
            let cut = ReduceCut { tile: TILE, ..row_of::<F>(arguments, row) };
            let value = warp::reduce(value::<F>(cut, team, 0), CombineOf::<F>::OP);
            // Repeated waits cost nothing; a flag would take a register.
            wait_grid_dependencies();
            if lane == 0 {
                F::write(value, cut);
            }
            row += threads() / u64::from(WARP_SIZE);
        }
    }
}

/// Reduces rows, by some lanes each, in groups. Only for elements that are loaded as vectors, and
/// operations that are not [wide](is_wide); does nothing for others.
///
/// # Safety
/// The arguments are as their fields document. Every row is at a multiple of 16, and `len` is a whole
/// number of groups, less than 2^31. Blocks are whole warps.
#[inline(always)]
pub unsafe fn rows_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() && !is_wide(F::Partial::WORDS) {
        // SAFETY: the caller's contract.
        unsafe { packed::<F, Vector>(arguments) };
    }
}

/// Reduces rows, each by some lanes, in elements. Does nothing for [wide](is_wide) operations.
///
/// # Safety
/// The arguments are as their fields document. `len` is less than 2^31. Blocks are whole warps.
#[inline(always)]
pub unsafe fn rows_elements<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if !is_wide(F::Partial::WORDS) {
        // SAFETY: the caller's contract.
        unsafe { packed::<F, One<F::Element>>(arguments) };
    }
}

/// Reduces rows as [`rows_groups`] does, if the results do not fit in the L2 cache.
///
/// # Safety
/// As [`rows_groups`].
#[inline(always)]
pub unsafe fn rows_many_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() && !is_wide(F::Partial::WORDS) {
        // SAFETY: the caller's contract.
        unsafe { packed::<F, EvictNormal>(arguments) };
    }
}

/// Reduces rows as [`rows_groups`] does, at most one per lane.
///
/// # Safety
/// As [`rows_groups`]; there are as many lanes as the rows need.
#[inline(always)]
pub unsafe fn rows_few_groups<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    if in_vectors::<F::Element>() {
        // SAFETY: the caller's contract.
        unsafe { one_batch::<F, Vector>(arguments) };
    }
}

/// Reduces rows as [`rows_elements`] does, at most one per lane.
///
/// # Safety
/// As [`rows_elements`]; there are as many lanes as the rows need.
#[inline(always)]
pub unsafe fn rows_few_elements<F: VectorReduction>(arguments: ReduceRows<F::Element>) {
    // SAFETY: the caller's contract.
    unsafe { one_batch::<F, One<F::Element>>(arguments) };
}

#[inline(always)]
fn row_of<F: VectorReduction>(arguments: ReduceRows<F::Element>, row: u64) -> ReduceCut<F::Element> {
    let ReduceRows { input, len, pitch, output, .. } = arguments;
    let output = output.wrapping_byte_add((row * output_bytes::<F>()) as usize);
    ReduceCut { output, ..cut(input.wrapping_add((row * pitch) as usize), len) }
}

/// A unit that a lane of a short row, or a thread of a view, loads at once.
pub(super) trait Unit<F: VectorReduction>: Copy {
    const LEN: u64;
    /// `true` if units are so small that twice as many have to be in flight.
    const TWICE: bool;
    /// `true` if loads that are not wanted return zeros.
    const ZEROS: bool;
    type Policy: Copy;
    fn policy() -> Self::Policy;
    /// # Safety
    /// If wanted, the unit is readable at `address`, a group at a multiple of 16. `any` has an element.
    unsafe fn load(
        address: *const F::Element,
        wanted: bool,
        any: *const F::Element,
        policy: Self::Policy,
    ) -> Self;
    /// Combines the unit into the value of those before; its first element has this index.
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
        // SAFETY: the caller's contract.
        unsafe { load16_if::<Streaming>(address.cast(), wanted) }
    }

    #[inline(always)]
    fn accumulate(self, kept: &mut F::Partial, index: u64) {
        let mut accumulator = F::start();
        F::accumulate(&mut accumulator, 0, self, index);
        *kept = F::combine(*kept, F::close(accumulator));
    }
}

/// A group that the L2 cache evicts in its turn.
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
        // SAFETY: the caller's contract.
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
        // Always loads some element: without a branch, loads do not wait for each other.
        let address = if wanted { address } else { any };
        // SAFETY: the caller's contract.
        Self(unsafe { *address })
    }

    #[inline(always)]
    fn accumulate(self, kept: &mut F::Partial, index: u64) {
        F::accumulate_one(kept, self.0, index);
    }
}

/// A lane's position in a warp with several lanes per row.
struct LaneSlot {
    /// Row of the batch.
    place: u32,
    /// Lane of the row.
    first: u32,
    lanes_log2: u32,
}

impl LaneSlot {
    /// Returns this thread's position, with `share` lanes per row: a power of two.
    #[inline(always)]
    fn of(share: u64) -> Self {
        let lanes_log2 = (share as u32).trailing_zeros();
        let lane = thread_idx_x() % WARP_SIZE;
        Self { place: lane >> lanes_log2, first: lane % (1 << lanes_log2), lanes_log2 }
    }
}

/// A lane's rows among those that its warp reduces at a time: one in every batch.
#[derive(Clone, Copy)]
struct Turn<T> {
    /// Row in the first batch.
    row: u64,
    start: *const T,
    /// Position of the row in its batch.
    place: u32,
    /// Rows per batch.
    batch: u32,
    /// Rows of all batches.
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

/// Batches whose loads are in flight together.
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
        // SAFETY: the caller's contract; a turn is the same for all lanes of a warp.
        unsafe {
            let (front, back) = accumulate_rows::<F, U>(arguments, turn, first, 1 << lanes_log2);
            wait_grid_dependencies();
            // All lanes of a row have its value.
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

/// Reduces one batch of rows per warp, with a row's loads in flight together: for so few rows that one's
/// latency decides.
///
/// # Safety
/// As [`packed`]; there are as many lanes as the rows need.
#[inline(always)]
unsafe fn one_batch<F: VectorReduction, U: Unit<F>>(arguments: ReduceRows<F::Element>) {
    let ReduceRows { input, rows, len, pitch, share, .. } = arguments;
    let LaneSlot { place, first, lanes_log2 } = LaneSlot::of(share);
    launch_dependents();
    let row = (thread_index() / u64::from(WARP_SIZE) << (WARP_SIZE.trailing_zeros() - lanes_log2))
        + u64::from(place);
    let (units, lanes) = ((len / U::LEN) as u32, 1 << lanes_log2);
    let is_there = row < rows;
    let start = input.wrapping_add((row * pitch) as usize);
    let policy = U::policy();
    let mut kept = F::IDENTITY;
    let mut step = first;
    // Uniform in a warp.
    let mut left = units;
    while left > 0 {
        let unit_of = |k: u32| step + k * lanes;
        let loaded: Few<U> = core::array::from_fn(|k| {
            let unit = unit_of(k as u32);
            let address = start.wrapping_add((u64::from(unit) * U::LEN) as usize);
            // SAFETY: wanted units are in an existing row; the input has a first element.
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

/// Returns a row as the argument of [`VectorReduction::write`].
#[inline(always)]
fn row_at<F: VectorReduction, U: Unit<F>>(
    arguments: ReduceRows<F::Element>,
    row: u64,
    input: *const F::Element,
) -> ReduceCut<F::Element> {
    let ReduceRows { len, output, .. } = arguments;
    // Only results of groups are looked up by element; all other elements are singles.
    let (groups, singles) = if U::LEN > 1 { (len / U::LEN, 0) } else { (0, len) };
    ReduceCut {
        input,
        head: 0,
        groups,
        singles,
        tile: 0,
        slots: null_mut(),
        output: output.wrapping_byte_add((row * output_bytes::<F>()) as usize),
    }
}

type Few<P> = [P; ACCUMULATORS];

/// Reduces a turn's rows: the first batches, and as many more if units are small. All lanes get values.
///
/// # Safety
/// As [`packed`]; called by all lanes of a warp together.
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
                // SAFETY: wanted units are in an existing row; the input has a first element.
                unsafe { U::load(address, unit < units && turn.has(batch), input, policy) }
            })
        };
        let wanted = |batch| (U::ZEROS && F::ZERO_PADDABLE) || (unit < units && turn.has(batch));
        let loaded = load(0);
        if U::TWICE {
            // Issued before the first loads are used.
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

/// Accumulates each unit if wanted. Not a closure, because LLVM 7 places what closures take in local
/// memory if they are too long to be inlined; the values have names for the same reason.
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

/// Combines each value with that of the lane at a distance. The values have names, because LLVM 7 places
/// an array that `map` owns in local memory.
///
/// # Safety
/// All lanes of a warp call it together.
#[inline(always)]
unsafe fn meet<F: VectorReduction>([a, b, c, d]: Few<F::Partial>, distance: u32) -> Few<F::Partial> {
    // SAFETY: the caller's contract.
    let with_other =
        |value: F::Partial| F::combine(value, unsafe { value.shuffle_xor(FULL_WARP, distance) });
    [with_other(a), with_other(b), with_other(c), with_other(d)]
}

/// # Safety
/// As [`packed`]; called by one lane of each row.
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
