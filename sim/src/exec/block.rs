//! A block: its warps in turn, its barriers, its shared memory.

use crate::config::Stats;
use crate::error::{Fault, FaultKind};
use crate::lanes::commit;
use crate::observe::BlockInfo;
use crate::program::{BarrierOp, BarrierReduce, LANES, Op};

use super::warp::{Stop, Turn, Warp};
use super::{Launched, Probe, ProbeState, Scene, Trouble};

/// Turns after which a block whose warps do not watch memory gives way too.
const QUIET_TURNS: u32 = 64;

/// What the warps of a block share while they run.
#[derive(Default)]
pub(super) struct Arena {
    pub(super) shared: Vec<u8>,
    /// Index of the global allocation found last.
    pub(super) hint: usize,
    pub(super) probe: ProbeState,
    pub(super) block: [u32; 3],
    /// Warp instructions that the block has executed before this turn.
    pub(super) clock: u64,
}

/// A live block.
#[derive(Default)]
pub(super) struct Block {
    warps: Vec<Warp>,
    states: Vec<State>,
    arena: Arena,
    barriers: [BarrierState; 16],
    /// Warps that have not exited.
    live: u32,
    quiet_turns: u32,
}

/// What a warp is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Waiting(u8),
    Exited,
}

/// Arrivals at a numbered barrier.
#[derive(Debug, Clone, Copy, Default)]
struct BarrierState {
    /// Warps that have arrived.
    warps: u32,
    /// Threads to wait for, if the instruction says so.
    threads: Option<u32>,
    /// Of the predicates of a reduction: threads in which it holds, and all threads.
    holding: u32,
    voters: u32,
}

/// How a block stands after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Finished,
    Yielded,
    /// The launch has no instructions left.
    OutOfSteps,
}

impl Block {
    pub(super) fn new(launch: &Launched<'_>) -> Self {
        Self {
            warps: (0..launch.warps()).map(|index| Warp::new(launch, index)).collect(),
            arena: Arena { shared: vec![0; launch.shared_bytes() as usize], ..Arena::default() },
            ..Self::default()
        }
    }

    /// Bytes that a live block takes.
    pub(super) fn bytes(launch: &Launched<'_>) -> u64 {
        let rows = &launch.entry.program.rows;
        let words = u64::from(rows.words) * 128 + u64::from(rows.doubles) * 256;
        let local = u64::from(launch.entry.program.local_bytes) * 32;
        let warp = words + u64::from(rows.predicates) * 4 + local + 256;
        warp * u64::from(launch.warps()) + u64::from(launch.shared_bytes()) + 1024
    }

    /// Starts a block of the grid in this place.
    pub(super) fn reset<P: Probe>(&mut self, launch: &Launched<'_>, linear: u64, probe: &P) {
        let block = launch.block_index(linear);
        for warp in &mut self.warps {
            warp.reset(launch, block, linear);
        }
        self.states.clear();
        self.states.resize(self.warps.len(), State::Ready);
        self.barriers = Default::default();
        self.live = self.warps.len() as u32;
        self.quiet_turns = 0;
        self.arena.shared.fill(0);
        self.arena.block = block;
        self.arena.clock = 0;
        self.arena.probe = probe.begin(&BlockInfo {
            entry: launch.entry,
            grid: launch.shape.grid,
            block_size: launch.shape.block,
            block,
            linear,
            warps: self.live,
            shared_bytes: launch.shared_bytes(),
        });
    }

    /// Hands the observer's state back.
    pub(super) fn finish<P: Probe>(&mut self, probe: &P) {
        probe.end(self.arena.probe.take());
    }

    /// Runs warps in turn until the block finishes, gives way, or `steps` warp
    /// instructions are used up; what was executed is added to `total`.
    pub(super) fn turn<P: Probe>(
        &mut self,
        launch: &Launched<'_>,
        probe: &P,
        steps: u64,
        total: &mut Stats,
    ) -> Result<Progress, Box<Fault>> {
        let start = total.warp_instructions;
        loop {
            let (mut ran, mut preempted, mut polled) = (false, false, false);
            for index in 0..self.warps.len() {
                if self.states[index] != State::Ready {
                    continue;
                }
                let left = steps - (total.warp_instructions - start);
                if left == 0 {
                    return Ok(Progress::OutOfSteps);
                }
                let fuel = launch.config.quantum.max(1).min(left.min(u64::from(u32::MAX)) as u32);
                let arena = &mut self.arena;
                let mut scene = Scene { launch, arena, probe, turn: Turn::new(fuel) };
                let stop = self.warps[index].run(&mut scene);
                let turn = scene.turn;
                total.warp_instructions += turn.executed();
                total.thread_instructions += turn.lanes();
                self.arena.clock += turn.executed();
                ran = true;
                polled |= turn.polled;
                match stop.map_err(|trouble| self.fault(launch, *trouble, index))? {
                    Stop::Preempted => preempted = true,
                    Stop::Exited => self.exit(launch, index),
                    Stop::Barrier { entry, id, threads } => {
                        self.arrive(launch, index, entry, id, threads);
                    }
                }
            }
            if self.live == 0 {
                return Ok(Progress::Finished);
            }
            if !ran {
                return Err(self.deadlock(launch));
            }
            self.quiet_turns = if polled { QUIET_TURNS } else { self.quiet_turns + 1 };
            if preempted && self.quiet_turns >= QUIET_TURNS {
                self.quiet_turns = 0;
                return Ok(Progress::Yielded);
            }
        }
    }

    /// The place of the first warp that could go on, for the step limit's error.
    pub(super) fn out_of_steps(&self, launch: &Launched<'_>) -> Box<Fault> {
        let ready = self.states.iter().position(|&state| state == State::Ready).unwrap_or(0);
        let limit = launch.config.step_limit;
        let lane = self.warps[ready].active.trailing_zeros().min(31);
        self.fault(launch, Trouble { kind: FaultKind::StepLimit { limit }, lane }, ready)
    }

    #[cold]
    fn fault(&self, launch: &Launched<'_>, trouble: Trouble, warp: usize) -> Box<Fault> {
        launch.fault(trouble, self.warps[warp].pc, self.arena.block, warp as u32)
    }

    fn exit(&mut self, launch: &Launched<'_>, warp: usize) {
        self.states[warp] = State::Exited;
        self.live -= 1;
        for id in 0..self.barriers.len() {
            self.complete(launch, id);
        }
    }

    /// Counts a warp at a barrier and lets everyone go who waited for it.
    fn arrive(&mut self, launch: &Launched<'_>, warp: usize, entry: u32, id: u32, threads: Option<u32>) {
        let state = &mut self.barriers[id as usize];
        state.warps += 1;
        state.threads = threads;
        match launch.entry.program.barriers[entry as usize].kind {
            BarrierOp::Arrive => self.warps[warp].pc += 1,
            BarrierOp::Sync => self.states[warp] = State::Waiting(id as u8),
            BarrierOp::Reduce { p, negate, .. } => {
                let lanes = self.warps[warp].active;
                let value = self.warps[warp].regs.predicates[usize::from(p)];
                let holding = if negate { !value } else { value } & lanes;
                state.holding += holding.count_ones();
                state.voters += lanes.count_ones();
                self.states[warp] = State::Waiting(id as u8);
            }
        }
        self.complete(launch, id as usize);
    }

    /// Opens a barrier if all it waits for have arrived. Exited warps count as
    /// arrived at a barrier of the whole block.
    fn complete(&mut self, launch: &Launched<'_>, id: usize) {
        let state = self.barriers[id];
        let whole = state.threads.is_none_or(|threads| threads == launch.warps() * 32);
        let needed = if whole { self.live } else { state.threads.unwrap_or(0) / 32 };
        if state.warps == 0 || state.warps < needed {
            return;
        }
        self.barriers[id] = BarrierState::default();
        for (warp, waiting) in self.warps.iter_mut().zip(&mut self.states) {
            if *waiting == State::Waiting(id as u8) {
                *waiting = State::Ready;
                reduced(launch, warp, state);
                warp.pc += 1;
            }
        }
    }

    fn deadlock(&self, launch: &Launched<'_>) -> Box<Fault> {
        let mut waits = Vec::new();
        for (id, state) in self.barriers.iter().enumerate().filter(|(_, s)| s.warps != 0) {
            let warps: Vec<String> = (0..self.warps.len())
                .filter(|&warp| self.states[warp] == State::Waiting(id as u8))
                .map(|warp| warp.to_string())
                .collect();
            let arrived = state.warps * 32;
            let needed = state.threads.unwrap_or(self.live * 32);
            let list = if warps.is_empty() { "none".to_owned() } else { warps.join(" ") };
            waits.push(format!("barrier {id} has {arrived} of {needed} threads, warps {list}"));
        }
        let first = self.states.iter().position(|s| matches!(s, State::Waiting(_))).unwrap_or(0);
        let lane = self.warps[first].active.trailing_zeros().min(31);
        let kind = FaultKind::BarrierDeadlock { waits: waits.join("; ") };
        self.fault(launch, Trouble { kind, lane }, first)
    }
}

/// Gives a warp the result of the reducing barrier that it waited at.
fn reduced(launch: &Launched<'_>, warp: &mut Warp, state: BarrierState) {
    let program = &launch.entry.program;
    let Op::Barrier(entry) = program.code[warp.pc as usize].op else { return };
    let BarrierOp::Reduce { kind, d, .. } = program.barriers[entry as usize].kind else { return };
    let truth = match kind {
        BarrierReduce::Count => {
            let row = &mut warp.regs.words[usize::from(d)];
            return commit(row, &[state.holding; LANES], warp.active);
        }
        BarrierReduce::And => state.holding == state.voters,
        BarrierReduce::Or => state.holding != 0,
    };
    let p = &mut warp.regs.predicates[usize::from(d)];
    *p = *p & !warp.active | if truth { warp.active } else { 0 };
}
