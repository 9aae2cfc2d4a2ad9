//! A cluster: blocks that run interleaved and reach each other's shared memory.
//!
//! One host thread at a time runs a cluster, so its blocks need no locks. The
//! shared memories lie side by side in [`Common`]; a block takes its own into its
//! arena while it has its turn. A launch without clusters has clusters of one.

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

/// Rounds after which a cluster whose warps do not watch memory gives way too.
const QUIET_ROUNDS: u32 = 64;
/// Times that every warp waits in vain for its mbarrier and is let go on with
/// `try_wait` false, without a sign of anything else, before that is a deadlock.
const PATIENCE: u32 = 256;
/// Warp instructions, or as much other work, after which a cluster looks at the clock: some
/// milliseconds.
const CLOCK_PERIOD: u64 = 1 << 16;
/// Warp instructions that take as long as a round of a cluster does without any.
const ROUND_COST: u64 = 64;
/// Bytes of a cluster that are cleared in the time of a warp instruction, at least.
const CLEARED_BYTES: u64 = 256;

/// A cluster that is running.
pub(super) struct Cluster {
    blocks: Vec<Block>,
    common: Common,
    quiet_rounds: u32,
    /// Times that the warps have waited in vain, one after the other.
    in_vain: u32,
    /// Work since this place of a cluster last looked at the clock, in warp instructions. It counts on
    /// from one cluster of the grid to the next: most of them may be short.
    unclocked: u64,
}

/// What the blocks of a cluster share.
#[derive(Default)]
pub(super) struct Common {
    pub(super) members: Vec<Member>,
    pub(super) flights: Vec<Flight>,
    /// Copies issued so far.
    pub(super) departures: u64,
    pub(super) barrier: ClusterBarrier,
    /// Whether nothing can go on unless `try_wait` gives up: its time is over.
    pub(super) expired: bool,
}

/// A block as the others of its cluster see it.
#[derive(Default)]
pub(super) struct Member {
    /// Its shared memory, unless the block has its turn.
    pub(super) shared: Vec<u8>,
    /// Address of each mbarrier, with whether it is valid still.
    pub(super) mbarriers: BTreeMap<u64, bool>,
    pub(super) exited: bool,
    /// Its place in the grid.
    pub(super) block: [u32; 3],
    pub(super) probe: ProbeState,
}

/// The barrier of the whole cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClusterBarrier {
    /// Live warps that have arrived in this phase.
    pub(super) arrived: u32,
    pub(super) phase: u32,
    /// Warps of the cluster that have not exited.
    pub(super) live: u32,
}

/// How a cluster stands after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Finished,
    Yielded,
    /// The launch has no instructions left.
    OutOfSteps,
    /// The launch has no time left.
    OutOfTime,
}

impl ClusterBarrier {
    /// Arrives; returns the phase to wait for.
    pub(super) fn arrive(&mut self) -> u32 {
        let phase = self.phase;
        self.arrived += 1;
        self.complete();
        phase
    }

    /// A warp exits, which has arrived in phase `arrived` if at all. The others
    /// no longer wait for it.
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
    /// The block that a shared address names by its rank.
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

    /// Changes the mbarrier at an address of a block.
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
        // Only places inside of the memory become mbarriers.
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
    /// What the phase of an mbarrier waits for, in words.
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

/// The error of an mbarrier at an address.
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

    /// Bytes that a live cluster takes.
    pub(super) fn bytes(launch: &Launched<'_>) -> u64 {
        Block::bytes(launch) * u64::from(launch.cluster_blocks())
    }

    /// Starts a cluster of the grid in this place.
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

    /// Hands the observer's states back.
    pub(super) fn finish<P: Probe>(&mut self, probe: &P) {
        self.common.flights.clear();
        for member in &mut self.common.members {
            probe.end(member.probe.take());
        }
    }

    /// Runs warps in turn until the cluster finishes, gives way, `steps` warp instructions are used up,
    /// or it is later than `deadline`; what was executed is added to `total`.
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
            // Before a round, not behind it: some warp can go on, at which the error of the limit is.
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

    /// The error of a launch that has passed a limit, at the first warp that could go on.
    pub(super) fn endless(&mut self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let rank = self.blocks.iter().position(Block::has_ready).unwrap_or(0);
        let block = &mut self.blocks[rank];
        swap(&mut block.arena.shared, &mut self.common.members[rank].shared);
        let warp = block.first_ready();
        block.endless(launch, &mut self.common, kind, warp)
    }

    /// The same error without a look at what the warp does, which would change memory.
    pub(super) fn stopped(&self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let block = self.blocks.iter().find(|block| block.has_ready()).unwrap_or(&self.blocks[0]);
        block.fault_at(launch, kind, block.first_ready())
    }

    /// Ends a block: the others may not use its shared memory any more.
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

    /// Every warp waits: for a copy, which lands now, for the time of a `try_wait`
    /// to be over, or for good.
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

    /// The error of a copy that lands, whose place is that of its issue.
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
