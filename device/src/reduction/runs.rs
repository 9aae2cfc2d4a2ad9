//! Kernels that find runs: neighbouring keys that are equal.
//!
//! Two launches have the same number of blocks, and a block has the same piece of the keys in both:
//!
//! - [`count_runs`] counts the runs that begin in each block's piece. The last block adds up all counts,
//!   which it takes from the other blocks as in [`grid`](super::grid()).
//! - [`write_runs`] adds up the counts of earlier blocks, which gives the index of a block's first run,
//!   and writes each run's key and the position of its first element. A piece in which no run begins is
//!   not read again.
//!
//! In between, the host allocates memory for the runs: a single launch would need memory for as many
//! runs as keys. No result depends on the order in which blocks run.
//!
//! A thread loads aligned groups of 16 bytes. The key before a group is shuffled from the previous lane;
//! the one before a warp's groups is loaded from memory. The positions of a tile's runs are gathered in
//! shared memory, so that they are written to global memory contiguously.
//!
//! Shared memory: [`RunsMemory`]. Barriers: in [`count_runs`] 1 per block, 3 in the last one; in
//! [`write_runs`] 2 per block, and 3 more per tile.

use core::ops::Range;

use warpfold_abi::{
    arguments::{CountRuns, WriteRuns},
    reducer::{GROUP_BYTES, PRESENT},
    runs::{BLOCK, TILE_KEYS, groups_per_thread, tile_groups},
};

use super::{
    ACCUMULATORS, Vector,
    grid::{each_in_turn, in_turn},
    partial::{Cells, is_present, publish, take},
    segments::word,
};
use crate::{
    SharedArray, block,
    memory::{Streaming, load16_if},
    op::Sum,
    thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x},
    warp::{FULL_WARP, Shuffle, lane_id},
};

/// Shared memory for a block's collectives on 8-byte numbers.
pub type RunsScratch = SharedArray<u32, { block::scratch_words::<u64>() }>;

/// Shared memory of [`write_runs`].
#[derive(Clone, Copy)]
pub struct RunsMemory {
    /// Positions in a tile at which runs begin.
    pub places: SharedArray<u32, { TILE_KEYS as usize }>,
    /// Memory for the block's collectives.
    pub scratch: RunsScratch,
}

/// A key, compared by its bits.
pub trait RunKey: Copy + 'static {
    /// Returns the last two words of a group that ends with this key, with zeros in place of other keys.
    fn at_end(self) -> [u32; 2];
    /// Returns a bit per key, set if it differs from the key before it; `before` are the two words
    /// before the group.
    fn differing(group: Vector, before: [u32; 2]) -> u32;
}

impl RunKey for u8 {
    #[inline(always)]
    fn at_end(self) -> [u32; 2] {
        [0, u32::from(self) << 24]
    }

    #[inline(always)]
    fn differing(group: Vector, [_, before]: [u32; 2]) -> u32 {
        let bits = |word: u32, before: u32| {
            let changed = word ^ (word << 8 | before >> 24);
            // Sets the highest bit of each byte that is not zero.
            let bytes = ((changed & 0x7f7f_7f7f) + 0x7f7f_7f7f | changed) & 0x8080_8080;
            // Gathers these four bits at the top: the four shifted copies do not overlap.
            (bytes >> 7).wrapping_mul(0x1020_4080) >> 28
        };
        let [a, b, c, d] = group;
        bits(a, before) | bits(b, a) << 4 | bits(c, b) << 8 | bits(d, c) << 12
    }
}

impl RunKey for u16 {
    #[inline(always)]
    fn at_end(self) -> [u32; 2] {
        [0, u32::from(self) << 16]
    }

    #[inline(always)]
    fn differing(group: Vector, [_, before]: [u32; 2]) -> u32 {
        let bits = |word: u32, before: u32| {
            let changed = word ^ (word << 16 | before >> 16);
            u32::from(changed as u16 != 0) | u32::from(changed >> 16 != 0) << 1
        };
        let [a, b, c, d] = group;
        bits(a, before) | bits(b, a) << 2 | bits(c, b) << 4 | bits(d, c) << 6
    }
}

impl RunKey for u32 {
    #[inline(always)]
    fn at_end(self) -> [u32; 2] {
        [0, self]
    }

    #[inline(always)]
    fn differing([a, b, c, d]: Vector, [_, before]: [u32; 2]) -> u32 {
        let bit = |differs: bool, at: u32| u32::from(differs) << at;
        bit(a != before, 0) | bit(b != a, 1) | bit(c != b, 2) | bit(d != c, 3)
    }
}

impl RunKey for u64 {
    #[inline(always)]
    fn at_end(self) -> [u32; 2] {
        [self as u32, (self >> 32) as u32]
    }

    #[inline(always)]
    fn differing([a, b, c, d]: Vector, [low, high]: [u32; 2]) -> u32 {
        let differs = |a: [u32; 2], b: [u32; 2]| u32::from((a[0] ^ b[0]) | (a[1] ^ b[1]) != 0);
        differs([a, b], [low, high]) | differs([c, d], [a, b]) << 1
    }
}

/// Counts the runs that begin in each block's piece.
///
/// # Safety
/// The arguments are as their fields document. The slots are as for [`grid`](super::grid()). Blocks have
/// [`BLOCK`] threads, and start in the order of their numbers.
#[inline(always)]
pub unsafe fn count_runs<K: RunKey>(arguments: CountRuns<K>, scratch: RunsScratch) {
    let CountRuns { keys, n, counts, slots, output } = arguments;
    let (block, last) = (block_idx_x(), grid_dim_x() - 1);
    // SAFETY: keys are readable, and a block's threads have the same tiles. Each block but the last
    // fills its cells once; the last one, for which the others do not wait, takes each once.
    unsafe {
        block::assume_whole_warps();
        let keys = Keys { keys, n };
        let Range { start: mut tile, end } = keys.piece();
        let mut count = 0;
        while tile < end {
            count += u64::from(Heads::of(keys, keys.tile(tile)).count());
            tile += 1;
        }
        let mut count = block::reduce(count, Sum, scratch);
        if thread_idx_x() == 0 {
            *counts.add(block as usize) = count;
        } else {
            count = 0;
        }
        if block < last {
            if thread_idx_x() == 0 {
                publish(count, Cells::of::<u64>(slots, block), PRESENT);
            }
            return;
        }
        let mut other = thread_idx_x();
        while other < last {
            count += take::<u64>(Cells::of::<u64>(slots, other), is_present, 0);
            other += BLOCK;
        }
        sync_threads();
        let count = block::reduce(count, Sum, scratch);
        if thread_idx_x() == 0 {
            *output = count;
        }
    }
}

/// Writes the runs that begin in each block's piece of the keys, after the runs of the blocks before it.
///
/// # Safety
/// The arguments are as their fields document; grid and blocks are those of [`count_runs`].
#[inline(always)]
pub unsafe fn write_runs<K: RunKey>(arguments: WriteRuns<K>, memory: RunsMemory) {
    let WriteRuns { keys, n, counts, .. } = arguments;
    let RunsMemory { places, scratch } = memory;
    let keys = Keys { keys, n };
    // SAFETY: keys and counts are readable. Tiles and counts are uniform in a block, so all its threads
    // reach the same barriers, which separate the uses of shared memory.
    unsafe {
        block::assume_whole_warps();
        let mut before = 0;
        let mut other = thread_idx_x();
        while other < block_idx_x() {
            before += *counts.add(other as usize);
            other += BLOCK;
        }
        let mut written = block::all_reduce(before, Sum, scratch);
        sync_threads();
        // The keys after the start of the piece's last run need not be read.
        let mut left = *counts.add(block_idx_x() as usize);
        let Range { start: mut number, end } = keys.piece();
        while number < end && left > 0 {
            let tile = keys.tile(number);
            let heads = Heads::of(keys, tile);
            let (before, whole) = block::exclusive_scan(heads.packed(), Sum, scratch);
            heads.gather::<K>(before, whole, places);
            sync_threads();
            let count = all(whole);
            let mut at = thread_idx_x();
            while at < count {
                write_four(arguments, tile.first, [at, count], written, places);
                at += ACCUMULATORS as u32 * BLOCK;
            }
            written += u64::from(count);
            left = left.saturating_sub(count.into());
            number += 1;
        }
        if thread_idx_x() == 0 && block_idx_x() == grid_dim_x() - 1 {
            write_offset(arguments, written, n);
        }
    }
}

/// Writes up to four of a tile's runs, from `at` on, [`BLOCK`] apart; loads all keys before it writes
/// any. The tile begins at key `first` and has `count` runs; `written` runs precede them.
///
/// # Safety
/// Same as [`write_runs`], after the barrier that follows [`Heads::gather`].
#[inline(always)]
unsafe fn write_four<K: RunKey>(
    arguments: WriteRuns<K>,
    first: u64,
    [at, count]: [u32; 2],
    written: u64,
    places: SharedArray<u32, { TILE_KEYS as usize }>,
) {
    let WriteRuns { keys, heads, .. } = arguments;
    let loaded: [(u64, K); ACCUMULATORS] = core::array::from_fn(|k| {
        // Loads a key even if there is no such run: a branch would serialise the loads.
        let run = Ord::min(at + k as u32 * BLOCK, count - 1);
        // SAFETY: the run's place is that of a key.
        unsafe {
            let element = first.wrapping_add(places.get(run).into());
            (element, *keys.add(element as usize))
        }
    });
    in_turn(loaded, |k, (element, key)| {
        let run = at + k as u32 * BLOCK;
        if run < count {
            let run = written + u64::from(run);
            // SAFETY: the outputs have room for each run, as the caller guarantees.
            unsafe {
                *heads.add(run as usize) = key;
                write_offset(arguments, run, element);
            }
        }
    });
}

/// # Safety
/// Same as [`write_runs`]; the offset exists.
#[inline(always)]
unsafe fn write_offset<K>(arguments: WriteRuns<K>, at: u64, offset: u64) {
    let WriteRuns { offsets, offset_words, .. } = arguments;
    // SAFETY: the output has room for this offset, as the caller guarantees.
    unsafe {
        if offset_words == 1 {
            *offsets.add(at as usize) = offset as u32;
        } else {
            *offsets.cast::<u64>().add(at as usize) = offset;
        }
    }
}

#[derive(Clone, Copy)]
struct Keys<K> {
    keys: *const K,
    n: u64,
}

/// Consecutive groups. A *place* is an index of a key relative to the start of the first group, which
/// may be before the first key.
#[derive(Clone, Copy)]
struct Tile {
    groups: *const u32,
    begin: u32,
    end: u32,
    /// Index of the key at place 0; wrapped around if that is before the first key.
    first: u64,
}

impl<K: RunKey> Keys<K> {
    const LANES: u32 = GROUP_BYTES / size_of::<K>() as u32;
    const TILE: u32 = tile_groups(size_of::<K>() as u32);

    /// Returns the number of places before the first key in its group.
    #[inline(always)]
    fn skew(self) -> u32 {
        self.keys.addr() as u32 % GROUP_BYTES / size_of::<K>() as u32
    }

    #[inline(always)]
    fn piece(self) -> Range<u64> {
        let places = self.n + u64::from(self.skew());
        let tiles = places.div_ceil(u64::from(Self::LANES * Self::TILE));
        // Not 0, but the compiler does not know that.
        let blocks = Ord::max(u64::from(grid_dim_x()), 1);
        let from = |block: u32| tiles * u64::from(block) / blocks;
        from(block_idx_x())..from(block_idx_x() + 1)
    }

    #[inline(always)]
    fn tile(self, number: u64) -> Tile {
        let (skew, places) = (self.skew(), u64::from(Self::LANES * Self::TILE));
        let before = number * places;
        let base = self.keys.wrapping_sub(skew as usize).cast::<u32>();
        Tile {
            groups: base.wrapping_byte_add(before as usize * size_of::<K>()),
            begin: if number == 0 { skew } else { 0 },
            end: Ord::min(self.n + u64::from(skew) - before, places) as u32,
            first: before.wrapping_sub(skew.into()),
        }
    }
}

/// A mask for each of a thread's groups in a tile, with a bit for each key that begins a run.
#[derive(Clone, Copy)]
struct Heads([u32; ACCUMULATORS]);

#[inline(always)]
fn zip<A, B>(
    [a, b, c, d]: [A; ACCUMULATORS],
    [e, f, g, h]: [B; ACCUMULATORS],
) -> [(A, B); ACCUMULATORS] {
    [(a, e), (b, f), (c, g), (d, h)]
}

#[inline(always)]
fn group_of(k: usize) -> u32 {
    thread_idx_x() + k as u32 * BLOCK
}

#[inline(always)]
fn all(packed: u64) -> u32 {
    nth(packed, 0) + nth(packed, 1) + nth(packed, 2) + nth(packed, 3)
}

#[inline(always)]
fn nth(packed: u64, k: usize) -> u32 {
    (packed >> (16 * k)) as u32 & 0xffff
}

impl Heads {
    /// # Safety
    /// The keys are readable; called by all threads of the block, with an existing tile.
    #[inline(always)]
    unsafe fn of<K: RunKey>(keys: Keys<K>, tile: Tile) -> Self {
        let Tile { groups, begin, end, first } = tile;
        let (lanes, bytes) = (Keys::<K>::LANES, size_of::<K>() as u32);
        let has = |k: usize| k < groups_per_thread(bytes) as usize && group_of(k) * lanes < end;
        let is_whole = |k: usize| {
            let place = group_of(k) * lanes;
            has(k) && place >= begin && place + lanes <= end
        };
        let loaded: [Vector; ACCUMULATORS] = core::array::from_fn(|k| {
            // SAFETY: a group that consists of keys is readable, and begins at a multiple of 16.
            unsafe { load16_if::<Streaming>(groups.wrapping_add(group_of(k) as usize * 4), is_whole(k)) }
        });
        // All lanes load the key before the warp's keys, so that there is no branch, and these loads are
        // in flight with the others.
        let before_warp: [K; ACCUMULATORS] = core::array::from_fn(|k| {
            let place = (group_of(k) - lane_id()) * lanes;
            let before = first.wrapping_add(place.into()).wrapping_sub(1);
            let wanted = k < groups_per_thread(bytes) as usize && place < end && before < keys.n;
            let at = if wanted { before } else { 0 };
            // SAFETY: the key exists, because there is at least one key.
            unsafe { *keys.keys.add(at as usize) }
        });
        let loaded = zip(loaded, before_warp);
        Self(each_in_turn(loaded, |k, (group, before_warp)| {
            let place = group_of(k) * lanes;
            let number = first.wrapping_add(place.into());
            let mut group = group;
            if has(k) && !is_whole(k) {
                let readable = begin * bytes..end * bytes;
                // SAFETY: the bytes in `readable` are keys.
                let part = |at: u32| unsafe { word(groups, place * bytes / 4 + at, readable.clone()) };
                group = [part(0), part(1), part(2), part(3)];
            }
            // SAFETY: all lanes of the warp reach this.
            let mut before = unsafe { [group[2], group[3]].shuffle_up(FULL_WARP, 1) };
            let has_before = has(k) && number.cast_signed() > 0;
            if lane_id() == 0 {
                before = before_warp.at_end();
            }
            if !has(k) {
                return 0;
            }
            // The first of all keys begins a run; places past the last key do not.
            let first_bit = if has_before { 0 } else { 1 << begin };
            let last = Ord::min(end - place, lanes);
            let none_before = if has_before { 0 } else { first_bit - 1 };
            (K::differing(group, before) | first_bit) & ((1 << last) - 1) & !none_before
        }))
    }

    #[inline(always)]
    fn count(self) -> u32 {
        let mut count = 0;
        in_turn(self.0, |_, heads| count += heads.count_ones());
        count
    }

    /// Packs the counts of the four groups into 16 bits each, which have room for all runs of a tile.
    #[inline(always)]
    fn packed(self) -> u64 {
        let mut packed = 0;
        in_turn(self.0, |k, heads| packed |= u64::from(heads.count_ones()) << (16 * k));
        packed
    }

    /// # Safety
    /// Called by all threads of the block after all reads of `places`, with the packed counts of earlier
    /// threads (`before`) and of all threads (`whole`).
    #[inline(always)]
    unsafe fn gather<K: RunKey>(
        self,
        before: u64,
        whole: u64,
        places: SharedArray<u32, { TILE_KEYS as usize }>,
    ) {
        let mut behind = 0;
        in_turn(self.0, |k, heads| {
            let (mut heads, mut at) = (heads, behind + nth(before, k));
            while heads != 0 {
                let place = group_of(k) * Keys::<K>::LANES + heads.trailing_zeros();
                // SAFETY: there is room for a run per key of a tile, and each run has its own index.
                unsafe { places.set(at, place) };
                heads &= heads - 1;
                at += 1;
            }
            behind += nth(whole, k);
        });
    }
}
