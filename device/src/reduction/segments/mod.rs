//! The kernel for segments: a result for each of many pieces of the input, whose lengths differ.
//!
//! Each block has some *tiles* of the path that elements and ends of segments make
//! ([`warpfold_abi::segments`]), one after the other, and so as much work as any other, whatever the
//! lengths are. While it works on one, the elements of the next ones are on their way to shared memory,
//! from a boundary of a line of the cache on, unless they have a size that does not divide 16: those are
//! read where they are. What it does with a tile depends on that alone:
//!
//! - No segment ends in it: all threads reduce its elements as [`grid`](super::grid()) does, and keep
//!   what they have.
//! - Segments end in it: a bit for each element says whether it is a segment's last one. Each thread
//!   walks as many elements as any other, one by one, and leaves what ends there in the place of its
//!   last element, from where results are written side by side; or, where they are larger than elements,
//!   writes them at once. What ends first in a thread was begun by threads before it: a scan over the
//!   block's threads finds their part.
//!
//! A segment that began in blocks before is joined by the block in which it ends, or, where it goes on
//! for very many blocks, by every so manieth block for those before: each block publishes the value of
//! what is open at its end, in cells as in [`partial`](super::partial). Cells are used again by later
//! blocks, so that they say whose turn it is. A block waits only for blocks before it, and at its own
//! end, so that those are at their ends, too.
//!
//! Every value is combined in a place that the offsets, the distance of the first element from a 16-byte
//! boundary and the launch decide: reproducible.
//!
//! Shared memory: [`SegmentsMemory`].
//! Barriers: 1 in a tile without ends, else 3, and 1 more where results have the place of elements; at a
//! block's start 1, at its end 2, and 2 more where a segment comes from many blocks.

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

use super::{CombineOf, VectorReduction, grid::cut, traits::output_bytes};
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

/// Shared memory of the kernel.
#[derive(Clone, Copy)]
pub struct SegmentsMemory {
    /// What [`layout`](warpfold_abi::segments::layout) says for elements of the type, from a multiple of
    /// 16 bytes on.
    pub staged: Shared<u32>,
    /// [`scratch_words`](warpfold_abi::segments::scratch_words) for the block's collectives.
    pub scratch: Shared<u32>,
}

/// Blocks whose values the thread that closes a segment takes alone.
const FEW_BLOCKS: u32 = 2;

/// Warps of a block.
const WARPS: u32 = BLOCK / WARP_SIZE;

/// # Safety
/// The arguments are what their fields say, and the launch is. The slots are zero when the launches
/// before this one in the stream are over, and no other stream uses them. Blocks start in the order of
/// their numbers.
#[inline(always)]
pub unsafe fn segments<F: VectorReduction>(
    arguments: ReduceSegments<F::Element>,
    memory: SegmentsMemory,
) {
    launch_dependents();
    // SAFETY: the caller's contract. How many tiles a block has, and whether segments end in one, is the
    // same for all its threads.
    unsafe {
        block::assume_whole_warps();
        let (mut span, first) = Span::<F>::begin(arguments, memory);
        span.fetch(first, 0);
        let mut ahead = span.look_ahead(first);
        // What the tiles are is there.
        sync_threads();
        let mut tile = first;
        let (mut turn, mut stage) = (0, 0);
        for ahead in 1..STAGES - 1 {
            span.fetch_if_there(ahead, ahead);
        }
        wait_grid_dependencies();
        loop {
            copy::wait::<{ STAGES - 2 }>();
            // The tile is there, and everybody has left the one before, to whose place another comes.
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

/// The lower halves of the offsets where this thread's first segments of a tile end. Two numbers with
/// names: of an array the compiler would make one number of 64 bits, and wait for what is loaded.
#[derive(Clone, Copy)]
struct Ahead {
    first: u32,
    second: u32,
}

/// A block's part of the path, and how far it has come.
struct Span<F: VectorReduction> {
    arguments: ReduceSegments<F::Element>,
    scratch: Shared<u32>,
    room: Room,
    /// How many tiles it has.
    tiles: u32,
    /// The first element of the block.
    input: *const F::Element,
    /// The number of that.
    element: u64,
    /// The first segment of the block.
    segment: u64,
    /// Where that ends: the lower half of an offset.
    ends: *const u32,
    /// Words of an offset.
    words: u32,
    /// The lower half of the offset of the first element.
    origin: u32,
    /// Elements and ends from there on, or as many as a block has tiles for.
    path: u32,
    /// Elements before its first one, and from there on, as far as [`Staged::fetch`] wants to know.
    before: u32,
    rest: u32,
    /// What this thread has of the segment that is open, from tiles before.
    open: F::Partial,
    /// Whether any thread has something of it.
    is_open: bool,
}

/// What a block keeps until its end, by the place where it is.
#[derive(Clone, Copy)]
struct Kept(Shared<u32>);

impl Kept {
    /// Behind what the collectives on values of a type work in.
    #[inline(always)]
    fn behind<P: Value>(scratch: Shared<u32>) -> Self {
        Self(scratch.at(block::scratch_words::<P>() as u32))
    }

    /// How many blocks before have a part of the segment in which the block begins.
    #[inline(always)]
    fn blocks_before(self) -> Shared<u32> {
        self.0
    }

    /// A bit for each warp in which a segment has ended.
    #[inline(always)]
    fn closing(self) -> Shared<u32> {
        self.0.at(1)
    }

    /// The value of that segment, without what blocks before have of it.
    #[inline(always)]
    fn value(self) -> Shared<u32> {
        self.0.at(2)
    }
}

impl<F: VectorReduction> Span<F> {
    /// Elements and ends of a thread.
    const ITEMS: u32 = items_per_thread(size_of::<F::Element>() as u32);

    /// Whether a partial result has room in the place of an element.
    const IN_PLACE: bool = in_place::<F>();

    /// The part, and its first tile. The others, and the rest of shared memory, are there behind a
    /// barrier.
    ///
    /// # Safety
    /// As [`segments`], called by all threads of the block.
    #[inline(always)]
    unsafe fn begin(arguments: ReduceSegments<F::Element>, memory: SegmentsMemory) -> (Self, Tile) {
        let ReduceSegments { input, n, segments, starts, tiles, per_block, .. } = arguments;
        let ReduceSegments { offsets, offset_words, first: origin, .. } = arguments;
        let (tid, room) = (thread_idx_x(), Room::of::<F>(memory.staged));
        let per_block = per_block as u32;
        let first = block_idx_x() * per_block;
        let tiles = Ord::min(per_block, tiles as u32 - first);
        // SAFETY: there is a number for each tile and for the end of the last one.
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

    /// A tile in which these segments begin it and the next one.
    #[inline(always)]
    fn tile_of(&self, turn: u32, [segment, next]: [u32; 2]) -> Tile {
        let from = turn * items::<F>();
        let items = Ord::min(items::<F>(), self.path - from);
        let ends = next - segment;
        Tile { segment, element: from - segment, len: items - ends, ends }
    }

    /// A tile of the block.
    ///
    /// # Safety
    /// There is one; a barrier lies behind [`begin`](Self::begin).
    #[inline(always)]
    unsafe fn tile(&self, turn: u32) -> Tile {
        // SAFETY: the caller's contract.
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

    /// Starts to bring a tile, as a batch of copies.
    ///
    /// # Safety
    /// As [`segments`], called by all threads of the block, which have left the tile that was there.
    #[inline(always)]
    unsafe fn fetch(&self, tile: Tile, stage: u32) {
        // SAFETY: the caller's contract.
        unsafe { self.staged(tile, stage).fetch(self.input, tile, [self.before, self.rest]) };
        copy::commit();
    }

    /// The same, of a tile that is looked up; a batch of none where the block has no more.
    ///
    /// # Safety
    /// As [`fetch`](Self::fetch).
    #[inline(always)]
    unsafe fn fetch_if_there(&self, turn: u32, stage: u32) {
        if turn < self.tiles {
            // SAFETY: the caller's contract.
            unsafe { self.fetch(self.tile(turn), stage) };
        } else {
            copy::commit();
        }
    }

    /// Loads where this thread's first segments of a tile end.
    ///
    /// # Safety
    /// As [`segments`].
    #[inline(always)]
    unsafe fn look_ahead(&self, tile: Tile) -> Ahead {
        let load = |end: u32| {
            // One or another, so that there is no branch, and nothing waits for what is loaded. If none
            // ends in the tile, one goes on behind it.
            let end = if end < tile.ends { end } else { 0 };
            // SAFETY: there is such an end.
            unsafe { self.end_at(tile, end) }
        };
        Ahead { first: load(thread_idx_x()), second: load(thread_idx_x() + BLOCK) }
    }

    /// The lower half of the offset where a tile's segment ends.
    ///
    /// # Safety
    /// As [`segments`]; it ends in the tile.
    #[inline(always)]
    unsafe fn end_at(&self, tile: Tile, number: u32) -> u32 {
        let index = (tile.segment + number) * self.words;
        // SAFETY: the caller's contract.
        unsafe { *self.ends.add(index as usize) }
    }

    /// Where such an offset is, behind the tile's first element. The lower half is enough: the
    /// difference is small.
    #[inline(always)]
    fn behind(&self, tile: Tile, offset: u32) -> u32 {
        offset.wrapping_sub(self.origin + tile.element)
    }

    /// Takes a tile without an end.
    ///
    /// # Safety
    /// As [`segments`], called by all threads of the block, behind the barrier after the tile's copies.
    #[inline(always)]
    unsafe fn pass(&mut self, tile: Tile, staged: Staged) {
        // SAFETY: the caller's contract.
        unsafe {
            let element = self.element + u64::from(tile.element);
            let index = if F::INDEXED { element - self.begin_of(tile.segment) } else { 0 };
            self.open = F::combine(self.open, staged.value::<F>(index));
        }
        self.is_open = true;
    }

    /// Where a segment of the block begins.
    ///
    /// # Safety
    /// As [`segments`]; there is one.
    #[inline(always)]
    unsafe fn begin_of(&self, segment: u32) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { offset(self.arguments, self.segment + u64::from(segment)) }
    }

    /// Takes a tile with ends, of which `ahead` is this thread's first.
    ///
    /// # Safety
    /// As [`pass`](Self::pass).
    #[inline(always)]
    unsafe fn close(&mut self, tile: Tile, staged: Staged, ahead: Ahead) {
        let (tid, kept) = (thread_idx_x(), self.kept());
        let (lane, warp) = (tid % WARP_SIZE, tid / WARP_SIZE);
        // SAFETY: the caller's contract; all threads come to all barriers.
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
            // What a thread has behind the last end of all is open.
            let others = part.closing >> lane >> 1 | closing >> warp >> 1;
            self.open = if others == 0 { walk.open } else { F::IDENTITY };
            self.is_open = staged.ends::<F::Element>().get_half(tile.ends - 1) < tile.len;
            if Self::IN_PLACE {
                sync_threads();
                self.write_in_place(tile, staged);
            }
        }
    }

    /// What the lanes before have of the segment that ends first in this one, as far as they are in the
    /// warp; and leaves what the warp has of the segment that is open at its end.
    ///
    /// # Safety
    /// As [`close`](Self::close), by all lanes of each warp, before a barrier.
    #[inline(always)]
    unsafe fn join_warp(&self, walk: Walk<F>) -> Part<F> {
        let (lane, warp) = (thread_idx_x() % WARP_SIZE, thread_idx_x() / WARP_SIZE);
        // SAFETY: all lanes come here; each warp has a value and a bit of its own.
        unsafe {
            let closing = warp::warp_vote_ballot(FULL_WARP, walk.first != NONE);
            // The lane from which on values go on to this one: the last that closes, or the first of
            // all.
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

    /// Finishes the segment that ends first in each thread.
    ///
    /// # Safety
    /// As [`close`](Self::close), behind the barrier after [`join_warp`](Self::join_warp); `closing` has
    /// a bit for each warp in which a segment ends.
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
        // SAFETY: the values of warps before are there.
        unsafe {
            // No element of the first segment is in the tile.
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

    /// Finishes the segment that ends first in the tile, to whose value that of tiles before comes.
    /// Blocks before may have a part of the block's first one, whose value is kept for them.
    ///
    /// # Safety
    /// As [`finish_first`](Self::finish_first), by one thread of the block.
    #[inline(always)]
    unsafe fn finish(&self, mut value: F::Partial, tile: Tile) {
        // SAFETY: the warps have left what they have, if they have something.
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

    /// Hands on what is open at the block's end, and finishes what blocks before have begun. In this
    /// block, `ended` segments have ended.
    ///
    /// # Safety
    /// As [`segments`], called by all threads of the block.
    #[inline(always)]
    unsafe fn end(self, ended: u32) {
        let Self { arguments, scratch, is_open, .. } = self;
        let (tid, number, kept) = (thread_idx_x(), block_idx_x(), self.kept());
        // SAFETY: the caller's contract; all threads take one way.
        unsafe {
            if tid == 0 {
                // Through memory, because the compiler would compute parts of it on either side of a
                // branch, and not know that all threads have the same.
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

    /// The first block that has a part of the segment in which this one begins, and has not handed it to
    /// another.
    ///
    /// # Safety
    /// As [`segments`].
    #[inline(always)]
    unsafe fn first_open(&self) -> u32 {
        let ReduceSegments { per_block, ring, .. } = self.arguments;
        // SAFETY: before the last end there is a segment.
        let begin = Ord::min(unsafe { self.begin_of(0) }, self.element);
        let tile = ((begin + self.segment) / u64::from(items::<F>())) as u32;
        first_open(divided(tile, Ord::max(per_block as u32, 1)).0, block_idx_x(), ring)
    }

    /// Writes the result of a segment of the block.
    ///
    /// # Safety
    /// As [`segments`]; the value is that of the segment.
    #[inline(always)]
    unsafe fn write(&self, value: F::Partial, segment: u32) {
        let ReduceSegments { input, output, .. } = self.arguments;
        let number = self.segment + u64::from(segment);
        let output = output.wrapping_byte_add((number * output_bytes::<F>()) as usize);
        // SAFETY: there is a result for each segment; the caller's contract.
        unsafe {
            let (begin, end) = (self.begin_of(segment), self.begin_of(segment + 1));
            let of = ReduceCut { output, ..cut(input.wrapping_add(begin as usize), end - begin) };
            F::write(value, of);
        }
    }
}

/// What its warp does.
struct Part<F: VectorReduction> {
    /// What lanes before have of the segment that is open where this one begins.
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

/// The same number, which the compiler does not load again from the kernel's parameters.
#[inline(always)]
fn in_register(number: u32) -> u32 {
    let kept;
    // SAFETY: copies a register.
    unsafe {
        asm!("mov.b32 {0}, {1};", out(reg32) kept, in(reg32) number, options(nostack, preserves_flags));
    }
    kept
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
