//! Translation of the program's terms into those of observers.

use crate::observe::{BarrierKind, Detail, Event};
use crate::program::BarrierOp;

use super::{Probe, Scene};

impl BarrierOp {
    /// The barrier's kind as observers see it.
    pub(super) fn observed(self, id: u32) -> BarrierKind {
        match self {
            Self::Sync => BarrierKind::Sync(id),
            Self::Arrive => BarrierKind::Arrive(id),
            Self::Reduce { .. } => BarrierKind::Reduce(id),
        }
    }
}

impl<P: Probe> Scene<'_, P> {
    /// Gives an observer the event of an instruction: its index, the warp, the
    /// active lanes and those that executed it.
    pub(super) fn tell(
        &mut self,
        (index, warp, active, executed): (u32, u32, u32, u32),
        detail: Detail<'_>,
    ) {
        let instruction = &self.launch.entry.program.info[index as usize];
        let block = self.arena.block;
        let event = Event { index, instruction, block, warp, active, executed, detail };
        self.probe.event(&mut self.arena.probe, &event);
    }
}
