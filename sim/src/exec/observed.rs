//! Events as reported to observers.

use crate::observe::{BarrierKind, Detail, Event};
use crate::program::BarrierOp;

use super::{ExecContext, Probe};

impl BarrierOp {
    pub(super) fn observed(self, id: u32) -> BarrierKind {
        match self {
            Self::Sync => BarrierKind::Sync(id),
            Self::Arrive => BarrierKind::Arrive(id),
            Self::Reduce { .. } => BarrierKind::Reduce(id),
        }
    }
}

impl<P: Probe> ExecContext<'_, P> {
    /// Reports an instruction. `place` has its index, the warp, the active lanes and the lanes that
    /// executed it.
    #[inline]
    pub(super) fn report(&mut self, place: (u32, u32, u32, u32), detail: Detail<'_>) {
        self.report_part(place, 0, detail);
    }

    /// Reports one of several events of an instruction, like [`report`](Self::report).
    #[inline]
    pub(super) fn report_part(
        &mut self,
        (index, warp, active, executed): (u32, u32, u32, u32),
        part: u32,
        detail: Detail<'_>,
    ) {
        let instruction = &self.launch.entry.program.info[index as usize];
        let Self { probe, common, rank, .. } = self;
        let own = &mut common.members[*rank as usize];
        let block = own.block;
        let event = Event { index, instruction, block, warp, active, executed, part, detail };
        probe.event(&mut own.probe, &event);
    }
}
