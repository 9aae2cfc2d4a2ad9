//! Observers, the basis of counters, hazard checks and timelines.
//!
//! An [`Observer`] receives the executed instructions of an observed launch with their masks and
//! addresses. Plain launches run a copy of the executor in which observation is compiled out.

mod asynchronous;

use std::any::Any;
use std::sync::Mutex;

use crate::lanes::{FULL, is_spaced};
use crate::memory::Space;
use crate::module::{Entry, InstructionInfo};
use crate::places::Places;

pub use asynchronous::{Completion, Copy, Mbarrier, MbarrierOperation};

/// An observer of the instructions of a launch.
///
/// Each block has its own state of type [`Block`](Self::Block), which moves with the block when another
/// host thread resumes it, so an observer needs no lock until a block ends. An access to the shared
/// memory of another block of the cluster is reported with the state of the block that executes it.
pub trait Observer: Sync {
    /// State of the observer for a running block.
    type Block: Send + 'static;

    /// Called before a block starts; returns its state.
    fn block_begin(&self, block: &BlockInfo<'_>) -> Self::Block;

    /// Called after a warp of the block has executed an instruction.
    fn instruction(&self, state: &mut Self::Block, event: &Event<'_>);

    /// Called before a round, in which each runnable warp of the block has a turn. The host thread runs
    /// no other block until the round ends, and every turn is short, even if its warp waits.
    fn round_begin(&self, state: &mut Self::Block) {
        let _ = state;
    }

    /// Called after a round.
    fn round_end(&self, state: &mut Self::Block) {
        let _ = state;
    }

    /// Returns whether the observer ignores an instruction; called once for each launch. An ignored
    /// instruction that only computes or branches is reported only if it is the first that a warp
    /// executes after a barrier of the block.
    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        let _ = instruction;
        false
    }

    /// Called after an asynchronous copy that the block issued is complete: its bytes are written and
    /// its mbarrier is updated. The event is the one of the issue, with a [`Detail::Copy`] of the lanes
    /// whose copies complete now. This event does not count as an instruction.
    fn landed(&self, state: &mut Self::Block, event: &Event<'_>) {
        let _ = (state, event);
    }

    /// Called after the block has ended without a fault; the blocks of a cluster end together.
    fn block_end(&self, state: Self::Block);
}

/// A block about to run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BlockInfo<'a> {
    /// The entry being run.
    pub entry: &'a Entry,
    /// Shape of the grid in blocks.
    pub grid: [u32; 3],
    /// Shape of a block in threads.
    pub block_size: [u32; 3],
    /// This block's index in the grid.
    pub block: [u32; 3],
    /// Linear index of [`block`](Self::block), x fastest.
    pub linear: u64,
    /// Warps of a block.
    pub warps: u32,
    /// Bytes of shared memory: static, dynamic, and reserved if the entry uses it.
    pub shared_bytes: u32,
    /// Bytes of dynamic shared memory that the launch requested.
    pub dynamic_shared: u32,
    /// Shape of the block's cluster in blocks; a launch without clusters has clusters of one block.
    pub cluster: [u32; 3],
    /// The cluster's index in the grid of clusters.
    pub cluster_index: [u32; 3],
    /// The block's rank in its cluster.
    pub rank: u32,
    pub(crate) places: Places<'a>,
}

/// One warp's execution of one instruction.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Index of the instruction within the entry.
    pub index: u32,
    /// The instruction's text, line, source location and class.
    pub instruction: &'a InstructionInfo,
    /// Index of the block in the grid.
    pub block: [u32; 3],
    /// Index of the warp in the block.
    pub warp: u32,
    /// Lanes at this instruction.
    pub active: u32,
    /// Active lanes whose predicate held.
    pub executed: u32,
    /// Index of the event among those of one execution, from 0: an access to several memories is
    /// reported as several events.
    pub part: u32,
    /// Effect of the instruction, if it does more than compute.
    pub detail: Detail<'a>,
}

/// The effect of an instruction beyond its registers.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Detail<'a> {
    /// No further effect.
    None,
    /// A memory access.
    Memory(Memory<'a>),
    /// A read by `wgmma.mma_async` of a part of a matrix in shared memory, as 16 bytes per lane. The
    /// matrix must not change until the warp has waited for the product.
    Operand(Memory<'a>),
    /// A branch.
    Branch(Branch),
    /// An arrival at a barrier.
    Barrier(BarrierKind),
    /// A shuffle.
    Shuffle(Shuffle<'a>),
    /// The issue of an asynchronous copy.
    Copy(Copy<'a>),
    /// An operation on mbarriers.
    Mbarrier(Mbarrier<'a>),
}

/// A memory access of a warp.
///
/// An access to several state spaces, or to the shared memory of several blocks, is reported as one
/// event for each.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Memory<'a> {
    /// The state space, with generic addresses resolved.
    pub space: Space,
    /// Rank of the block that owns the shared memory; for other spaces, of the block that executes the
    /// instruction.
    pub owner: u32,
    /// Set if the instruction has a generic address.
    pub generic: bool,
    /// Kind of the access.
    pub kind: AccessKind,
    /// Bytes that each lane reads or writes.
    pub bytes: u32,
    /// Number of elements in [`bytes`](Self::bytes): 1 unless the access is a vector.
    pub elements: u32,
    /// Lanes that access this space.
    pub lanes: u32,
    /// Addresses within the space; valid for [`lanes`](Self::lanes) only.
    pub addresses: &'a [u64; 32],
    /// Spacing of the addresses, as far as the executor knows it.
    pub(crate) known: Option<Spacing>,
}

/// Spacing of the addresses of a warp's lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// All lanes take part, and each lane's bytes begin where the previous lane's end.
    Next,
    /// All lanes take part, with the same address.
    Same,
    /// Any other spacing, or one that the executor has not determined.
    Other,
}

impl Memory<'_> {
    #[inline]
    pub(crate) fn spacing(&self) -> Spacing {
        let Self { addresses, bytes, lanes, known, .. } = *self;
        match known {
            Some(known @ (Spacing::Next | Spacing::Same)) => known,
            _ if lanes != FULL => Spacing::Other,
            None if is_spaced(addresses, bytes as usize) => Spacing::Next,
            _ if addresses[0] == addresses[1] && is_spaced(addresses, 0) => Spacing::Same,
            _ => Spacing::Other,
        }
    }
}

/// Kind of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Reads, changes and returns (`atom`).
    Atomic,
    /// Reads and changes (`red`).
    Reduction,
}

/// The outcome of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Lanes that go to the target.
    pub taken: u32,
    /// Set if the active lanes diverged.
    pub diverged: bool,
}

/// A barrier at which a warp arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BarrierKind {
    /// `bar.sync`: waits for the block's other threads at the numbered barrier.
    Sync(u32),
    /// `bar.arrive`: arrives without waiting.
    Arrive(u32),
    /// `bar.red`: waits and reduces a predicate.
    Reduce(u32),
    /// `bar.warp.sync` with the member mask.
    Warp(u32),
    /// `barrier.cluster.arrive`.
    ClusterArrive,
    /// `barrier.cluster.wait`, after the wait.
    ClusterWait,
}

/// The data movement of a shuffle.
#[derive(Debug, Clone, Copy)]
pub struct Shuffle<'a> {
    /// The lane that each lane reads.
    pub sources: &'a [u8; 32],
    /// Lanes whose source is within their segment.
    pub in_range: u32,
    /// The member mask of each lane.
    pub members: &'a [u32; 32],
}

/// The functional unit of a multiprocessor that executes an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Integer arithmetic and logic, 32 bits and narrower.
    Integer,
    /// Integer arithmetic and logic on 64 bits.
    Integer64,
    /// Arithmetic in half precision.
    Half,
    /// Arithmetic in single precision.
    Float,
    /// Arithmetic in double precision.
    Double,
    /// Transcendentals, reciprocals and roots.
    Special,
    /// Conversions between two types.
    Convert,
    /// Register moves and selects.
    Move,
    /// Comparisons that write predicates.
    Compare,
    /// Loads and stores of memory.
    Memory,
    /// Asynchronous copies, and the commits and waits of their groups.
    Copy,
    /// Atomics: `atom` and `red`.
    Atomic,
    /// Branches, calls and exits.
    Control,
    /// Block and warp barriers.
    Barrier,
    /// Fences of memory accesses.
    Fence,
    /// Shuffles, votes and reductions over a warp.
    Warp,
    /// Products of small matrices.
    Matrix,
    /// Reads of a texture.
    Texture,
    /// Hints, and other instructions without effect on results.
    Other,
}

/// Object-safe form of [`Observer`]. The executor is compiled once with [`Off`](crate::exec::Off), and
/// once with a probe that dispatches to this trait.
pub(crate) trait Erased: Sync {
    fn begin(&self, block: &BlockInfo<'_>) -> Box<dyn Any + Send>;
    fn round_begin(&self, state: &mut (dyn Any + Send));
    fn round_end(&self, state: &mut (dyn Any + Send));
    fn instruction(&self, state: &mut (dyn Any + Send), event: &Event<'_>);
    fn ignores(&self, instruction: &InstructionInfo) -> bool;
    fn landed(&self, state: &mut (dyn Any + Send), event: &Event<'_>);
    fn end(&self, state: Box<dyn Any + Send>);
}

impl<O: Observer> Erased for O {
    fn begin(&self, block: &BlockInfo<'_>) -> Box<dyn Any + Send> {
        Box::new(self.block_begin(block))
    }

    fn round_begin(&self, state: &mut (dyn Any + Send)) {
        if let Some(state) = state.downcast_mut::<O::Block>() {
            Observer::round_begin(self, state);
        }
    }

    fn round_end(&self, state: &mut (dyn Any + Send)) {
        if let Some(state) = state.downcast_mut::<O::Block>() {
            Observer::round_end(self, state);
        }
    }

    fn instruction(&self, state: &mut (dyn Any + Send), event: &Event<'_>) {
        if let Some(state) = state.downcast_mut::<O::Block>() {
            Observer::instruction(self, state, event);
        }
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        Observer::ignores(self, instruction)
    }

    fn landed(&self, state: &mut (dyn Any + Send), event: &Event<'_>) {
        if let Some(state) = state.downcast_mut::<O::Block>() {
            Observer::landed(self, state, event);
        }
    }

    fn end(&self, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast::<O::Block>() {
            self.block_end(*state);
        }
    }
}

/// A counter of executed instructions, the simplest observer, for
/// [`Gpu::launch_observed`](crate::Gpu::launch_observed).
#[derive(Debug, Default)]
pub struct Counter {
    total: Mutex<Counts>,
}

/// The counts of a [`Counter`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Warp instructions for each instruction of the entry.
    pub executed: Vec<u64>,
    /// Lanes with a true predicate, summed over executions, for each instruction of the entry.
    pub lanes: Vec<u64>,
    /// Branches whose lanes diverged.
    pub divergent_branches: u64,
    /// Blocks that have ended.
    pub blocks: u64,
}

impl Counter {
    /// Creates a counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counts of the blocks that have ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

impl Observer for Counter {
    type Block = Counts;

    fn block_begin(&self, block: &BlockInfo<'_>) -> Counts {
        let length = block.entry.instructions().len();
        Counts { executed: vec![0; length], lanes: vec![0; length], blocks: 1, divergent_branches: 0 }
    }

    fn instruction(&self, counts: &mut Counts, event: &Event<'_>) {
        if event.part != 0 {
            return;
        }
        let index = event.index as usize;
        counts.executed[index] += 1;
        counts.lanes[index] += u64::from(event.executed.count_ones());
        if let Detail::Branch(Branch { diverged: true, .. }) = event.detail {
            counts.divergent_branches += 1;
        }
    }

    fn block_end(&self, counts: Counts) {
        let mut total = self.total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = total.executed.len().max(counts.executed.len());
        total.executed.resize(length, 0);
        total.lanes.resize(length, 0);
        for (sum, part) in total.executed.iter_mut().zip(&counts.executed) {
            *sum += part;
        }
        for (sum, part) in total.lanes.iter_mut().zip(&counts.lanes) {
            *sum += part;
        }
        total.divergent_branches += counts.divergent_branches;
        total.blocks += counts.blocks;
    }
}
