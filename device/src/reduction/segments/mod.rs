//! The kernel for segments: one result for each of many contiguous segments of the input, of any
//! lengths.
//!
//! The elements and the ends of segments form a path ([`warpfold_abi::segments`]). Each block takes some
//! consecutive *tiles* of it, so all blocks do equal work for any lengths. While a block works on a
//! tile, the next ones are copied to shared memory, from a cache line's boundary on; elements whose size
//! does not divide 16 are read from global memory instead.
//!
//! - In a tile without segment ends, all threads accumulate elements as [`grid`](super::grid()) does.
//! - Otherwise, a bit per element flags the last element of each segment. Each thread walks the same
//!   number of elements, one by one, and stores a segment's result in place of its last element, from
//!   where results are written coalesced. Results larger than elements are written to the output at
//!   once. A scan over the block's threads adds the parts of earlier threads to the first segment that
//!   ends in a thread.
//!
//! Each block publishes its carry, the value of the segment that is open at its end, in cells as in
//! [`partial`](super::partial). The block in which the segment ends combines all carries of the segment.
//! So that these are few, some blocks fold the carries of earlier blocks into their own. Later blocks
//! reuse the cells, which therefore hold the number of the use, the *turn*. A block waits only at its
//! end, and only for earlier blocks, so there is no deadlock.
//!
//! Results are reproducible: the order of combination depends only on offsets, alignment to 16 bytes and
//! launch.
//!
//! Shared memory: [`SegmentsMemory`]. Barriers: 1 in a tile without ends, else 3, and 1 more if results
//! are stored in place; at a block's start 1, at its end 2, and 2 more to combine the carries of many
//! blocks.

mod carry;
mod tile;
mod walk;

use core::arch::asm;

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCut, ReduceSegments},
    reducer::GROUP_BYTES,
    segments::{BLOCK, STAGES, items_per_thread},
};

use super::{CombineOf, VectorReduction, grid::cut};
use crate::{
    Shared, Value, block, copy,
    grid::{launch_dependents, wait_grid_dependencies},
    thread::{block_idx_x, sync_threads, thread_idx_x},
    warp::{self, FULL_WARP, Shuffle},
};
use carry::{divided, first_open, joining, of_blocks, publish_carry};
use tile::{Room, Staged, Tile, items};
use walk::{NONE, Walk};

pub use tile::in_place;

pub(super) use tile::word;

/// Shared memory of [`segments`].
#[derive(Clone, Copy)]
pub struct SegmentsMemory {
    /// [`layout`](warpfold_abi::segments::layout) for elements of the type, at a multiple of 16 bytes.
    pub staged: Shared<u32>,
    /// [`scratch_words`](warpfold_abi::segments::scratch_words) for the block's collectives.
    pub scratch: Shared<u32>,
}

/// Largest number of blocks whose [carries](carry) one thread combines alone.
const FEW_BLOCKS: u32 = 2;

const WARPS: u32 = BLOCK / WARP_SIZE;

/// Reduces segments.
///
/// # Safety
/// The arguments and the launch are as their fields document. The slots are as for
/// [`grid`](super::grid()). Blocks start in the order of their numbers.
#[inline(always)]
pub unsafe fn segments<F: VectorReduction>(
    arguments: ReduceSegments<F::Element>,
    memory: SegmentsMemory,
) {
    launch_dependents();
    // SAFETY: arguments and launch are valid. All threads of a block have the same tiles.
    unsafe {
        block::assume_whole_warps();
        let (mut span, first) = Span::<F>::begin(arguments, memory);
        span.fetch(first, 0);
        let mut ahead = span.look_ahead(first);
        // Publishes the tiles stored by `begin`.
        sync_threads();
        let mut tile = first;
        let (mut turn, mut stage) = (0, 0);
        for ahead in 1..STAGES - 1 {
            span.fetch_if_there(ahead, ahead);
        }
        wait_grid_dependencies();
        loop {
            copy::wait::<{ STAGES - 2 }>();
            // The tile has been copied, and no thread still reads the stage that is overwritten next.
            sync_threads();
            span.fetch_if_there(turn + STAGES - 1, if stage == 0 { STAGES - 1 } else { stage - 1 });
            turn += 1;
            let is_last = turn == span.tiles;
            let next = if is_last { tile } else { span.tile(turn) };
            let next_ahead = span.look_ahead(next);
            let staged = span.staged(tile, stage);
            if tile.ends == 0 {
                span.pass(tile, staged);
            } else {
                span.close(tile, staged, ahead);
            }
            if is_last {
                break;
            }
            (tile, ahead) = (next, next_ahead);
            stage = if stage == STAGES - 1 { 0 } else { stage + 1 };
        }
        span.end(tile.segment + tile.ends);
    }
}

/// Lower halves of the offsets of this thread's first two segment ends in a tile. Not an array, which
/// the compiler would merge into a 64-bit number, and so wait for the loads.
#[derive(Clone, Copy)]
struct Ahead {
    first: u32,
    second: u32,
}

/// A block's part of the [path](warpfold_abi::segments).
struct Span<F: VectorReduction> {
    arguments: ReduceSegments<F::Element>,
    scratch: Shared<u32>,
    room: Room,
    tiles: u32,
    input: *const F::Element,
    /// Index of the element at `input`.
    element: u64,
    segment: u64,
    /// Lower half of the offset at which segment `segment` ends.
    ends: *const u32,
    words: u32,
    /// Lower half of the first element's offset.
    origin: u32,
    /// Number of elements and ends from the block's start on, limited to those that its tiles can reach.
    path: u32,
    /// Numbers of elements before the block's first one (`before`) and from it on (`rest`), clamped as
    /// [`Staged::fetch`] allows.
    before: u32,
    rest: u32,
    /// This thread's part of the open segment, from earlier tiles.
    open: F::Partial,
    is_open: bool,
}

/// Shared memory that a block keeps until its end.
#[derive(Clone, Copy)]
struct Kept(Shared<u32>);

impl Kept {
    #[inline(always)]
    fn behind<P: Value>(scratch: Shared<u32>) -> Self {
        Self(scratch.at(block::scratch_words::<P>() as u32))
    }

    /// Returns the word for the number of earlier blocks with a part of the block's first segment.
    #[inline(always)]
    fn blocks_before(self) -> Shared<u32> {
        self.0
    }

    /// Returns the word for the mask of warps in which a segment ends.
    #[inline(always)]
    fn closing(self) -> Shared<u32> {
        self.0.at(1)
    }

    /// Returns the words for the first segment's value without the parts of earlier blocks.
    #[inline(always)]
    fn value(self) -> Shared<u32> {
        self.0.at(2)
    }
}

impl<F: VectorReduction> Span<F> {
    const ITEMS: u32 = items_per_thread(size_of::<F::Element>() as u32);

    const IN_PLACE: bool = in_place::<F>();

    /// Returns the block's part and its first tile. Stores the other tiles in shared memory, to be read
    /// after a barrier.
    ///
    /// # Safety
    /// Same as [`segments`], called by all threads of the block.
    #[inline(always)]
    unsafe fn begin(arguments: ReduceSegments<F::Element>, memory: SegmentsMemory) -> (Self, Tile) {
        let ReduceSegments { input, n, segments, starts, tiles, per_block, .. } = arguments;
        let ReduceSegments { offsets, offset_words, first: origin, .. } = arguments;
        let (tid, room) = (thread_idx_x(), Room::of::<F>(memory.staged));
        let per_block = per_block as u32;
        let first = block_idx_x() * per_block;
        let tiles = Ord::min(per_block, tiles as u32 - first);
        // SAFETY: `starts` has an entry for each tile and for the end of the last one.
        unsafe {
            let starts = starts.add(first as usize);
            let segment = *starts;
            let next = (*starts.add(1) - segment) as u32;
            let from = u64::from(first) * u64::from(items::<F>());
            let element = from - segment;
            let most = (tiles + 1) * items::<F>();
            let path = Ord::min(segments + n - from, u64::from(most)) as u32;
            let rest = Ord::min(n - element, u64::from(most)) as u32;
            let span = Self {
                arguments,
                scratch: memory.scratch,
                room,
                tiles,
                input: input.wrapping_add(element as usize),
                element,
                segment,
                ends: offsets.wrapping_add(((segment + 1) * offset_words) as usize),
                words: in_register(offset_words as u32),
                origin: (origin + element) as u32,
                path,
                before: Ord::min(element, GROUP_BYTES.into()) as u32,
                rest,
                open: F::IDENTITY,
                is_open: false,
            };
            if tid < tiles {
                let starts = [0, 1].map(|at| (*starts.add((tid + at) as usize) - segment) as u32);
                room.tiles().set(tid, span.tile_of(tid, starts).packed());
            }
            room.clear_flags();
            let tile = span.tile_of(0, [0, next]);
            (span, tile)
        }
    }

    /// Returns the tile that begins in segment `segment`. The next tile begins in segment `next`.
    #[inline(always)]
    fn tile_of(&self, turn: u32, [segment, next]: [u32; 2]) -> Tile {
        let from = turn * items::<F>();
        let items = Ord::min(items::<F>(), self.path - from);
        let ends = next - segment;
        Tile { segment, element: from - segment, len: items - ends, ends }
    }

    /// # Safety
    /// The tile exists, and a barrier follows [`begin`](Self::begin).
    #[inline(always)]
    unsafe fn tile(&self, turn: u32) -> Tile {
        // SAFETY: the tile exists and has been stored before a barrier, as the caller guarantees.
        Tile::unpacked::<F>(unsafe { self.room.tiles().get(turn) }, turn)
    }

    #[inline(always)]
    fn kept(&self) -> Kept {
        Kept::behind::<F::Partial>(self.scratch)
    }

    #[inline(always)]
    fn staged(&self, tile: Tile, stage: u32) -> Staged {
        Staged::of(self.input, tile, self.room.stage(stage))
    }

    /// # Safety
    /// Same as [`segments`], called by all threads of the block, which no longer read the stage.
    #[inline(always)]
    unsafe fn fetch(&self, tile: Tile, stage: u32) {
        // SAFETY: all threads call it, and none still reads the stage, as the caller guarantees.
        unsafe { self.staged(tile, stage).fetch(self.input, tile, [self.before, self.rest]) };
        copy::commit();
    }

    /// Starts to copy tile `turn`, or commits an empty batch if the block has no such tile.
    ///
    /// # Safety
    /// Same as [`fetch`](Self::fetch).
    #[inline(always)]
    unsafe fn fetch_if_there(&self, turn: u32, stage: u32) {
        if turn < self.tiles {
            // SAFETY: the tile exists; no thread still reads the stage, as the caller guarantees.
            unsafe { self.fetch(self.tile(turn), stage) };
        } else {
            copy::commit();
        }
    }

    /// # Safety
    /// Same as [`segments`].
    #[inline(always)]
    unsafe fn look_ahead(&self, tile: Tile) -> Ahead {
        let load = |end: u32| {
            // Loads an offset even if the tile has no such end: a branch would serialise the loads. If
            // no segment ends in the tile, end 0 is after it.
            let end = if end < tile.ends { end } else { 0 };
            // SAFETY: the end exists.
            unsafe { self.end_at(tile, end) }
        };
        Ahead { first: load(thread_idx_x()), second: load(thread_idx_x() + BLOCK) }
    }

    /// # Safety
    /// Same as [`segments`]; segment `number`, counted from the tile's first one, exists.
    #[inline(always)]
    unsafe fn end_at(&self, tile: Tile, number: u32) -> u32 {
        let index = (tile.segment + number) * self.words;
        // SAFETY: the segment exists, as the caller guarantees.
        unsafe { *self.ends.add(index as usize) }
    }

    /// Returns an offset relative to the tile's first element: less than 2^32, so lower halves suffice.
    #[inline(always)]
    fn behind(&self, tile: Tile, offset: u32) -> u32 {
        offset.wrapping_sub(self.origin + tile.element)
    }

    /// # Safety
    /// Same as [`segments`], called by all threads of the block, after the barrier that follows the
    /// copies.
    #[inline(always)]
    unsafe fn pass(&mut self, tile: Tile, staged: Staged) {
        // SAFETY: the copies are complete, as the caller guarantees; the segment of the tile exists.
        unsafe {
            let element = self.element + u64::from(tile.element);
            let index = if F::INDEXED { element - self.begin_of(tile.segment) } else { 0 };
            self.open = F::combine(self.open, staged.value::<F>(index));
        }
        self.is_open = true;
    }

    /// # Safety
    /// Same as [`segments`]; the segment exists.
    #[inline(always)]
    unsafe fn begin_of(&self, segment: u32) -> u64 {
        // SAFETY: the segment exists, as the caller guarantees.
        unsafe { offset(self.arguments, self.segment + u64::from(segment)) }
    }

    /// Reduces a tile in which segments end. `ahead` has this thread's first two of these ends.
    ///
    /// # Safety
    /// Same as [`pass`](Self::pass).
    #[inline(always)]
    unsafe fn close(&mut self, tile: Tile, staged: Staged, ahead: Ahead) {
        let (tid, kept) = (thread_idx_x(), self.kept());
        let (lane, warp) = (tid % WARP_SIZE, tid / WARP_SIZE);
        // SAFETY: the tile has been copied, as the caller guarantees; all threads reach all barriers.
        unsafe {
            self.mark_ends(tile, staged, ahead);
            if self.is_open {
                let open = warp::reduce(self.open, CombineOf::<F>::OP);
                if lane == 0 {
                    self.scratch.set_value(WARPS + warp, open);
                }
            }
            if tid == 0 {
                kept.closing().set(0, 0);
            }
            sync_threads();
            let walk =
                if Self::IN_PLACE { self.walk_in_place(tile, staged) } else { self.walk(tile, staged) };
            let part = self.join_warp(walk);
            sync_threads();
            let closing = kept.closing().get(0);
            self.room.clear_flags();
            self.finish_first(tile, staged, walk, part, closing);
            // The value is part of the open segment if no segment ends in a later thread.
            let others = part.closing >> lane >> 1 | closing >> warp >> 1;
            self.open = if others == 0 { walk.open } else { F::IDENTITY };
            self.is_open = staged.ends::<F::Element>().get_half(tile.ends - 1) < tile.len;
            if Self::IN_PLACE {
                sync_threads();
                self.write_in_place(tile, staged);
            }
        }
    }

    /// Returns the earlier lanes' part of the segment that ends first in this lane, and stores the
    /// warp's part of the segment that is open at the warp's end.
    ///
    /// # Safety
    /// Same as [`close`](Self::close), by all lanes of each warp, before a barrier.
    #[inline(always)]
    unsafe fn join_warp(&self, walk: Walk<F>) -> Part<F> {
        let (lane, warp) = (thread_idx_x() % WARP_SIZE, thread_idx_x() / WARP_SIZE);
        // SAFETY: all lanes take part; each warp has its own value and bit.
        unsafe {
            let closing = warp::warp_vote_ballot(FULL_WARP, walk.first != NONE);
            // First lane whose open value is part of this lane's scan: the last lane up to this one in
            // which a segment ends, or lane 0 if there is none.
            let through = closing & (u32::MAX >> (WARP_SIZE - 1 - lane));
            let from = if through == 0 { 0 } else { WARP_SIZE - 1 - through.leading_zeros() };
            let mut value = walk.open;
            let mut delta = 1;
            while delta < WARP_SIZE {
                let before = value.shuffle_up(FULL_WARP, delta);
                if lane >= from + delta {
                    value = F::combine(before, value);
                }
                delta *= 2;
            }
            let before = value.shuffle_up(FULL_WARP, 1);
            let before = if lane == 0 { F::IDENTITY } else { before };
            if lane == WARP_SIZE - 1 {
                self.scratch.set_value(warp, value);
            }
            if lane == 0 && closing != 0 {
                self.kept().closing().set_bits(0, 1 << warp);
            }
            Part { before, closing }
        }
    }

    /// # Safety
    /// Same as [`close`](Self::close), after the barrier that follows [`join_warp`](Self::join_warp);
    /// `closing` has a bit for each warp in which a segment ends.
    #[inline(always)]
    unsafe fn finish_first(
        &self,
        tile: Tile,
        staged: Staged,
        walk: Walk<F>,
        part: Part<F>,
        closing: u32,
    ) {
        let (tid, places) = (thread_idx_x(), staged.ends::<F::Element>());
        let (lane, mut warp) = (tid % WARP_SIZE, tid / WARP_SIZE);
        let lower = part.closing & !(u32::MAX << lane);
        // SAFETY: the values of earlier warps were stored before the barrier.
        unsafe {
            // True if the segment that ends first has no element in the tile.
            let ended_before = places.get_half(0) == 0;
            if ended_before && tid == 0 {
                self.finish(F::IDENTITY, tile);
            }
            if walk.first == NONE {
                return;
            }
            let slot = staged.place::<F::Element>(walk.first);
            let held = if Self::IN_PLACE { slot.get_value(0) } else { walk.held };
            let mut value = F::combine(part.before, held);
            let is_first = lower == 0 && closing & !(u32::MAX << warp) == 0;
            while lower == 0 && warp > 0 {
                warp -= 1;
                value = F::combine(self.scratch.get_value(warp), value);
                if closing >> warp & 1 != 0 {
                    break;
                }
            }
            if is_first && !ended_before {
                self.finish(value, tile);
            } else if Self::IN_PLACE {
                slot.set_value(0, value);
            } else {
                self.write(value, tile.segment + walk.first);
            }
        }
    }

    /// Finishes the segment that ends first in the tile, with the parts of earlier tiles. The value of
    /// the block's first segment is kept until [`end`](Self::end), because earlier blocks may have parts
    /// of it.
    ///
    /// # Safety
    /// Same as [`finish_first`](Self::finish_first), by one thread of the block.
    #[inline(always)]
    unsafe fn finish(&self, mut value: F::Partial, tile: Tile) {
        // SAFETY: if the segment was open before the tile, the warps have stored their parts.
        unsafe {
            if self.is_open {
                let mut warp = WARPS;
                while warp > 0 {
                    warp -= 1;
                    value = F::combine(self.scratch.get_value(WARPS + warp), value);
                }
            }
            if tile.segment > 0 {
                self.write(value, tile.segment);
            } else {
                self.kept().value().set_value(0, value);
            }
        }
    }

    /// Publishes the value that is open at the block's end, and finishes the block's first segment with
    /// the parts of earlier blocks. `ended` is the number of segments that have ended in the block.
    ///
    /// # Safety
    /// Same as [`segments`], called by all threads of the block.
    #[inline(always)]
    unsafe fn end(self, ended: u32) {
        let Self { arguments, scratch, is_open, .. } = self;
        let (tid, number, kept) = (thread_idx_x(), block_idx_x(), self.kept());
        // SAFETY: all threads of the block call it, and so reach the same barriers.
        unsafe {
            if tid == 0 {
                // Passed through shared memory: the compiler does not know that the value is uniform,
                // and would compute parts of it on either side of a branch.
                kept.blocks_before().set(0, number - self.first_open());
            }
            sync_threads();
            let before = kept.blocks_before().get(0);
            let first = number - before;
            if ended == 0 {
                let every = joining(arguments.ring);
                let mut open = self.open;
                if divided(number, every).1 == every - 1 {
                    open = F::combine(of_blocks::<F>(arguments, first + tid, number, BLOCK), open);
                }
                let whole = block::reduce_in(open, CombineOf::<F>::OP, scratch);
                if tid == 0 {
                    publish_carry::<F>(whole, true, arguments, number);
                }
                return;
            }
            let whole = block::reduce_in(self.open, CombineOf::<F>::OP, scratch);
            if tid == 0 {
                publish_carry::<F>(whole, is_open, arguments, number);
            }
            let theirs = if before > FEW_BLOCKS {
                let mine = of_blocks::<F>(arguments, first + tid, number, BLOCK);
                sync_threads();
                block::reduce_in(mine, CombineOf::<F>::OP, scratch)
            } else if tid == 0 {
                of_blocks::<F>(arguments, first, number, 1)
            } else {
                F::IDENTITY
            };
            if tid == 0 {
                self.write(F::combine(theirs, kept.value().get_value(0)), 0);
            }
        }
    }

    /// Returns the first block that still has a part of the segment in which this block begins.
    ///
    /// # Safety
    /// Same as [`segments`].
    #[inline(always)]
    unsafe fn first_open(&self) -> u32 {
        let ReduceSegments { per_block, ring, .. } = self.arguments;
        // SAFETY: there is one more offset than segments.
        let begin = Ord::min(unsafe { self.begin_of(0) }, self.element);
        let tile = ((begin + self.segment) / u64::from(items::<F>())) as u32;
        first_open(divided(tile, Ord::max(per_block as u32, 1)).0, block_idx_x(), ring)
    }

    /// # Safety
    /// Same as [`segments`]; the value is that of the segment.
    #[inline(always)]
    unsafe fn write(&self, value: F::Partial, segment: u32) {
        let ReduceSegments { input, segments, output, form, ddof, .. } = self.arguments;
        let number = self.segment + u64::from(segment);
        let output = output.wrapping_byte_add((number * F::output_bytes(form)) as usize);
        // SAFETY: both offsets of the segment exist, and the output has room for its result.
        unsafe {
            let (begin, end) = (self.begin_of(segment), self.begin_of(segment + 1));
            let elements = cut(input.wrapping_add(begin as usize), end - begin);
            let of = ReduceCut { output, results: segments, form, ddof, ..elements };
            F::write(value, of);
        }
    }
}

struct Part<F: VectorReduction> {
    /// Earlier lanes' part of the segment that is open at this lane's start.
    before: F::Partial,
    /// A bit for each lane in which a segment ends.
    closing: u32,
}

impl<F: VectorReduction> Clone for Part<F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: VectorReduction> Copy for Part<F> {}

/// Keeps a number in a register, instead of loading it again from the kernel's parameters.
#[inline(always)]
fn in_register(number: u32) -> u32 {
    let kept;
    // SAFETY: the instruction copies a register.
    unsafe {
        asm!("mov.b32 {0}, {1};", out(reg32) kept, in(reg32) number, options(nostack, preserves_flags));
    }
    kept
}

/// Returns offset `index`, relative to the first one.
///
/// # Safety
/// Same as [`segments`]; the offset exists.
#[inline(always)]
unsafe fn offset<T>(arguments: ReduceSegments<T>, index: u64) -> u64 {
    let ReduceSegments { offsets, offset_words, first, .. } = arguments;
    // SAFETY: the offset exists, as the caller guarantees.
    unsafe { read_offset(offsets, offset_words, index) }.wrapping_sub(first)
}

/// Returns offset `index`, of one or two words.
///
/// # Safety
/// The offset is readable, at a multiple of its size.
#[inline(always)]
pub unsafe fn read_offset(offsets: *const u32, words: u64, index: u64) -> u64 {
    // SAFETY: the offset is readable and aligned to its size, as the caller guarantees.
    unsafe {
        if words == 1 {
            (*offsets.add(index as usize)).into()
        } else {
            *offsets.cast::<u64>().add(index as usize)
        }
    }
}
