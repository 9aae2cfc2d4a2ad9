//! Kernels for the first k elements in an order, with indices, for any k: of a buffer or of each row of
//! a matrix. They are compiled for each size of elements; the [keys](warpfold_abi::top) by which
//! elements are compared are computed from parameters.
//!
//! [`select`] has a block per row, or, for few rows, several that wait for each other (a cooperative
//! launch):
//!
//! - Radix selection: a pass counts, in shared memory, how many elements have each value of a
//!   [digit](digits), and so finds the digit of the k-th element. Later passes count only elements that
//!   agree with it in all earlier digits. The digits are those of the key, and then, if more elements
//!   with the k-th key exist than are needed, those of the index. The passes end as soon as all
//!   remaining elements are needed. Several blocks add up their counters in device memory.
//! - A last pass gathers the elements up to the k-th one.
//! - A row that is much longer than k is not read several times: the same selection on a sample of the
//!   row gives a bound that probably precedes a few more than k elements. One pass gathers these as
//!   *candidates*, among which the k elements are selected. If there are too few or too many candidates,
//!   which the number that was gathered shows, the selection takes the whole row after all.
//! - The same launch sorts up to some thousand results: a block by a bitonic sort in shared memory, and
//!   several blocks by counting, for each result, those that precede it.
//!
//! [`sort`] and [`merge`] sort more than that in device memory (bitonic sort). A comparison of a result
//! with one past the end of the row is left out, which is right because each step of this form of the
//! sort leaves the first of two results at the lower index.
//!
//! Keys and indices together have a total order, so the results do not depend on the launch.
//!
//! Shared memory: [`SelectMemory`]. Barriers: 4 per pass, 3 more if several blocks share the row, and 1
//! per step or two steps of the bitonic sort.

use core::{
    arch::asm,
    ops::{Add, BitAnd, BitOr, BitXor, Shl, Shr},
};

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCut, SelectTop, SortTop},
    reducer::OUTPUT_BYTES,
    top::{NARROW_BLOCK, RINGS, SELECT_BLOCK, SELECT_BYTES, SELECT_WORDS, STAGED, digits},
};

use super::{
    ACCUMULATORS, NOWHERE, Team, TopKey, Vector,
    finish::of_single,
    grid::{cut, each_in_turn, in_turn},
    lanes,
    top::{load, nth, turned},
};
use crate::{
    Shared, SharedArray,
    atomic::{AcqRel, Atomic, Device, Relaxed, fetch_inc, load_acquire, load_relaxed, store_relaxed},
    block,
    op::Sum,
    thread::{Few, block_dim_x, block_idx_x, grid_dim_x, sync_threads, sync_threads_or, thread_idx_x},
    warp::{self, FULL_WARP, Shuffle, lane_id, sync_warp, warp_vote_any, warp_vote_ballot},
};

/// An unsigned integer as a key.
pub trait SelectKey:
    TopKey
    + Add<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// Bits of a key.
    const BITS: u32;
    /// Returns the lower bits of a word.
    fn of_word(word: u64) -> Self;
    /// Returns the key as the lower bits of a word.
    fn to_word(self) -> u64;
    /// Returns the difference, wrapped around.
    fn minus(self, other: Self) -> Self;
    /// Returns all ones if the top bit is set, otherwise zero.
    fn top_bit_mask(self) -> Self;
}

macro_rules! keys {
    ($($key:ty as $signed:ty;)*) => {$(
        impl SelectKey for $key {
            const BITS: u32 = <$key>::BITS;

            #[inline(always)]
            fn of_word(word: u64) -> Self {
                word as Self
            }

            #[inline(always)]
            fn to_word(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn top_bit_mask(self) -> Self {
                (self as $signed >> (Self::BITS - 1)) as Self
            }
        }
    )*};
}

keys! {
    u32 as i32;
    u64 as i64;
}

/// Elements as plain bits.
pub trait TopBits: Copy + 'static {
    /// The type of the keys.
    type Key: SelectKey;
    /// Bits of an element.
    const BITS: u32 = 8 * size_of::<Self>() as u32;
    /// Bits of a key below those of an element.
    const BELOW: u32 = Self::Key::BITS - Self::BITS;
    /// Returns the bits at the top of a key.
    fn at_top(self) -> Self::Key;
    /// Passes each element of a group, at the top of a key, to `take`, with its lane.
    fn each(group: Vector, take: impl FnMut(u32, Self::Key));
}

impl TopBits for u8 {
    type Key = u32;

    #[inline(always)]
    fn at_top(self) -> u32 {
        u32::from(self) << 24
    }

    #[inline(always)]
    fn each(group: Vector, mut take: impl FnMut(u32, u32)) {
        u32::each(group, |lane, word| {
            take(4 * lane, word << 24);
            take(4 * lane + 1, (word & 0xff00) << 16);
            take(4 * lane + 2, (word & 0xff_0000) << 8);
            take(4 * lane + 3, word & 0xff00_0000);
        });
    }
}

impl TopBits for u16 {
    type Key = u32;

    #[inline(always)]
    fn at_top(self) -> u32 {
        u32::from(self) << 16
    }

    #[inline(always)]
    fn each(group: Vector, mut take: impl FnMut(u32, u32)) {
        u32::each(group, |lane, word| {
            take(2 * lane, word << 16);
            take(2 * lane + 1, word & 0xffff_0000);
        });
    }
}

impl TopBits for u32 {
    type Key = u32;

    #[inline(always)]
    fn at_top(self) -> u32 {
        self
    }

    #[inline(always)]
    fn each([a, b, c, d]: Vector, mut take: impl FnMut(u32, u32)) {
        take(0, a);
        take(1, b);
        take(2, c);
        take(3, d);
    }
}

impl TopBits for u64 {
    type Key = u64;

    #[inline(always)]
    fn at_top(self) -> u64 {
        self
    }

    #[inline(always)]
    fn each([a, b, c, d]: Vector, mut take: impl FnMut(u32, u64)) {
        take(0, u64::from(b) << 32 | u64::from(a));
        take(1, u64::from(d) << 32 | u64::from(c));
    }
}

/// The order of the elements: [`KeyOrder`](warpfold_abi::top::KeyOrder) in the words of a key.
#[derive(Clone, Copy)]
struct Order<K> {
    fold: K,
    toggle: K,
    lowest: K,
    nan: K,
    zero: K,
    unit: K,
}

impl<K: SelectKey> Order<K> {
    #[inline(always)]
    fn of([fold, toggle, lowest, nan, zero, unit]: [u64; 6]) -> Self {
        Self {
            fold: K::of_word(fold),
            toggle: K::of_word(toggle),
            lowest: K::of_word(lowest),
            nan: K::of_word(nan),
            zero: K::of_word(zero),
            unit: K::of_word(unit),
        }
    }

    /// Returns the key of an element, whose bits are at the top, but with a different one for each NaN
    /// and for each zero.
    #[inline(always)]
    fn place(self, bits: K) -> K {
        (bits ^ (bits.top_bit_mask() & self.fold) ^ self.toggle).minus(self.lowest)
    }

    /// Returns the key of an element, whose bits are at the top.
    #[inline(always)]
    fn key(self, bits: K) -> K {
        let key = Ord::min(self.place(bits), self.nan);
        if key == self.zero { key + self.unit } else { key }
    }

    /// Returns the lowest [`place`](Self::place) of elements that have this key or a larger one.
    #[inline(always)]
    fn lowest_place(self, key: K) -> K {
        if key == self.zero + self.unit { self.zero } else { key }
    }
}

/// Shared memory of a block.
#[derive(Clone, Copy)]
pub struct SelectMemory {
    /// A counter for each value of a digit: [`digits`] of the block's threads.
    pub digits: Shared<u32>,
    /// Results, or elements that are sorted before they become results: of 4 words, as many as digits.
    pub staged: Shared<u32>,
    /// Memory for collectives, and for what one thread finds and all need.
    pub scratch: SharedArray<u32, SELECT_SCRATCH>,
}

/// Words of [`SelectMemory::scratch`].
pub const SELECT_SCRATCH: usize = block::scratch_words::<u64>() + 8;

/// Indices in [`SelectMemory::scratch`]: the digit, the words of two numbers, and a counter of elements.
const FOUND: u32 = block::scratch_words::<u64>() as u32;
const STAGED_COUNT: u32 = FOUND + 5;
const FIRST: u32 = FOUND + 6;

/// A result in shared or device memory: the index, and the bits of the element.
#[derive(Clone, Copy)]
struct Entry {
    index: u64,
    element: u64,
}

impl Entry {
    #[inline(always)]
    fn key<T: TopBits>(self, order: Order<T::Key>) -> T::Key {
        order.key(T::Key::of_word(self.element) << T::BELOW)
    }

    /// Returns whether this one precedes `other`.
    #[inline(always)]
    fn precedes<T: TopBits>(self, other: Self, order: Order<T::Key>) -> bool {
        let (key, others) = (self.key::<T>(order), other.key::<T>(order));
        key > others || (key == others && self.index < other.index)
    }

    /// # Safety
    /// There is an entry at this index, and no other thread writes it meanwhile.
    #[inline(always)]
    unsafe fn load(entries: *const u64, at: u64) -> Self {
        let entry = entries.wrapping_add(2 * at as usize);
        // SAFETY: both words are readable, as the caller guarantees.
        unsafe { Self { index: *entry, element: *entry.add(1) } }
    }

    /// # Safety
    /// There is room for an entry at this index, which no other thread accesses meanwhile.
    #[inline(always)]
    unsafe fn store(self, entries: *mut u64, at: u64) {
        let entry = entries.wrapping_add(2 * at as usize);
        // SAFETY: both words are writable, as the caller guarantees.
        unsafe {
            *entry = self.index;
            *entry.add(1) = self.element;
        }
    }
}

/// The last element that is selected, by key and index.
#[derive(Clone, Copy)]
struct Bound<K> {
    key: K,
    index: u64,
}

impl<K: SelectKey> Bound<K> {
    #[inline(always)]
    fn includes(self, key: K, index: u64) -> bool {
        key > self.key || (key == self.key && index <= self.index)
    }
}

/// The elements among which some are selected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Row,
    Sample,
    Candidates,
}

/// The elements that agree in the digits found so far.
#[derive(Clone, Copy)]
struct Bucket<K> {
    key: K,
    key_mask: K,
    /// The digits of an index are those of its distance from the highest one, because lower indices come
    /// first.
    distance: u64,
    distance_mask: u64,
    highest: u64,
    /// The next digit: of the index or of the key, where it begins, and its bits.
    by_index: bool,
    shift: u32,
    mask: u32,
}

impl<K: SelectKey> Bucket<K> {
    /// Returns the next digit of an element, if it is in the bucket.
    #[inline(always)]
    fn digit(self, key: K, index: u64) -> Option<u32> {
        if key & self.key_mask != self.key {
            return None;
        }
        if !self.by_index {
            return Some((key >> self.shift).to_word() as u32 & self.mask);
        }
        let distance = self.highest - index;
        let is_in = distance & self.distance_mask == self.distance;
        is_in.then_some((distance >> self.shift) as u32 & self.mask)
    }
}

/// Selects the first k elements of each row, in blocks of [`SELECT_BLOCK`] threads.
///
/// # Safety
/// The arguments are as their fields document. There is at least one block per row if rows share none,
/// or else `share` blocks for each.
#[inline(always)]
pub unsafe fn select<T: TopBits>(arguments: SelectTop<T>, memory: SelectMemory) {
    // SAFETY: the conditions are those of this function.
    unsafe { select_in::<T, SELECT_BLOCK>(arguments, memory) }
}

/// Selects the first k elements of each row, in blocks of [`NARROW_BLOCK`] threads, one block per row.
///
/// # Safety
/// Same as [`select`].
#[inline(always)]
pub unsafe fn select_short<T: TopBits>(arguments: SelectTop<T>, memory: SelectMemory) {
    // SAFETY: the conditions are those of this function.
    unsafe { select_in::<T, NARROW_BLOCK>(arguments, memory) }
}

/// # Safety
/// Same as [`select`], for blocks of `BLOCK` threads; rows share no block if they are narrow.
#[inline(always)]
unsafe fn select_in<T: TopBits, const BLOCK: u32>(arguments: SelectTop<T>, memory: SelectMemory) {
    let SelectTop { input, rows, len, share, slots, scratch, room, ranked, .. } = arguments;
    let SelectTop { fold, toggle, lowest, nan, zero, unit, .. } = arguments;
    let order = Order::of([fold, toggle, lowest, nan, zero, unit]);
    // Not 0, but the compiler does not know that.
    let blocks = if BLOCK == NARROW_BLOCK { 1 } else { Ord::max(share as u32, 1) };
    let team = Team { thread: thread_idx_x(), threads: BLOCK, block: block_idx_x() % blocks, blocks };
    let mut row = u64::from(block_idx_x() / blocks);
    // SAFETY: a thread clears its own counters; all threads reach the barrier.
    unsafe {
        block::assume_whole_warps();
        memory.digits.set16(team.thread, [0; 4]);
        sync_threads();
    }
    while row < rows {
        let control = slots.wrapping_byte_add((row * SELECT_BYTES) as usize);
        let entries = room + ranked;
        let candidates = scratch.wrapping_byte_add((row * entries * OUTPUT_BYTES) as usize);
        let mut elements = cut(input.wrapping_add((row * len) as usize), len);
        elements.tile = u64::from(BLOCK) * ACCUMULATORS as u64;
        if blocks > 1 {
            // All blocks read as much.
            let share = Ord::max(elements.groups.div_ceil(blocks.into()), 1);
            elements.tile = share.div_ceil(Ord::max(share.div_ceil(elements.tile), 1));
        }
        let (ring, arrivals) = (0, 0);
        let search: Search<T, BLOCK> =
            Search { elements, arguments, team, order, memory, control, candidates, ring, arrivals };
        // SAFETY: the row is readable, and its blocks have the control words and the candidates to
        // themselves. If there are several, the launch is cooperative, and each has only this row.
        unsafe { search.run(row) };
        row += u64::from(grid_dim_x() / blocks);
    }
}

/// A search in one row. All threads of all blocks of the row call its methods together.
struct Search<T: TopBits, const BLOCK: u32> {
    elements: ReduceCut<T>,
    arguments: SelectTop<T>,
    team: Team,
    order: Order<T::Key>,
    memory: SelectMemory,
    /// Words in device memory: see [`SELECT_WORDS`].
    control: *mut u64,
    candidates: *mut u64,
    /// The counters of digits that the next pass uses.
    ring: u32,
    /// The counter of arrivals after the last barrier of all blocks.
    arrivals: u32,
}

/// Indices of the numbers of candidates and results.
const CANDIDATES: usize = 1;
const RESULTS: usize = 2;

impl<T: TopBits, const BLOCK: u32> Search<T, BLOCK> {
    const DIGITS: u32 = digits(BLOCK);
    const DIGIT_BITS: u32 = Self::DIGITS.ilog2();

    #[inline(always)]
    fn is_alone(&self) -> bool {
        BLOCK == NARROW_BLOCK || self.team.blocks == 1
    }

    /// # Safety
    /// The conditions of [`select`].
    #[inline(always)]
    unsafe fn run(mut self, row: u64) {
        let SelectTop { len, k, samples, rank, room, ranked, output, .. } = self.arguments;
        let output = output.wrapping_byte_add((row * k * OUTPUT_BYTES) as usize);
        let most = if self.is_alone() { u64::from(Self::DIGITS) } else { room };
        let slack = if self.is_alone() {
            // As many elements take as many steps to sort.
            let sorted = k.next_power_of_two();
            if sorted <= most { sorted - k } else { 0 }
        } else {
            ranked.saturating_sub(k)
        };
        let mut source = Source::Row;
        let mut samples = samples;
        // SAFETY: all conditions are the same in all threads of the row's blocks, so that they reach the
        // same barriers. Candidates are read after the barrier that follows their writes.
        unsafe {
            let (found, count) = loop {
                let takes_all = self.is_alone() && len <= most && 4 * k > len;
                let bound = if takes_all {
                    Bound { key: T::Key::LEAST, index: NOWHERE }
                } else {
                    // A bucket that has a few elements too many is narrow enough, if they are sorted.
                    let (from, needed, slack) =
                        if samples > 0 { (Source::Sample, rank, rank / 4) } else { (source, k, slack) };
                    self.find(from, needed, slack)
                };
                let samples_now = !takes_all && samples > 0;
                let (entries, room) = if samples_now {
                    (self.candidates, room)
                } else if ranked != 0 {
                    (self.candidates.wrapping_add(2 * room as usize), ranked)
                } else {
                    (output, k)
                };
                let counter = if samples_now { CANDIDATES } else { RESULTS };
                let count = self.gather(source, bound, counter, entries, room);
                if !samples_now {
                    break (entries, count);
                }
                if count >= k && count <= most {
                    if self.is_alone() || count <= ranked {
                        break (entries, count);
                    }
                    source = Source::Candidates;
                }
                samples = hidden(0);
            };
            if self.is_alone() {
                self.write(Ord::min(count, Self::DIGITS.into()) as u32, output);
                return;
            }
            if ranked != 0 {
                self.rank(found, count, output);
            }
            self.leave();
        }
    }

    /// Writes the first results, from shared memory: in order, if these are all.
    ///
    /// # Safety
    /// The block has the row to itself; there are `count` entries.
    #[inline(always)]
    unsafe fn write(&self, count: u32, output: *mut u64) {
        let SelectTop { k, len, .. } = self.arguments;
        let written = Ord::min(k, count.into()) as u32;
        let mut at = self.team.thread;
        // SAFETY: all threads reach the same barriers, and the output has room for k results.
        unsafe {
            if Words::<T>::suit(len) && k <= Self::DIGITS.into() {
                let words = self.pack(count);
                sort_values::<_, BLOCK>(words, count);
                while at < written {
                    let index = Words::<T>::index(words.get(at));
                    let element = (*self.elements.input.add(index as usize)).at_top() >> T::BELOW;
                    Entry { index, element: element.to_word() }.store(output, at.into());
                    at += BLOCK;
                }
                return;
            }
            if k <= Self::DIGITS.into() {
                let (memory, order) = (self.memory, self.order);
                sort_values::<_, BLOCK>(Entries::<T> { memory, order }, count);
            }
            while at < written {
                staged(self.memory, at).store(output, at.into());
                at += BLOCK;
            }
        }
    }

    /// Replaces the entries in shared memory by words.
    ///
    /// # Safety
    /// Called by all threads of the block. There are `count` entries, written before the last barrier,
    /// which [suit](Words::suit).
    #[inline(always)]
    unsafe fn pack(&self, count: u32) -> Words<T> {
        let Self { team, order, memory, .. } = *self;
        let words = Words::of(memory, order);
        // SAFETY: a thread has at most this number of entries. All are read before any is overwritten.
        unsafe {
            let packed: [u64; ACCUMULATORS] = core::array::from_fn(|turn| {
                let at = Ord::min(team.thread + turn as u32 * BLOCK, count - 1);
                words.item(staged(memory, at))
            });
            sync_threads();
            in_turn(packed, |turn, word| {
                let at = team.thread + turn as u32 * BLOCK;
                if at < count {
                    words.set(at, word);
                }
            });
            sync_threads();
        }
        words
    }

    /// Writes the first k of `count` entries in order.
    ///
    /// # Safety
    /// The entries were written before the last barrier; the output has room for k results.
    #[inline(always)]
    unsafe fn rank(&self, entries: *const u64, count: u64, output: *mut u64) {
        let Self { memory, order, .. } = *self;
        // SAFETY: the conditions are those of this function.
        unsafe {
            if Words::<T>::suit(self.arguments.len) {
                self.rank_by(Words::<T>::of(memory, order), entries, count as u32, output);
            } else {
                self.rank_by(Entries::<T> { memory, order }, entries, count as u32, output);
            }
        }
    }

    /// Writes the first k of `count` entries in order: each warp counts the entries that precede two of
    /// them, which is their index among the results. All are read through shared memory.
    ///
    /// # Safety
    /// Same as [`rank`](Self::rank).
    #[inline(always)]
    unsafe fn rank_by<S: Sortable>(&self, values: S, entries: *const u64, count: u32, output: *mut u64) {
        let Self { team, arguments, .. } = *self;
        let tile = Self::DIGITS * S::DENSITY;
        let warps = team.blocks * BLOCK / WARP_SIZE;
        let mut first = (team.block * BLOCK + team.thread) / WARP_SIZE;
        let mut is_loaded = false;
        // SAFETY: the conditions of both outer loops are the same in all threads of the block. Entries
        // below `count` exist, and shared memory has room for a tile.
        unsafe {
            let mut taken = 0;
            while taken < count {
                let second = first + warps;
                let item = |at: u32| values.item(Entry::load(entries, Ord::min(at, count - 1).into()));
                let (a, b) = (item(first), item(second));
                let (mut before_a, mut before_b) = (0_u32, 0_u32);
                let mut start = 0;
                while start < count {
                    let len = Ord::min(count - start, tile);
                    if !is_loaded {
                        sync_threads();
                        let mut at = team.thread;
                        while at < len {
                            values.set(at, values.item(Entry::load(entries, (start + at).into())));
                            at += BLOCK;
                        }
                        sync_threads();
                        is_loaded = count <= tile;
                    }
                    let mut at = if first < count { lane_id() } else { len };
                    while at < len {
                        let other = values.get(at);
                        before_a += u32::from(values.precedes(other, a));
                        before_b += u32::from(values.precedes(other, b));
                        at += WARP_SIZE;
                    }
                    start += len;
                }
                let write = |at: u32, before: u32| {
                    let before = u64::from(warp::reduce(before, Sum));
                    if lane_id() == 0 && at < count && before < arguments.k {
                        Entry::load(entries, at.into()).store(output, before);
                    }
                };
                write(first, before_a);
                write(second, before_b);
                first += 2 * warps;
                taken += 2 * warps;
            }
        }
    }

    /// Returns the bound that includes the first `needed` elements of a source, and at most `slack`
    /// others.
    ///
    /// # Safety
    /// The conditions of [`select`]; the source has that many elements.
    #[inline(always)]
    unsafe fn find(&mut self, source: Source, needed: u64, slack: u64) -> Bound<T::Key> {
        let bits_of_index = u64::BITS - (self.arguments.len - 1).leading_zeros();
        let mut bucket = Bucket {
            key: T::Key::LEAST,
            key_mask: T::Key::LEAST,
            distance: 0,
            distance_mask: 0,
            highest: (1 << bits_of_index) - 1,
            by_index: false,
            shift: 0,
            mask: 0,
        };
        let (mut needed, mut left) = (needed, T::BITS);
        loop {
            let bits = Ord::min(left, Self::DIGIT_BITS);
            left -= bits;
            bucket.mask = (1 << bits) - 1;
            bucket.shift = if bucket.by_index { left } else { left + T::BELOW };
            // SAFETY: all threads call it together; the counters are zero.
            let (digit, before, count) = unsafe {
                self.count(source, bucket);
                self.nth(needed)
            };
            needed -= before;
            if bucket.by_index {
                bucket.distance = bucket.distance | u64::from(digit) << left;
                bucket.distance_mask = bucket.distance_mask | u64::from(bucket.mask) << left;
            } else {
                bucket.key = bucket.key | T::Key::of_word(digit.into()) << bucket.shift;
                bucket.key_mask = bucket.key_mask | T::Key::of_word(bucket.mask.into()) << bucket.shift;
            }
            let is_narrow = count - needed <= slack;
            if is_narrow || (left == 0 && bucket.by_index) {
                break;
            }
            if left == 0 {
                bucket.by_index = true;
                left = bits_of_index;
            }
        }
        let index = if bucket.by_index { bucket.highest - bucket.distance } else { NOWHERE };
        Bound { key: bucket.key, index }
    }

    /// Counts the digits of the elements in a bucket, in shared memory.
    ///
    /// # Safety
    /// The conditions of [`select`]; the counters are zero, and a barrier precedes.
    #[inline(always)]
    unsafe fn count(&self, source: Source, bucket: Bucket<T::Key>) {
        let Self { elements, team, order, memory, .. } = *self;
        let ReduceCut { input, head, groups, tile, .. } = elements;
        // SAFETY: a digit has a counter. The loops read elements of the row, or candidates that were
        // written before the last barrier.
        unsafe {
            let add = |bits: T::Key, index: u64| {
                if let Some(digit) = bucket.digit(order.key(bits), index) {
                    memory.digits.add(digit, 1);
                }
            };
            let add_at = |index: u64| add((*input.add(index as usize)).at_top(), index);
            let thread = u64::from(team.block * BLOCK + team.thread);
            let threads = u64::from(team.blocks * BLOCK);
            match source {
                Source::Candidates if !self.is_alone() => {
                    let count = load_relaxed(self.control.add(CANDIDATES));
                    let mut at = thread;
                    while at < count {
                        let entry = Entry::load(self.candidates, at);
                        add(T::Key::of_word(entry.element) << T::BELOW, entry.index);
                        at += threads;
                    }
                }
                Source::Row | Source::Candidates => {
                    let single = of_single(elements, team, NOWHERE, |index| index);
                    if single != NOWHERE {
                        add_at(single);
                    }
                    let mut start = u64::from(team.block) * tile;
                    while start < groups {
                        let mut loaded = load(elements, team, start);
                        let mut at = start + u64::from(team.thread);
                        let end = Ord::min(start + tile, groups);
                        let mut turn = 0;
                        while turn < ACCUMULATORS {
                            if at < end {
                                let first = head + at * lanes::<T>();
                                T::each(loaded[0], |lane, bits| add(bits, first + u64::from(lane)));
                            }
                            (loaded, at, turn) = (turned(loaded), at + u64::from(BLOCK), turn + 1);
                        }
                        start += u64::from(team.blocks) * tile;
                    }
                }
                Source::Sample => {
                    let samples = self.arguments.samples;
                    // All blocks take as many.
                    let mut sample = u64::from(team.thread * team.blocks + team.block);
                    while sample < samples {
                        add_at(sampled(sample, samples, self.arguments.len));
                        sample += threads;
                    }
                }
            }
        }
    }

    /// Returns the digit of the element that is the `needed`-th of those counted, the number of elements
    /// with larger digits, and the number with this one. Clears the counters.
    ///
    /// # Safety
    /// The conditions of [`select`]; at least `needed` elements were counted.
    #[inline(always)]
    unsafe fn nth(&mut self, needed: u64) -> (u32, u64, u64) {
        let Self { team, memory, .. } = *self;
        let SelectMemory { digits, scratch, .. } = memory;
        // This thread's digits, in ascending order: the first thread has the largest ones.
        let mine = BLOCK - 1 - team.thread;
        // SAFETY: a thread has four counters of its own. In device memory, those of this pass are zero
        // before any block adds to them: they were cleared before the last barrier of all blocks.
        unsafe {
            sync_threads();
            let [a, b, c, d] = digits.get16(mine);
            digits.set16(mine, [0; 4]);
            let mut counts = [a, b, c, d].map(u64::from);
            if !self.is_alone() {
                let all = self.counters(self.ring).wrapping_add(4 * mine as usize);
                let [a, b, c, d] = counts;
                add_to(all, a);
                add_to(all.wrapping_add(1), b);
                add_to(all.wrapping_add(2), c);
                add_to(all.wrapping_add(3), d);
                self.meet();
                counts = [
                    load_relaxed(all),
                    load_relaxed(all.wrapping_add(1)),
                    load_relaxed(all.wrapping_add(2)),
                    load_relaxed(all.wrapping_add(3)),
                ];
            }
            let [a, b, c, d] = counts;
            let (before, _) = block::exclusive_scan(a + b + c + d, Sum, scratch);
            if before < needed && needed <= before + a + b + c + d {
                let (mut digit, mut before, mut count) = (4 * mine + 3, before, d);
                if before + count < needed {
                    (digit, before, count) = (digit - 1, before + count, c);
                }
                if before + count < needed {
                    (digit, before, count) = (digit - 1, before + count, b);
                }
                if before + count < needed {
                    (digit, before, count) = (digit - 1, before + count, a);
                }
                scratch.at(FOUND).set_value(0, (digit, before, count));
            }
            sync_threads();
            scratch.at(FOUND).get_value(0)
        }
    }

    /// Writes the elements of a source that a bound includes to `entries`, which has `room`, and returns
    /// their number, which may be larger. In a block that has the row to itself, the first ones stay
    /// in shared memory, as many as there is room for.
    ///
    /// # Safety
    /// The conditions of [`select`]; no other thread accesses the entries, and the counter is zero.
    #[inline(always)]
    unsafe fn gather(
        &mut self,
        source: Source,
        bound: Bound<T::Key>,
        counter: usize,
        entries: *mut u64,
        room: u64,
    ) -> u64 {
        let Self { elements, team, order, memory, .. } = *self;
        let ReduceCut { input, head, groups, tile, .. } = elements;
        let counter = self.control.wrapping_add(counter);
        let sink: Sink<BLOCK> = Sink { memory, is_alone: self.is_alone(), counter, entries, room };
        // SAFETY: all lanes of a warp take the same branches, so that they reserve together. Elements
        // and candidates exist.
        unsafe {
            if team.thread == 0 {
                memory.scratch.set(STAGED_COUNT, 0);
            }
            sync_threads();
            let offer = |bits: T::Key, index: u64, is_there: bool| {
                let element = (bits >> T::BELOW).to_word();
                let wanted = is_there && bound.includes(order.key(bits), index);
                sink.put(Entry { index, element }, wanted);
            };
            // A block that has the row to itself has its candidates in shared memory.
            if source == Source::Row || self.is_alone() {
                let single = of_single(elements, team, NOWHERE, |index| index);
                // Reads an existing element even if there is none, to avoid a branch.
                let at = if single == NOWHERE { 0 } else { single };
                offer((*input.add(at as usize)).at_top(), single, single != NOWHERE);
                let lowest = order.lowest_place(bound.key);
                let mut start = u64::from(team.block) * tile;
                while start < groups {
                    let len = Ord::min(groups - start, tile) as u32;
                    let mut loaded = load(elements, team, start);
                    // Keeps all loads before the first use of any.
                    sync_warp(FULL_WARP);
                    let largest = each_in_turn(loaded, |_, group| {
                        let mut largest = T::Key::LEAST;
                        T::each(group, |_, bits| largest = Ord::max(largest, order.place(bits)));
                        largest
                    });
                    // Nearly always, no element is included, which takes few instructions to see.
                    if warp_vote_any(FULL_WARP, largest.tree_reduce(Ord::max) >= lowest) {
                        let (mut at, mut turn) = (team.thread, 0);
                        while turn < ACCUMULATORS {
                            let mut left = 0_u32;
                            T::each(loaded[0], |lane, bits| {
                                left |= u32::from(order.place(bits) >= lowest) << lane;
                            });
                            left = if at < len { left } else { 0 };
                            let first = head + (start + u64::from(at)) * lanes::<T>();
                            while warp_vote_any(FULL_WARP, left != 0) {
                                // The lane after the last one is also inside the group.
                                let lane = left.trailing_zeros() % lanes::<T>() as u32;
                                let bits = nth::<T>(loaded[0], lane).at_top();
                                offer(bits, first + u64::from(lane), left != 0);
                                left &= left.wrapping_sub(1);
                            }
                            (loaded, at, turn) = (turned(loaded), at + BLOCK, turn + 1);
                        }
                    }
                    start += u64::from(team.blocks) * tile;
                }
            } else {
                let count = load_relaxed(self.control.add(CANDIDATES));
                let threads = u64::from(team.blocks * BLOCK);
                let mut warp = u64::from(team.block * BLOCK + team.thread / WARP_SIZE * WARP_SIZE);
                while warp < count {
                    let at = warp + u64::from(lane_id());
                    let entry = Entry::load(self.candidates, Ord::min(at, count - 1));
                    let wanted = at < count && bound.includes(entry.key::<T>(order), entry.index);
                    sink.put(entry, wanted);
                    warp += threads;
                }
            }
            sync_threads();
            let count = memory.scratch.get(STAGED_COUNT);
            if self.is_alone() {
                return count.into();
            }
            let count = Ord::min(count, Self::DIGITS);
            if team.thread == 0 {
                let first = u64::fetch_add::<Relaxed, Device>(counter, count.into());
                memory.scratch.at(FIRST).set_value(0, first);
            }
            sync_threads();
            let first: u64 = memory.scratch.at(FIRST).get_value(0);
            let mut at = team.thread;
            while at < count {
                if first + u64::from(at) < room {
                    staged(memory, at).store(entries, first + u64::from(at));
                }
                at += BLOCK;
            }
            self.meet();
            // No block changes the counter any more. This load is the same in all threads, which the
            // check of barriers would not see of an atomic one.
            *counter
        }
    }

    #[inline(always)]
    fn counters(&self, ring: u32) -> *mut u64 {
        self.control.wrapping_add((SELECT_WORDS + ring * Self::DIGITS) as usize)
    }

    /// Waits until all blocks of the row have arrived; orders the memory accesses of all threads. Clears
    /// the counters of the next pass: the last block to read them did so before the previous barrier.
    ///
    /// # Safety
    /// All threads of the row's blocks call it together, in a cooperative launch.
    #[inline(always)]
    unsafe fn meet(&mut self) {
        let Self { team, control, .. } = *self;
        let next = if self.ring == RINGS - 1 { 0 } else { self.ring + 1 };
        let arrivals = control.cast::<u32>();
        // SAFETY: only the first block clears, each thread its own counters. The counter of arrivals
        // grows by the number of blocks with each barrier, and no block arrives at the next one before
        // all have arrived at this one.
        unsafe {
            self.arrivals += team.blocks;
            if team.block == 0 {
                let counters = self.counters(next).wrapping_add(4 * team.thread as usize);
                clear(counters);
            }
            sync_threads();
            if team.thread == 0 {
                u32::fetch_add::<AcqRel, Device>(arrivals, 1);
                while load_acquire(arrivals) < self.arrivals {}
            }
            sync_threads();
        }
        self.ring = next;
    }

    /// Clears the control words after all blocks have read them.
    ///
    /// # Safety
    /// Called once by all threads of a row's blocks, which are several, after their last
    /// [`meet`](Self::meet).
    #[inline(always)]
    unsafe fn leave(&self) {
        let Self { team, control, .. } = *self;
        let (arrivals, departures) = (control.cast::<u32>(), control.cast::<u32>().wrapping_add(1));
        // SAFETY: the last block to depart accesses the words after all others.
        unsafe {
            sync_threads();
            let mut is_last = false;
            if team.thread == 0 {
                is_last = fetch_inc::<AcqRel, Device>(departures, team.blocks - 1) == team.blocks - 1;
            }
            if sync_threads_or(is_last.into()) == 0 {
                return;
            }
            let mut ring = 0;
            while ring < RINGS {
                clear(self.counters(ring).wrapping_add(4 * team.thread as usize));
                ring += 1;
            }
            if team.thread == 0 {
                *arrivals = 0;
                *control.add(CANDIDATES) = 0;
                *control.add(RESULTS) = 0;
            }
        }
    }
}

/// Returns the number, which the compiler then does not know: it would compile the loop that uses it
/// twice.
#[inline(always)]
fn hidden(number: u64) -> u64 {
    let result;
    // SAFETY: the instruction copies a register.
    unsafe {
        asm!("mov.u64 {0}, {1};", out(reg64) result, in(reg64) number, options(nomem, nostack, preserves_flags));
    }
    result
}

/// Returns the index of a sample: one in each of `samples` equal parts of the row, at a pseudorandom
/// place in it, so that a period of the elements does not matter.
#[inline(always)]
fn sampled(sample: u64, samples: u64, len: u64) -> u64 {
    // Not 0, but the compiler does not know that.
    let part = len / Ord::max(samples, 1);
    let place = (sample as u32).wrapping_mul(0x9e37_79b1) >> 8;
    sample * part + (u64::from(place) * part >> 24)
}

/// # Safety
/// The counter exists, and other threads access it only atomically.
#[inline(always)]
unsafe fn add_to(counter: *mut u64, count: u64) {
    if count > 0 {
        // SAFETY: the counter exists, as the caller guarantees.
        unsafe { u64::fetch_add::<Relaxed, Device>(counter, count) };
    }
}

/// Clears four counters.
///
/// # Safety
/// The counters exist, and no other thread accesses them meanwhile.
#[inline(always)]
unsafe fn clear(counters: *mut u64) {
    // SAFETY: the counters exist, as the caller guarantees.
    unsafe {
        store_relaxed(counters, 0);
        store_relaxed(counters.wrapping_add(1), 0);
        store_relaxed(counters.wrapping_add(2), 0);
        store_relaxed(counters.wrapping_add(3), 0);
    }
}

/// The place of elements that are gathered: shared memory and, if that is full, device memory.
#[derive(Clone, Copy)]
struct Sink<const BLOCK: u32> {
    memory: SelectMemory,
    is_alone: bool,
    counter: *mut u64,
    entries: *mut u64,
    room: u64,
}

impl<const BLOCK: u32> Sink<BLOCK> {
    const STAGED: u32 = digits(BLOCK);

    /// Writes an entry to a place of its own, if it is `wanted` and there is room for it.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the counters exist.
    #[inline(always)]
    unsafe fn put(self, entry: Entry, wanted: bool) {
        // SAFETY: all lanes take the same branches, because the votes are the same. The places are
        // inside the memory, and reserved for this element.
        unsafe {
            let all = warp_vote_ballot(FULL_WARP, wanted);
            if all == 0 {
                return;
            }
            let lane = lane_id();
            let mut first = 0;
            if lane == 0 {
                first = self.memory.scratch.fetch_add(STAGED_COUNT, all.count_ones());
            }
            let first = first.shuffle_idx(FULL_WARP, 0);
            let end = first + all.count_ones();
            let mine = first + (all & ((1 << lane) - 1)).count_ones();
            // The first element that is not in shared memory, and its place.
            let outside = Ord::max(first, Self::STAGED);
            let mut place = u64::from(outside);
            if !self.is_alone && end > outside {
                if lane == 0 {
                    place = u64::fetch_add::<Relaxed, Device>(self.counter, (end - outside).into());
                }
                place = place.shuffle_idx(FULL_WARP, 0);
            }
            if !wanted {
                return;
            }
            if mine < Self::STAGED {
                set_staged(self.memory, mine, entry);
            } else {
                let place = place + u64::from(mine - outside);
                if place < self.room {
                    entry.store(self.entries, place);
                }
            }
        }
    }
}

/// # Safety
/// The entry exists and was written, before the last barrier or by this thread.
#[inline(always)]
unsafe fn staged(memory: SelectMemory, at: u32) -> Entry {
    // SAFETY: the entry was written, as the caller guarantees.
    let [a, b, c, d] = unsafe { memory.staged.get16(at) };
    Entry { index: u64::from(b) << 32 | u64::from(a), element: u64::from(d) << 32 | u64::from(c) }
}

/// # Safety
/// The entry exists, and no other thread accesses it before the next barrier.
#[inline(always)]
unsafe fn set_staged(memory: SelectMemory, at: u32, Entry { index, element }: Entry) {
    let words = [index as u32, (index >> 32) as u32, element as u32, (element >> 32) as u32];
    // SAFETY: the entry exists, as the caller guarantees.
    unsafe { memory.staged.set16(at, words) };
}

/// Values in shared memory that a block sorts, made of entries.
trait Sortable: Copy {
    type Item: Copy;
    /// A value that precedes none.
    const LAST: Self::Item;
    /// The number of values that the memory has room for, relative to that of entries.
    const DENSITY: u32;
    fn item(self, entry: Entry) -> Self::Item;
    /// # Safety
    /// The value was written, before the last barrier or by this thread.
    unsafe fn get(self, at: u32) -> Self::Item;
    /// # Safety
    /// There is room for the value, which no other thread accesses before the next barrier.
    unsafe fn set(self, at: u32, item: Self::Item);
    fn precedes(self, a: Self::Item, b: Self::Item) -> bool;
}

/// Entries as they are.
#[derive(Clone, Copy)]
struct Entries<T: TopBits> {
    memory: SelectMemory,
    order: Order<T::Key>,
}

impl<T: TopBits> Sortable for Entries<T> {
    type Item = Entry;
    const LAST: Entry = Entry { index: NOWHERE, element: 0 };
    const DENSITY: u32 = 1;

    #[inline(always)]
    fn item(self, entry: Entry) -> Entry {
        entry
    }

    #[inline(always)]
    unsafe fn get(self, at: u32) -> Entry {
        // SAFETY: the conditions are those of this function.
        unsafe { staged(self.memory, at) }
    }

    #[inline(always)]
    unsafe fn set(self, at: u32, entry: Entry) {
        // SAFETY: the conditions are those of this function.
        unsafe { set_staged(self.memory, at, entry) }
    }

    #[inline(always)]
    fn precedes(self, a: Entry, b: Entry) -> bool {
        a.index != NOWHERE && (b.index == NOWHERE || a.precedes::<T>(b, self.order))
    }
}

/// Words in descending order: the key and, below it, the inverted index. Both have 32 bits. They take
/// half of the memory, and one comparison.
#[derive(Clone, Copy)]
struct Words<T: TopBits> {
    memory: Shared<u64>,
    order: Order<T::Key>,
}

impl<T: TopBits> Words<T> {
    #[inline(always)]
    fn of(memory: SelectMemory, order: Order<T::Key>) -> Self {
        Self { memory: memory.staged.cast(), order }
    }

    /// Returns whether keys, and indices in a row of this length, have 32 bits.
    #[inline(always)]
    fn suit(len: u64) -> bool {
        T::Key::BITS == u32::BITS && len <= 1 << u32::BITS
    }

    #[inline(always)]
    fn index(word: u64) -> u64 {
        u64::from(!(word as u32))
    }
}

impl<T: TopBits> Sortable for Words<T> {
    type Item = u64;
    const LAST: u64 = 0;
    const DENSITY: u32 = 2;

    #[inline(always)]
    fn item(self, entry: Entry) -> u64 {
        entry.key::<T>(self.order).to_word() << u32::BITS | u64::from(!(entry.index as u32))
    }

    #[inline(always)]
    unsafe fn get(self, at: u32) -> u64 {
        // SAFETY: the conditions are those of this function.
        unsafe { self.memory.get(at) }
    }

    #[inline(always)]
    unsafe fn set(self, at: u32, word: u64) {
        // SAFETY: the conditions are those of this function.
        unsafe { self.memory.set(at, word) }
    }

    #[inline(always)]
    fn precedes(self, a: u64, b: u64) -> bool {
        a > b
    }
}

/// Sorts the first `count` values.
///
/// # Safety
/// Called by all threads of a block of `BLOCK`, after the barrier that follows the writes of the values.
#[inline(always)]
unsafe fn sort_values<S: Sortable, const BLOCK: u32>(values: S, count: u32) {
    let mut size = 2;
    while size / 2 < count {
        // SAFETY: the conditions are those of this function; a barrier follows each step.
        unsafe {
            step::<S, BLOCK>(values, count, size, 0);
            merge_values::<S, BLOCK>(values, count, size / 4);
        }
        size *= 2;
    }
}

/// Merges the bitonic pieces, whose halves have `distance` values.
///
/// # Safety
/// Same as [`sort_values`].
#[inline(always)]
unsafe fn merge_values<S: Sortable, const BLOCK: u32>(values: S, count: u32, distance: u32) {
    let mut distance = distance;
    // SAFETY: the conditions are those of this function; a barrier follows each step.
    unsafe {
        while distance > 1 {
            two_steps::<S, BLOCK>(values, count, distance / 2);
            distance /= 4;
        }
        if distance == 1 {
            step::<S, BLOCK>(values, count, 2, 1);
        }
    }
}

/// Does the steps of the sort at twice `distance` and at `distance`, each thread for four values, and
/// waits at a barrier.
///
/// # Safety
/// Same as [`sort_values`].
#[inline(always)]
unsafe fn two_steps<S: Sortable, const BLOCK: u32>(values: S, count: u32, distance: u32) {
    let fours = Ord::max(count.next_power_of_two(), 4 * distance) / 4;
    let mut four = thread_idx_x();
    // SAFETY: each value is one of four of one thread, and below `count`.
    unsafe {
        while four < fours {
            let rest = four & (distance - 1);
            let first = ((four - rest) << 2) + rest;
            let at = |turn: u32| first + turn * distance;
            if at(1) < count {
                let get = |turn: u32| if at(turn) < count { values.get(at(turn)) } else { S::LAST };
                let in_order = |a: S::Item, b: S::Item| {
                    if values.precedes(b, a) { (b, a) } else { (a, b) }
                };
                let ((a, c), (b, d)) = (in_order(get(0), get(2)), in_order(get(1), get(3)));
                let ((a, b), (c, d)) = (in_order(a, b), in_order(c, d));
                values.set(at(0), a);
                values.set(at(1), b);
                if at(2) < count {
                    values.set(at(2), c);
                }
                if at(3) < count {
                    values.set(at(3), d);
                }
            }
            four += BLOCK;
        }
        sync_threads();
    }
}

/// Returns the entries that pair `pair` of a step of the sort compares: see [`SortTop`].
#[inline(always)]
fn paired(pair: u64, size: u64, distance: u64) -> (u64, u64) {
    let half = if distance == 0 { size / 2 } else { distance };
    let (rest, bits) = (pair & (half - 1), half.trailing_zeros());
    let first = (pair >> bits << (bits + 1)) + rest;
    (first, if distance == 0 { first + size - 1 - 2 * rest } else { first + distance })
}

/// Does a step of the sort in shared memory, and waits at a barrier.
///
/// # Safety
/// Same as [`sort_values`].
#[inline(always)]
unsafe fn step<S: Sortable, const BLOCK: u32>(values: S, count: u32, size: u32, distance: u32) {
    let pairs = count.next_power_of_two() / 2;
    let mut pair = thread_idx_x();
    // SAFETY: each value is in one pair, and below `count`.
    unsafe {
        while pair < pairs {
            let (first, second) = paired(pair.into(), size.into(), distance.into());
            let (first, second) = (first as u32, second as u32);
            if second < count {
                let (a, b) = (values.get(first), values.get(second));
                if values.precedes(b, a) {
                    values.set(first, b);
                    values.set(second, a);
                }
            }
            pair += BLOCK;
        }
        sync_threads();
    }
}

/// Sorts chunks of [`STAGED`] results, or merges the bitonic halves of each.
///
/// # Safety
/// The arguments are as their fields document. Blocks have [`SELECT_BLOCK`] threads; there is any number
/// of them.
#[inline(always)]
pub unsafe fn sort<T: TopBits>(arguments: SortTop, memory: SelectMemory) {
    let SortTop { results, rows, k, size, fold, toggle, lowest, nan, zero, unit, .. } = arguments;
    let order = Order::of([fold, toggle, lowest, nan, zero, unit]);
    let entries = Entries::<T> { memory, order };
    // Not 0, but the compiler does not know that.
    let per_row = Ord::max(k.div_ceil(STAGED.into()), 1);
    let mut chunk = u64::from(block_idx_x());
    while chunk < rows * per_row {
        let (row, start) = (chunk / per_row, chunk % per_row * u64::from(STAGED));
        let count = Ord::min(k - start, STAGED.into()) as u32;
        let results = results.wrapping_add(2 * (row * k + start) as usize);
        let mut at = thread_idx_x();
        // SAFETY: the results of the chunk exist, and only this block accesses them. All threads of the
        // block reach the same barriers.
        unsafe {
            while at < count {
                set_staged(memory, at, Entry::load(results, at.into()));
                at += SELECT_BLOCK;
            }
            sync_threads();
            if size == 0 {
                sort_values::<_, SELECT_BLOCK>(entries, count);
            } else {
                merge_values::<_, SELECT_BLOCK>(entries, count, STAGED / 2);
            }
            let mut at = thread_idx_x();
            while at < count {
                staged(memory, at).store(results, at.into());
                at += SELECT_BLOCK;
            }
            sync_threads();
        }
        chunk += u64::from(grid_dim_x());
    }
}

/// Does a step of the sort in device memory.
///
/// # Safety
/// The arguments are as their fields document; the launch has any one-dimensional shape.
#[inline(always)]
pub unsafe fn merge<T: TopBits>(arguments: SortTop) {
    let SortTop { results, rows, k, size, distance, fold, toggle, lowest, nan, zero, unit } = arguments;
    let order = Order::<T::Key>::of([fold, toggle, lowest, nan, zero, unit]);
    let per_row = k.next_power_of_two() / 2;
    let threads = u64::from(grid_dim_x()) * u64::from(block_dim_x());
    let mut at = u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x());
    while at < rows * per_row {
        let row = at >> per_row.trailing_zeros();
        let (first, second) = paired(at & (per_row - 1), size, distance);
        if second < k {
            let results = results.wrapping_add(2 * (row * k) as usize);
            // SAFETY: both results exist, and only this thread accesses them.
            unsafe {
                let (a, b) = (Entry::load(results, first), Entry::load(results, second));
                if b.precedes::<T>(a, order) {
                    b.store(results, first);
                    a.store(results, second);
                }
            }
        }
        at += threads;
    }
}
