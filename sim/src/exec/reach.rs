//! Access of a warp to the memories of its whole cluster.

use crate::error::{FaultKind, MbarrierProblem};
use crate::memory::{Space, classify, owner, window};
use crate::program::Place;

use super::cluster::{Common, mbarrier_fault};
use super::{Launched, Outcome, Probe, Scene, trouble};

impl<P: Probe> Scene<'_, P> {
    /// Runs `act` on the shared memories of the whole cluster, the block's own among them.
    pub(super) fn together<T>(&mut self, act: impl FnOnce(&mut Common, &Launched<'_>, &P) -> T) -> T {
        let rank = self.arena.rank as usize;
        std::mem::swap(&mut self.arena.shared, &mut self.common.members[rank].shared);
        let result = act(self.common, self.launch, self.probe);
        std::mem::swap(&mut self.arena.shared, &mut self.common.members[rank].shared);
        result
    }

    /// Returns the rank and the address within its shared memory that a lane's address names.
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
            (Some(rank), within) if place.cluster && rank != u64::from(self.arena.rank) => {
                self.common.member(rank, within, access, lane as u32)?;
                Ok((rank as u32, within))
            }
            (Some(rank), within) if place.cluster => Ok((rank as u32, within)),
            // Without a rank, the block's own; a rank outside of cluster operands is out of bounds.
            _ => Ok((self.arena.rank, address)),
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

    pub(super) fn check_global(&mut self, address: u64, bytes: u32, lane: usize) -> Outcome<()> {
        let found = self.launch.view.find(address, bytes.into(), &mut self.arena.hint);
        if bytes == 0 || found.is_some() {
            return Ok(());
        }
        let allowed = self.launch.view.missed(address, bytes.into(), |_| None);
        let space = Space::Global;
        trouble(FaultKind::OutOfBounds { access: "copy", space, address, bytes, allowed }, lane as u32)
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
