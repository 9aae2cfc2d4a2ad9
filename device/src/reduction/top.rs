//! The kernels for the elements that come first in an order, with their places: of a matrix's rows, of
//! which a buffer is one.
//!
//! - A warp keeps the first elements that it has found, one in each lane, in order. Of the groups that
//!   it loads it compares the largest key with that of the k-th one of them: nearly always that is all.
//! - Where k lanes or more have a group with a larger key, the k-th largest of the lanes' largest keys
//!   is what is compared with from then on: as many elements are no smaller.
//! - What may be among the first k goes to a queue in shared memory. When there are as many as lanes,
//!   they are sorted by shuffles, and merged with those that the warp has. So where every element is
//!   among the first k of those before it, the cost is that of a sort and a merge for each 32 elements.
//! - The warps of a block meet in shared memory, in pairs. The blocks of a row meet as those of
//!   [`grid`](super::grid()) do: all but the last publish what they have found, in cells of their own.
//!
//! The order of keys and indices together is total: two elements are never equal. So whatever launch
//! finds them, they are the same.
//!
//! Barriers: one for each time that the number of a block's warps can be halved.

use core::ops::BitOr;

use warpfold_abi::{
    WARP_SIZE,
    arguments::{ReduceCut, ReduceTop},
    reducer::{OUTPUT_BYTES, PRESENT, TOP_BLOCK, TOP_QUEUE, TOP_WORDS},
};

use super::{
    ACCUMULATORS, Located, NOWHERE, Team, Vector,
    finish::of_single,
    grid::{cut, each_in_turn, group_at},
    in_vectors, lanes, launch_dependents_late, located,
    partial::{Cells, is_present, leave, peek, publish},
};
use crate::{
    Shared, SharedArray, Value,
    grid::{thread_index, wait_grid_dependencies},
    memory::{Streaming, load16_if},
    thread::{Few, block_dim_x, block_idx_x, sync_threads, thread_idx_x},
    warp::{FULL_WARP, Shuffle, sync_warp, warp_vote_all, warp_vote_any, warp_vote_ballot},
};

/// What elements are compared by: of two the larger one comes first.
pub trait TopKey: Value + Ord {
    /// The key that none is below.
    const LEAST: Self;
}

impl TopKey for u32 {
    const LEAST: Self = 0;
}

impl TopKey for u64 {
    const LEAST: Self = 0;
}

/// An order of elements, in which equal ones come as they lie.
pub trait Order: Sized + 'static {
    /// What lies in memory: plain bits, of 1, 2, 4 or 8 bytes, at a multiple of its size.
    type Element: Copy + 'static;
    /// What elements are compared by.
    type Key: TopKey;
    /// That of an element.
    fn key(element: Self::Element) -> Self::Key;
    /// The largest one of a group's elements.
    fn largest(group: Vector) -> Self::Key;
}

/// Shared memory of a block: a queue for each warp.
pub type TopMemory = SharedArray<u32, { (TOP_BLOCK / WARP_SIZE * TOP_QUEUE * TOP_WORDS) as usize }>;

/// One or more blocks for each row.
///
/// # Safety
/// The arguments are what their fields say; `tile` is at most 4 groups per thread of a block. The slots
/// are zero when the launches before this one in the stream are over, and no other stream uses them.
/// Blocks are whole warps, as many as `rows * share`, of [`TOP_BLOCK`] threads at most.
#[inline(always)]
pub unsafe fn top_grid<O: Order>(arguments: ReduceTop<O::Element>, memory: TopMemory) {
    launch_dependents_late();
    let ReduceTop { k, share, tile, slots, .. } = arguments;
    // It is not 0, which the compiler does not know.
    let blocks = Ord::max(share as u32, 1);
    let (row, block) = (block_idx_x() / blocks, block_idx_x() % blocks);
    let cells = u64::from(row * blocks) * k * u64::from(Located::<O::Key>::WORDS);
    let slots = slots.wrapping_add(cells as usize);
    let team = Team { thread: thread_idx_x(), threads: block_dim_x(), block, blocks };
    let row = u64::from(row);
    // SAFETY: the caller's contract. The blocks of a row lie side by side, the last one behind the
    // others: each of those fills its cells, once, and the last one takes each once. All threads of a
    // block take the same way.
    unsafe {
        let mut found = Found::<O::Key>::none(k as u32, memory);
        found.accumulate::<O, true>(ReduceCut { tile, ..row_of(arguments, row) }, team);
        wait_grid_dependencies();
        if block == blocks - 1 {
            found.take_others(slots, block);
        }
        found.meet_warps(memory);
        if thread_idx_x() >= WARP_SIZE {
            return;
        }
        if block == blocks - 1 {
            found.write(arguments, row);
        } else if found.lane < found.k {
            let cells = Cells::of::<Located<O::Key>>(slots, block * found.k + found.lane);
            publish(found.first, cells, PRESENT);
        }
    }
}

/// A warp for each row.
///
/// # Safety
/// The arguments are what their fields say. Blocks are whole warps, of [`TOP_BLOCK`] threads at most,
/// with one for each row.
#[inline(always)]
pub unsafe fn top_warp<O: Order>(arguments: ReduceTop<O::Element>, memory: TopMemory) {
    let thread = thread_idx_x() % WARP_SIZE;
    let team = Team { thread, threads: WARP_SIZE, block: 0, blocks: 1 };
    let row = thread_index() / u64::from(WARP_SIZE);
    launch_dependents_late();
    if row >= arguments.rows {
        return;
    }
    // SAFETY: the caller's contract; all lanes of a warp have the same row, and are more than there are
    // single elements in it.
    unsafe {
        let mut found = Found::<O::Key>::none(arguments.k as u32, memory);
        found.accumulate::<O, false>(ReduceCut { tile: arguments.tile, ..row_of(arguments, row) }, team);
        wait_grid_dependencies();
        found.write(arguments, row);
    }
}

/// A row's elements, cut.
#[inline(always)]
fn row_of<T>(ReduceTop { input, len, .. }: ReduceTop<T>, row: u64) -> ReduceCut<T> {
    cut(input.wrapping_add((row * len) as usize), len)
}

/// Whether the first of two comes before the second. What stands for no element comes before nothing.
#[inline(always)]
fn precedes<K: TopKey>(a: Located<K>, b: Located<K>) -> bool {
    a.value > b.value || (a.value == b.value && a.index < b.index)
}

/// What a warp has found. Its methods are called by all lanes of the warp together.
struct Found<K> {
    k: u32,
    lane: u32,
    /// The first elements, one in each lane, in order.
    first: Located<K>,
    /// What does not come before it is not wanted: the k-th of them; or a key and no place, where more
    /// is known than what was found by now.
    bound: Located<K>,
    /// Those that wait, which are fewer than lanes between two calls, lie in a ring.
    queue: Shared<u32>,
    /// The place of the first one that waits.
    begin: u32,
    waiting: u32,
}

impl<K: TopKey> Found<K> {
    /// What stands for no element.
    const NONE: Located<K> = Located { value: K::LEAST, index: NOWHERE };

    /// Nothing yet, of `k` elements that are looked for.
    #[inline(always)]
    fn none(k: u32, memory: TopMemory) -> Self {
        const { assert!(Located::<K>::WORDS <= TOP_WORDS) };
        let queue = queue_of::<K>(memory, thread_idx_x() / WARP_SIZE);
        let lane = thread_idx_x() % WARP_SIZE;
        Self { k, lane, first: Self::NONE, bound: Self::NONE, queue, begin: 0, waiting: 0 }
    }

    /// Takes this warp's share of the elements. With `AHEAD` those that come next are under way while
    /// others are looked at, which is worth its registers if there are no more warps than needed.
    ///
    /// # Safety
    /// They are readable; the tile is at most 4 groups per thread of a block of the team, and not zero.
    /// A block has no fewer threads than there are single elements.
    #[inline(always)]
    unsafe fn accumulate<O: Order<Key = K>, const AHEAD: bool>(
        &mut self,
        elements: ReduceCut<O::Element>,
        team: Team,
    ) {
        const { assert!(in_vectors::<O::Element>() && size_of::<O::Element>() <= 8) };
        let ReduceCut { input, head, groups, tile, .. } = elements;
        let mut start = u64::from(team.block) * tile;
        let stride = u64::from(team.blocks) * tile;
        // SAFETY: singles lie in front of the groups and behind them; the caller's contract.
        unsafe {
            let mut next = load(elements, team, start);
            let of = |index: u64| Located { value: O::key(*input.add(index as usize)), index };
            // They are fewer than lanes, and nothing waits: there is room, and no need to sort.
            self.push(of_single(elements, team, Self::NONE, of), true);
            while start < groups {
                let loaded = next;
                if AHEAD {
                    next = load(elements, team, start + stride);
                }
                let len = Ord::min(groups - start, tile) as u32;
                let first_of = |turn: usize| {
                    let at = team.thread + turn as u32 * team.threads;
                    (at < len, head + (start + u64::from(at)) * lanes::<O::Element>())
                };
                let of_group = |turn: usize, group| {
                    if first_of(turn).0 { O::largest(group) } else { K::LEAST }
                };
                let largest = each_in_turn(loaded, of_group);
                let candidates_for = |bound: Located<K>| {
                    each_in_turn(largest, |turn, value| {
                        let (is_there, index) = first_of(turn);
                        let largest = Located { value, index };
                        warp_vote_ballot(FULL_WARP, is_there && precedes(largest, bound))
                    })
                };
                // The same for all lanes.
                let mut candidates = candidates_for(self.bound);
                let in_lanes = candidates.tree_reduce(BitOr::bitor);
                if in_lanes != 0 {
                    // Of fewer lanes the k-th largest key would be no larger than the bound.
                    if in_lanes.count_ones() >= self.k {
                        self.expect(largest.tree_reduce(Ord::max));
                        candidates = candidates_for(self.bound);
                    }
                    let (mut groups, mut turn) = (loaded, 0);
                    while turn < ACCUMULATORS {
                        if candidates[0] != 0 {
                            let (is_there, index) = first_of(turn);
                            self.offer_group::<O>(groups[0], index, is_there, candidates[0]);
                        }
                        (candidates, groups, turn) = (turned(candidates), turned(groups), turn + 1);
                    }
                }
                start += stride;
                if !AHEAD {
                    next = load(elements, team, start);
                }
            }
            if self.waiting > 0 {
                self.sort_in();
            }
        }
    }

    /// Learns that each lane has an element with this key, which is offered later on: what is below the
    /// k-th largest of these keys is not among the first k.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn expect(&mut self, largest: K) {
        // SAFETY: the caller's contract; k is at most the number of lanes, and not 0.
        unsafe {
            let sorted = sorted_backwards(largest, self.lane, |a, b| a > b);
            let value = sorted.shuffle_idx(FULL_WARP, WARP_SIZE - self.k);
            if value > self.bound.value {
                self.bound = Located { value, index: NOWHERE };
            }
        }
    }

    /// Takes those of the lanes' groups that are among the first k. Each lane's group, if it has one,
    /// begins at this index, `LANES` behind that of the lane before. `candidates` are the lanes whose
    /// groups have such elements, one at least.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn offer_group<O: Order<Key = K>>(
        &mut self,
        group: Vector,
        index: u64,
        is_there: bool,
        candidates: u32,
    ) {
        let each = lanes::<O::Element>() as u32;
        // Either one element of each group after the other; or of few groups one after the other, whose
        // elements go to a lane each.
        let shared = 2 * candidates.count_ones() <= each;
        let (mut rest, mut candidates, mut turn) = (group, candidates, 0);
        let begin = index - u64::from(self.lane * each);
        loop {
            // SAFETY: the caller's contract; all lanes take the same way.
            unsafe {
                let (element, place, wanted) = if shared {
                    let [a, b, c, d] = group;
                    let from = candidates.trailing_zeros();
                    let word = |word: u32| word.shuffle_idx(FULL_WARP, from);
                    let element = nth([word(a), word(b), word(c), word(d)], self.lane % each);
                    candidates &= candidates - 1;
                    (element, from * each + self.lane, self.lane < each)
                } else {
                    (front::<O::Element>(rest), self.lane * each + turn, is_there)
                };
                self.push(Located { value: O::key(element), index: begin + u64::from(place) }, wanted);
                if self.waiting >= WARP_SIZE {
                    self.sort_in();
                }
            }
            rest = behind::<O::Element>(rest);
            turn += 1;
            if if shared { candidates == 0 } else { turn == each } {
                break;
            }
        }
    }

    /// Lets each lane's element wait where wanted, if it is among the first k.
    ///
    /// # Safety
    /// All lanes of the warp call it together, where fewer wait than there are lanes.
    #[inline(always)]
    unsafe fn push(&mut self, element: Located<K>, wanted: bool) {
        let wanted = wanted && precedes(element, self.bound);
        // SAFETY: the places behind those that wait are free, for as many as lanes; what has read them
        // before came before a barrier of the warp.
        unsafe {
            let pushed = warp_vote_ballot(FULL_WARP, wanted);
            if wanted {
                let before = (pushed & ((1 << self.lane) - 1)).count_ones();
                let place = (self.begin + self.waiting + before) % TOP_QUEUE;
                self.queue.set_value(place, element);
            }
            self.waiting += pushed.count_ones();
        }
    }

    /// Takes those that wait, but no more of them than there are lanes.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn sort_in(&mut self) {
        let count = Ord::min(self.waiting, WARP_SIZE);
        // SAFETY: the caller's contract. What is read was written before the first barrier, and may be
        // written anew behind the second one.
        unsafe {
            sync_warp(FULL_WARP);
            let element = if self.lane < count {
                self.queue.get_value((self.begin + self.lane) % TOP_QUEUE)
            } else {
                Self::NONE
            };
            sync_warp(FULL_WARP);
            self.begin = (self.begin + count) % TOP_QUEUE;
            self.waiting -= count;
            self.merge(sorted_backwards(element, self.lane, precedes));
        }
    }

    /// Takes as many elements as there are lanes, which are in order from the last lane to the first.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn merge(&mut self, backwards: Located<K>) {
        // One half of each bitonic sequence, which is itself one.
        let mut first = if precedes(backwards, self.first) { backwards } else { self.first };
        let mut distance = WARP_SIZE / 2;
        while distance > 0 {
            // SAFETY: the caller's contract.
            first = unsafe { exchanged(first, distance, self.lane & distance == 0, precedes) };
            distance /= 2;
        }
        self.first = first;
        // SAFETY: the caller's contract; k is at most the number of lanes, and not 0.
        let last = unsafe { first.shuffle_idx(FULL_WARP, self.k - 1) };
        if precedes(last, self.bound) {
            self.bound = last;
        }
    }

    /// Takes what the blocks before this one publish, each warp of this block that of some of them,
    /// several at a time, so that no load waits for another one. The cells are empty afterwards.
    ///
    /// # Safety
    /// Called by all threads of the block; `slots` has cells for `k` elements of each block; nobody else
    /// takes what those before `block` publish, each of which does so, and waits for nobody.
    #[inline(always)]
    unsafe fn take_others(&mut self, slots: *mut u64, block: u32) {
        let (k, warps) = (self.k, block_dim_x() / WARP_SIZE);
        // The k-th element is in the lane of the same distance from the end; lanes before it have none.
        let place = WARP_SIZE - 1 - self.lane;
        let mut first = thread_idx_x() / WARP_SIZE;
        while first < block {
            let of = |turn: usize| {
                let other = first + turn as u32 * warps;
                let wanted = other < block && place < k;
                // Where none is wanted, one that is there, so that there is no branch.
                let other = if other < block { other } else { first };
                (other * k + Ord::min(place, k - 1), wanted)
            };
            let cells = |at: u32| Cells::of::<Located<K>>(slots, at);
            // SAFETY: the caller's contract. All lanes have seen what they wait for before any cell is
            // left empty, each by the one lane that has taken it.
            unsafe {
                let mut elements = loop {
                    let mut all = true;
                    let elements: [_; ACCUMULATORS] = core::array::from_fn(|turn| {
                        let (element, present) = peek(cells(of(turn).0), is_present);
                        all &= present;
                        element
                    });
                    if warp_vote_all(FULL_WARP, all) {
                        break elements;
                    }
                };
                let mut turn = 0;
                while turn < ACCUMULATORS {
                    let (at, wanted) = of(turn);
                    if wanted {
                        leave::<Located<K>>(cells(at), 0);
                    }
                    let element = if wanted { elements[0] } else { Self::NONE };
                    if warp_vote_any(FULL_WARP, precedes(element, self.bound)) {
                        self.merge(element);
                    }
                    (elements, turn) = (turned(elements), turn + 1);
                }
            }
            first += ACCUMULATORS as u32 * warps;
        }
    }

    /// Takes what all warps of the block have found into the first one.
    ///
    /// # Safety
    /// Called by all threads of the block, in none of whose warps anything waits.
    #[inline(always)]
    unsafe fn meet_warps(&mut self, memory: TopMemory) {
        let (warp, warps) = (thread_idx_x() / WARP_SIZE, block_dim_x() / WARP_SIZE);
        let mut distance = 1;
        while distance < warps {
            // SAFETY: a warp writes its elements once, to a queue of its own in which nothing waits,
            // before the barrier; another one reads them behind it.
            unsafe {
                if warp % (2 * distance) == distance {
                    self.queue.set_value(self.lane, self.first);
                }
                sync_threads();
                if warp.is_multiple_of(2 * distance) && warp + distance < warps {
                    let others = queue_of::<K>(memory, warp + distance);
                    self.merge(others.get_value(WARP_SIZE - 1 - self.lane));
                }
            }
            distance *= 2;
        }
    }

    /// Writes the first k elements of a row.
    ///
    /// # Safety
    /// The arguments are what their fields say; these are the first elements of that row.
    #[inline(always)]
    unsafe fn write<T: Copy>(&self, arguments: ReduceTop<T>, row: u64) {
        let ReduceTop { input, len, k, output, .. } = arguments;
        if self.lane >= self.k {
            return;
        }
        let result = row * k + u64::from(self.lane);
        let index = self.first.index;
        // SAFETY: the caller's contract; a row has k elements and more. The element itself is read
        // again: a key is the same for zeros of both signs, and for every NaN.
        unsafe {
            let output = output.byte_add((result * OUTPUT_BYTES) as usize);
            *output.cast() = located(index, *input.add((row * len + index) as usize));
        }
    }
}

/// The queue of a warp.
#[inline(always)]
fn queue_of<K: TopKey>(memory: TopMemory, warp: u32) -> Shared<u32> {
    memory.at(warp * TOP_QUEUE * Located::<K>::WORDS)
}

/// The groups of this thread from the tile on that begins at group `start`; zeros where there are none.
///
/// # Safety
/// The elements are readable; the tile is at most 4 groups per thread of a block of the team.
#[inline(always)]
unsafe fn load<T>(elements: ReduceCut<T>, team: Team, start: u64) -> [Vector; ACCUMULATORS] {
    let len = Ord::min(elements.groups.saturating_sub(start), elements.tile) as u32;
    let mine = group_at(elements, start + u64::from(team.thread));
    core::array::from_fn(|turn| {
        let at = turn as u32 * team.threads;
        // SAFETY: groups below `len` lie inside, and start at a 16-byte boundary.
        unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), team.thread + at < len) }
    })
}

/// The values with the second one in front, so that a loop takes each of them in its turn: an array that
/// is indexed would lie in local memory.
#[inline(always)]
fn turned<L>([a, b, c, d]: [L; ACCUMULATORS]) -> [L; ACCUMULATORS] {
    [b, c, d, a]
}

/// A group's first element.
#[inline(always)]
fn front<T: Copy>([a, b, ..]: Vector) -> T {
    let word = u64::from(b) << 32 | u64::from(a);
    // SAFETY: an element is plain bits, and no larger than the word.
    unsafe { (&raw const word).cast::<T>().read() }
}

/// Some element of a group. Words are chosen by masks: of a choice by conditions rust-cuda's LLVM 7
/// makes a choice of addresses, for which it puts the group into local memory.
#[inline(always)]
fn nth<T: Copy>([a, b, c, d]: Vector, at: u32) -> T {
    let bytes = at * size_of::<T>() as u32;
    let one_of = |first: u32, second: u32, bit: u32| {
        let second_if = 0_u32.wrapping_sub(bytes / bit % 2);
        first ^ ((first ^ second) & second_if)
    };
    let (a, b) = (one_of(a, c, 8), one_of(b, d, 8));
    front([one_of(a, b, 4) >> (bytes % 4 * 8), b, 0, 0])
}

/// A group without its first element.
#[inline(always)]
fn behind<T>([a, b, c, d]: Vector) -> Vector {
    match size_of::<T>() {
        8 => [c, d, 0, 0],
        4 => [b, c, d, 0],
        size => {
            let bits = 8 * size as u32;
            let joined = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> bits) as u32;
            [joined(a, b), joined(b, c), joined(c, d), d >> bits]
        }
    }
}

/// This lane's value, or that of the lane at a distance: the one that comes first, or the other one.
///
/// # Safety
/// All lanes of a warp call it together, of two at a distance one with `wants_first`.
#[inline(always)]
unsafe fn exchanged<V: Value>(
    mine: V,
    distance: u32,
    wants_first: bool,
    precedes: impl Fn(V, V) -> bool,
) -> V {
    // SAFETY: the caller's contract.
    let other = unsafe { mine.shuffle_xor(FULL_WARP, distance) };
    if precedes(other, mine) == wants_first { other } else { mine }
}

/// The lanes' values in order from the last lane to the first: a bitonic sort.
///
/// # Safety
/// All lanes of a warp call it together.
#[inline(always)]
unsafe fn sorted_backwards<V: Value>(mut mine: V, lane: u32, precedes: impl Fn(V, V) -> bool) -> V {
    let (mut sorted, mut distance) = (2, 1);
    while sorted <= WARP_SIZE {
        // Pieces of `sorted` lanes get sorted, every second one the other way around.
        let wants_first = (lane & distance != 0) == (lane & sorted == 0);
        // SAFETY: the caller's contract.
        mine = unsafe { exchanged(mine, distance, wants_first, &precedes) };
        distance /= 2;
        if distance == 0 {
            distance = sorted;
            sorted *= 2;
        }
    }
    mine
}
