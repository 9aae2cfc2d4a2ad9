//! Conversion of the program's terms to those of observers.

use crate::observe::{BarrierKind, Detail, Event};
use crate::program::BarrierOp;

use super::{Probe, Scene};

impl BarrierOp {
    pub(super) fn observed(self, id: u32) -> BarrierKind {
        match self {
            Self::Sync => BarrierKind::Sync(id),
            Self::Arrive => BarrierKind::Arrive(id),
            Self::Reduce { .. } => BarrierKind::Reduce(id),
        }
    }
}

impl<P: Probe> Scene<'_, P> {
    /// Gives the observer the event of an instruction: its index, the warp, the active lanes and those
    /// that executed it.
    pub(super) fn tell(&mut self, place: (u32, u32, u32, u32), detail: Detail<'_>) {
        self.tell_part(place, 0, detail);
    }

    /// As [`tell`](Self::tell), for an instruction that gives several events.
    pub(super) fn tell_part(
        &mut self,
        (index, warp, active, executed): (u32, u32, u32, u32),
        part: u32,
        detail: Detail<'_>,
    ) {
        let instruction = &self.launch.entry.program.info[index as usize];
        let block = self.arena.block;
        let event = Event { index, instruction, block, warp, active, executed, part, detail };
        let state = &mut self.common.members[self.arena.rank as usize].probe;
        self.probe.event(state, &event);
    }
}
