//! The probe of launches that are observed, or whose order is chosen.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::config::Launch;
use crate::explore::Trail;
use crate::module::InstructionInfo;
use crate::observe::{BlockInfo, Erased, Event};
use crate::program::Inst;

use super::execute::Before;
use super::explored::World;
use super::guided::Guide;
use super::warp::Warp;
use super::{Launched, Probe, ProbeState};

#[derive(Default)]
pub(crate) struct Watched<'o> {
    /// Receives the events.
    observer: Option<&'o dyn Erased>,
    /// Chooses the order of threads.
    guide: Option<Guide>,
    /// Stops each warp before each instruction that others may observe, until permitted.
    world: Option<World>,
    /// Receives the indices of executed instructions.
    visited: Option<Mutex<BTreeSet<u32>>>,
}

impl<'o> Watched<'o> {
    pub(crate) fn of(launch: &Launch, observer: Option<&'o dyn Erased>) -> Self {
        Self { observer, guide: launch.seed.map(Guide::new), ..Self::default() }
    }

    pub(super) fn exploring(trail: Trail) -> Self {
        Self { world: Some(World::new(trail)), ..Self::default() }
    }

    /// Returns a probe that records which instructions are executed.
    pub(super) fn recording() -> Self {
        Self { visited: Some(Mutex::default()), ..Self::default() }
    }

    pub(super) fn visited(self) -> BTreeSet<u32> {
        self.visited.map_or_else(BTreeSet::new, |visited| {
            visited.into_inner().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl Probe for Watched<'_> {
    const ENABLED: bool = true;

    fn before(&self, warp: &mut Warp, launch: &Launched<'_>, inst: &Inst, mask: u32) -> Before {
        if self.guide.as_ref().is_some_and(|guide| warp.wanders(guide, &launch.entry.program, inst)) {
            return Before::Switched;
        }
        if self.world.as_ref().is_some_and(|world| warp.halts(world, launch, inst, mask)) {
            warp.turn.polled = true;
            return Before::EndTurn;
        }
        Before::Execute
    }

    fn exploration(&self) -> Option<&World> {
        self.world.as_ref()
    }

    fn guide(&self) -> Option<&Guide> {
        self.guide.as_ref()
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        self.observer.is_none_or(|observer| observer.ignores(instruction))
    }

    fn reports_all(&self) -> bool {
        self.visited.is_some()
    }

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState {
        self.observer.map(|observer| observer.begin(block))
    }

    fn round_begin(&self, state: &mut ProbeState) {
        if let (Some(observer), Some(state)) = (self.observer, state) {
            observer.round_begin(state.as_mut());
        }
    }

    fn round_end(&self, state: &mut ProbeState) {
        if let (Some(observer), Some(state)) = (self.observer, state) {
            observer.round_end(state.as_mut());
        }
    }

    fn event(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(visited) = &self.visited {
            visited.lock().unwrap_or_else(PoisonError::into_inner).insert(event.index);
        }
        if let (Some(observer), Some(state)) = (self.observer, state) {
            observer.instruction(state.as_mut(), event);
        }
    }

    fn landed(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let (Some(observer), Some(state)) = (self.observer, state) {
            observer.landed(state.as_mut(), event);
        }
    }

    fn end(&self, state: ProbeState) {
        if let (Some(observer), Some(state)) = (self.observer, state) {
            observer.end(state);
        }
    }
}
