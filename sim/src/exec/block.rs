//! Block execution: scheduling of warps, numbered barriers, shared memory.

use crate::error::{Fault, FaultKind};
use crate::lanes::commit;
use crate::program::{BarrierOp, BarrierReduce, Effect, LANES};

use super::cluster::ClusterState;
use super::warp::{Stop, Warp};
use super::{ExecContext, LaneFault, Launched, Outcome, PlaceInGrid, Probe};

#[derive(Default)]
pub(super) struct Block {
    pub(super) warps: Vec<Warp>,
    states: Vec<State>,
    pub(super) index: [u32; 3],
    barriers: [BarrierState; 16],
    pub(super) live: u32,
    /// Instructions executed by each warp, for the thread step limit.
    steps: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Waiting(u8),
    /// Waiting at the cluster barrier while the barrier is in this phase.
    Cluster(u32),
    /// Suspended at the mbarrier at this shared address; retried in each [`round`](Block::round).
    Trying(u32),
    Exited,
}

#[derive(Debug, Clone, Copy, Default)]
struct BarrierState {
    warps: u32,
    threads: Option<u32>,
    /// For a reducing barrier, how many threads' predicates hold, and how many threads take part.
    holding: u32,
    voters: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    pub(super) ran: bool,
    pub(super) preempted: bool,
    pub(super) polled: bool,
    /// Set if a warp exited, arrived at a barrier, or executed an mbarrier or copy operation.
    pub(super) acted: bool,
}

impl Block {
    pub(super) fn new(launch: &Launched<'_>) -> Self {
        let warps = (0..launch.warps()).map(|index| Warp::new(launch, index)).collect();
        Self { warps, ..Self::default() }
    }

    pub(super) fn bytes(launch: &Launched<'_>) -> u64 {
        let rows = &launch.entry.program.rows;
        let words = u64::from(rows.words) * 128 + u64::from(rows.doubles) * 256;
        let local = u64::from(launch.entry.program.local_bytes) * 32;
        let warp = words + u64::from(rows.predicates) * 4 + local + 512;
        warp * u64::from(launch.warps()) + u64::from(launch.shared_bytes()) + 1024
    }

    pub(super) fn reset(&mut self, launch: &Launched<'_>, place: &PlaceInGrid) {
        for warp in &mut self.warps {
            warp.reset(launch, place);
        }
        self.states.clear();
        self.states.resize(self.warps.len(), State::Ready);
        self.steps.clear();
        self.steps.resize(self.warps.len(), 0);
        self.barriers = Default::default();
        self.live = self.warps.len() as u32;
        self.index = place.block;
    }

    pub(super) fn is_over(&self) -> bool {
        self.live == 0
    }

    pub(super) fn tries(&self) -> bool {
        self.states.iter().any(|state| matches!(state, State::Trying(_)))
    }

    pub(super) fn has_ready(&self) -> bool {
        self.states.iter().any(|state| matches!(state, State::Ready | State::Trying(_)))
    }

    /// Runs each runnable warp for a time slice. Returns `false` at the limit of warp instructions.
    pub(super) fn round<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
    ) -> Result<bool, Box<Fault>> {
        let (launch, probe) = (context.launch, context.probe);
        if !P::ENABLED && self.warps.len() > 1 && self.in_step(context)? {
            return Ok(true);
        }
        let order = probe.guide().map(|guide| guide.shuffled(self.warps.len()));
        for place in 0..self.warps.len() {
            let index = order.as_ref().map_or(place, |order| order[place]);
            if !self.can_go_on(index, context) {
                continue;
            }
            let left = context.left();
            if left == 0 {
                return Ok(false);
            }
            let fuel = launch.config.quantum.max(1).min(left.min(u64::from(u32::MAX)) as u32);
            let fuel = probe.guide().map_or(fuel, |guide| guide.fuel(fuel));
            self.warps[index].turn.begin(fuel);
            let stop = self.warps[index].run(context);
            self.end_turn(context, index, stop)?;
        }
        Ok(true)
    }

    /// Returns whether a warp can run. Marks the warp ready if its cluster barrier has opened.
    #[inline]
    pub(super) fn can_go_on<P>(&mut self, warp: usize, context: &ExecContext<'_, P>) -> bool {
        match self.states[warp] {
            State::Ready | State::Trying(_) => true,
            State::Cluster(phase) if phase != context.common.barrier.phase => {
                self.states[warp] = State::Ready;
                true
            }
            State::Waiting(_) | State::Cluster(_) | State::Exited => false,
        }
    }

    #[inline]
    pub(super) fn end_turn<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        index: usize,
        stop: Outcome<Stop>,
    ) -> Result<(), Box<Fault>> {
        let (launch, turn) = (context.launch, &self.warps[index].turn);
        context.total.warp_instructions += turn.executed();
        context.total.thread_instructions += turn.lanes();
        context.own().clock += turn.executed();
        context.round.polled |= turn.polled;
        context.round.acted |= turn.acted;
        let stop = stop.map_err(|trouble| self.fault(launch, *trouble, index))?;
        self.steps[index] += turn.executed();
        let limit = launch.config.thread_step_limit;
        if self.steps[index] > limit && stop != Stop::Exited {
            let kind = FaultKind::ThreadStepLimit { limit };
            return Err(self.endless(launch, context.common, context.rank, kind, index));
        }
        // A warp that has only retried its mbarrier has made no progress.
        let tried = matches!(stop, Stop::Mbarrier(_));
        context.round.ran |= !tried || turn.executed() != 0;
        context.round.acted |= matches!(stop, Stop::Exited | Stop::Barrier { .. });
        match stop {
            Stop::Preempted => {
                context.round.preempted = true;
                self.states[index] = State::Ready;
            }
            Stop::Exited => self.exit(launch, context.common, index),
            Stop::Barrier { entry, id, threads } => {
                self.arrive(launch, index, entry, id, threads);
                if let Some(world) = context.probe.exploration() {
                    world.barrier(id, index, self.barriers[id as usize].warps == 0);
                }
            }
            Stop::ClusterBarrier(phase) => self.states[index] = State::Cluster(phase),
            Stop::Mbarrier(address) => self.states[index] = State::Trying(address),
        }
        Ok(())
    }

    pub(super) fn first_ready(&self) -> usize {
        let can_run = |state: &State| matches!(state, State::Ready | State::Trying(_));
        self.states.iter().position(can_run).unwrap_or(0)
    }

    #[cold]
    pub(super) fn fault(&self, launch: &Launched<'_>, trouble: LaneFault, warp: usize) -> Box<Fault> {
        launch.fault(trouble, self.warps[warp].pc, self.index, warp as u32)
    }

    pub(super) fn fault_at(&self, launch: &Launched<'_>, kind: FaultKind, warp: usize) -> Box<Fault> {
        let lane = self.warps[warp].active.trailing_zeros().min(31);
        self.fault(launch, LaneFault { kind, lane, place: None }, warp)
    }

    fn exit(&mut self, launch: &Launched<'_>, common: &mut ClusterState, warp: usize) {
        self.states[warp] = State::Exited;
        self.live -= 1;
        common.barrier.exit(self.warps[warp].cluster_phase);
        for id in 0..self.barriers.len() {
            let arrived = self.barriers[id].warps;
            if arrived != 0 && arrived >= self.needed(launch, id) {
                self.open(launch, id);
            }
        }
    }

    fn arrive(&mut self, launch: &Launched<'_>, warp: usize, entry: u32, id: u32, threads: Option<u32>) {
        let state = &mut self.barriers[id as usize];
        state.warps += 1;
        state.threads = threads;
        match launch.entry.program.barriers[entry as usize].kind {
            BarrierOp::Arrive => self.warps[warp].pass(),
            BarrierOp::Sync => self.states[warp] = State::Waiting(id as u8),
            BarrierOp::Reduce { p, negate, .. } => {
                let lanes = self.warps[warp].gathered();
                let value = self.warps[warp].regs.predicates[usize::from(p)];
                let holding = if negate { !value } else { value } & lanes;
                state.holding += holding.count_ones();
                state.voters += lanes.count_ones();
                self.states[warp] = State::Waiting(id as u8);
            }
        }
        if self.barriers[id as usize].warps >= self.needed(launch, id as usize) {
            self.open(launch, id as usize);
        }
    }

    /// Returns the number of warps that a barrier waits for. At a barrier of the whole block, exited
    /// warps count as arrived.
    #[inline]
    fn needed(&self, launch: &Launched<'_>, id: usize) -> u32 {
        match self.barriers[id].threads {
            Some(threads) if threads != launch.warps() * 32 => threads / 32,
            _ => self.live,
        }
    }

    /// Returns the number of live warps, which a barrier of the whole block waits for, or `None` if a
    /// warp has already arrived at a barrier.
    pub(super) fn all_awaited(&self) -> Option<u32> {
        self.barriers.iter().all(|barrier| barrier.warps == 0).then_some(self.live)
    }

    fn open(&mut self, launch: &Launched<'_>, id: usize) {
        let state = std::mem::take(&mut self.barriers[id]);
        for (warp, waiting) in self.warps.iter_mut().zip(&mut self.states) {
            if *waiting == State::Waiting(id as u8) {
                *waiting = State::Ready;
                if state.voters != 0 {
                    reduced(launch, warp, state);
                }
                warp.pass();
            }
        }
    }

    pub(super) fn stuck(&self, launch: &Launched<'_>, kind: FaultKind) -> Box<Fault> {
        let waits = |state: &State| !matches!(state, State::Ready | State::Exited);
        self.fault_at(launch, kind, self.states.iter().position(waits).unwrap_or(0))
    }

    pub(super) fn waits(&self, common: &ClusterState, rank: u32) -> String {
        let mut waits = Vec::new();
        for (id, state) in self.barriers.iter().enumerate().filter(|(_, s)| s.warps != 0) {
            let arrived = state.warps * 32;
            let needed = state.threads.unwrap_or(self.live * 32);
            let list = self.warps_in(State::Waiting(id as u8));
            waits.push(format!("barrier {id} has {arrived} of {needed} threads, {list}"));
        }
        let mut seen: Vec<State> = Vec::new();
        for &state in &self.states {
            if seen.contains(&state) {
                continue;
            }
            let list = self.warps_in(state);
            match state {
                State::Cluster(_) => {
                    let (arrived, live) = (common.barrier.arrived, common.barrier.live);
                    waits.push(format!("barrier.cluster has {arrived} of {live} warps, {list}"));
                }
                State::Trying(address) => {
                    waits.push(format!("{}, {list}", common.lacks(rank, address.into())));
                }
                _ => {}
            }
            seen.push(state);
        }
        waits.join("; ")
    }

    fn warps_in(&self, state: State) -> String {
        let of_state = |&warp: &usize| self.states[warp] == state;
        let list: Vec<String> =
            (0..self.warps.len()).filter(of_state).map(|warp| warp.to_string()).collect();
        if list.is_empty() { "warps none".to_owned() } else { format!("warps {}", list.join(" ")) }
    }
}

/// Writes the result of a reducing barrier to a warp that waited there.
fn reduced(launch: &Launched<'_>, warp: &mut Warp, state: BarrierState) {
    let program = &launch.entry.program;
    let Effect::Barrier(entry) = program.code[warp.pc as usize].op.effect() else { return };
    let BarrierOp::Reduce { kind, d, .. } = program.barriers[entry as usize].kind else { return };
    let lanes = warp.gathered();
    let truth = match kind {
        BarrierReduce::Count => {
            let row = &mut warp.regs.words[usize::from(d)];
            return commit(row, &[state.holding; LANES], lanes);
        }
        BarrierReduce::And => state.holding == state.voters,
        BarrierReduce::Or => state.holding != 0,
    };
    let p = &mut warp.regs.predicates[usize::from(d)];
    *p = *p & !lanes | if truth { lanes } else { 0 };
}
