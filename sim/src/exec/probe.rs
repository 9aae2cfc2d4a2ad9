//! The probe of launches that are observed, or whose order is chosen.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::explore::Trail;
use crate::module::InstructionInfo;
use crate::observe::{BlockInfo, Erased, Event, Observer};
use crate::program::Inst;

use super::execute::Before;
use super::explored::World;
use super::guided::Guide;
use super::warp::Warp;
use super::{Launched, Probe, ProbeState};

/// A probe that passes on events and, if `STEERED`, chooses the order of threads or records what is
/// executed. Otherwise the checks before every instruction are compiled out.
pub(crate) struct EventProbe<'o, const STEERED: bool> {
    /// Receives the events.
    observer: &'o dyn Erased,
    guide: Option<Guide>,
    /// Stops each warp before each instruction that others may observe, until permitted.
    world: Option<World>,
    /// Receives the indices of executed instructions.
    visited: Option<Mutex<BTreeSet<u32>>>,
}

/// A probe of launches that are only observed.
pub(crate) type Observed<'o> = EventProbe<'o, false>;
/// A probe of launches whose order is chosen, or whose instructions are recorded.
pub(crate) type Steered<'o> = EventProbe<'o, true>;

/// An observer that ignores all events.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    type Block = ();

    fn block_begin(&self, _: &BlockInfo<'_>) {}

    fn instruction(&self, (): &mut (), _: &Event<'_>) {}

    fn ignores(&self, _: &InstructionInfo) -> bool {
        true
    }

    fn block_end(&self, (): ()) {}
}

impl<'o, const STEERED: bool> EventProbe<'o, STEERED> {
    pub(crate) fn by(observer: &'o dyn Erased) -> Self {
        Self { observer, guide: None, world: None, visited: None }
    }
}

impl<'o> Steered<'o> {
    pub(crate) fn seeded(seed: u64, observer: &'o dyn Erased) -> Self {
        Self { guide: Some(Guide::new(seed)), ..Self::by(observer) }
    }

    pub(super) fn exploring(trail: Trail) -> Self {
        Self { world: Some(World::new(trail)), ..Self::by(&Unobserved) }
    }

    pub(super) fn recording() -> Self {
        Self { visited: Some(Mutex::default()), ..Self::by(&Unobserved) }
    }

    /// Returns the indices of the instructions that were executed, of a probe that records them.
    pub(super) fn visited(self) -> BTreeSet<u32> {
        self.visited.map_or_else(BTreeSet::new, |visited| {
            visited.into_inner().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl<const STEERED: bool> Probe for EventProbe<'_, STEERED> {
    const ENABLED: bool = true;

    fn before(&self, warp: &mut Warp, launch: &Launched<'_>, inst: &Inst, mask: u32) -> Before {
        if self.guide().is_some_and(|guide| warp.wanders(guide, &launch.entry.program, inst)) {
            return Before::Switched;
        }
        if self.exploration().is_some_and(|world| warp.halts(world, launch, inst, mask)) {
            warp.turn.polled = true;
            return Before::EndTurn;
        }
        Before::Execute
    }

    fn exploration(&self) -> Option<&World> {
        self.world.as_ref().filter(|_| STEERED)
    }

    fn guide(&self) -> Option<&Guide> {
        self.guide.as_ref().filter(|_| STEERED)
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        self.observer.ignores(instruction)
    }

    fn reports_all(&self) -> bool {
        STEERED && self.visited.is_some()
    }

    fn begin(&self, block: &BlockInfo<'_>) -> ProbeState {
        Some(self.observer.begin(block))
    }

    fn round_begin(&self, state: &mut ProbeState) {
        if let Some(state) = state {
            self.observer.round_begin(state.as_mut());
        }
    }

    fn round_end(&self, state: &mut ProbeState) {
        if let Some(state) = state {
            self.observer.round_end(state.as_mut());
        }
    }

    fn event(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(visited) = self.visited.as_ref().filter(|_| STEERED) {
            visited.lock().unwrap_or_else(PoisonError::into_inner).insert(event.index);
        }
        if let Some(state) = state {
            self.observer.instruction(state.as_mut(), event);
        }
    }

    fn landed(&self, state: &mut ProbeState, event: &Event<'_>) {
        if let Some(state) = state {
            self.observer.landed(state.as_mut(), event);
        }
    }

    fn end(&self, state: ProbeState) {
        if let Some(state) = state {
            self.observer.end(state);
        }
    }
}
