//! Dispatch of mbarrier operations and asynchronous copies, and the cluster barrier.

use crate::error::FaultKind;
use crate::observe::{BarrierKind, Detail};
use crate::program::{AsyncOp, MbarrierKind};

use super::divergent_path::{Wait, Whole};
use super::warp::{Next, Stop, Warp};
use super::{ExecContext, Outcome, Probe, trouble};

impl Warp {
    #[cold]
    pub(super) fn asynchronous<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &AsyncOp,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        match op {
            AsyncOp::Mbarrier(op) => {
                if let MbarrierKind::Wait { .. } = op.kind {
                    return self.wait(context, op, mask);
                }
                self.turn.acted = true;
                self.operate(context, op, mask)?;
                Ok(Next::Reported)
            }
            AsyncOp::Copy(op) => {
                self.turn.acted = true;
                self.copy(context, op, mask)?;
                Ok(Next::Reported)
            }
            AsyncOp::Tensor(op) => {
                self.turn.acted = true;
                self.copy_tensor(context, op, mask)?;
                Ok(Next::Reported)
            }
            AsyncOp::ReplaceMap(map, field, value) => {
                self.replace_in_map(context, map, (*field, *value), mask)?;
                Ok(Next::Plain)
            }
            AsyncOp::CopyMap(places) => {
                self.copy_map(context, places, mask)?;
                Ok(Next::Plain)
            }
            AsyncOp::Group(op) => {
                self.groups(context, *op, mask)?;
                Ok(Next::Plain)
            }
        }
    }

    /// Executes `barrier.cluster.arrive` or `.wait` once all live lanes of the warp are at it.
    #[cold]
    pub(super) fn cluster_barrier<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        wait: bool,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        let operation = if wait { "barrier.cluster.wait" } else { "barrier.cluster.arrive" };
        let lane = mask.trailing_zeros();
        match self.whole(&context.launch.entry.program, mask, Wait::Warp) {
            Whole::Here => {}
            Whole::Later(next) => return Ok(next),
            Whole::Missing(missing) => {
                let warp = self.index;
                return trouble(FaultKind::DivergentClusterBarrier { operation, warp, missing }, lane);
            }
        }
        let wrong = |problem| FaultKind::ClusterBarrierOrder { operation, problem };
        match (wait, self.cluster_phase) {
            (true, None) => {
                return trouble(wrong("without a barrier.cluster.arrive before it"), lane);
            }
            (false, Some(_)) => {
                let problem = "follows another one without a barrier.cluster.wait in between";
                return trouble(wrong(problem), lane);
            }
            (true, Some(phase)) if phase == context.common.barrier.phase => {
                return Ok(Next::Suspend(Stop::ClusterBarrier(phase)));
            }
            (true, Some(_)) => self.cluster_phase = None,
            (false, None) => self.cluster_phase = Some(context.common.barrier.arrive()),
        }
        self.turn.acted = true;
        if P::ENABLED {
            let kind = if wait { BarrierKind::ClusterWait } else { BarrierKind::ClusterArrive };
            context.report((self.pc, self.index, self.live(), self.live()), Detail::Barrier(kind));
        }
        self.pass();
        Ok(Next::Placed)
    }
}
