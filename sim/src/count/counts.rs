//! Counters that successive blocks reuse.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::Space;
use crate::observe::{AccessKind, BarrierKind, BlockInfo, Branch, Copy, Event, Memory};

use super::access::{self, Group, Passes, most_on_one, passes, sectors};
use super::plan::{InFlight, Plan};
use super::{AtomicAccess, GlobalAccess, Profile, SharedAccess, Step, Tally, Timeline};

/// Counters of the blocks that have used them, and the state of the current block.
#[doc(hidden)]
#[derive(Debug)]
pub struct Counts {
    plan: Arc<Plan>,
    executed: Vec<[u64; 2]>,
    /// Counts other than `executed`, for the instructions that do more than compute.
    tallies: Vec<Tally>,
    steps: Vec<Step>,
    timeline: Timeline,
    pub(super) atomics: HashMap<u64, u64>,
    copy_peak: u64,
    bytes_peak: u32,
    blocks: u64,
    warps: u64,
    block: BlockState,
    group: Box<Group>,
}

#[derive(Debug, Default)]
struct BlockState {
    warps: Vec<WarpState>,
    /// For each [`Step`], the mask of warps that stored to shared memory.
    active: Vec<u32>,
    copy_bytes: u64,
    rank: u32,
    sampled: bool,
}

#[derive(Debug, Default, Clone)]
struct WarpState {
    step: usize,
    flight: InFlight,
}

impl Counts {
    pub(super) fn new(plan: &Arc<Plan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            executed: vec![[0; 2]; plan.instructions()],
            tallies: vec![Tally::default(); plan.tallies],
            steps: Vec::new(),
            timeline: Timeline::default(),
            atomics: HashMap::new(),
            copy_peak: 0,
            bytes_peak: 0,
            blocks: 0,
            warps: 0,
            block: BlockState::default(),
            group: Box::new(Group::EMPTY),
        }
    }

    pub(super) fn begin(&mut self, info: &BlockInfo<'_>) {
        let block = &mut self.block;
        block.warps.resize_with(info.warps as usize, WarpState::default);
        for warp in &mut block.warps {
            warp.step = 0;
            warp.flight.clear();
        }
        block.active.clear();
        (block.copy_bytes, block.rank) = (0, info.rank);
        block.sampled = info.linear == 0;
    }

    pub(super) fn end(&mut self) {
        self.blocks += 1;
        self.warps += self.block.warps.len() as u64;
        let reached = self.block.warps.iter().map(|warp| warp.step).max().unwrap_or(0);
        self.step(reached);
        for (number, step) in self.steps[..=reached].iter_mut().enumerate() {
            step.blocks += 1;
            let active = self.block.active.get(number).copied().unwrap_or(0);
            step.active_warps += u64::from(active.count_ones());
            step.active_blocks += u64::from(active != 0);
        }
        let peak = self.block.warps.iter().map(|warp| warp.flight.peak).max();
        self.bytes_peak = self.bytes_peak.max(peak.unwrap_or(0));
    }

    fn step(&mut self, number: usize) -> &mut Step {
        if self.steps.len() <= number {
            self.steps.resize(number + 1, Step::default());
        }
        &mut self.steps[number]
    }

    pub(super) fn profile(&self) -> Profile {
        let tally = |(index, &[warps, threads]): (usize, &[u64; 2])| {
            let slot = self.plan.slot(index as u32).map(|slot| self.tallies[slot]);
            let rest = slot.unwrap_or_default();
            Tally { warp_instructions: warps, thread_instructions: threads, ..rest }
        };
        Profile {
            instructions: self.executed.iter().enumerate().map(tally).collect(),
            blocks: self.blocks,
            warps: self.warps,
            steps: self.steps.clone(),
            timeline: self.timeline.clone(),
            bytes_in_flight: self.bytes_peak,
            copy_bytes_in_flight: self.copy_peak,
            hottest_atomic: None,
        }
    }

    #[inline]
    pub(super) fn execute(&mut self, event: &Event<'_>) {
        let [warps, threads] = &mut self.executed[event.index as usize];
        *warps += 1;
        *threads += u64::from(event.executed.count_ones());
        let warp = &mut self.block.warps[event.warp as usize];
        warp.flight.execute(&self.plan, event.index);
        let number = warp.step;
        self.step(number).warp_instructions += 1;
        if self.block.sampled {
            let warps = self.block.warps.len();
            self.timeline.at(number, event.warp as usize, warps).warp_instructions += 1;
        }
    }

    pub(super) fn memory(&mut self, event: &Event<'_>, memory: &Memory<'_>) {
        let Some(slot) = self.plan.slot(event.index).filter(|_| memory.lanes != 0) else { return };
        match memory.space {
            Space::Shared if memory.owner != self.block.rank => self.tallies[slot].remote_requests += 1,
            Space::Shared => self.shared(event, memory, slot),
            Space::Global => self.global(event, memory, slot),
            _ => {}
        }
    }

    fn shared(&mut self, event: &Event<'_>, memory: &Memory<'_>, slot: usize) {
        let number = self.block.warps[event.warp as usize].step;
        let warps = self.block.warps.len();
        let mut sample =
            self.block.sampled.then(|| self.timeline.at(number, event.warp as usize, warps));
        let changes = matches!(memory.kind, AccessKind::Atomic | AccessKind::Reduction);
        let banks = sample.as_mut().map(|sample| &mut sample.banks);
        let Passes { wavefronts, ideal, degree } = passes(memory, !changes, banks, &mut self.group);
        let access = SharedAccess { requests: 1, wavefronts, ideal, degree };
        let stores = memory.kind == AccessKind::Store;
        if let Some(sample) = sample {
            sample.wavefronts += wavefronts;
            if stores {
                sample.stored |= memory.lanes;
            } else {
                sample.loaded |= memory.lanes;
            }
        }
        let tally = &mut self.tallies[slot];
        match memory.kind {
            AccessKind::Load => tally.shared_loads += access,
            AccessKind::Store => tally.shared_stores += access,
            AccessKind::Atomic | AccessKind::Reduction => tally.shared_atomics += access,
        }
        let step = self.step(number);
        step.shared += access;
        if stores {
            step.stores += u64::from(memory.lanes.count_ones());
            let active = &mut self.block.active;
            if active.len() <= number {
                active.resize(number + 1, 0);
            }
            active[number] |= 1 << event.warp;
        }
    }

    fn global(&mut self, event: &Event<'_>, memory: &Memory<'_>, slot: usize) {
        let (sectors, useful_bytes) = sectors(memory);
        let access = GlobalAccess { requests: 1, sectors, useful_bytes };
        let tally = &mut self.tallies[slot];
        match memory.kind {
            AccessKind::Load => {
                tally.global_loads += access;
                self.block.warps[event.warp as usize].flight.issue(event.index, memory.bytes);
            }
            AccessKind::Store => tally.global_stores += access,
            AccessKind::Atomic | AccessKind::Reduction => {
                tally.global_atomics += AtomicAccess {
                    requests: 1,
                    operations: memory.lanes.count_ones().into(),
                    sectors,
                    passes: most_on_one(memory.addresses, memory.lanes),
                };
                for lane in access::lanes(memory.lanes) {
                    *self.atomics.entry(memory.addresses[lane]).or_default() += 1;
                }
            }
        }
    }

    pub(super) fn barrier(&mut self, event: &Event<'_>, kind: BarrierKind) {
        let Some(slot) = self.plan.slot(event.index) else { return };
        match kind {
            BarrierKind::Sync(_) | BarrierKind::Reduce(_) => {
                self.tallies[slot].block_barriers += 1;
                self.block.warps[event.warp as usize].step += 1;
            }
            BarrierKind::Arrive(_) => self.tallies[slot].block_barriers += 1,
            BarrierKind::Warp(_) => self.tallies[slot].warp_barriers += 1,
            BarrierKind::ClusterArrive | BarrierKind::ClusterWait => {}
        }
    }

    pub(super) fn branch(&mut self, event: &Event<'_>, branch: Branch) {
        if let Some(slot) = self.plan.slot(event.index) {
            self.tallies[slot].branches += 1;
            self.tallies[slot].divergent_branches += u64::from(branch.diverged);
        }
    }

    pub(super) fn shuffle(&mut self, event: &Event<'_>) {
        if let Some(slot) = self.plan.slot(event.index) {
            self.tallies[slot].shuffles += 1;
        }
    }

    pub(super) fn landed(&mut self, copy: &Copy<'_>) {
        let bytes = u64::from(copy.lanes.count_ones()) * u64::from(copy.bytes);
        self.block.copy_bytes = self.block.copy_bytes.saturating_sub(bytes);
    }

    pub(super) fn copy(&mut self, event: &Event<'_>, copy: &Copy<'_>) {
        let Some(slot) = self.plan.slot(event.index) else { return };
        let lanes = u64::from(copy.lanes.count_ones());
        let bytes = lanes * u64::from(copy.bytes);
        self.tallies[slot].copies += lanes;
        self.tallies[slot].copy_bytes += bytes;
        self.block.copy_bytes += bytes;
        self.copy_peak = self.copy_peak.max(self.block.copy_bytes);
    }
}
