//! Issue of asynchronous copies.

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::{for_each_lane, lanes_of};
use crate::memory::Space;
use crate::observe::{Copy, Detail};
use crate::program::{Bytes, CopyOp, GroupOp, LANES, Signal, Slot};

use super::cluster::mbarrier_fault;
use super::flight::{Bulk, Due, Few, Issuer, Notice, Target, Work};
use super::reach::aligned;
use super::warp::Warp;
use super::{ExecContext, Outcome, Probe, trouble};

/// Alignment and granularity of bulk copies, in bytes.
const BULK_UNIT: u64 = 16;

#[derive(Default)]
struct Payload {
    from: Option<(Space, u64)>,
    data: Option<Vec<u8>>,
    bytes: u32,
}

impl Warp {
    pub(super) fn issuer<P: Probe>(
        &self,
        context: &ExecContext<'_, P>,
        active: u32,
        lanes: u32,
    ) -> Issuer {
        Issuer { rank: context.rank, warp: self.index, pc: self.pc, active, lanes }
    }

    pub(super) fn copy<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &CopyOp,
        mask: u32,
    ) -> Outcome<()> {
        if let Bytes::Few { .. } = op.bytes {
            return self.copy_few(context, op, mask);
        }
        let mut part = 0;
        for lane in lanes_of(mask) {
            part = self.copy_bulk(context, op, mask, lane, part)?;
        }
        Ok(())
    }

    fn copy_few<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &CopyOp,
        mask: u32,
    ) -> Outcome<()> {
        let Bytes::Few { from, bytes, read, ignore } = op.bytes else { return Ok(()) };
        let (sources, targets) = (self.addresses(&from), self.addresses(&op.to));
        let ignored = ignore.map_or(0, |(row, negate)| {
            let p = self.regs.predicates[usize::from(row)];
            if negate { !p } else { p }
        });
        let mut few = Few { sources, targets, bytes, read: [0; LANES], groups: *self.commits };
        for lane in lanes_of(mask) {
            let wanted = read.map_or(bytes, |slot| self.value(slot, lane) as u32);
            let wanted = if ignored >> lane & 1 == 1 { 0 } else { wanted };
            few.read[lane] = wanted.min(bytes) as u8;
            check_few(context, &few, wanted, lane)?;
        }
        let issuer = self.issuer(context, self.active, mask);
        let seen = P::ENABLED.then(|| few.event(context.common.departures, issuer.rank, mask));
        let work = Work::Few(Box::new(few));
        context.common.depart(context.launch, context.probe, issuer, work)?;
        if let Some((copy, sources, targets)) = seen {
            let detail = Detail::Copy(Copy { sources: &sources, targets: &targets, ..copy });
            self.report(context, mask, detail);
        }
        Ok(())
    }

    /// Issues the bulk copy of one lane. Its events are numbered from `part`; returns the next number.
    fn copy_bulk<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &CopyOp,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<u32> {
        let Payload { from, data, bytes } = self.payload(context, op, lane)?;
        let unit = if data.is_some() { u64::from(bytes) } else { BULK_UNIT };
        let address = self.addresses(&op.to)[lane];
        let receiver = if op.to.space == Space::Global {
            aligned("copy", Space::Global, address, unit, lane)?;
            context.check_global("copy", address, bytes, lane)?;
            (Target::Global(address), Notice::Group(self.bulk_commits[lane]))
        } else {
            let (rank, address) = context.shared_place(&op.to, address, "copy", lane)?;
            aligned("copy", Space::Shared, address, unit, lane)?;
            context.check_shared("copy", address, bytes, lane)?;
            (Target::Shared(rank, address), self.notice(context, op.signal, rank, lane)?)
        };
        let (to, notice) = receiver;
        let bulk = Bulk { from, data, to, tile: None, bytes, change: op.change, notice };
        self.depart_to_all(context, bulk, op.multicast, mask, lane, part)
    }

    /// Starts a copy, or one to each block of the mask `multicast`.
    pub(super) fn depart_to_all<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        bulk: Bulk,
        multicast: Option<Slot>,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<u32> {
        let receiver = (bulk.to, bulk.notice);
        let receivers = match multicast {
            None => vec![receiver],
            Some(slot) => expand(context, receiver, self.value(slot, lane) as u16, lane)?,
        };
        let parts = part + receivers.len() as u32;
        for (part, (to, notice)) in (part..).zip(receivers) {
            let (data, tile) = (bulk.data.clone(), bulk.tile.clone());
            self.depart_bulk(context, Bulk { to, notice, data, tile, ..bulk }, mask, lane, part)?;
        }
        Ok(parts)
    }

    fn depart_bulk<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        bulk: Bulk,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<()> {
        let issuer = self.issuer(context, self.active, 1 << lane);
        if let Notice::Mbarrier(rank, address) = bulk.notice
            && let Err(problem) = context.common.mbarrier(rank, address, |_| Ok(()))
        {
            return Err(mbarrier_fault(address, problem, lane as u32));
        }
        let seen = P::ENABLED.then(|| bulk.event(context.common.departures, issuer));
        let tile = bulk.tile.clone();
        let work = Work::Bulk(bulk);
        context.common.depart(context.launch, context.probe, issuer, work)?;
        if let Some((copy, sources, targets)) = seen {
            let pieces = tile.as_ref().map_or(&[][..], |tile| &tile.pieces);
            let detail = Detail::Copy(Copy { sources: &sources, targets: &targets, pieces, ..copy });
            context.report_part((self.pc, self.index, self.active, mask), part, detail);
        }
        Ok(())
    }

    fn payload<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        op: &CopyOp,
        lane: usize,
    ) -> Outcome<Payload> {
        let (from, bytes) = match op.bytes {
            Bytes::Bulk { from, bytes } => (from, self.value(bytes, lane) as u32),
            Bytes::Values { ty, count, data } => {
                let values = self.values(ty, &data[..usize::from(count)], lane);
                let bytes = values.len() as u32;
                return Ok(Payload { from: None, data: Some(values), bytes });
            }
            Bytes::Few { .. } => return Ok(Payload::default()),
        };
        if !u64::from(bytes).is_multiple_of(BULK_UNIT) {
            let (what, value, allowed) = ("size", bytes.into(), "a multiple of 0x10");
            return trouble(FaultKind::InvalidCopy { what, value, allowed }, lane as u32);
        }
        let address = self.addresses(&from)[lane];
        aligned("copy", from.space, address, BULK_UNIT, lane)?;
        if from.space == Space::Global {
            context.check_global("copy", address, bytes, lane)?;
        } else {
            context.check_shared("copy", address, bytes, lane)?;
        }
        Ok(Payload { from: Some((from.space, address)), data: None, bytes })
    }

    fn values(&self, ty: Type, slots: &[Slot], lane: usize) -> Vec<u8> {
        let width = ty.bytes() as usize;
        let bytes = |&slot: &Slot| self.value(slot, lane).to_le_bytes().into_iter().take(width);
        slots.iter().flat_map(bytes).collect()
    }

    /// Returns the completion signal of a copy to shared memory. An mbarrier must be in the target's
    /// block.
    pub(super) fn notice<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        signal: Signal,
        rank: u32,
        lane: usize,
    ) -> Outcome<Notice> {
        let Signal::Mbarrier(place) = signal else {
            return Ok(Notice::Group(self.bulk_commits[lane]));
        };
        let address = self.addresses(&place)[lane];
        let (of, at) = context.shared_place(&place, address, "mbarrier", lane)?;
        aligned("mbarrier", Space::Shared, at, 8, lane)?;
        context.check_shared("mbarrier", at, 8, lane)?;
        if of != rank {
            let (what, value) = ("mbarrier's block rank", of.into());
            let allowed = "that of the block whose shared memory is written";
            return trouble(FaultKind::InvalidCopy { what, value, allowed }, lane as u32);
        }
        Ok(Notice::Mbarrier(rank, at))
    }

    pub(super) fn groups<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: GroupOp,
        mask: u32,
    ) -> Outcome<()> {
        let (bulk, pending, read) = match op {
            GroupOp::Commit { bulk } => {
                let commits = if bulk { &mut self.bulk_commits } else { &mut self.commits };
                for_each_lane(mask, |lane| commits[lane] = commits[lane].saturating_add(1));
                return Ok(());
            }
            GroupOp::Wait { bulk, pending, read } => (bulk, Some(pending), read),
            GroupOp::WaitAll => (false, None, false),
        };
        let commits = if bulk { &self.bulk_commits } else { &self.commits };
        let due = Due { lanes: mask, commits, pending };
        let who = (context.rank, self.index);
        let ExecContext { launch, probe, common, .. } = context;
        match bulk {
            true => common.wait_for_bulk(launch, *probe, who, due, read),
            false => common.wait_for_few(launch, *probe, who, due),
        }
    }
}

/// Expands a multicast: returns the target and mbarrier at the same addresses in each block of a mask.
fn expand<P: Probe>(
    context: &mut ExecContext<'_, P>,
    (to, notice): (Target, Notice),
    mask: u16,
    lane: usize,
) -> Outcome<Vec<(Target, Notice)>> {
    let (Target::Shared(_, address), Notice::Mbarrier(_, barrier)) = (to, notice) else {
        return Ok(Vec::new());
    };
    let ranks = (0..16).filter(|rank| mask >> rank & 1 == 1);
    let place = |rank: u32| {
        context.common.member(rank.into(), address, "copy", lane as u32)?;
        Ok((Target::Shared(rank, address), Notice::Mbarrier(rank, barrier)))
    };
    ranks.map(place).collect()
}

fn check_few<P: Probe>(
    context: &mut ExecContext<'_, P>,
    few: &Few,
    wanted: u32,
    lane: usize,
) -> Outcome<()> {
    let bytes = few.bytes;
    if wanted > bytes {
        let (what, value, allowed) = ("source size", wanted.into(), "at most the size of the copy");
        return trouble(FaultKind::InvalidCopy { what, value, allowed }, lane as u32);
    }
    aligned("copy", Space::Global, few.sources[lane], bytes.into(), lane)?;
    aligned("copy", Space::Shared, few.targets[lane], bytes.into(), lane)?;
    context.check_global("copy", few.sources[lane], wanted, lane)?;
    context.check_shared("copy", few.targets[lane], bytes, lane)
}
