//! The other instructions of sm_90: mbarrier operations, asynchronous copies, and the cluster barrier.

use crate::error::FaultKind;
use crate::observe::{BarrierKind, Detail};
use crate::program::{AsyncOp, MbarrierKind};

use super::strand::{Wait, Whole};
use super::warp::{Next, Stop, Warp};
use super::{Outcome, Probe, Scene, trouble};

impl Warp {
    #[cold]
    pub(super) fn asynchronous<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        op: &AsyncOp,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        match op {
            AsyncOp::Mbarrier(op) => {
                if let MbarrierKind::Wait { .. } = op.kind {
                    return self.wait(scene, op, mask);
                }
                scene.turn.acted = true;
                self.operate(scene, op, mask)?;
                Ok(Next::Told)
            }
            AsyncOp::Copy(op) => {
                scene.turn.acted = true;
                self.copy(scene, op, mask)?;
                Ok(Next::Told)
            }
            AsyncOp::Group(op) => {
                self.groups(scene, *op, mask)?;
                Ok(Next::Plain)
            }
        }
    }

    /// Executes `barrier.cluster.arrive` and `.wait`, if the whole warp does.
    #[cold]
    pub(super) fn cluster_barrier<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        wait: bool,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        let operation = if wait { "barrier.cluster.wait" } else { "barrier.cluster.arrive" };
        let lane = mask.trailing_zeros();
        match self.whole(&scene.launch.entry.program, mask, Wait::Warp) {
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
            (true, Some(phase)) if phase == scene.common.barrier.phase => {
                return Ok(Next::Suspend(Stop::ClusterBarrier(phase)));
            }
            (true, Some(_)) => self.cluster_phase = None,
            (false, None) => self.cluster_phase = Some(scene.common.barrier.arrive()),
        }
        scene.turn.acted = true;
        if P::ENABLED {
            let kind = if wait { BarrierKind::ClusterWait } else { BarrierKind::ClusterArrive };
            scene.tell((self.pc, self.index, self.live(), self.live()), Detail::Barrier(kind));
        }
        self.pass();
        Ok(Next::Placed)
    }
}
