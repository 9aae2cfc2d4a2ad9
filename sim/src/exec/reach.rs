//! Address checks for mbarriers and copies, across the shared memories of a cluster.

use crate::error::{FaultKind, MbarrierProblem};
use crate::memory::{Space, classify, owner, window};
use crate::program::Place;

use super::cluster::mbarrier_fault;
use super::{ExecContext, Outcome, Probe, trouble};

impl<P: Probe> ExecContext<'_, P> {
    /// Resolves a lane's address to a block rank and an address in that block's shared memory.
    pub(super) fn shared_place(
        &mut self,
        place: &Place,
        address: u64,
        access: &'static str,
        lane: usize,
    ) -> Outcome<(u32, u64)> {
        let mut address = address;
        if place.space == Space::Generic {
            if classify(address) != Space::Shared {
                return Err(mbarrier_fault(address, MbarrierProblem::NotShared, lane as u32));
            }
            address -= window(Space::Shared);
        }
        match owner(address) {
            (Some(rank), within) if place.cluster && rank != u64::from(self.rank) => {
                self.common.member(rank, within, access, lane as u32)?;
                Ok((rank as u32, within))
            }
            (Some(rank), within) if place.cluster => Ok((rank as u32, within)),
            // Without a rank, the address is in the block's own memory. If the operand is not in
            // `shared::cluster`, rank bits put the address out of bounds.
            _ => Ok((self.rank, address)),
        }
    }

    pub(super) fn check_shared(
        &self,
        access: &'static str,
        address: u64,
        bytes: u32,
        lane: usize,
    ) -> Outcome<()> {
        let length = u64::from(self.launch.shared_bytes());
        if address <= length && u64::from(bytes) <= length - address {
            return Ok(());
        }
        let allowed = format!("the space has {length} bytes");
        let space = Space::Shared;
        trouble(FaultKind::OutOfBounds { access, space, address, bytes, allowed }, lane as u32)
    }

    pub(super) fn check_global(
        &mut self,
        access: &'static str,
        address: u64,
        bytes: u32,
        lane: usize,
    ) -> Outcome<()> {
        let found = self.launch.view.find(address, bytes.into(), &mut self.hint);
        if bytes == 0 || found.is_some() {
            return Ok(());
        }
        let allowed = self.launch.view.missed(address, bytes.into(), |_| None);
        let space = Space::Global;
        trouble(FaultKind::OutOfBounds { access, space, address, bytes, allowed }, lane as u32)
    }
}

pub(super) fn aligned(
    access: &'static str,
    space: Space,
    address: u64,
    unit: u64,
    lane: usize,
) -> Outcome<()> {
    if address.is_multiple_of(unit.max(1)) {
        return Ok(());
    }
    trouble(FaultKind::Misaligned { access, space, address, bytes: unit as u32 }, lane as u32)
}
