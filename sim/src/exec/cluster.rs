//! Cluster execution: interleaved blocks that access each other's shared memory.
//!
//! A cluster runs on one host thread at a time, so its blocks need no locks. [`ClusterState`] holds the
//! shared memories of all blocks. A launch without clusters has clusters of one block.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::config::Stats;
use crate::error::{Fault, FaultKind, MbarrierProblem};
use crate::observe::BlockInfo;

use super::block::{Block, Round};
use super::flight::Flight;
use super::mbarrier::Mbarrier;
use super::{ExecContext, LaneFault, Launched, Outcome, Probe, ProbeState, trouble};

/// [Rounds](Block::round) after which a cluster yields even if its warps do not poll memory.
const QUIET_ROUNDS: u32 = 64;
/// Consecutive timeouts of `try_wait` without other progress that count as a deadlock.
const PATIENCE: u32 = 256;
/// Warp instructions, or equivalent other work, between checks of the time limit: a few milliseconds.
const CLOCK_PERIOD: u64 = 1 << 16;
/// Cost of a [round](Block::round) besides its instructions, in warp instructions.
const ROUND_COST: u64 = 64;
/// Lower bound of the bytes of cluster state that the host clears in the time of one warp instruction.
const CLEARED_BYTES: u64 = 256;

pub(super) struct Cluster {
    blocks: Vec<Block>,
    common: ClusterState,
    quiet_rounds: u32,
    in_vain: u32,
    /// Work since the last check of the time limit, in warp instructions. Carries over to the next
    /// cluster of the grid, since a cluster may need less than [`CLOCK_PERIOD`].
    unclocked: u64,
}

#[derive(Default)]
pub(super) struct ClusterState {
    pub(super) members: Vec<Member>,
    pub(super) flights: Vec<Flight>,
    pub(super) departures: u64,
    pub(super) barrier: ClusterBarrier,
    /// Set when only a timeout of `try_wait` can make progress.
    pub(super) expired: bool,
}

/// A block's state that other blocks of its cluster can access.
#[derive(Default)]
pub(super) struct Member {
    pub(super) shared: Vec<u8>,
    /// The number of warp instructions that the block had executed when the running warp was scheduled.
    pub(super) clock: u64,
    /// Mbarriers by address; `false` once invalidated.
    pub(super) mbarriers: BTreeMap<u64, bool>,
    pub(super) exited: bool,
    pub(super) block: [u32; 3],
    pub(super) probe: ProbeState,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClusterBarrier {
    pub(super) arrived: u32,
    pub(super) phase: u32,
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

impl ClusterState {
    /// Returns the block with a rank; fails if there is no such block, or if it has exited.
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
        // This does not fail, because `init` checks the bounds of each mbarrier.
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

impl ClusterState {
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
pub(super) fn mbarrier_fault(address: u64, problem: MbarrierProblem, lane: u32) -> Box<LaneFault> {
    Box::new(LaneFault { kind: FaultKind::Mbarrier { address, problem }, lane, place: None })
}

impl Cluster {
    pub(super) fn new(launch: &Launched<'_>) -> Self {
        let blocks: Vec<Block> = (0..launch.cluster_blocks()).map(|_| Block::new(launch)).collect();
        let member = || Member { shared: vec![0; launch.shared_bytes() as usize], ..Member::default() };
        let members = blocks.iter().map(|_| member()).collect();
        let common = ClusterState { members, ..ClusterState::default() };
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
            (member.exited, member.block, member.clock) = (false, place.block, 0);
            member.probe = probe.begin(&BlockInfo {
                entry: launch.entry,
                grid: launch.shape.grid,
                block_size: launch.shape.block,
                block: place.block,
                linear: place.linear,
                warps: launch.warps(),
                shared_bytes: launch.shared_bytes(),
                dynamic_shared: launch.shape.dynamic_shared,
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
    /// passes `deadline`; adds the executed instructions to `total`.
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
            // The time is checked before a round, when some warp is runnable, because the fault is
            // located at a runnable warp.
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
                let (common, total) = (&mut self.common, &mut *total);
                let block = &mut self.blocks[rank];
                let rank = rank as u32;
                let mut context =
                    ExecContext { launch, probe, common, rank, hint: 0, total, limit, round };
                probe.round_begin(&mut context.own().probe);
                let going = block.round(&mut context);
                probe.round_end(&mut context.own().probe);
                round = context.round;
                if !going? {
                    return Ok(Progress::OutOfSteps);
                }
                if block.is_over() {
                    self.retire(launch, probe, rank)?;
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
        let warp = block.first_ready();
        block.endless(launch, &mut self.common, rank as u32, kind, warp)
    }

    /// Returns the same fault as [`endless`](Self::endless), but without the warp's loop: finding it
    /// runs the warp, which would change memory.
    pub(super) fn stopped(&self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let block = self.blocks.iter().find(|block| block.has_ready()).unwrap_or(&self.blocks[0]);
        block.fault_at(launch, kind, block.first_ready())
    }

    /// Retires a block; from then on, accesses by others to its shared memory are errors.
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

    /// Makes progress when every warp waits: completes a copy, lets a `try_wait` time out, or reports a
    /// deadlock.
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

    #[cold]
    fn fault(&self, launch: &Launched<'_>, trouble: LaneFault) -> Box<Fault> {
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
