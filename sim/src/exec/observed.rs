//! Translation of the program's terms into those of observers.

use crate::observe::{BarrierKind, Detail, Event};
use crate::program::BarrierOp;

use super::block::Arena;
use super::{Launched, Probe};

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

impl Arena {
    /// Gives an observer the event of an instruction: its index, the warp, the
    /// active lanes and those that executed it.
    pub(super) fn tell<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        (index, warp, active, executed): (u32, u32, u32, u32),
        detail: Detail<'_>,
    ) {
        let instruction = &launch.entry.program.info[index as usize];
        let block = self.block;
        let event = Event { index, instruction, block, warp, active, executed, detail };
        probe.event(&mut self.probe, &event);
    }
}
