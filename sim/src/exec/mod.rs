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

pub(crate) struct Launched<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) shape: Launch,
    /// Shape of a cluster in blocks, and whether the launch or the entry states one.
    pub(crate) cluster: [u32; 3],
    pub(crate) explicit_cluster: bool,
    pub(crate) params: &'a [u8],
    pub(crate) constants: &'a [u8],
    pub(crate) globals: &'a [u64],
    pub(crate) view: View,
    pub(crate) config: &'a Config,
    pub(crate) grid_id: u64,
    pub(crate) printed: &'a Mutex<Vec<u8>>,
    /// Values by the conditional handles of graphs.
    pub(crate) conditions: &'a Mutex<HashMap<u64, u32>>,
    /// Set if the entry uses reserved shared memory.
    pub(crate) reserves: bool,
    /// Textures and surfaces that existed at the start of the launch.
    pub(crate) objects: Arc<Objects>,
    pub(crate) heap: Option<Arc<DeviceHeap>>,
    /// Address of the workspace of a cooperative launch's barrier; 0 for none.
    pub(crate) workspace: u64,
    pub(crate) moves: Moves,
    /// For each instruction, `true` if the observer ignores it; empty without an observer.
    pub(crate) ignored: Vec<bool>,
}

const RESERVED_ALIGN: u32 = 128;

impl Launched<'_> {
    pub(crate) fn threads(&self) -> u32 {
        self.shape.block.iter().product()
    }

    pub(crate) fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    pub(crate) fn user_shared_bytes(&self) -> u32 {
        self.entry.program.static_shared + self.shape.dynamic_shared
    }

    pub(crate) fn reserved_from(&self) -> u32 {
        self.user_shared_bytes().next_multiple_of(RESERVED_ALIGN)
    }

    /// Returns the shared memory of a block in bytes, with the reserved part if the entry uses it.
    pub(crate) fn shared_bytes(&self) -> u32 {
        match self.reserves {
            true => self.reserved_from() + RESERVED_SHARED,
            false => self.user_shared_bytes(),
        }
    }

    /// Returns what describes addresses in messages.
    pub(crate) fn places(&self) -> Places<'_> {
        let Self { entry, params, view, .. } = self;
        Places { view, entry, params, shared_bytes: self.shared_bytes() }
    }

    /// Returns when a launch that begins now exceeds its time limit; `None` for never.
    fn deadline(&self) -> Option<Instant> {
        self.config.time_limit.and_then(|limit| Instant::now().checked_add(limit))
    }

    fn out_of_time(&self) -> FaultKind {
        FaultKind::TimeLimit { limit: self.config.time_limit.unwrap_or_default() }
    }

    pub(crate) fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    fn cluster_count(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.shape.grid[axis] / self.cluster[axis])
    }

    /// Returns the place of a block, by the index of its cluster and its rank in it.
    fn place(&self, index: u64, rank: u32) -> PlaceInGrid {
        let cluster = unravel(index, self.cluster_count());
        let within = unravel(rank.into(), self.cluster);
        let block: [u32; 3] =
            std::array::from_fn(|axis| cluster[axis] * self.cluster[axis] + within[axis]);
        let [x, y, _] = self.shape.grid.map(u64::from);
        let [bx, by, bz] = block.map(u64::from);
        PlaceInGrid { block, linear: bx + x * (by + y * bz), cluster, within, rank }
    }

    fn thread_index(&self, warp: u32, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.shape.block;
        let linear = warp * 32 + lane;
        [linear % x, linear / x % y, linear / x / y]
    }

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

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceInGrid {
    block: [u32; 3],
    /// `block` as one number, x fastest.
    linear: u64,
    /// Index of the cluster in the grid of clusters.
    cluster: [u32; 3],
    /// Index of the block in its cluster, and the same as one number.
    within: [u32; 3],
    rank: u32,
}

fn unravel(linear: u64, shape: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = shape.map(u64::from);
    [linear % x, linear / x % y, linear / x / y].map(|index| index as u32)
}

#[derive(Debug)]
pub(crate) struct Trouble {
    kind: FaultKind,
    lane: u32,
    place: Option<Whereabouts>,
}

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

type ProbeState = Option<Box<dyn Any + Send>>;

/// Observation as the executor sees it, compiled in or out.
pub(crate) trait Probe: Sync {
    /// Set if events are made at all.
    const ENABLED: bool;

    fn exploration(&self) -> Option<&World> {
        None
    }

    /// Returns the source of the order of threads, if that is seeded.
    fn guide(&self) -> Option<&Guide> {
        None
    }

    /// Returns whether events of an instruction that only computes or branches are unwanted.
    fn ignores(&self, _: &InstructionInfo) -> bool {
        false
    }

    /// Returns whether all events are wanted, even of ignored instructions.
    fn hears_all(&self) -> bool {
        false
    }

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState;

    /// Begins a round, in which each runnable warp of a block has a turn.
    fn round_begin(&self, _: &mut ProbeState) {}

    fn round_end(&self, _: &mut ProbeState) {}

    fn event(&self, state: &mut ProbeState, event: &Event<'_>);
    fn landed(&self, state: &mut ProbeState, event: &Event<'_>);
    fn end(&self, state: ProbeState);
}

struct Scene<'s, P> {
    launch: &'s Launched<'s>,
    arena: &'s mut block::Arena,
    common: &'s mut cluster::Common,
    probe: &'s P,
    turn: turn::Turn,
}

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

/// A probe that passes events to any observer. The executor is compiled for this one type, in this
/// crate; an event costs an indirect call.
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
