//! Issue of asynchronous copies.

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::for_each_lane;
use crate::memory::Space;
use crate::observe::{Copy, Detail};
use crate::program::{Bytes, CopyOp, GroupOp, LANES, Signal, Slot};

use super::cluster::mbarrier_fault;
use super::flight::{Bulk, Due, Few, Issuer, Notice, Target, Work};
use super::reach::aligned;
use super::warp::Warp;
use super::{Outcome, Probe, Scene, trouble};

/// Bulk copies move multiples of this many bytes, between multiples of it.
const BULK_UNIT: u64 = 16;

/// Source of a copy: an address of a space, or values of registers.
#[derive(Default)]
struct Payload {
    from: Option<(Space, u64)>,
    data: Option<Vec<u8>>,
    bytes: u32,
}

impl Warp {
    pub(super) fn issuer<P: Probe>(&self, scene: &Scene<'_, P>, active: u32, lanes: u32) -> Issuer {
        Issuer { rank: scene.arena.rank, warp: self.index, pc: self.pc, active, lanes }
    }

    pub(super) fn copy<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        op: &CopyOp,
        mask: u32,
    ) -> Outcome<()> {
        if let Bytes::Few { .. } = op.bytes {
            return self.copy_few(scene, op, mask);
        }
        let mut outcome = Ok(0);
        for_each_lane(mask, |lane| {
            if let Ok(part) = outcome {
                outcome = self.copy_bulk(scene, op, mask, lane, part);
            }
        });
        outcome.map(|_| ())
    }

    fn copy_few<P: Probe>(&mut self, scene: &mut Scene<'_, P>, op: &CopyOp, mask: u32) -> Outcome<()> {
        let Bytes::Few { from, bytes, read, ignore } = op.bytes else { return Ok(()) };
        let (sources, targets) = (self.addresses(&from), self.addresses(&op.to));
        let ignored = ignore.map_or(0, |(row, negate)| {
            let p = self.regs.predicates[usize::from(row)];
            if negate { !p } else { p }
        });
        let mut few = Few { sources, targets, bytes, read: [0; LANES], groups: *self.commits };
        let mut failed = Ok(());
        for_each_lane(mask, |lane| {
            if failed.is_ok() {
                let wanted = read.map_or(bytes, |slot| self.value(slot, lane) as u32);
                let wanted = if ignored >> lane & 1 == 1 { 0 } else { wanted };
                few.read[lane] = wanted.min(bytes) as u8;
                failed = check_few(scene, &few, wanted, lane);
            }
        });
        failed?;
        let issuer = self.issuer(scene, self.active, mask);
        let seen = P::ENABLED.then(|| few.event(scene.common.departures, issuer.rank, mask));
        let work = Work::Few(Box::new(few));
        scene.together(|common, launch, probe| common.depart(launch, probe, issuer, work))?;
        if let Some((copy, sources, targets)) = seen {
            let detail = Detail::Copy(Copy { sources: &sources, targets: &targets, ..copy });
            self.tell(scene, mask, detail);
        }
        Ok(())
    }

    /// Issues the copy of one lane; its events are numbered from `part`. Returns the number after the
    /// last.
    fn copy_bulk<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        op: &CopyOp,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<u32> {
        let Payload { from, data, bytes } = self.payload(scene, op, lane)?;
        let unit = if data.is_some() { u64::from(bytes) } else { BULK_UNIT };
        let address = self.addresses(&op.to)[lane];
        let receiver = if op.to.space == Space::Global {
            aligned("copy", Space::Global, address, unit, lane)?;
            scene.check_global(address, bytes, lane)?;
            (Target::Global(address), Notice::Group(self.bulk_commits[lane]))
        } else {
            let (rank, address) = scene.shared_place(&op.to, address, "copy", lane)?;
            aligned("copy", Space::Shared, address, unit, lane)?;
            scene.check_shared("copy", address, bytes, lane)?;
            (Target::Shared(rank, address), self.notice(scene, op, rank, lane)?)
        };
        let receivers = match op.multicast {
            None => vec![receiver],
            Some(slot) => multicast(scene, receiver, self.value(slot, lane) as u16, lane)?,
        };
        let parts = part + receivers.len() as u32;
        for (part, (to, notice)) in (part..).zip(receivers) {
            let bulk = Bulk { from, data: data.clone(), to, bytes, change: op.change, notice };
            self.depart_bulk(scene, bulk, mask, lane, part)?;
        }
        Ok(parts)
    }

    fn depart_bulk<P: Probe>(
        &self,
        scene: &mut Scene<'_, P>,
        bulk: Bulk,
        mask: u32,
        lane: usize,
        part: u32,
    ) -> Outcome<()> {
        let issuer = self.issuer(scene, self.active, 1 << lane);
        if let Notice::Mbarrier(rank, address) = bulk.notice
            && let Err(problem) =
                scene.together(|common, _, _| common.mbarrier(rank, address, |_| Ok(())))
        {
            return Err(mbarrier_fault(address, problem, lane as u32));
        }
        let seen = P::ENABLED.then(|| bulk.event(scene.common.departures, issuer));
        let work = Work::Bulk(bulk);
        scene.together(|common, launch, probe| common.depart(launch, probe, issuer, work))?;
        if let Some((copy, sources, targets)) = seen {
            let detail = Detail::Copy(Copy { sources: &sources, targets: &targets, ..copy });
            scene.tell_part((self.pc, self.index, self.active, mask), part, detail);
        }
        Ok(())
    }

    fn payload<P: Probe>(&self, scene: &mut Scene<'_, P>, op: &CopyOp, lane: usize) -> Outcome<Payload> {
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
            scene.check_global(address, bytes, lane)?;
        } else {
            scene.check_shared("copy", address, bytes, lane)?;
        }
        Ok(Payload { from: Some((from.space, address)), data: None, bytes })
    }

    fn values(&self, ty: Type, slots: &[Slot], lane: usize) -> Vec<u8> {
        let width = ty.bytes() as usize;
        let bytes = |&slot: &Slot| self.value(slot, lane).to_le_bytes().into_iter().take(width);
        slots.iter().flat_map(bytes).collect()
    }

    /// Returns what a copy to shared memory signals; an mbarrier must be in the block of the target.
    fn notice<P: Probe>(
        &self,
        scene: &mut Scene<'_, P>,
        op: &CopyOp,
        rank: u32,
        lane: usize,
    ) -> Outcome<Notice> {
        let Signal::Mbarrier(place) = op.signal else {
            return Ok(Notice::Group(self.bulk_commits[lane]));
        };
        let address = self.addresses(&place)[lane];
        let (of, at) = scene.shared_place(&place, address, "mbarrier", lane)?;
        aligned("mbarrier", Space::Shared, at, 8, lane)?;
        scene.check_shared("mbarrier", at, 8, lane)?;
        if of != rank {
            let (what, value) = ("mbarrier's block rank", of.into());
            let allowed = "that of the block whose shared memory is written";
            return trouble(FaultKind::InvalidCopy { what, value, allowed }, lane as u32);
        }
        Ok(Notice::Mbarrier(rank, at))
    }

    pub(super) fn groups<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
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
        let who = (scene.arena.rank, self.index);
        scene.together(|common, launch, probe| match bulk {
            true => common.wait_for_bulk(launch, probe, who, due, read),
            false => common.wait_for_few(launch, probe, who, due),
        })
    }
}

/// Replaces the target and mbarrier of one block by those at the same addresses in the blocks of a mask.
fn multicast<P: Probe>(
    scene: &mut Scene<'_, P>,
    (to, notice): (Target, Notice),
    mask: u16,
    lane: usize,
) -> Outcome<Vec<(Target, Notice)>> {
    let (Target::Shared(_, address), Notice::Mbarrier(_, barrier)) = (to, notice) else {
        return Ok(Vec::new());
    };
    let ranks = (0..16).filter(|rank| mask >> rank & 1 == 1);
    let place = |rank: u32| {
        scene.common.member(rank.into(), address, "copy", lane as u32)?;
        Ok((Target::Shared(rank, address), Notice::Mbarrier(rank, barrier)))
    };
    ranks.map(place).collect()
}

/// Checks a lane of `cp.async` that reads `wanted` bytes.
fn check_few<P: Probe>(scene: &mut Scene<'_, P>, few: &Few, wanted: u32, lane: usize) -> Outcome<()> {
    let bytes = few.bytes;
    if wanted > bytes {
        let (what, value, allowed) = ("source size", wanted.into(), "at most the size of the copy");
        return trouble(FaultKind::InvalidCopy { what, value, allowed }, lane as u32);
    }
    aligned("copy", Space::Global, few.sources[lane], bytes.into(), lane)?;
    aligned("copy", Space::Shared, few.targets[lane], bytes.into(), lane)?;
    scene.check_global(few.sources[lane], wanted, lane)?;
    scene.check_shared("copy", few.targets[lane], bytes, lane)
}
