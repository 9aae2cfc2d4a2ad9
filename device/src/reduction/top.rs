//! Kernels for the first k elements in an order, with indices: of a buffer or of each row of a matrix.
//!
//! - A warp keeps the first elements so far, one per lane, in order. It compares the largest key of each
//!   loaded group with the k-th element's key, which nearly always suffices to discard the group.
//! - If k lanes or more have a group with a larger key, the k-th largest of the lanes' largest keys
//!   becomes the bound, because at least k elements are no smaller.
//! - Elements that precede the bound, the candidates, go to a queue in shared memory. When the queue has
//!   one per lane, they are sorted by shuffles and merged with the warp's elements. Thus, if every
//!   element is among the first k so far, the cost is a sort and a merge per 32 elements.
//! - The warps of a block merge their elements in shared memory, in pairs. The blocks of a row combine
//!   theirs as in [`grid`](super::grid()): all but the last publish elements in their own cells.
//!
//! Keys and indices together have a total order, so the result does not depend on the launch.
//!
//! Barriers: one per halving of the number of a block's warps.

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

/// A key by which elements are compared: an element with a larger key comes first.
pub trait TopKey: Value + Ord {
    /// The least key.
    const LEAST: Self;
}

impl TopKey for u32 {
    const LEAST: Self = 0;
}

impl TopKey for u64 {
    const LEAST: Self = 0;
}

/// An order of elements. Elements with equal keys are in the order of their indices.
pub trait Order: Sized + 'static {
    /// The type of the elements: plain bits of 1, 2, 4 or 8 bytes, at a multiple of their size.
    type Element: Copy + 'static;
    /// The type of the keys by which elements are compared.
    type Key: TopKey;
    /// Returns the key of an element.
    fn key(element: Self::Element) -> Self::Key;
    /// Returns the largest key in a group.
    fn largest(group: Vector) -> Self::Key;
}

/// Shared memory of a block: a queue for each warp.
pub type TopMemory = SharedArray<u32, { (TOP_BLOCK / WARP_SIZE * TOP_QUEUE * TOP_WORDS) as usize }>;

/// Finds each row's first elements in the order of `O`, in `share` blocks.
///
/// # Safety
/// The arguments are as their fields document; `tile` is at most 4 groups per thread of a block. The
/// slots are as for [`grid`](super::grid()). There are `rows * share` blocks of whole warps, of at most
/// [`TOP_BLOCK`] threads.
#[inline(always)]
pub unsafe fn top_grid<O: Order>(arguments: ReduceTop<O::Element>, memory: TopMemory) {
    launch_dependents_late();
    let ReduceTop { k, share, tile, slots, .. } = arguments;
    // Not 0, but the compiler does not know that.
    let blocks = Ord::max(share as u32, 1);
    let (row, block) = (block_idx_x() / blocks, block_idx_x() % blocks);
    let cells = u64::from(row * blocks) * k * u64::from(Located::<O::Key>::WORDS);
    let slots = slots.wrapping_add(cells as usize);
    let team = Team { thread: thread_idx_x(), threads: block_dim_x(), block, blocks };
    let row = u64::from(row);
    // SAFETY: a row's blocks are consecutive, and the last starts after the others. The others fill
    // their cells once, and the last takes each once. All threads of a block reach the same barriers.
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

/// Finds the first elements of rows, each by one warp.
///
/// # Safety
/// The arguments are as their fields document. There is a warp per row, in blocks of at most
/// [`TOP_BLOCK`] threads.
#[inline(always)]
pub unsafe fn top_warp<O: Order>(arguments: ReduceTop<O::Element>, memory: TopMemory) {
    let thread = thread_idx_x() % WARP_SIZE;
    let team = Team { thread, threads: WARP_SIZE, block: 0, blocks: 1 };
    let row = thread_index() / u64::from(WARP_SIZE);
    launch_dependents_late();
    if row >= arguments.rows {
        return;
    }
    // SAFETY: a warp's lanes have the same row, and are more than its elements outside of groups.
    unsafe {
        let mut found = Found::<O::Key>::none(arguments.k as u32, memory);
        found.accumulate::<O, false>(ReduceCut { tile: arguments.tile, ..row_of(arguments, row) }, team);
        wait_grid_dependencies();
        found.write(arguments, row);
    }
}

#[inline(always)]
fn row_of<T>(ReduceTop { input, len, .. }: ReduceTop<T>, row: u64) -> ReduceCut<T> {
    cut(input.wrapping_add((row * len) as usize), len)
}

/// Returns whether `a` comes before `b`. [`Found::NONE`] never does.
#[inline(always)]
fn precedes<K: TopKey>(a: Located<K>, b: Located<K>) -> bool {
    a.value > b.value || (a.value == b.value && a.index < b.index)
}

/// The elements that a warp has found. All lanes of the warp call its methods together.
struct Found<K> {
    k: u32,
    lane: u32,
    /// The element at this lane's position in the order; lane 0 has the first one.
    first: Located<K>,
    /// The k-th of `first`, or a larger key without an index, from [`expect`](Self::expect). Elements
    /// that do not precede it are discarded.
    bound: Located<K>,
    /// A ring buffer of candidates, which holds fewer than one per lane between calls.
    queue: Shared<u32>,
    begin: u32,
    waiting: u32,
}

impl<K: TopKey> Found<K> {
    const NONE: Located<K> = Located { value: K::LEAST, index: NOWHERE };

    #[inline(always)]
    fn none(k: u32, memory: TopMemory) -> Self {
        const { assert!(Located::<K>::WORDS <= TOP_WORDS) };
        let queue = queue_of::<K>(memory, thread_idx_x() / WARP_SIZE);
        let lane = thread_idx_x() % WARP_SIZE;
        Self { k, lane, first: Self::NONE, bound: Self::NONE, queue, begin: 0, waiting: 0 }
    }

    /// Finds the first elements of this warp's share. With `AHEAD`, it loads the next groups meanwhile,
    /// which is worth the registers if few warps run.
    ///
    /// # Safety
    /// The elements are readable; the tile is not zero, and at most 4 groups per thread of the team's
    /// blocks, which have no fewer threads than there are single elements.
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
        // SAFETY: single elements are outside of the groups, inside the input. No branch diverges.
        unsafe {
            let mut next = load(elements, team, start);
            let of = |index: u64| Located { value: O::key(*input.add(index as usize)), index };
            // There are fewer than 32 single elements, and the queue is empty, so it need not be sorted
            // yet.
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
                // The masks are the same in all lanes, so that no branch diverges.
                let mut candidates = candidates_for(self.bound);
                let in_lanes = candidates.tree_reduce(BitOr::bitor);
                if in_lanes != 0 {
                    // With fewer lanes, the k-th largest key would not exceed the bound.
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

    /// Raises the bound to the k-th largest of the lanes' keys `largest`. The elements with these keys
    /// are offered later, so that elements below this bound are not among the first k.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn expect(&mut self, largest: K) {
        // SAFETY: all lanes call it together, as the caller guarantees; k is 1 to the number of lanes.
        unsafe {
            let sorted = sorted_backwards(largest, self.lane, |a, b| a > b);
            let value = sorted.shuffle_idx(FULL_WARP, WARP_SIZE - self.k);
            if value > self.bound.value {
                self.bound = Located { value, index: NOWHERE };
            }
        }
    }

    /// Pushes the elements of the lanes' groups. A lane's group, if `is_there`, begins at element
    /// `index`, which is one group after that of the previous lane. `candidates`, not zero, is the mask
    /// of the lanes whose groups may have some of the first k elements.
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
        // Takes an element of each group at a time or, for few candidates, a group at a time, with its
        // elements spread over the lanes.
        let shared = 2 * candidates.count_ones() <= each;
        let (mut rest, mut candidates, mut turn) = (group, candidates, 0);
        let begin = index - u64::from(self.lane * each);
        loop {
            // SAFETY: all lanes of the warp call it together, and take the same branches.
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

    /// # Safety
    /// All lanes of the warp call it together; fewer candidates wait than there are lanes.
    #[inline(always)]
    unsafe fn push(&mut self, element: Located<K>, wanted: bool) {
        let wanted = wanted && precedes(element, self.bound);
        // SAFETY: the queue has room for one more per lane; a warp barrier follows earlier reads of it.
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

    /// Merges the candidates of the queue, at most one per lane.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn sort_in(&mut self) {
        let count = Ord::min(self.waiting, WARP_SIZE);
        // SAFETY: all lanes call it together. The elements were written before the first barrier, and
        // are overwritten only after the second one.
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

    /// Merges one element per lane, sorted from the last lane to the first.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn merge(&mut self, backwards: Located<K>) {
        // The first 32 of the 64 elements. They form a bitonic sequence.
        let mut first = if precedes(backwards, self.first) { backwards } else { self.first };
        let mut distance = WARP_SIZE / 2;
        while distance > 0 {
            // SAFETY: all lanes of the warp call it together, as the caller guarantees.
            first = unsafe { exchanged(first, distance, self.lane & distance == 0, precedes) };
            distance /= 2;
        }
        self.first = first;
        // SAFETY: all lanes call it together, as the caller guarantees; k is 1 to the number of lanes.
        let last = unsafe { first.shuffle_idx(FULL_WARP, self.k - 1) };
        if precedes(last, self.bound) {
            self.bound = last;
        }
    }

    /// Merges the elements that the blocks before this one publish, and clears their cells. Each warp
    /// takes some blocks, several at a time, so that no load waits for another.
    ///
    /// # Safety
    /// Called by all threads of the block; `slots` has cells for `k` elements of each block. All blocks
    /// before `block` publish theirs without waiting for another block, and only these threads take
    /// them.
    #[inline(always)]
    unsafe fn take_others(&mut self, slots: *mut u64, block: u32) {
        let (k, warps) = (self.k, block_dim_x() / WARP_SIZE);
        // Elements are taken in the order of `merge`: only the last k lanes have one.
        let place = WARP_SIZE - 1 - self.lane;
        let mut first = thread_idx_x() / WARP_SIZE;
        while first < block {
            let of = |turn: usize| {
                let other = first + turn as u32 * warps;
                let wanted = other < block && place < k;
                // Reads an existing element even if none is wanted, to avoid a branch.
                let other = if other < block { other } else { first };
                (other * k + Ord::min(place, k - 1), wanted)
            };
            let cells = |at: u32| Cells::of::<Located<K>>(slots, at);
            // SAFETY: the cells exist. They are cleared after all lanes have seen theirs filled, each by
            // the one lane that has taken it.
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

    /// Merges the elements of all warps of the block into the first one's.
    ///
    /// # Safety
    /// Called by all threads of the block; all queues are empty.
    #[inline(always)]
    unsafe fn meet_warps(&mut self, memory: TopMemory) {
        let (warp, warps) = (thread_idx_x() / WARP_SIZE, block_dim_x() / WARP_SIZE);
        let mut distance = 1;
        while distance < warps {
            // SAFETY: a warp stores its elements once, in its own, empty queue, before the barrier,
            // after which another warp reads them.
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

    /// # Safety
    /// The arguments are as their fields document; `self` has the first elements of row `row`.
    #[inline(always)]
    unsafe fn write<T: Copy>(&self, arguments: ReduceTop<T>, row: u64) {
        let ReduceTop { input, len, k, output, .. } = arguments;
        if self.lane >= self.k {
            return;
        }
        let result = row * k + u64::from(self.lane);
        let index = self.first.index;
        // SAFETY: input and output are valid, and a row has at least k elements. The element itself is
        // reloaded, because zeros of both signs share a key, as do all NaNs.
        unsafe {
            let output = output.byte_add((result * OUTPUT_BYTES) as usize);
            *output.cast() = located(index, *input.add((row * len + index) as usize));
        }
    }
}

#[inline(always)]
fn queue_of<K: TopKey>(memory: TopMemory, warp: u32) -> Shared<u32> {
    memory.at(warp * TOP_QUEUE * Located::<K>::WORDS)
}

/// Loads this thread's groups of the tile that begins at group `start`; zeros past its end.
///
/// # Safety
/// The elements are readable; the tile is at most 4 groups per thread of a block of the team.
#[inline(always)]
pub(super) unsafe fn load<T>(elements: ReduceCut<T>, team: Team, start: u64) -> [Vector; ACCUMULATORS] {
    let len = Ord::min(elements.groups.saturating_sub(start), elements.tile) as u32;
    let mine = group_at(elements, start + u64::from(team.thread));
    core::array::from_fn(|turn| {
        let at = turn as u32 * team.threads;
        // SAFETY: groups below `len` are inside the input, and start at a 16-byte boundary.
        unsafe { load16_if::<Streaming>(mine.wrapping_add(at as usize * 4), team.thread + at < len) }
    })
}

/// Rotates the values, so that a loop can take the first one: an indexed array would be in local memory.
#[inline(always)]
pub(super) fn turned<L>([a, b, c, d]: [L; ACCUMULATORS]) -> [L; ACCUMULATORS] {
    [b, c, d, a]
}

#[inline(always)]
fn front<T: Copy>([a, b, ..]: Vector) -> T {
    let word = u64::from(b) << 32 | u64::from(a);
    // SAFETY: an element is plain bits, and no larger than the word.
    unsafe { (&raw const word).cast::<T>().read() }
}

/// Returns element `at` of a group. Words are selected by masks: rust-cuda's LLVM 7 turns conditions
/// into a selection of addresses, for which it places the group in local memory.
#[inline(always)]
pub(super) fn nth<T: Copy>([a, b, c, d]: Vector, at: u32) -> T {
    let bytes = at * size_of::<T>() as u32;
    let one_of = |first: u32, second: u32, bit: u32| {
        let second_if = 0_u32.wrapping_sub(bytes / bit % 2);
        first ^ ((first ^ second) & second_if)
    };
    let (a, b) = (one_of(a, c, 8), one_of(b, d, 8));
    front([one_of(a, b, 4) >> (bytes % 4 * 8), b, 0, 0])
}

/// Removes a group's first element.
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

/// Compares this lane's value with that of the lane at `distance`. Returns the value that precedes if
/// `wants_first`, otherwise the other one.
///
/// # Safety
/// All lanes of a warp call it together; of two lanes at this distance, exactly one has `wants_first`.
#[inline(always)]
unsafe fn exchanged<V: Value>(
    mine: V,
    distance: u32,
    wants_first: bool,
    precedes: impl Fn(V, V) -> bool,
) -> V {
    // SAFETY: all lanes of the warp call it together, as the caller guarantees.
    let other = unsafe { mine.shuffle_xor(FULL_WARP, distance) };
    if precedes(other, mine) == wants_first { other } else { mine }
}

/// Sorts the lanes' values in order from the last lane to the first (bitonic sort).
///
/// # Safety
/// All lanes of a warp call it together.
#[inline(always)]
unsafe fn sorted_backwards<V: Value>(mut mine: V, lane: u32, precedes: impl Fn(V, V) -> bool) -> V {
    let (mut sorted, mut distance) = (2, 1);
    while sorted <= WARP_SIZE {
        // Sorts pieces of `sorted` lanes, every second one in reverse.
        let wants_first = (lane & distance != 0) == (lane & sorted == 0);
        // SAFETY: all lanes of the warp call it together, as the caller guarantees.
        mine = unsafe { exchanged(mine, distance, wants_first, &precedes) };
        distance /= 2;
        if distance == 0 {
            distance = sorted;
            sorted *= 2;
        }
    }
    mine
}
