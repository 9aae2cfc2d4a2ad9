//! Cluster execution: interleaved blocks that access each other's shared memory.
//!
//! One host thread at a time runs a cluster, so its blocks need no locks. The shared memories are stored
//! side by side in [`Common`]; a block moves its own into its arena during its turn. A launch without
//! clusters has clusters of one block.

use std::collections::BTreeMap;
use std::mem::swap;
use std::time::Instant;

use crate::config::Stats;
use crate::error::{Fault, FaultKind, MbarrierProblem};
use crate::observe::BlockInfo;

use super::block::{Block, Course, Round};
use super::flight::Flight;
use super::mbarrier::Mbarrier;
use super::{Launched, Outcome, Probe, ProbeState, Trouble, trouble};

/// Rounds after which a cluster yields even if its warps do not poll memory.
const QUIET_ROUNDS: u32 = 64;
/// Consecutive times that every warp waits for an mbarrier and continues with `try_wait` false, without
/// any other progress, before that is a deadlock.
const PATIENCE: u32 = 256;
/// Warp instructions, or equivalent other work, between two looks at the clock: some milliseconds.
const CLOCK_PERIOD: u64 = 1 << 16;
/// Warp instructions that take as long as a round of a cluster without any.
const ROUND_COST: u64 = 64;
/// Bytes of a cluster that are cleared in the time of one warp instruction, at least.
const CLEARED_BYTES: u64 = 256;

pub(super) struct Cluster {
    blocks: Vec<Block>,
    common: Common,
    quiet_rounds: u32,
    /// Consecutive times that all warps have waited without progress.
    in_vain: u32,
    /// Work since the last look at the clock, in warp instructions. It carries over from one cluster of
    /// the grid to the next, since most of them may be short.
    unclocked: u64,
}

#[derive(Default)]
pub(super) struct Common {
    pub(super) members: Vec<Member>,
    pub(super) flights: Vec<Flight>,
    pub(super) departures: u64,
    pub(super) barrier: ClusterBarrier,
    /// Set when nothing can make progress unless `try_wait` times out.
    pub(super) expired: bool,
}

/// A block, as accessible to the others of its cluster.
#[derive(Default)]
pub(super) struct Member {
    /// Its shared memory, except during the block's turn.
    pub(super) shared: Vec<u8>,
    /// Address of each mbarrier; `false` once it is invalidated.
    pub(super) mbarriers: BTreeMap<u64, bool>,
    pub(super) exited: bool,
    pub(super) block: [u32; 3],
    pub(super) probe: ProbeState,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClusterBarrier {
    /// Live warps that have arrived in this phase.
    pub(super) arrived: u32,
    pub(super) phase: u32,
    /// Warps of the cluster that have not exited.
    pub(super) live: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Finished,
    Yielded,
    OutOfSteps,
    OutOfTime,
}

impl ClusterBarrier {
    pub(super) fn arrive(&mut self) -> u32 {
        let phase = self.phase;
        self.arrived += 1;
        self.complete();
        phase
    }

    /// Removes a warp that exits, and its arrival if it was in the current phase. The others no longer
    /// wait for it.
    pub(super) fn exit(&mut self, arrived: Option<u32>) {
        self.live -= 1;
        self.arrived -= u32::from(arrived == Some(self.phase));
        self.complete();
    }

    fn complete(&mut self) {
        if self.arrived != 0 && self.arrived == self.live {
            self.arrived = 0;
            self.phase = self.phase.wrapping_add(1);
        }
    }
}

impl Common {
    /// Returns the block that a shared address names by its rank.
    pub(super) fn member(
        &mut self,
        rank: u64,
        address: u64,
        access: &'static str,
        lane: u32,
    ) -> Outcome<&mut Member> {
        let blocks = self.members.len() as u32;
        let found = usize::try_from(rank).ok().and_then(|rank| self.members.get_mut(rank));
        match found {
            Some(member) if !member.exited => Ok(member),
            Some(_) => trouble(FaultKind::ExitedBlock { access, address, rank: rank as u32 }, lane),
            None => trouble(FaultKind::NoSuchBlock { access, address, rank, blocks }, lane),
        }
    }

    pub(super) fn mbarrier<T>(
        &mut self,
        rank: u32,
        address: u64,
        change: impl FnOnce(&mut Mbarrier) -> Result<T, MbarrierProblem>,
    ) -> Result<T, MbarrierProblem> {
        let Some(member) = self.members.get_mut(rank as usize) else {
            return Err(MbarrierProblem::Uninitialised);
        };
        match member.mbarriers.get(&address) {
            Some(true) => {}
            Some(false) => return Err(MbarrierProblem::Invalidated),
            None => return Err(MbarrierProblem::Uninitialised),
        }
        // Mbarriers are initialised only within the memory, so this does not fail.
        let at = address as usize;
        let Some(bytes) = member.shared.get_mut(at..at + 8) else {
            return Err(MbarrierProblem::Uninitialised);
        };
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        let mut barrier = Mbarrier::unpack(u64::from_le_bytes(word))?;
        let result = change(&mut barrier)?;
        bytes.copy_from_slice(&barrier.pack().to_le_bytes());
        Ok(result)
    }
}

impl Common {
    pub(super) fn lacks(&self, rank: u32, address: u64) -> String {
        let at = address as usize;
        let bytes = self.members.get(rank as usize).and_then(|member| member.shared.get(at..at + 8));
        let word = bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        let Ok(Mbarrier { pending, transactions, .. }) = Mbarrier::unpack(word) else {
            return format!("mbarrier at shared address {address:#x}");
        };
        format!(
            "mbarrier at shared address {address:#x} lacks {pending} arrivals and {transactions} bytes"
        )
    }
}

#[cold]
pub(super) fn mbarrier_fault(address: u64, problem: MbarrierProblem, lane: u32) -> Box<Trouble> {
    Box::new(Trouble { kind: FaultKind::Mbarrier { address, problem }, lane, place: None })
}

impl Cluster {
    pub(super) fn new(launch: &Launched<'_>) -> Self {
        let blocks: Vec<Block> = (0..launch.cluster_blocks()).map(|_| Block::new(launch)).collect();
        let member = || Member { shared: vec![0; launch.shared_bytes() as usize], ..Member::default() };
        let members = blocks.iter().map(|_| member()).collect();
        let common = Common { members, ..Common::default() };
        Self { blocks, common, quiet_rounds: 0, in_vain: 0, unclocked: 0 }
    }

    pub(super) fn bytes(launch: &Launched<'_>) -> u64 {
        Block::bytes(launch) * u64::from(launch.cluster_blocks())
    }

    pub(super) fn reset<P: Probe>(&mut self, launch: &Launched<'_>, index: u64, probe: &P) {
        let live = launch.warps() * self.blocks.len() as u32;
        self.common.barrier = ClusterBarrier { live, ..ClusterBarrier::default() };
        (self.quiet_rounds, self.in_vain) = (0, 0);
        self.unclocked += Self::bytes(launch) / CLEARED_BYTES;
        for (rank, (block, member)) in self.blocks.iter_mut().zip(&mut self.common.members).enumerate() {
            let place = launch.place(index, rank as u32);
            block.reset(launch, &place);
            member.shared.fill(0);
            member.mbarriers.clear();
            (member.exited, member.block) = (false, place.block);
            member.probe = probe.begin(&BlockInfo {
                entry: launch.entry,
                grid: launch.shape.grid,
                block_size: launch.shape.block,
                block: place.block,
                linear: place.linear,
                warps: launch.warps(),
                shared_bytes: launch.shared_bytes(),
                cluster: launch.cluster,
                cluster_index: place.cluster,
                rank: rank as u32,
                places: launch.places(),
            });
        }
    }

    pub(super) fn finish<P: Probe>(&mut self, probe: &P) {
        self.common.flights.clear();
        for member in &mut self.common.members {
            probe.end(member.probe.take());
        }
    }

    /// Runs warps in turn until the cluster finishes, yields, has used `steps` warp instructions, or
    /// `deadline` has passed; adds what was executed to `total`.
    pub(super) fn turn<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        steps: u64,
        deadline: Option<Instant>,
        total: &mut Stats,
    ) -> Result<Progress, Box<Fault>> {
        let limit = total.warp_instructions.saturating_add(steps);
        let mut clocked = total.warp_instructions;
        loop {
            // Before a round, not after it: the error is located at a warp that can go on, and here
            // there is one.
            self.unclocked += total.warp_instructions - clocked + ROUND_COST;
            clocked = total.warp_instructions;
            if self.unclocked >= CLOCK_PERIOD {
                self.unclocked = 0;
                if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    return Ok(Progress::OutOfTime);
                }
            }
            let mut round = Round::default();
            for rank in 0..self.blocks.len() {
                if self.common.members[rank].exited {
                    continue;
                }
                let block = &mut self.blocks[rank];
                swap(&mut block.arena.shared, &mut self.common.members[rank].shared);
                probe.round_begin(&mut self.common.members[rank].probe);
                let (common, total) = (&mut self.common, &mut *total);
                let mut course = Course { launch, probe, common, total, limit, round };
                let going = block.round(&mut course);
                round = course.round;
                probe.round_end(&mut self.common.members[rank].probe);
                swap(&mut block.arena.shared, &mut self.common.members[rank].shared);
                if !going? {
                    return Ok(Progress::OutOfSteps);
                }
                if block.is_over() {
                    self.retire(launch, probe, rank as u32)?;
                }
            }
            if self.common.barrier.live == 0 {
                return Ok(Progress::Finished);
            }
            if !round.ran {
                self.stalled(launch, probe)?;
                continue;
            }
            self.common.expired = false;
            if round.acted || round.polled {
                self.in_vain = 0;
            }
            self.quiet_rounds = if round.polled { QUIET_ROUNDS } else { self.quiet_rounds + 1 };
            let early = probe.guide().is_some_and(|guide| guide.one_in(4));
            if round.preempted && (early || self.quiet_rounds >= QUIET_ROUNDS) {
                self.quiet_rounds = 0;
                self.land_all(launch, probe)?;
                return Ok(Progress::Yielded);
            }
        }
    }

    /// Returns the fault of a launch that exceeded a limit, located at the first runnable warp.
    pub(super) fn endless(&mut self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let rank = self.blocks.iter().position(Block::has_ready).unwrap_or(0);
        let block = &mut self.blocks[rank];
        swap(&mut block.arena.shared, &mut self.common.members[rank].shared);
        let warp = block.first_ready();
        block.endless(launch, &mut self.common, kind, warp)
    }

    /// As [`endless`](Self::endless), but does not run the warp to find its loop, which would change
    /// memory.
    pub(super) fn stopped(&self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let block = self.blocks.iter().find(|block| block.has_ready()).unwrap_or(&self.blocks[0]);
        block.fault_at(launch, kind, block.first_ready())
    }

    /// Retires a block, whose shared memory the others may no longer use.
    fn retire<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        rank: u32,
    ) -> Result<(), Box<Fault>> {
        let ended = self.common.exit_block(launch, probe, rank);
        self.common.members[rank as usize].exited = true;
        ended.map_err(|trouble| self.fault(launch, *trouble))
    }

    fn land_all<P: Probe>(&mut self, launch: &Launched<'_>, probe: &P) -> Result<(), Box<Fault>> {
        loop {
            let landed = self.common.land_oldest(launch, probe);
            if !landed.map_err(|trouble| self.fault(launch, *trouble))? {
                return Ok(());
            }
        }
    }

    /// Resolves a round in which every warp waits: lands a copy, lets a `try_wait` time out, or reports
    /// a deadlock.
    fn stalled<P: Probe>(&mut self, launch: &Launched<'_>, probe: &P) -> Result<(), Box<Fault>> {
        let landed = self.common.land_oldest(launch, probe);
        if landed.map_err(|trouble| self.fault(launch, *trouble))? {
            return Ok(());
        }
        if self.in_vain < PATIENCE && self.blocks.iter().any(Block::tries) {
            self.in_vain += 1;
            self.common.expired = true;
            return Ok(());
        }
        Err(self.deadlock(launch))
    }

    /// Returns the fault of a copy that lands, located at its issue.
    #[cold]
    fn fault(&self, launch: &Launched<'_>, trouble: Trouble) -> Box<Fault> {
        self.blocks[0].fault(launch, trouble, 0)
    }

    #[cold]
    fn deadlock(&self, launch: &Launched<'_>) -> Box<Fault> {
        let mut waits = Vec::new();
        for (rank, block) in self.blocks.iter().enumerate() {
            let of_block = block.waits(&self.common, rank as u32);
            match self.blocks.len() {
                1 => waits.push(of_block),
                _ if of_block.is_empty() => {}
                _ => waits.push(format!("block rank {rank}: {of_block}")),
            }
        }
        let waits = waits.join("; ");
        let kind = match self.blocks.len() {
            1 => FaultKind::BarrierDeadlock { waits },
            _ => FaultKind::ClusterDeadlock { waits },
        };
        let waiting = self.blocks.iter().find(|block| !block.is_over());
        waiting.unwrap_or(&self.blocks[0]).stuck(launch, kind)
    }
}
