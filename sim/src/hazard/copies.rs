//! Asynchronous copies: the states of their targets between issue and completion.

use crate::lanes::lanes_of;
use crate::memory::Space;
use crate::observe::{Completion, Copy};

use super::history::Access;
use super::report::HazardKind;
use super::shadow::{CELL, cell_of, part};
use super::step::Step;
use super::team::Team;

impl Step<'_, '_> {
    /// Returns lane, address and length of the contiguous bytes that a copy writes.
    fn written(copy: &Copy<'_>) -> impl Iterator<Item = (u32, u64, u64)> {
        let Copy { to, targets, pieces, .. } = *copy;
        let whole = if pieces.is_empty() { copy.lanes } else { 0 };
        let whole = lanes_of(whole).map(move |lane| (lane as u32, targets[lane], copy.bytes.into()));
        let lane = copy.lanes.trailing_zeros();
        let pieces = pieces.iter().filter_map(move |piece| {
            let start = if to == Space::Shared { Some(piece.shared) } else { piece.global };
            Some((lane, start?, piece.bytes.into()))
        });
        whole.chain(pieces)
    }

    /// Returns lane, cell and byte mask of each word that a copy writes.
    fn targets(copy: &Copy<'_>) -> impl Iterator<Item = (u32, u64, u8)> {
        Self::written(copy).flat_map(|(lane, start, bytes)| {
            let cells = start / CELL..(start + bytes).div_ceil(CELL);
            cells.map(move |cell| (lane, cell, part(cell, start, start + bytes)))
        })
    }

    pub(super) fn copy(&mut self, copy: &Copy<'_>) {
        if copy.to != Space::Shared {
            return;
        }
        self.check_operands(copy.owner, Self::written(copy));
        let agent = self.agent;
        let launch = self.world.launch;
        let (team, index) = (self.block.team, self.event.index);
        let mut clashes = Vec::new();
        let members = self.team();
        let Team { warps, shared, .. } = members;
        let warp = &warps[agent as usize];
        let clock = warp.clock.own[agent as usize];
        for (lane, cell, bytes) in Self::targets(copy) {
            let now = Access {
                team,
                agent,
                clock,
                time: warp.time,
                lanes: 1 << lane,
                index,
                strong: false,
                volatile: false,
            };
            let shared = &mut shared[copy.owner as usize];
            let Some(mut found) = cell_of(shared, launch, cell) else { continue };
            let clash = found.store(bytes, &now, warp, false);
            found.depart(bytes);
            clashes.extend(clash.and_then(|clash| {
                let earlier = clash.write.or(clash.read)?;
                Some((lane, cell, earlier, clash.write.is_some()))
            }));
        }
        for (lane, cell, earlier, write) in clashes {
            let kind = if write { HazardKind::WriteWriteRace } else { HazardKind::ReadWriteRace };
            self.report(kind, Space::Shared, cell * CELL, lane, Some(earlier));
        }
    }

    /// Records the completion of a copy: a write by the agent that stands for the cluster's copies,
    /// published to the copy's mbarrier or to the waiting warp.
    pub(super) fn land(&mut self, copy: &Copy<'_>) {
        let launch = self.world.launch;
        let number = self.block.team;
        if copy.to != Space::Shared {
            if copy.to == Space::Global {
                for (_, start, bytes) in Self::written(copy) {
                    self.world.global.host_wrote(start, bytes);
                }
            }
            return;
        }
        let team = self.team();
        team.landed += 1;
        let (clock, agent) = (team.landed, team.copies());
        for (_, cell, bytes) in Self::targets(copy) {
            let now = Access {
                team: number,
                agent,
                clock,
                time: 0,
                lanes: 0,
                index: 0,
                strong: false,
                volatile: false,
            };
            if let Some(mut found) = cell_of(&mut team.shared[copy.owner as usize], launch, cell) {
                found.land(bytes, now);
            }
        }
        if let Completion::Mbarrier { owner, address } = copy.completion {
            let clock_of = team.mbarriers.entry((owner, address)).or_default();
            clock_of.own.resize(agent as usize + 1, 0);
            clock_of.own[agent as usize] = clock;
        } else {
            // A copy of a group is ordered by the warp's wait (`Team::learn_copies`), or by any mbarrier
            // through `cp.async.mbarrier.arrive`.
            for (_, clock_of) in team.mbarriers.iter_mut() {
                clock_of.own.resize(agent as usize + 1, 0);
                clock_of.own[agent as usize] = clock;
            }
        }
    }
}
