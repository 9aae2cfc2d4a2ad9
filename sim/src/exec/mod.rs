//! The executor: grids, clusters, blocks, and warps in lock step.

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
mod divergent_path;
mod endless;
mod execute;
mod explore;
mod explored;
mod flight;
mod grid;
mod guided;
mod lockstep;
mod matrix;
mod mbarrier;
mod memory;
mod number_text;
mod observed;
mod print;
mod probe;
mod reach;
mod special;
mod stack;
mod tensor;
mod texture;
mod transfer;
mod turn;
mod warp;
mod warpgroup;

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::config::{Config, Launch, Stats};
use crate::error::{Fault, FaultKind};
use crate::memory::{DeviceHeap, View};
use crate::module::{Entry, InstructionInfo};
use crate::observe::{BlockInfo, Event};
use crate::places::Places;
use crate::program::{Inst, RESERVED_SHARED};
use crate::texture::Objects;

use block::Round;
use cluster::{ClusterState, Member};
use execute::Before;
pub(crate) use explore::{Explorer, Found};
use explored::World;
pub(crate) use grid::{Limits, has_threads, run};
use guided::Guide;
pub(crate) use probe::{Observed, Steered, Unobserved};
pub(crate) use transfer::{Moves, moves};
use warp::Warp;

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
    pub(crate) conditions: &'a Mutex<HashMap<u64, u32>>,
    pub(crate) reserves: bool,
    /// Textures and surfaces that existed at the start of the launch.
    pub(crate) objects: Arc<Objects>,
    pub(crate) heap: Option<Arc<DeviceHeap>>,
    /// Address of the workspace of a cooperative launch's barrier; 0 for none.
    pub(crate) workspace: u64,
    pub(crate) moves: Moves,
    /// For each instruction, `true` if the observer ignores it; empty if there is no observer.
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

    /// Returns the shared memory of a block in bytes, including the reserved part if the entry uses it.
    pub(crate) fn shared_bytes(&self) -> u32 {
        match self.reserves {
            true => self.reserved_from() + RESERVED_SHARED,
            false => self.user_shared_bytes().next_multiple_of(self.config.shared_granularity.max(1)),
        }
    }

    pub(crate) fn places(&self) -> Places<'_> {
        let Self { entry, params, view, .. } = self;
        Places { view, entry, params, shared_bytes: self.shared_bytes() }
    }

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
    fn fault(&self, mut trouble: LaneFault, pc: u32, block: [u32; 3], warp: u32) -> Box<Fault> {
        if let FaultKind::OutOfBounds { space, address, bytes, allowed, .. } = &mut trouble.kind
            && let Some(missed) = self.places().missed(*space, *address, (*bytes).into())
        {
            *allowed = missed;
        }
        let at = trouble.place.unwrap_or(InstLocation { pc, block, warp });
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
    /// Linear index of `block`, x fastest.
    linear: u64,
    cluster: [u32; 3],
    /// Coordinates of the block in its cluster, and its linear rank there.
    within: [u32; 3],
    rank: u32,
}

fn unravel(linear: u64, shape: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = shape.map(u64::from);
    [linear % x, linear / x % y, linear / x / y].map(|index| index as u32)
}

#[derive(Debug)]
pub(crate) struct LaneFault {
    kind: FaultKind,
    lane: u32,
    place: Option<InstLocation>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct InstLocation {
    pc: u32,
    block: [u32; 3],
    warp: u32,
}

type Outcome<T> = Result<T, Box<LaneFault>>;

#[cold]
fn trouble<T>(kind: FaultKind, lane: u32) -> Outcome<T> {
    Err(Box::new(LaneFault { kind, lane, place: None }))
}

#[cold]
fn trouble_at<T>(kind: FaultKind, lane: u32, place: InstLocation) -> Outcome<T> {
    Err(Box::new(LaneFault { kind, lane, place: Some(place) }))
}

type ProbeState = Option<Box<dyn Any + Send>>;

/// Hooks into the executor, which is compiled for [`Off`], [`Observed`] and [`Steered`].
pub(crate) trait Probe: Sync {
    /// Set if `before` is called and events are made. Otherwise the warps of a block may run in
    /// lockstep.
    const ENABLED: bool;

    /// Called before a warp executes an instruction in the lanes of a mask, if `ENABLED`.
    fn before(&self, _: &mut Warp, _: &Launched<'_>, _: &Inst, _: u32) -> Before {
        Before::Execute
    }

    fn exploration(&self) -> Option<&World> {
        None
    }

    fn guide(&self) -> Option<&Guide> {
        None
    }

    /// Returns whether to skip the events of an instruction that only computes or branches.
    fn ignores(&self, _: &InstructionInfo) -> bool {
        false
    }

    /// Returns whether to report all events, even those of ignored instructions.
    fn reports_all(&self) -> bool {
        false
    }

    fn begin(&self, _: &BlockInfo<'_>) -> ProbeState {
        None
    }

    fn round_begin(&self, _: &mut ProbeState) {}

    fn round_end(&self, _: &mut ProbeState) {}

    fn event(&self, _: &mut ProbeState, _: &Event<'_>) {}

    fn landed(&self, _: &mut ProbeState, _: &Event<'_>) {}

    fn end(&self, _: ProbeState) {}
}

/// Execution context of a block's warps during a [round](block::Block::round).
struct ExecContext<'s, P> {
    launch: &'s Launched<'s>,
    probe: &'s P,
    common: &'s mut ClusterState,
    rank: u32,
    /// Index of the global allocation found last, where the next search starts.
    hint: usize,
    /// Instructions executed in this turn of the cluster, and the count of warp instructions at which
    /// the turn stops.
    total: &'s mut Stats,
    limit: u64,
    round: Round,
}

impl<P> ExecContext<'_, P> {
    #[inline(always)]
    fn own(&mut self) -> &mut Member {
        &mut self.common.members[self.rank as usize]
    }

    fn left(&self) -> u64 {
        self.limit - self.total.warp_instructions
    }
}

pub(crate) struct Off;

impl Probe for Off {
    const ENABLED: bool = false;
}
