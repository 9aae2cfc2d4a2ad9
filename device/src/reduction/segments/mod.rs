//! The kernel for segments: a result for each of many pieces of the input, whose lengths differ.
//!
//! Each block has a tile of the path that elements and ends of segments make ([`warpfold_abi::segments`]),
//! and so as much work as any other, whatever the lengths are. How it works depends on the tile alone:
//!
//! - No segment ends in it: all threads reduce its elements as [`grid`](super::grid()) does, from
//!   registers.
//! - Segments end in it: its elements and ends go to shared memory, where each thread walks its own
//!   equal part of the path. A scan over the threads joins the parts of segments that several threads
//!   have.
//!
//! A segment that began in tiles before is joined by the tile in which it ends, or, where it goes on
//! for very many tiles, by every so manieth tile for those before: each tile publishes the value of what
//! is open at its end, in cells as in [`partial`](super::partial). Cells are used again by later tiles,
//! so that they say whose turn it is. A block waits only for blocks before it.
//!
//! Every value is combined in a place that the offsets, the distance of the first element from a 16-byte
//! boundary and the launch decide: reproducible.
//!
//! Shared memory: [`staged_words`](warpfold_abi::segments::staged_words) for the tile,
//! [`SegmentsScratch`]. Barriers: 1 in a tile without ends, else 3, and 2 more where a segment comes from
//! many tiles.

use core::marker::PhantomData;

use warpfold_abi::{
    arguments::{ReduceCut, ReduceSegments},
    reducer::{GROUP_BYTES, PARTIAL_WORDS, PRESENT},
    segments::{BLOCK, items_per_thread, tile_items},
};

use super::{
    CHAINS, Fold, Group, Team, combine,
    grid::{cut, in_turn, value},
    identity, lanes,
    partial::{await_left, leave, publish, take},
};
use crate::{
    Shared, SharedArray, Value, block,
    grid::{launch_dependents, wait_grid_dependencies},
    memory::{Streaming, load16_if},
    op::Operation,
    thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
};

/// Shared memory of a block for the collectives on its threads' values.
pub type SegmentsScratch = SharedArray<u32, { 33 * (PARTIAL_WORDS as usize + 1) }>;

/// Shared memory of the kernel.
#[derive(Clone, Copy)]
pub struct SegmentsMemory {
    /// [`staged_words`](warpfold_abi::segments::staged_words) for elements of the type, from a multiple
    /// of 16 bytes on.
    pub staged: Shared<u32>,
    /// For collectives.
    pub scratch: SegmentsScratch,
}

/// Tiles whose values the thread that closes a segment takes alone.
const FEW_TILES: u32 = 2;

/// # Safety
/// The arguments are what their fields say, and the launch is. The slots are zero when the launches
/// before this one in the stream are over, and no other stream uses them. Blocks start in the order of
/// their numbers.
#[inline(always)]
pub unsafe fn segments<F: Fold>(arguments: ReduceSegments<F::Element>, memory: SegmentsMemory) {
    launch_dependents();
    // SAFETY: the caller's contract; a tile's ends are the same for all threads of its block.
    unsafe {
        block::assume_whole_warps();
        let tile = Tile::of::<F>(arguments);
        if tile.ends == 0 {
            pass_on::<F>(arguments, tile, memory);
        } else {
            close_segments::<F>(arguments, tile, memory);
        }
    }
}

/// A block's part of the path.
#[derive(Clone, Copy)]
struct Tile {
    number: u32,
    /// The segment in which it begins.
    segment: u64,
    /// Where that segment begins.
    begin: u64,
    /// The first element.
    element: u64,
    /// Elements.
    len: u32,
    /// Ends of segments.
    ends: u32,
}

/// Elements and ends of a tile.
const fn items<F: Fold>() -> u32 {
    tile_items(size_of::<F::Element>() as u32)
}

impl Tile {
    /// # Safety
    /// As [`segments`].
    #[inline(always)]
    unsafe fn of<F: Fold>(arguments: ReduceSegments<F::Element>) -> Self {
        let ReduceSegments { n, segments, starts, .. } = arguments;
        let number = block_idx_x();
        let from = u64::from(number) * u64::from(items::<F>());
        let to = Ord::min(from + u64::from(items::<F>()), segments + n);
        // SAFETY: there is a number for each tile and for the end of the last one, and there are no more
        // tiles than blocks.
        let (segment, next) =
            unsafe { (*starts.add(number as usize), *starts.add(number as usize + 1)) };
        let element = from - segment;
        // SAFETY: a tile has elements or ends, and before the last end there is a segment.
        let begin = Ord::min(unsafe { offset(arguments, segment) }, element);
        let ends = (next - segment) as u32;
        Self { number, segment, begin, element, len: (to - from) as u32 - ends, ends }
    }

    /// The first of the tiles before this one that have values of the segment in which it begins, and
    /// have not handed them to another; this tile where there are none.
    #[inline(always)]
    fn first_open<F: Fold>(self, ring: u64) -> u32 {
        let began = ((self.begin + self.segment) / u64::from(items::<F>())) as u32;
        let every = joining(ring);
        // The last one before this that joins, if there is one.
        let joined = (divided(self.number, every).0 * every).wrapping_sub(1);
        if self.number >= every { Ord::max(began, joined) } else { began }
    }
}

/// Every so manieth tile without an end joins the values of those before it.
#[inline(always)]
fn joining(ring: u64) -> u32 {
    Ord::max(ring as u32 / 2, 1)
}

/// Quotient and remainder by a number that is not 0, which not every compiler sees of the larger one of
/// something and 1. `/` and `%` would be guarded then by a trap, and a thread that may stop there misses
/// the barriers behind it.
#[inline(always)]
fn divided(number: u32, by: u32) -> (u32, u32) {
    (number.checked_div(by).unwrap_or(0), number.checked_rem(by).unwrap_or(0))
}

/// Offset `index`, counted from the first one.
///
/// # Safety
/// As [`segments`]; there is such an offset.
#[inline(always)]
unsafe fn offset<T>(arguments: ReduceSegments<T>, index: u64) -> u64 {
    let ReduceSegments { offsets, offset_words, first, .. } = arguments;
    // SAFETY: the caller's contract.
    unsafe { read_offset(offsets, offset_words, index) }.wrapping_sub(first)
}

/// Offset `index` of one or two words.
///
/// # Safety
/// There is such an offset, readable, and at a multiple of its size.
#[inline(always)]
pub unsafe fn read_offset(offsets: *const u32, words: u64, index: u64) -> u64 {
    // SAFETY: the caller's contract.
    unsafe {
        if words == 1 {
            (*offsets.add(index as usize)).into()
        } else {
            *offsets.cast::<u64>().add(index as usize)
        }
    }
}

/// A tile without an end: one value, for whoever closes the segment.
///
/// # Safety
/// As [`segments`], called by all threads of the block.
#[inline(always)]
unsafe fn pass_on<F: Fold>(arguments: ReduceSegments<F::Element>, tile: Tile, memory: SegmentsMemory) {
    let ReduceSegments { input, ring, .. } = arguments;
    let Tile { number, begin, element, len, .. } = tile;
    let part = cut(input.wrapping_add(element as usize), len.into());
    let part = ReduceCut { tile: u64::from(CHAINS as u32 * BLOCK), ..part };
    let team = Team { thread: thread_idx_x(), threads: BLOCK, block: 0, blocks: 1 };
    let every = joining(ring);
    // SAFETY: the elements are there; a tile of a block's threads is four groups each; all threads of
    // the block come here.
    unsafe {
        let mut mine = value::<F>(part, team, element - begin);
        wait_grid_dependencies();
        if divided(number, every).1 == every - 1 {
            let first = tile.first_open::<F>(ring) + thread_idx_x();
            mine = combine::<F>(mine, of_tiles::<F>(arguments, first, number, BLOCK));
        }
        let whole = block::reduce(mine, F::COMBINE, memory.scratch);
        if thread_idx_x() == 0 {
            hand_on::<F>(whole, true, arguments, number);
        }
    }
}

/// What tiles have of the segment that is open at their ends: of every `step`th of them from one on.
///
/// # Safety
/// As [`segments`]; one thread of the grid takes each tile's value, for a later tile.
#[inline(always)]
unsafe fn of_tiles<F: Fold>(
    arguments: ReduceSegments<F::Element>,
    first: u32,
    end: u32,
    step: u32,
) -> F::Partial {
    let ReduceSegments { slots, ring, .. } = arguments;
    let mut value = identity::<F>();
    let mut other = first;
    while other < end {
        let turn = Turn::of(other, ring);
        let is_theirs = |cell: u64| cell >> 32 == turn.full() >> 32;
        // SAFETY: a tile before the caller's publishes what is open at its end, and nobody else takes it.
        let theirs = unsafe { take(slots, turn.slot, is_theirs, turn.left(ring)) };
        value = combine::<F>(value, theirs);
        other += step;
    }
    value
}

/// A tile's turn at a slot, which tiles have one after the other. A cell is zero at first and at last;
/// between it tells by its upper half whose turn it is, and whether it has the tile's value. It would not
/// be enough that it has none: the tile before may not have come to it yet.
#[derive(Clone, Copy)]
struct Turn {
    tile: u32,
    slot: u32,
    /// Tiles that had the slot before.
    before: u32,
}

impl Turn {
    #[inline(always)]
    fn of(tile: u32, ring: u64) -> Self {
        let (before, slot) = divided(tile, Ord::max(ring as u32, 1));
        Self { tile, slot, before }
    }

    /// A cell before the tile's value is in it.
    #[inline(always)]
    fn empty(self) -> u64 {
        u64::from(2 * self.before) * PRESENT
    }

    /// The upper half of a cell with its value.
    #[inline(always)]
    fn full(self) -> u64 {
        self.empty() + PRESENT
    }

    /// A cell when the value is out of it: empty for the next tile, and zero if there is none.
    #[inline(always)]
    fn left(self, ring: u64) -> u64 {
        let has_next = u64::from(self.tile) + ring < u64::from(grid_dim_x());
        if has_next { self.full() + PRESENT } else { 0 }
    }
}

/// Publishes what is open at the end of a tile, if something is, when the slot is the tile's.
///
/// # Safety
/// As [`segments`], called by one thread of the block, once.
#[inline(always)]
unsafe fn hand_on<F: Fold>(
    value: F::Partial,
    is_open: bool,
    arguments: ReduceSegments<F::Element>,
    number: u32,
) {
    let ReduceSegments { slots, ring, .. } = arguments;
    let turn = Turn::of(number, ring);
    // SAFETY: the slot is this tile's own from the time on when it is empty for it. Whoever leaves it so
    // is the tile a ring before, or closes or joins that one, half a ring behind it at most: it is before
    // this one, too.
    unsafe {
        if turn.before > 0 {
            await_left::<F::Partial>(slots, turn.slot, turn.empty());
        }
        if is_open {
            publish(value, slots, turn.slot, turn.full());
        } else {
            leave::<F::Partial>(slots, turn.slot, turn.left(ring));
        }
    }
}

/// Flagged values: where `b` begins anew, it forgets `a`.
struct Keyed<O>(PhantomData<O>);

impl<O> Clone for Keyed<O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Keyed<O> {}

impl<P: Value, O: Operation<P>> Operation<(bool, P)> for Keyed<O> {
    const IDENTITY: (bool, P) = (false, O::IDENTITY);

    #[inline(always)]
    fn combine(a: (bool, P), b: (bool, P)) -> (bool, P) {
        (a.0 | b.0, if b.0 { b.1 } else { O::combine(a.1, b.1) })
    }
}

/// A tile in shared memory.
#[derive(Clone, Copy)]
struct Staged {
    /// The elements before each end, of the tile.
    ends: Shared<u32>,
    /// The groups that have the elements.
    groups: Shared<u32>,
    /// Bytes of the first group before the first element.
    skew: u32,
}

/// A tile with ends: their segments' results, and one value for the segment that is open at its end.
///
/// # Safety
/// As [`segments`], called by all threads of the block.
#[inline(always)]
unsafe fn close_segments<F: Fold>(
    arguments: ReduceSegments<F::Element>,
    tile: Tile,
    memory: SegmentsMemory,
) {
    let Tile { number, begin, element, len, ends, .. } = tile;
    // SAFETY: the caller's contract. All threads come to every barrier: what decides on the last two is
    // the same for them.
    unsafe {
        // How many tiles the first segment comes from goes through memory, too: the compiler would
        // compute parts of it on either side of a branch, and not know that all threads have the same.
        if thread_idx_x() == 0 {
            memory.staged.set(0, number - tile.first_open::<F>(arguments.ring));
        }
        let staged = stage::<F>(arguments, tile, memory.staged.at(4));
        wait_grid_dependencies();
        sync_threads();
        let tiles_before = memory.staged.get(0);
        let first_open = number - tiles_before;
        let walk = Walk::new::<F>(tile, staged);
        let (held, open) = walk.run::<F>(arguments, tile, staged);
        let closes = walk.segment < ends && staged.ends.get(walk.segment) + walk.segment < walk.to;
        let (before, whole) =
            block::exclusive_scan((closes, open), Keyed::<F::Combine>(PhantomData), memory.scratch);
        if thread_idx_x() == 0 {
            hand_on::<F>(whole.1, staged.ends.get(ends - 1) < len, arguments, number);
        }
        // The one thread that closes the segment in which the tile begins.
        let mut first = closes && !before.0;
        let mut value = combine::<F>(before.1, held);
        if tiles_before > FEW_TILES {
            let mine = of_tiles::<F>(arguments, first_open + thread_idx_x(), number, BLOCK);
            sync_threads();
            let theirs = block::all_reduce(mine, F::COMBINE, memory.scratch);
            if first {
                value = combine::<F>(theirs, value);
            }
            first = false;
        }
        if first {
            value = combine::<F>(of_tiles::<F>(arguments, first_open, number, 1), value);
        }
        if closes {
            let start = if walk.segment == 0 {
                begin
            } else {
                element + u64::from(staged.ends.get(walk.segment - 1))
            };
            let end = element + u64::from(staged.ends.get(walk.segment));
            write::<F>(value, arguments, tile.segment + u64::from(walk.segment), start, end);
        }
    }
}

/// Writes the result of a segment.
///
/// # Safety
/// As [`segments`]; the value is that of the segment, which has these elements.
#[inline(always)]
unsafe fn write<F: Fold>(
    value: F::Partial,
    arguments: ReduceSegments<F::Element>,
    segment: u64,
    start: u64,
    end: u64,
) {
    let ReduceSegments { input, output, .. } = arguments;
    let output = output.wrapping_byte_add((segment * F::RESULT_BYTES) as usize);
    let of = ReduceCut { output, ..cut(input.wrapping_add(start as usize), end - start) };
    // SAFETY: there is a result for each segment; the caller's contract.
    unsafe { F::write(value, of) };
}

/// Brings a tile to shared memory, where it is behind a barrier.
///
/// # Safety
/// As [`segments`], called by all threads of the block, none of which still reads there.
#[inline(always)]
unsafe fn stage<F: Fold>(
    arguments: ReduceSegments<F::Element>,
    tile: Tile,
    memory: Shared<u32>,
) -> Staged {
    let ReduceSegments { input, n, .. } = arguments;
    let Tile { segment, element, len, ends, .. } = tile;
    let (tid, size) = (thread_idx_x(), size_of::<F::Element>() as u32);
    let first = input.wrapping_add(element as usize);
    let skew = first.addr() as u32 % GROUP_BYTES;
    let groups = (skew + len * size).div_ceil(GROUP_BYTES);
    let base = first.wrapping_byte_sub(skew as usize).cast::<u32>();
    // Groups may have elements of other tiles, but none from before the first or behind the last one.
    let begins_inside = element * u64::from(size) >= u64::from(skew);
    let whole = u64::from(skew) + (n - element) * u64::from(size);
    let whole = Ord::min(whole / u64::from(GROUP_BYTES), u64::from(groups)) as u32;
    let is_inside = |group: u32| group < whole && (group > 0 || begins_inside);
    let loaded: [Group; CHAINS] = core::array::from_fn(|k| {
        let group = tid + k as u32 * BLOCK;
        // SAFETY: the group lies inside, and starts at a 16-byte boundary.
        unsafe { load16_if::<Streaming>(base.wrapping_add(group as usize * 4), is_inside(group)) }
    });
    let staged = Staged { ends: memory, groups: memory.at(ends.next_multiple_of(4)), skew };
    // SAFETY: there is room for all ends and groups of a tile, the first group at a multiple of 16, and
    // each is written by one thread; the ends are there.
    unsafe {
        let mut end = tid;
        while end < ends {
            let at = offset(arguments, segment + u64::from(end) + 1).wrapping_sub(element);
            staged.ends.set(end, Ord::min(at, u64::from(len)) as u32);
            end += BLOCK;
        }
        in_turn(loaded, |k, loaded| {
            let group = tid + k as u32 * BLOCK;
            if is_inside(group) {
                staged.groups.set16(group, loaded);
            }
        });
        // Of the first and the last group those that are not inside: a thread has a word.
        let group = if tid < 4 { 0 } else { groups.wrapping_sub(1) };
        let wanted = groups > 0 && tid < if groups > 1 { 8 } else { 4 };
        if wanted && !is_inside(group) {
            let at = group * 4 + tid % 4;
            staged.groups.set(at, word(base, at, skew..skew + len * size));
        }
    }
    staged
}

/// A word of which the bytes in a range are readable; the others are zero.
///
/// # Safety
/// They are.
#[inline(always)]
pub(super) unsafe fn word(base: *const u32, at: u32, readable: core::ops::Range<u32>) -> u32 {
    let mut word = 0;
    let mut byte = 0;
    while byte < 4 {
        let from = at * 4 + byte;
        if from >= readable.start && from < readable.end {
            // SAFETY: the caller's contract.
            let byte_there = unsafe { *base.cast::<u8>().wrapping_add(from as usize) };
            word |= u32::from(byte_there) << (8 * byte);
        }
        byte += 1;
    }
    word
}

/// A thread's part of a tile's path.
#[derive(Clone, Copy)]
struct Walk {
    /// The segment of the tile in which it begins.
    segment: u32,
    /// The first element of the tile.
    element: u32,
    /// Where it ends on the path.
    to: u32,
}

impl Walk {
    /// # Safety
    /// As [`segments`], behind the barrier after [`stage`].
    #[inline(always)]
    unsafe fn new<F: Fold>(tile: Tile, staged: Staged) -> Self {
        let steps = items_per_thread(size_of::<F::Element>() as u32);
        let all = tile.ends + tile.len;
        let from = Ord::min(thread_idx_x() * steps, all);
        // How many ends are before there.
        let (mut least, mut most) = (0, tile.ends);
        while least < most {
            let middle = (least + most) / 2;
            // SAFETY: it is below the number of ends.
            if unsafe { staged.ends.get(middle) } + middle < from {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        Self { segment: least, element: from - least, to: Ord::min(from + steps, all) }
    }

    /// The value before the first end, which others may have a part of; and that behind the last end.
    /// Segments between are finished here.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline(always)]
    unsafe fn run<F: Fold>(
        self,
        arguments: ReduceSegments<F::Element>,
        tile: Tile,
        staged: Staged,
    ) -> (F::Partial, F::Partial) {
        let Self { mut segment, mut element, to } = self;
        let mut held = identity::<F>();
        let mut open = identity::<F>();
        // SAFETY: ends and elements of the tile are there, behind a barrier.
        unsafe {
            let end_of = |segment: u32| {
                if segment < tile.ends { staged.ends.get(segment) } else { u32::MAX }
            };
            let mut begin = if segment == 0 {
                tile.begin
            } else {
                tile.element + u64::from(staged.ends.get(segment - 1))
            };
            let mut end = end_of(segment);
            while segment + element < to {
                let at = tile.element + u64::from(element);
                if element < end {
                    let one = staged.element::<F::Element>(element);
                    open = combine::<F>(open, F::of(one, at - begin));
                    element += 1;
                } else {
                    if segment == self.segment {
                        held = open;
                    } else {
                        write::<F>(open, arguments, tile.segment + u64::from(segment), begin, at);
                    }
                    open = identity::<F>();
                    begin = at;
                    segment += 1;
                    end = end_of(segment);
                }
            }
        }
        (held, open)
    }
}

impl Staged {
    /// Element `index` of the tile.
    ///
    /// # Safety
    /// It is there, behind a barrier.
    #[inline(always)]
    unsafe fn element<T: Copy>(self, index: u32) -> T {
        const { assert!(lanes::<T>() >= 2, "an element has 1, 2, 4 or 8 bytes") };
        let at = self.skew + index * size_of::<T>() as u32;
        // SAFETY: the caller's contract; elements are plain bits, the lowest of the word.
        unsafe {
            if size_of::<T>() == 8 {
                let two: u64 = self.groups.cast().get(at / 8);
                core::mem::transmute_copy(&two)
            } else if size_of::<T>() == 4 {
                let one = self.groups.get(at / 4);
                core::mem::transmute_copy(&one)
            } else {
                let four = self.groups.get(at / 4) >> (8 * (at % 4));
                core::mem::transmute_copy(&four)
            }
        }
    }
}
