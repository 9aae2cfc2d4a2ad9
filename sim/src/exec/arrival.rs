//! mbarrier operations of a warp.

use crate::error::MbarrierProblem;
use crate::lanes::{Row64, commit, for_each_lane, lanes_of};
use crate::memory::Space;
use crate::observe::{Detail, Mbarrier as Seen, MbarrierOperation};
use crate::program::{LANES, MbarrierKind, MbarrierOp, Place, Slot, SlotOrRow};

use super::cluster::{ClusterState, mbarrier_fault};
use super::flight::Work;
use super::mbarrier::{MOST, Mbarrier, parity};
use super::reach::aligned;
use super::warp::{Next, Stop, Warp};
use super::{ExecContext, Outcome, Probe};

impl Warp {
    /// Returns the block rank and address of each lane's mbarrier, after checks of alignment and bounds.
    fn mbarriers<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        place: &Place,
        mask: u32,
    ) -> Outcome<([u32; LANES], Row64)> {
        let mut addresses = self.addresses(place);
        let mut ranks = [context.rank; LANES];
        for lane in lanes_of(mask) {
            let (rank, address) = context.shared_place(place, addresses[lane], "mbarrier", lane)?;
            aligned("mbarrier", Space::Shared, address, 8, lane)?;
            context.check_shared("mbarrier", address, 8, lane)?;
            (ranks[lane], addresses[lane]) = (rank, address);
        }
        Ok((ranks, addresses))
    }

    pub(super) fn operate<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &MbarrierOp,
        mask: u32,
    ) -> Outcome<()> {
        let (ranks, addresses) = self.mbarriers(context, &op.at, mask)?;
        let mut states = [0; LANES];
        for lane in lanes_of(mask) {
            let operand = op.operand.map_or(1, |slot| self.value(slot, lane) as u32);
            let at = (ranks[lane], addresses[lane]);
            states[lane] = operate(context.common, op.kind, at, operand)
                .map_err(|problem| mbarrier_fault(at.1, problem, lane as u32))?;
        }
        if let SlotOrRow::Slot(Slot::Double(row)) = op.result {
            commit(&mut self.regs.doubles[usize::from(row)], &states, mask);
        }
        if let MbarrierKind::AfterCopies { .. } = op.kind {
            let issuer = self.issuer(context, self.active, mask);
            let work = Work::Arrival(Box::new(addresses));
            context.common.depart(context.launch, context.probe, issuer, work)?;
        }
        self.tell_mbarriers(context, op.kind, mask, (&ranks, &addresses), 0);
        Ok(())
    }

    /// Executes `mbarrier.test_wait` or `.try_wait`. A `try_wait` suspends the warp until the phase of
    /// at least one lane is complete or the try times out.
    pub(super) fn wait<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &MbarrierOp,
        mask: u32,
    ) -> Outcome<Next> {
        let MbarrierKind::Wait { blocks, parity: by_parity } = op.kind else { return Ok(Next::Plain) };
        let (ranks, addresses) = self.mbarriers(context, &op.at, mask)?;
        let mut over = 0;
        let mut last: Option<(u64, bool, bool)> = None;
        for lane in lanes_of(mask) {
            let at = (ranks[lane], addresses[lane]);
            let wanted = self.awaited(op, by_parity, at.1, lane)?;
            let found = match last {
                // Lanes usually wait for the same phase: one look-up serves them all.
                Some((address, parity, over)) if (address, parity) == (at.1, wanted) => over,
                _ => {
                    let ExecContext { launch, probe, common, .. } = &mut *context;
                    common.wait_for_phase(launch, *probe, at, wanted, lane as u32)?
                }
            };
            over |= u32::from(found) << lane;
            last = Some((at.1, wanted, found));
        }
        if over == 0 {
            if blocks && !context.common.expired {
                let address = addresses[mask.trailing_zeros() as usize];
                return Ok(Next::Suspend(Stop::Mbarrier(address as u32)));
            }
            if !blocks {
                self.turn.poll();
            }
        }
        if let SlotOrRow::Predicate(row) = op.result {
            let p = &mut self.regs.predicates[usize::from(row)];
            *p = *p & !mask | over & mask;
        }
        self.tell_mbarriers(context, op.kind, mask, (&ranks, &addresses), over);
        Ok(Next::Reported)
    }

    fn awaited(&self, op: &MbarrierOp, by_parity: bool, address: u64, lane: usize) -> Outcome<bool> {
        let operand = op.operand.map_or(0, |slot| self.value(slot, lane));
        if !by_parity {
            return Ok(parity(operand));
        }
        match operand as u32 {
            value @ (0 | 1) => Ok(value == 1),
            value => {
                let (what, value) = ("a phase parity of", value.into());
                let problem = MbarrierProblem::Operand { what, value, allowed: "0 or 1" };
                Err(mbarrier_fault(address, problem, lane as u32))
            }
        }
    }

    fn tell_mbarriers<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        kind: MbarrierKind,
        mask: u32,
        (ranks, addresses): (&[u32; LANES], &Row64),
        complete: u32,
    ) {
        if !P::ENABLED {
            return;
        }
        let (mut rest, mut part) = (mask, 0);
        while rest != 0 {
            let owner = ranks[rest.trailing_zeros() as usize];
            let mut lanes = 0;
            for_each_lane(rest, |lane| lanes |= u32::from(ranks[lane] == owner) << lane);
            let operation = observed(kind);
            let complete = complete & lanes;
            let seen = Seen { operation, lanes, owner, addresses, complete };
            let place = (self.pc, self.index, self.active, mask);
            context.report_part(place, part, Detail::Mbarrier(seen));
            rest &= !lanes;
            part += 1;
        }
    }
}

fn operate(
    common: &mut ClusterState,
    kind: MbarrierKind,
    (rank, address): (u32, u64),
    operand: u32,
) -> Result<u64, MbarrierProblem> {
    let bytes = || match i64::from(operand) {
        bytes if bytes <= MOST => Ok(bytes),
        value => {
            let (what, allowed) = ("a transaction count of", "0 to 1048575");
            Err(MbarrierProblem::Operand { what, value, allowed })
        }
    };
    if kind == MbarrierKind::Init {
        return init(common, (rank, address), operand);
    }
    let state = common.mbarrier(rank, address, |barrier| {
        let state = barrier.pack();
        match kind {
            MbarrierKind::Arrive { drop, expect: true, completes } => {
                barrier.transact(bytes()?)?;
                barrier.arrive(1, drop, completes)?;
            }
            MbarrierKind::Arrive { drop, completes, .. } => barrier.arrive(operand, drop, completes)?,
            MbarrierKind::Expect => barrier.transact(bytes()?)?,
            MbarrierKind::Complete => barrier.transact(-bytes()?)?,
            MbarrierKind::AfterCopies { counted: false } => barrier.expect_arrival()?,
            MbarrierKind::AfterCopies { counted: true }
            | MbarrierKind::Init
            | MbarrierKind::Invalidate
            | MbarrierKind::Wait { .. } => {}
        }
        Ok(state)
    })?;
    if kind == MbarrierKind::Invalidate {
        let member = &mut common.members[rank as usize];
        member.mbarriers.insert(address, false);
    }
    Ok(state)
}

fn init(
    common: &mut ClusterState,
    (rank, address): (u32, u64),
    count: u32,
) -> Result<u64, MbarrierProblem> {
    let barrier = Mbarrier::new(count)?;
    let member = &mut common.members[rank as usize];
    if member.mbarriers.insert(address, true) == Some(true) {
        return Err(MbarrierProblem::InUse);
    }
    let at = address as usize;
    if let Some(bytes) = member.shared.get_mut(at..at + 8) {
        bytes.copy_from_slice(&barrier.pack().to_le_bytes());
    }
    Ok(barrier.pack())
}

fn observed(kind: MbarrierKind) -> MbarrierOperation {
    match kind {
        MbarrierKind::Init => MbarrierOperation::Init,
        MbarrierKind::Invalidate => MbarrierOperation::Invalidate,
        MbarrierKind::Arrive { drop: false, .. } => MbarrierOperation::Arrive,
        MbarrierKind::Arrive { drop: true, .. } => MbarrierOperation::ArriveDrop,
        MbarrierKind::Expect => MbarrierOperation::Expect,
        MbarrierKind::Complete => MbarrierOperation::Complete,
        MbarrierKind::Wait { .. } => MbarrierOperation::Wait,
        MbarrierKind::AfterCopies { .. } => MbarrierOperation::ArriveAfterCopies,
    }
}
