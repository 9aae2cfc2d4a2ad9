//! The executor: warps in lock step, blocks, the grid.

mod atomic;
mod backing;
mod block;
mod collective;
mod control;
mod grid;
mod memory;
mod observed;
mod warp;

use std::any::Any;

use crate::config::{Config, Launch};
use crate::error::{Fault, FaultKind};
use crate::memory::View;
use crate::module::Entry;
use crate::observe::{BlockInfo, Erased, Event};

pub(crate) use grid::{Limits, run};

/// What all blocks of a launch share.
pub(crate) struct Launched<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) shape: Launch,
    pub(crate) params: &'a [u8],
    pub(crate) constants: &'a [u8],
    /// Address of each global variable of the module.
    pub(crate) globals: &'a [u64],
    pub(crate) view: View,
    pub(crate) config: &'a Config,
    /// Number of the launch on its device.
    pub(crate) grid_id: u64,
}

impl Launched<'_> {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        self.shape.block.iter().product()
    }

    /// Warps of a block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    pub(crate) fn shared_bytes(&self) -> u32 {
        self.entry.program.static_shared + self.shape.dynamic_shared
    }

    /// The place of a linear block index in the grid.
    fn block_index(&self, linear: u64) -> [u32; 3] {
        let [x, y, _] = self.shape.grid.map(u64::from);
        [linear % x, linear / x % y, linear / x / y].map(|index| index as u32)
    }

    /// The place of a thread within its block.
    fn thread_index(&self, warp: u32, lane: u32) -> [u32; 3] {
        let [x, y, _] = self.shape.block;
        let linear = warp * 32 + lane;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// Gives a thread's error its place.
    #[cold]
    fn fault(&self, trouble: Trouble, pc: u32, block: [u32; 3], warp: u32) -> Box<Fault> {
        let info = &self.entry.program.info[pc as usize];
        Box::new(Fault {
            kind: trouble.kind,
            line: info.line,
            text: info.text.clone(),
            kernel: self.entry.name.clone(),
            block,
            thread: self.thread_index(warp, trouble.lane),
        })
    }
}

/// An error of a lane, before it has its place.
#[derive(Debug)]
pub(crate) struct Trouble {
    kind: FaultKind,
    lane: u32,
}

type Outcome<T> = Result<T, Box<Trouble>>;

#[cold]
fn trouble<T>(kind: FaultKind, lane: u32) -> Outcome<T> {
    Err(Box::new(Trouble { kind, lane }))
}

/// State of an observer for one block.
type ProbeState = Option<Box<dyn Any + Send>>;

/// Observation as the executor sees it: compiled in or out.
pub(crate) trait Probe: Sync {
    /// Whether events are made at all.
    const ENABLED: bool;
    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState;
    fn event(&self, state: &mut ProbeState, event: &Event<'_>);
    fn end(&self, state: ProbeState);
}

/// What a warp's instructions act on besides the warp itself.
struct Scene<'s, P> {
    launch: &'s Launched<'s>,
    arena: &'s mut block::Arena,
    probe: &'s P,
    turn: warp::Turn,
}

/// No observation.
pub(crate) struct Off;

impl Probe for Off {
    const ENABLED: bool = false;

    fn begin(&self, _: &BlockInfo<'_>) -> ProbeState {
        None
    }

    fn event(&self, _: &mut ProbeState, _: &Event<'_>) {}

    fn end(&self, _: ProbeState) {}
}

/// Observation by any observer. The executor is compiled for this one type, in
/// this crate; an event costs an indirect call.
pub(crate) struct On<'o>(pub(crate) &'o dyn Erased);

impl Probe for On<'_> {
    const ENABLED: bool = true;

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState {
        Some(self.0.begin(block))
    }

    fn event(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(state) = state {
            self.0.instruction(state.as_mut(), event);
        }
    }

    fn end(&self, state: ProbeState) {
        if let Some(state) = state {
            self.0.end(state);
        }
    }
}
