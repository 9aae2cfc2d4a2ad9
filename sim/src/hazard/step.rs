//! Records one event of a launch: its accesses, and its effect on the order of accesses.

use crate::lanes::lanes_of;
use crate::memory::Space;
use crate::observe::{
    AccessKind, BarrierKind, Detail, Event, Mbarrier, MbarrierOperation, Memory, Shuffle,
};

use super::World;
use super::history::{Access, Clash, IN_FLIGHT, NOBODY};
use super::launch::BlockCheck;
use super::report::{Finding, HazardKind, Site};
use super::shadow::CELL;
use super::team::{Seen, Team};
use super::touch::{Shadow, Touch};
use super::traits::{Effect, Order};

pub(super) struct Step<'s, 'e> {
    pub(super) world: &'s mut World,
    pub(super) block: &'s mut BlockCheck,
    pub(super) event: &'s Event<'e>,
    pub(super) order: Order,
    pub(super) agent: u32,
}

impl<'s, 'e> Step<'s, 'e> {
    pub(super) fn new(
        world: &'s mut World,
        block: &'s mut BlockCheck,
        event: &'s Event<'e>,
        order: Order,
    ) -> Self {
        let agent = block.first_agent + event.warp;
        Self { world, block, event, order, agent }
    }

    pub(super) fn team(&mut self) -> &mut Team {
        team_of(self.world, self.block)
    }

    #[inline]
    fn begin(&mut self, waited: Option<(u32, u32)>) {
        let (agent, rank) = (self.agent, self.block.rank);
        let team = team_of(self.world, self.block);
        if let Some((id, opened)) = waited {
            team.resume(rank, agent, id, opened);
        }
        if self.event.part == 0 {
            team.warps[agent as usize].time += 1;
        }
    }

    /// Records the event. `waited` is the barrier at which the warp waited before the event, and the
    /// barrier's number of openings.
    #[inline(always)]
    pub(super) fn execute(&mut self, waited: Option<(u32, u32)>) {
        self.begin(waited);
        match &self.event.detail {
            Detail::Memory(memory) if memory.lanes != 0 => self.memory(memory),
            Detail::Operand(memory) => self.read_operand(memory),
            Detail::Barrier(kind) => self.barrier(*kind),
            Detail::Shuffle(shuffle) => self.shuffle(shuffle),
            Detail::Copy(copy) => self.copy(copy),
            Detail::Mbarrier(mbarrier) => self.mbarrier(mbarrier),
            _ => match self.order.effect {
                Effect::Fence if self.event.executed != 0 => self.fence(),
                Effect::CopyWait => {
                    let agent = self.agent;
                    self.team().learn_copies(agent);
                }
                Effect::ProductCommit => self.commit_products(),
                Effect::ProductWait(kept) => self.wait_products(kept),
                _ => {}
            },
        }
    }

    fn shuffle(&mut self, shuffle: &Shuffle<'_>) {
        let executed = self.event.executed;
        let inactive = |&lane: &u32| {
            let source = u32::from(shuffle.sources[lane as usize]);
            let there = executed & shuffle.members[lane as usize];
            shuffle.in_range >> lane & 1 == 1 && there >> (source % 32) & 1 == 0
        };
        let wrong = (0..32).filter(|lane| executed >> lane & 1 == 1).find(inactive);
        if let Some(lane) = wrong {
            self.report(HazardKind::ShuffleFromInactive, Space::Shared, 0, lane, None);
        }
    }

    fn barrier(&mut self, kind: BarrierKind) {
        let (agent, rank, live) = (self.agent, self.block.rank, self.event.active);
        let releases = !self.order.relaxed;
        let team = team_of(self.world, self.block);
        let waiting = &mut self.block.waiting[self.event.warp as usize];
        match kind {
            BarrierKind::Sync(id) | BarrierKind::Reduce(id) => {
                team.warps[agent as usize].synchronise(u32::MAX, live);
                *waiting = Some((id, team.arrive(rank, agent, id)));
            }
            BarrierKind::Arrive(id) => {
                team.arrive(rank, agent, id);
            }
            BarrierKind::Warp(members) => team.warps[agent as usize].synchronise(members, live),
            BarrierKind::ClusterArrive => team.cluster_arrive(agent, releases),
            BarrierKind::ClusterWait => team.cluster_wait(agent),
        }
    }

    fn mbarrier(&mut self, mbarrier: &Mbarrier<'_>) {
        let (agent, owner) = (self.agent, mbarrier.owner);
        let lanes = |mask: u32| (0..32).filter(move |lane| mask >> lane & 1 == 1);
        let at = |lane: usize| (owner, mbarrier.addresses[lane]);
        self.use_mbarriers(mbarrier);
        let team = self.team();
        match mbarrier.operation {
            MbarrierOperation::Arrive
            | MbarrierOperation::ArriveDrop
            | MbarrierOperation::ArriveAfterCopies
            | MbarrierOperation::Complete => {
                lanes(mbarrier.lanes).for_each(|lane| team.mbarrier_arrive(agent, at(lane)));
                team.advance(agent);
            }
            MbarrierOperation::Wait => {
                // Lanes usually wait for the same mbarrier, which is then recorded once.
                let mut last = None;
                for lane in lanes(mbarrier.complete) {
                    if last != Some(at(lane)) {
                        team.mbarrier_wait(agent, at(lane));
                        last = Some(at(lane));
                    }
                }
            }
            _ => {}
        }
    }

    /// Records initialisation and invalidation of an mbarrier as plain writes, and its uses as accesses
    /// that do not race with each other.
    fn use_mbarriers(&mut self, mbarrier: &Mbarrier<'_>) {
        let makes =
            matches!(mbarrier.operation, MbarrierOperation::Init | MbarrierOperation::Invalidate);
        let memory = Memory {
            space: Space::Shared,
            owner: mbarrier.owner,
            generic: false,
            kind: if makes { AccessKind::Store } else { AccessKind::Load },
            bytes: 8,
            elements: 1,
            lanes: mbarrier.lanes,
            addresses: mbarrier.addresses,
            known: None,
        };
        self.order.strong = !makes;
        self.memory(&memory);
    }

    /// Records a fence: it turns earlier relaxed reads into acquires, and later relaxed writes into
    /// releases.
    fn fence(&mut self) {
        let (agent, number) = (self.agent, self.block.team);
        let team = self.team();
        let warp = &mut team.warps[agent as usize];
        for seen in std::mem::take(&mut warp.seen) {
            warp.clock.acquire(number, &seen.told);
        }
        warp.fenced = Some(warp.clock.clone());
        team.advance(agent);
    }

    fn memory(&mut self, memory: &Memory<'_>) {
        if !matches!(memory.space, Space::Shared | Space::Global) {
            return;
        }
        if memory.space == Space::Shared && memory.kind != AccessKind::Load {
            let bytes = memory.bytes.into();
            let lanes = lanes_of(memory.lanes);
            let writes = lanes.map(|lane| (lane as u32, memory.addresses[lane], bytes));
            self.check_operands(memory.owner, writes);
        }
        let orders = self.order.strong && memory.space == Space::Global;
        if orders && memory.kind != AccessKind::Store {
            self.learn(memory);
        }
        self.touch(memory);
        if orders && memory.kind != AccessKind::Load {
            self.publish(memory);
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, memory: &Memory<'_>) {
        let World { global, teams, launch, .. } = &mut *self.world;
        let Some(Some(Team { warps, shared, .. })) = teams.get_mut(self.block.place) else { return };
        let (launch, agent, warp) = (*launch, self.agent, &warps[self.agent as usize]);
        let access = &Access {
            team: self.block.team,
            agent,
            clock: warp.clock.own[agent as usize],
            time: warp.time,
            lanes: 0,
            index: self.event.index,
            strong: self.order.strong,
            volatile: self.order.volatile,
        };
        let shadow = match memory.space {
            Space::Shared => Shadow::Shared(&mut shared[memory.owner as usize]),
            _ => Shadow::Global(global),
        };
        let mut touch = Touch { shadow, launch, warp, memory, access, clashes: Vec::new() };
        touch.all();
        for (lane, cell, clash) in touch.clashes {
            self.collide(memory, cell, lane, &clash);
        }
    }

    #[cold]
    fn collide(&mut self, memory: &Memory<'_>, cell: u64, lane: u32, clash: &Clash) {
        let Clash { write, read, lock_step, unwritten, byte } = *clash;
        let (space, address) = (memory.space, cell * CELL + u64::from(byte));
        if unwritten != 0 && write.is_none() {
            let address = cell * CELL + u64::from(unwritten.trailing_zeros());
            self.report(HazardKind::Unwritten, space, address, lane, None);
        }
        if let Some(earlier) = write {
            let copies = self.team().copies();
            let kind = match (earlier.agent, memory.kind) {
                (agent, _) if agent == IN_FLIGHT || agent == copies => HazardKind::UnwaitedCopy,
                (_, AccessKind::Load) => HazardKind::ReadWriteRace,
                _ => HazardKind::WriteWriteRace,
            };
            self.report(kind, space, address, lane, Some(earlier));
        }
        if let Some(earlier) = read {
            self.report(HazardKind::ReadWriteRace, space, address, lane, Some(earlier));
        }
        if let Some(earlier) = lock_step.filter(|_| self.world.strict) {
            self.report(HazardKind::LockStep, space, address, lane, Some(earlier));
        }
    }

    /// Acquires the clocks published at the addresses of a strong read. A relaxed read only notes them
    /// for a later fence.
    fn learn(&mut self, memory: &Memory<'_>) {
        let (number, agent) = (self.block.team, self.agent);
        let own = self.order.block_only.then_some(number);
        let mut last = None;
        for lane in (0..32).filter(|lane| memory.lanes >> lane & 1 == 1) {
            let address = memory.addresses[lane];
            if last.replace(address) == Some(address) {
                continue;
            }
            let told = [own, None].map(|own| self.world.places.get(&(address, own)).cloned());
            for told in told.into_iter().flatten() {
                let acquires = self.order.acquire;
                let Event { index, block, warp, .. } = *self.event;
                let reader = &mut self.team().warps[agent as usize];
                if acquires {
                    reader.clock.acquire(number, &told);
                } else {
                    reader.see(Seen { told, index, block, warp, lane: lane as u32 });
                }
            }
        }
    }

    /// Publishes the clock of a release, or of the last fence, at the addresses of a strong write.
    fn publish(&mut self, memory: &Memory<'_>) {
        let (number, agent) = (self.block.team, self.agent);
        let releases = self.order.release;
        let team = self.team();
        let warp = &team.warps[agent as usize];
        let clock = if releases { Some(warp.clock.clone()) } else { warp.fenced.clone() };
        let Some(clock) = clock else { return };
        if releases {
            team.advance(agent);
        }
        let own = self.order.block_only.then_some(number);
        let mut last = None;
        for lane in (0..32).filter(|lane| memory.lanes >> lane & 1 == 1) {
            let address = memory.addresses[lane];
            if last.replace(address) != Some(address) {
                let told = self.world.places.entry((address, own)).or_default();
                clock.release(number, told);
            }
        }
    }

    pub(super) fn report(
        &mut self,
        kind: HazardKind,
        space: Space,
        address: u64,
        lane: u32,
        earlier: Option<Access>,
    ) {
        let launched = &self.block.launched;
        let index = self.event.index;
        let unfenced = self.unfenced(kind, earlier);
        let kind = if unfenced.is_some() { HazardKind::NoAcquire } else { kind };
        let key = (launched.kernel.clone(), kind, index, earlier.map_or(0, |earlier| earlier.index + 1));
        if let Some(known) = self.world.findings.get_mut(&key) {
            known.count += 1;
            return;
        }
        let access = launched.site(index, self.event.block, self.event.warp, 1 << lane);
        let other = earlier.filter(|earlier| earlier.agent != NOBODY).map(|earlier| {
            let warps = launched.block_size.iter().product::<u32>().div_ceil(32);
            let (block, warp, lanes) = match earlier.agent {
                // The record of a completed copy has the lane that issued the copy, but not the warp.
                agent
                    if agent == IN_FLIGHT
                        || agent >= warps * launched.cluster.iter().product::<u32>() =>
                {
                    (self.event.block, 0, earlier.lanes)
                }
                agent => {
                    let others = earlier.lanes & !(1 << lane);
                    let lanes = if others == 0 { earlier.lanes } else { others };
                    (launched.block_of(earlier.team, agent / warps), agent % warps, lanes)
                }
            };
            launched.site(earlier.index, block, warp, lanes)
        });
        let kernel = launched.kernel.clone();
        let buffer = launched.places.holder(space, address);
        let known = Finding::new(kind, kernel, space, address);
        let finding = Finding { buffer, access: Some(access), other, unfenced, ..known };
        self.world.findings.insert(key, finding);
    }

    /// Returns the relaxed read after which a fence would order the two accesses of a race, if any.
    fn unfenced(&self, kind: HazardKind, earlier: Option<Access>) -> Option<Site> {
        if !matches!(kind, HazardKind::ReadWriteRace | HazardKind::WriteWriteRace) {
            return None;
        }
        let team = self.world.teams[self.block.place].as_ref()?;
        let seen = team.warps[self.agent as usize].unfenced(&earlier?)?;
        Some(self.block.launched.site(seen.index, seen.block, seen.warp, 1 << seen.lane))
    }
}

fn team_of<'w>(world: &'w mut World, block: &BlockCheck) -> &'w mut Team {
    world.teams[block.place].as_mut().expect("lives as long as its blocks")
}
