//! Counters of a launch, by instruction and by step of a block: its work between two block barriers.
//!
//! A [`Profiler`] observes the launches of one entry. Its [`Profile`] contains exact numbers, with the
//! meaning that Nsight Compute gives them on compute capability 9.0, for PTX instructions instead of
//! machine instructions.

mod access;
mod counts;
mod plan;
mod steps;
mod tally;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::observe::{BlockInfo, Detail, Event, Observer};
use counts::Counts;
use plan::Plan;

pub use steps::{Step, Timeline, WarpStep};
pub use tally::{AtomicAccess, GlobalAccess, SharedAccess, Tally};

/// An observer that counts the work of one entry's launches, for
/// [`Gpu::launch_observed`](crate::Gpu::launch_observed).
///
/// Blocks reuse a few sets of counters, which are summed when the [`Profile`] is requested, so that
/// counting needs no lock while a block runs.
#[derive(Debug, Default)]
pub struct Profiler {
    plan: OnceLock<Arc<Plan>>,
    idle: Mutex<Vec<Counts>>,
}

/// The result of a [`Profiler`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Tallies of the entry's instructions, by index.
    pub instructions: Vec<Tally>,
    /// Blocks that ran to completion.
    pub blocks: u64,
    /// Warps of the blocks that ran to completion.
    pub warps: u64,
    /// The steps of a block, summed over all blocks.
    pub steps: Vec<Step>,
    /// Timeline of block 0, by step and warp.
    pub timeline: Timeline,
    /// Maximum bytes of global loads that a thread had in flight: issued, and not yet followed by an
    /// instruction that names the result.
    pub bytes_in_flight: u32,
    /// Maximum bytes of asynchronous copies that a block had in flight.
    pub copy_bytes_in_flight: u64,
    /// The address with the most atomic operations, and their number.
    pub hottest_atomic: Option<(u64, u64)>,
}

impl Profile {
    /// Returns the sum of the tallies of all instructions.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.instructions.iter().for_each(|&tally| total += tally);
        total
    }

    /// Adds the counts of another launch of the same entry. Keeps `self.timeline` unless it is empty.
    pub fn add(&mut self, other: &Self) {
        let length = self.instructions.len().max(other.instructions.len());
        self.instructions.resize(length, Tally::default());
        for (sum, &part) in self.instructions.iter_mut().zip(&other.instructions) {
            *sum += part;
        }
        let length = self.steps.len().max(other.steps.len());
        self.steps.resize(length, Step::default());
        for (sum, part) in self.steps.iter_mut().zip(&other.steps) {
            sum.add(part);
        }
        self.blocks += other.blocks;
        self.warps += other.warps;
        self.bytes_in_flight = self.bytes_in_flight.max(other.bytes_in_flight);
        self.copy_bytes_in_flight = self.copy_bytes_in_flight.max(other.copy_bytes_in_flight);
        // Atomics of different launches do not contend for an address, so their counts are not added.
        self.hottest_atomic = self.hottest_atomic.max_by_key_of(other.hottest_atomic);
        if self.timeline.steps.is_empty() {
            self.timeline = other.timeline.clone();
        }
    }
}

trait MaxByKeyOf {
    fn max_by_key_of(self, other: Self) -> Self;
}

impl MaxByKeyOf for Option<(u64, u64)> {
    fn max_by_key_of(self, other: Self) -> Self {
        [self, other]
            .into_iter()
            .flatten()
            .max_by_key(|&(address, count)| (count, std::cmp::Reverse(address)))
    }
}

impl Profiler {
    /// Creates a profiler without counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counts of all blocks that have ended.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut profile = Profile::default();
        let mut atomics: HashMap<u64, u64> = HashMap::new();
        for counts in idle.iter() {
            profile.add(&counts.profile());
            for (&address, count) in &counts.atomics {
                *atomics.entry(address).or_default() += count;
            }
        }
        let hottest = |&(address, count): &(u64, u64)| (count, std::cmp::Reverse(address));
        profile.hottest_atomic = atomics.into_iter().max_by_key(hottest);
        profile
    }
}

impl Observer for Profiler {
    type Block = Counts;

    fn block_begin(&self, block: &BlockInfo<'_>) -> Counts {
        let plan = self.plan.get_or_init(|| Arc::new(Plan::new(block.entry)));
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut counts = idle.unwrap_or_else(|| Counts::new(plan));
        counts.begin(block);
        counts
    }

    fn instruction(&self, counts: &mut Counts, event: &Event<'_>) {
        if event.part == 0 {
            counts.execute(event);
        }
        match &event.detail {
            Detail::Memory(memory) => counts.memory(event, memory),
            Detail::Branch(branch) => counts.branch(event, *branch),
            Detail::Barrier(kind) => counts.barrier(event, *kind),
            Detail::Shuffle(_) => counts.shuffle(event),
            Detail::Copy(copy) => counts.copy(event, copy),
            _ => {}
        }
    }

    fn landed(&self, counts: &mut Counts, event: &Event<'_>) {
        if let Detail::Copy(copy) = &event.detail {
            counts.landed(copy);
        }
    }

    fn block_end(&self, mut counts: Counts) {
        counts.end();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(counts);
    }
}
