//! Asynchronous copies under way.
//!
//! A copy lands as late as a legal execution allows: when a thread waits for it,
//! when nothing else in its cluster can go on, when its cluster gives way to
//! others, or when [`MOST_FLIGHTS`] are under way. A kernel that reads its target
//! without having waited thus reads what was there before, and one that writes
//! its source too early copies what it wrote. With one host thread the order is
//! always the same.

mod landing;
mod seen;

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::{Row, Row64, for_each_lane};
use crate::memory::Space;
use crate::program::AtomicOp;

use super::cluster::{Common, mbarrier_fault};
use super::{Launched, Outcome, Probe};

/// Copies of a cluster that are under way at most; one more lets the oldest land.
const MOST_FLIGHTS: usize = 4096;

/// A copy under way, or an arrival that waits for copies.
#[derive(Debug)]
pub(in crate::exec) struct Flight {
    pub(in crate::exec) id: u64,
    pub(in crate::exec) issuer: Issuer,
    pub(in crate::exec) work: Work,
}

/// Who issued a copy.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Issuer {
    /// Rank of the block in its cluster.
    pub(in crate::exec) rank: u32,
    pub(in crate::exec) warp: u32,
    pub(in crate::exec) pc: u32,
    /// Lanes at the instruction.
    pub(in crate::exec) active: u32,
    /// Lanes whose copies are under way.
    pub(in crate::exec) lanes: u32,
}

#[derive(Debug)]
pub(in crate::exec) enum Work {
    Bulk(Bulk),
    Few(Box<Few>),
    /// `cp.async.mbarrier.arrive` on each lane's mbarrier, once the copies that
    /// the lane issued before have landed.
    Arrival(Box<Row64>),
}

/// A copy of one thread, of any size.
#[derive(Debug)]
pub(in crate::exec) struct Bulk {
    /// The space read and the address within it, none for values of registers.
    pub(in crate::exec) from: Option<(Space, u64)>,
    /// The bytes, once they have been read.
    pub(in crate::exec) data: Option<Vec<u8>>,
    pub(in crate::exec) to: Target,
    pub(in crate::exec) bytes: u32,
    pub(in crate::exec) change: Option<(AtomicOp, Type)>,
    pub(in crate::exec) notice: Notice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Target {
    Global(u64),
    /// The block's rank, and the address in its shared memory.
    Shared(u32, u64),
}

/// Who is told that a bulk copy has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Notice {
    /// The mbarrier at an address of a block.
    Mbarrier(u32, u64),
    /// The thread's group of this number.
    Group(u32),
}

/// `cp.async` of a warp: a few bytes from global to shared memory in each lane.
#[derive(Debug)]
pub(in crate::exec) struct Few {
    pub(in crate::exec) sources: Row64,
    pub(in crate::exec) targets: Row64,
    pub(in crate::exec) bytes: u32,
    /// Bytes that are read; the others are zero.
    pub(in crate::exec) read: [u8; 32],
    /// The group that the copy belongs to in each lane.
    pub(in crate::exec) groups: Row,
}

/// The groups that a warp's threads wait for.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Due<'c> {
    pub(in crate::exec) lanes: u32,
    /// Groups that each lane has committed.
    pub(in crate::exec) commits: &'c Row,
    /// Groups that may stay under way; none for all copies, committed or not.
    pub(in crate::exec) pending: Option<u32>,
}

impl Due<'_> {
    fn holds(&self, lane: usize, group: u32) -> bool {
        let within = |pending| u64::from(group) + u64::from(pending) < u64::from(self.commits[lane]);
        self.lanes >> lane & 1 == 1 && self.pending.is_none_or(within)
    }
}

impl Flight {
    /// Whether its landing tells an mbarrier.
    fn tells(&self, rank: u32, address: u64) -> bool {
        match &self.work {
            Work::Bulk(bulk) => bulk.notice == Notice::Mbarrier(rank, address),
            Work::Arrival(addresses) => {
                let mut found = false;
                for_each_lane(self.issuer.lanes, |lane| found |= addresses[lane] == address);
                found && self.issuer.rank == rank
            }
            Work::Few(_) => false,
        }
    }

    fn is_of(&self, rank: u32, warp: u32) -> bool {
        (self.issuer.rank, self.issuer.warp) == (rank, warp)
    }
}

impl Common {
    /// Puts a copy under way; returns its number.
    pub(in crate::exec) fn depart<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        issuer: Issuer,
        work: Work,
    ) -> Outcome<u64> {
        if self.flights.len() >= MOST_FLIGHTS {
            self.land_oldest(launch, probe)?;
        }
        let id = self.departures;
        self.departures += 1;
        self.flights.push(Flight { id, issuer, work });
        Ok(id)
    }

    /// Lets copies land until the phase of a parity is over, or no copy under way
    /// tells the mbarrier.
    pub(in crate::exec) fn wait_for_phase<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        (rank, address): (u32, u64),
        parity: bool,
        lane: u32,
    ) -> Outcome<bool> {
        loop {
            let over = self.mbarrier(rank, address, |barrier| Ok(barrier.is_over(parity)));
            if over.map_err(|problem| mbarrier_fault(address, problem, lane))? {
                return Ok(true);
            }
            let Some(index) = self.flights.iter().position(|flight| flight.tells(rank, address)) else {
                return Ok(false);
            };
            self.land(launch, probe, index)?;
        }
    }

    /// Lets a warp's copies by `cp.async` land that are due.
    pub(in crate::exec) fn wait_for_few<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        (rank, warp): (u32, u32),
        due: Due<'_>,
    ) -> Outcome<()> {
        let mut index = 0;
        while let Some(flight) = self.flights.get(index) {
            let mut lanes = 0;
            if let Work::Few(few) = &flight.work
                && flight.is_of(rank, warp)
            {
                for_each_lane(flight.issuer.lanes, |lane| {
                    lanes |= u32::from(due.holds(lane, few.groups[lane])) << lane;
                });
            }
            index += usize::from(!self.land_few(launch, probe, index, lanes)?);
        }
        Ok(())
    }

    /// Lets a warp's bulk copies land that are due, or have them `read` their
    /// sources.
    pub(in crate::exec) fn wait_for_bulk<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        (rank, warp): (u32, u32),
        due: Due<'_>,
        read: bool,
    ) -> Outcome<()> {
        let mut index = 0;
        while let Some(flight) = self.flights.get(index) {
            let lane = flight.issuer.lanes.trailing_zeros() as usize;
            let is_due = match &flight.work {
                Work::Bulk(Bulk { notice: Notice::Group(group), .. }) if flight.is_of(rank, warp) => {
                    due.holds(lane, *group)
                }
                _ => false,
            };
            if is_due && !read {
                self.land(launch, probe, index)?;
                continue;
            }
            if is_due {
                self.read_ahead(launch, index);
            }
            index += 1;
        }
        Ok(())
    }

    /// Lets the copy land that has been under way longest; `false` if none is.
    pub(in crate::exec) fn land_oldest<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
    ) -> Outcome<bool> {
        if self.flights.is_empty() {
            return Ok(false);
        }
        self.land(launch, probe, 0)?;
        Ok(true)
    }

    /// Ends what a block that exits has under way. Its stores to global memory
    /// land; nobody can tell any more when other copies do. A bulk copy that still
    /// needs its shared memory is an error.
    pub(in crate::exec) fn exit_block<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        rank: u32,
    ) -> Outcome<()> {
        let mut index = 0;
        while let Some(flight) = self.flights.get(index) {
            let own = flight.issuer.rank == rank;
            match &flight.work {
                Work::Bulk(bulk) => {
                    if let Some((uses, wait)) = bulk.uses(rank, own) {
                        let bytes = bulk.bytes;
                        let kind = FaultKind::CopyUnderWay { bytes, rank, uses, wait };
                        return self.fail(flight.issuer, kind);
                    }
                    if own && matches!(bulk.to, Target::Global(_)) {
                        self.land(launch, probe, index)?;
                        continue;
                    }
                    index += 1;
                }
                Work::Few(_) | Work::Arrival(_) if own => drop(self.flights.remove(index)),
                Work::Few(_) | Work::Arrival(_) => index += 1,
            }
        }
        Ok(())
    }
}

impl Bulk {
    /// What the copy still does with the shared memory of a block, and what waits
    /// for that; `own` if the block has issued it.
    fn uses(&self, rank: u32, own: bool) -> Option<(&'static str, &'static str)> {
        let writes = matches!(self.to, Target::Shared(to, _) if to == rank);
        let reads = own && self.data.is_none() && matches!(self.from, Some((Space::Shared, _)));
        match (writes, reads, self.notice) {
            _ if self.bytes == 0 => None,
            (true, ..) => Some(("writes", "a wait for its mbarrier")),
            (_, true, Notice::Group(_)) => Some(("reads", "cp.async.bulk.wait_group.read")),
            (_, true, Notice::Mbarrier(..)) => Some(("reads", "a wait for its mbarrier")),
            _ => None,
        }
    }
}
