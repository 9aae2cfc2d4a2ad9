//! Copies as reported to observers.

use crate::lanes::Row64;
use crate::memory::Space;
use crate::observe::{Completion, Copy};

use super::{Bulk, Few, Issuer, Notice, Target};

static NOWHERE: Row64 = [0; 32];

/// A copy with placeholder addresses, and the source and target addresses of each lane.
pub(super) type Seen = (Copy<'static>, Row64, Row64);

impl Bulk {
    /// Returns the copy as it is reported, without its pieces.
    pub(in crate::exec) fn event(&self, id: u64, issuer: Issuer) -> Seen {
        let (mut sources, mut targets) = (NOWHERE, NOWHERE);
        let lane = issuer.lanes.trailing_zeros() as usize & 31;
        sources[lane] = self.from.map_or(0, |(_, address)| address);
        let (to, owner) = match self.to {
            Target::Global(address) => {
                targets[lane] = address;
                (Space::Global, issuer.rank)
            }
            Target::Shared(rank, address) => {
                targets[lane] = address;
                (Space::Shared, rank)
            }
        };
        let completion = match self.notice {
            Notice::Mbarrier(owner, address) => Completion::Mbarrier { owner, address },
            Notice::Group(_) => Completion::BulkGroup,
        };
        let copy = Copy {
            id,
            lanes: issuer.lanes,
            bytes: self.bytes,
            from: self.from.map(|(space, _)| space),
            sources: &NOWHERE,
            to,
            owner,
            targets: &NOWHERE,
            pieces: &[],
            reduces: self.change.is_some(),
            completion,
        };
        (copy, sources, targets)
    }
}

impl Few {
    pub(in crate::exec) fn event(&self, id: u64, owner: u32, lanes: u32) -> Seen {
        let copy = Copy {
            id,
            lanes,
            bytes: self.bytes,
            from: Some(Space::Global),
            sources: &NOWHERE,
            to: Space::Shared,
            owner,
            targets: &NOWHERE,
            pieces: &[],
            reduces: false,
            completion: Completion::Group,
        };
        (copy, self.sources, self.targets)
    }
}
