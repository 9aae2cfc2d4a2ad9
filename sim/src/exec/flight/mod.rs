//! Asynchronous copies in flight.
//!
//! A copy lands (takes effect) as late as a legal execution allows: when a thread waits for it, when
//! nothing else in its cluster can make progress, when its cluster yields, or when [`MOST_FLIGHTS`] are
//! in flight. So a kernel that reads the target without waiting reads the old contents, and one that
//! overwrites the source too early copies the new contents. With one host thread the order is
//! deterministic.

mod landing;
mod seen;

use std::sync::Arc;

use crate::ast::Type;
use crate::error::FaultKind;
use crate::lanes::{Row, Row64, for_each_lane};
use crate::memory::Space;
use crate::program::AtomicOp;
use crate::tensor_map::{Tile, TilePiece};

use super::cluster::{ClusterState, mbarrier_fault};
use super::{Launched, Outcome, Probe};

/// Maximum copies of a cluster in flight; another one completes the oldest.
const MOST_FLIGHTS: usize = 4096;

/// A copy in flight, or an arrival that waits for copies.
#[derive(Debug)]
pub(in crate::exec) struct Flight {
    pub(in crate::exec) id: u64,
    pub(in crate::exec) issuer: Issuer,
    pub(in crate::exec) work: Work,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Issuer {
    pub(in crate::exec) rank: u32,
    pub(in crate::exec) warp: u32,
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) active: u32,
    pub(in crate::exec) lanes: u32,
}

#[derive(Debug)]
pub(in crate::exec) enum Work {
    Bulk(Bulk),
    Few(Box<Few>),
    /// `cp.async.mbarrier.arrive` on each lane's mbarrier, after the lane's earlier copies.
    Arrival(Box<Row64>),
}

/// A copy of one thread, of any size.
#[derive(Debug)]
pub(in crate::exec) struct Bulk {
    /// Source space and address; `None` for register values.
    pub(in crate::exec) from: Option<(Space, u64)>,
    pub(in crate::exec) data: Option<Vec<u8>>,
    pub(in crate::exec) to: Target,
    /// The box of a tensor that is copied; `None` for a contiguous copy.
    pub(in crate::exec) tile: Option<Arc<Tile>>,
    pub(in crate::exec) bytes: u32,
    pub(in crate::exec) change: Option<(AtomicOp, Type)>,
    pub(in crate::exec) notice: Notice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Target {
    Global(u64),
    Shared(u32, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Notice {
    /// Block rank and address of an mbarrier.
    Mbarrier(u32, u64),
    Group(u32),
}

/// `cp.async` of a warp: a few bytes from global to shared memory in each lane.
#[derive(Debug)]
pub(in crate::exec) struct Few {
    pub(in crate::exec) sources: Row64,
    pub(in crate::exec) targets: Row64,
    pub(in crate::exec) bytes: u32,
    /// Bytes that each lane reads; the rest is zero-filled.
    pub(in crate::exec) read: [u8; 32],
    pub(in crate::exec) groups: Row,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Due<'c> {
    pub(in crate::exec) lanes: u32,
    pub(in crate::exec) commits: &'c Row,
    /// Groups that may stay in flight; `None` waits for all copies, committed or not.
    pub(in crate::exec) pending: Option<u32>,
}

impl Due<'_> {
    fn holds(&self, lane: usize, group: u32) -> bool {
        let within = |pending| u64::from(group) + u64::from(pending) < u64::from(self.commits[lane]);
        self.lanes >> lane & 1 == 1 && self.pending.is_none_or(within)
    }
}

impl Flight {
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

impl ClusterState {
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

    /// Completes copies until the phase with this parity is complete; returns `false` if no copy in
    /// flight signals the mbarrier.
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

    /// Completes the bulk copies of a warp that a wait covers; with `read`, only reads their sources.
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

    /// Ends the copies of an exiting block: completes its bulk copies to global memory, and drops its
    /// `cp.async` copies, since no thread can observe them. A bulk copy that still needs the block's
    /// shared memory is an error.
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
    fn pieces(&self) -> &[TilePiece] {
        self.tile.as_ref().map_or(&[], |tile| &tile.pieces)
    }

    /// Returns how the copy still uses a block's shared memory, and the operation that waits for that
    /// use. `own` is set if the block issued the copy.
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
