//! The executor: warps in lock step, blocks, the grid.

mod arrival;
mod asynchronous;
mod atomic;
mod backing;
mod block;
mod call;
mod cluster;
mod collective;
mod condition;
mod control;
mod copy;
mod device_heap;
mod endless;
mod explore;
mod explored;
mod flight;
mod float_text;
mod grid;
mod guided;
mod matrix;
mod mbarrier;
mod memory;
mod observed;
mod print;
mod reach;
mod special;
mod step;
mod strand;
mod texture;
mod transfer;
mod turn;
mod warp;

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::config::{Config, Launch};
use crate::error::{Fault, FaultKind};
use crate::memory::{DeviceHeap, View};
use crate::module::{Entry, InstructionInfo};
use crate::observe::{BlockInfo, Erased, Event};
use crate::places::Places;
use crate::program::RESERVED_SHARED;
use crate::texture::Objects;

pub(crate) use explore::{Explorer, Found};
use explored::World;
pub(crate) use grid::{Limits, has_threads, run};
use guided::Guide;
pub(crate) use guided::Guided;
pub(crate) use transfer::{Moves, moves};

/// What all blocks of a launch share.
pub(crate) struct Launched<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) shape: Launch,
    /// Shape of a cluster in blocks, and whether launch or entry states one.
    pub(crate) cluster: [u32; 3],
    pub(crate) explicit_cluster: bool,
    pub(crate) params: &'a [u8],
    pub(crate) constants: &'a [u8],
    /// Address of each global variable of the module.
    pub(crate) globals: &'a [u64],
    pub(crate) view: View,
    pub(crate) config: &'a Config,
    /// Number of the launch on its device.
    pub(crate) grid_id: u64,
    /// What kernels have printed.
    pub(crate) printed: &'a Mutex<Vec<u8>>,
    /// Values by handles of graphs.
    pub(crate) conditions: &'a Mutex<HashMap<u64, u32>>,
    /// Whether the entry asks for reserved shared memory.
    pub(crate) reserves: bool,
    /// The textures and surfaces that there were when it began.
    pub(crate) objects: Arc<Objects>,
    /// What kernels allocate from, if this one does.
    pub(crate) heap: Option<Arc<DeviceHeap>>,
    /// Address of what the barrier of a cooperative launch works on; 0 for none.
    pub(crate) workspace: u64,
    pub(crate) moves: Moves,
    /// For each instruction whether the observer ignores it; empty where there is none.
    pub(crate) ignored: Vec<bool>,
}

/// What reserved shared memory is aligned to.
const RESERVED_ALIGN: u32 = 128;

impl Launched<'_> {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        self.shape.block.iter().product()
    }

    /// Warps of a block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    /// Bytes of shared memory that the entry and the launch ask for.
    pub(crate) fn user_shared_bytes(&self) -> u32 {
        self.entry.program.static_shared + self.shape.dynamic_shared
    }

    /// Where shared memory begins that is reserved.
    pub(crate) fn reserved_from(&self) -> u32 {
        self.user_shared_bytes().next_multiple_of(RESERVED_ALIGN)
    }

    /// Bytes of a block's shared memory, with what is reserved where the entry asks for that.
    pub(crate) fn shared_bytes(&self) -> u32 {
        match self.reserves {
            true => self.reserved_from() + RESERVED_SHARED,
            false => self.user_shared_bytes(),
        }
    }

    /// What lies where, in words.
    pub(crate) fn places(&self) -> Places<'_> {
        let Self { entry, params, view, .. } = self;
        Places { view, entry, params, shared_bytes: self.shared_bytes() }
    }

    /// When a launch that begins now has used up its time; `None` for never.
    fn deadline(&self) -> Option<Instant> {
        self.config.time_limit.and_then(|limit| Instant::now().checked_add(limit))
    }

    /// What a launch that has used up its time fails by.
    fn out_of_time(&self) -> FaultKind {
        FaultKind::TimeLimit { limit: self.config.time_limit.unwrap_or_default() }
    }

    /// Blocks of a cluster.
    pub(crate) fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Clusters of the grid in x, y and z.
    fn cluster_count(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.shape.grid[axis] / self.cluster[axis])
    }

    /// The place in the grid of a cluster's block, by the cluster's number and the
    /// block's rank in it.
    fn place(&self, index: u64, rank: u32) -> PlaceInGrid {
        let cluster = unravel(index, self.cluster_count());
        let within = unravel(rank.into(), self.cluster);
        let block: [u32; 3] =
            std::array::from_fn(|axis| cluster[axis] * self.cluster[axis] + within[axis]);
        let [x, y, _] = self.shape.grid.map(u64::from);
        let [bx, by, bz] = block.map(u64::from);
        PlaceInGrid { block, linear: bx + x * (by + y * bz), cluster, within, rank }
    }

    /// The place of a thread within its block.
    fn thread_index(&self, warp: u32, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.shape.block;
        let linear = warp * 32 + lane;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// Gives a thread's error its place.
    #[cold]
    fn fault(&self, mut trouble: Trouble, pc: u32, block: [u32; 3], warp: u32) -> Box<Fault> {
        if let FaultKind::OutOfBounds { space, address, bytes, allowed, .. } = &mut trouble.kind
            && let Some(missed) = self.places().missed(*space, *address, (*bytes).into())
        {
            *allowed = missed;
        }
        let at = trouble.place.unwrap_or(Whereabouts { pc, block, warp });
        let info = &self.entry.program.info[at.pc as usize];
        Box::new(Fault {
            kind: trouble.kind,
            line: info.line,
            text: info.text.clone(),
            location: info.location.clone(),
            looping: None,
            kernel: self.entry.name.clone(),
            block: at.block,
            thread: self.thread_index(at.warp, trouble.lane),
        })
    }
}

/// Where a block is in the grid and in its cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceInGrid {
    block: [u32; 3],
    /// The same as one number, x fastest.
    linear: u64,
    /// The cluster's place in the grid of clusters.
    cluster: [u32; 3],
    /// The block's place in its cluster, and the same as one number.
    within: [u32; 3],
    rank: u32,
}

/// The place of a number in a shape, x fastest.
fn unravel(linear: u64, shape: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = shape.map(u64::from);
    [linear % x, linear / x % y, linear / x / y].map(|index| index as u32)
}

/// An error of a lane, before it has its place.
#[derive(Debug)]
pub(crate) struct Trouble {
    kind: FaultKind,
    lane: u32,
    /// The place, if it is not that of the instruction being executed.
    place: Option<Whereabouts>,
}

/// An instruction of a warp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whereabouts {
    pc: u32,
    block: [u32; 3],
    warp: u32,
}

type Outcome<T> = Result<T, Box<Trouble>>;

#[cold]
fn trouble<T>(kind: FaultKind, lane: u32) -> Outcome<T> {
    Err(Box::new(Trouble { kind, lane, place: None }))
}

#[cold]
fn trouble_at<T>(kind: FaultKind, lane: u32, place: Whereabouts) -> Outcome<T> {
    Err(Box::new(Trouble { kind, lane, place: Some(place) }))
}

/// State of an observer for one block.
type ProbeState = Option<Box<dyn Any + Send>>;

/// Observation as the executor sees it: compiled in or out.
pub(crate) trait Probe: Sync {
    /// Whether events are made at all.
    const ENABLED: bool;

    /// The exploration that is under way.
    fn exploration(&self) -> Option<&World> {
        None
    }

    /// Who chooses the order of threads, if that is not fixed.
    fn guide(&self) -> Option<&Guide> {
        None
    }

    /// Whether events of an instruction that only computes or branches are not wanted.
    fn ignores(&self, _: &InstructionInfo) -> bool {
        false
    }

    /// Whether all events are wanted, whoever ignores what.
    fn hears_all(&self) -> bool {
        false
    }

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState;

    /// The warps of a block begin to have a turn each.
    fn round_begin(&self, _: &mut ProbeState) {}

    /// Each has had its turn.
    fn round_end(&self, _: &mut ProbeState) {}

    fn event(&self, state: &mut ProbeState, event: &Event<'_>);
    fn landed(&self, state: &mut ProbeState, event: &Event<'_>);
    fn end(&self, state: ProbeState);
}

/// What a warp's instructions act on besides the warp itself.
struct Scene<'s, P> {
    launch: &'s Launched<'s>,
    arena: &'s mut block::Arena,
    common: &'s mut cluster::Common,
    probe: &'s P,
    turn: turn::Turn,
}

/// A probe that observes nothing.
pub(crate) struct Off;

impl Probe for Off {
    const ENABLED: bool = false;

    fn begin(&self, _: &BlockInfo<'_>) -> ProbeState {
        None
    }

    fn event(&self, _: &mut ProbeState, _: &Event<'_>) {}

    fn landed(&self, _: &mut ProbeState, _: &Event<'_>) {}

    fn end(&self, _: ProbeState) {}
}

/// Observation by any observer. The executor is compiled for this one type, in
/// this crate; an event costs an indirect call.
pub(crate) struct On<'o>(pub(crate) &'o dyn Erased);

impl Probe for On<'_> {
    const ENABLED: bool = true;

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        self.0.ignores(instruction)
    }

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState {
        Some(self.0.begin(block))
    }

    fn round_begin(&self, state: &mut ProbeState) {
        if let Some(state) = state {
            self.0.round_begin(state.as_mut());
        }
    }

    fn round_end(&self, state: &mut ProbeState) {
        if let Some(state) = state {
            self.0.round_end(state.as_mut());
        }
    }

    fn event(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(state) = state {
            self.0.instruction(state.as_mut(), event);
        }
    }

    fn landed(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(state) = state {
            self.0.landed(state.as_mut(), event);
        }
    }

    fn end(&self, state: ProbeState) {
        if let Some(state) = state {
            self.0.end(state);
        }
    }
}
