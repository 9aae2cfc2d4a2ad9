//! A warp: its registers and lanes, and its control-flow, barrier and timer instructions.

use crate::error::FaultKind;
use crate::lanes::{FULL, File, Regs, Row, commit};
use crate::observe::{Branch, Detail};
use crate::program::{
    FIXED_PREDICATES, Init, Inst, Join, LANES, NOWHERE, Operands, Scalar, TRUE, Timer,
};

use super::control::Split;
use super::divergent_path::{DivergentPath, Wait, Whole};
use super::special::special_value;
use super::stack::Stack;
use super::turn::Turn;
use super::{ExecContext, Launched, Outcome, PlaceInGrid, Probe, trouble};

#[derive(Debug, Default)]
pub(crate) struct Warp {
    pub(super) regs: Regs,
    pub(super) index: u32,
    pub(super) pc: u32,
    pub(super) active: u32,
    /// Reconvergence point of the active lanes.
    pub(super) join: u32,
    pub(super) exited: u32,
    pub(super) stack: Vec<Split>,
    pub(super) others: Vec<DivergentPath>,
    pub(super) turn: Turn,
    pub(super) stuck: bool,
    /// Set after a block barrier: the next instruction is reported even if the observer ignores it.
    pub(super) released: bool,
    /// Number of consecutive turns in which the running path polled memory.
    pub(super) starved: u32,
    /// Local memory, one lane after the other. Each lane has `local_bytes` bytes: the entry's number, or
    /// more after function calls and `alloca`.
    pub(super) local: Vec<u8>,
    pub(super) local_bytes: usize,
    /// Stack of each lane; empty if the entry neither calls functions nor executes `alloca`.
    pub(super) stacks: Vec<Stack>,
    /// Number of groups of copies that each lane has committed, and of groups of bulk copies.
    pub(super) commits: Box<Row>,
    pub(super) bulk_commits: Box<Row>,
    /// Phase of the warp's arrival at the cluster barrier, until its wait has completed.
    pub(super) cluster_phase: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Exited,
    Preempted,
    Barrier {
        entry: u32,
        id: u32,
        threads: Option<u32>,
    },
    /// A wait at the cluster barrier while the barrier is in this phase.
    ClusterBarrier(u32),
    Mbarrier(u32),
}

pub(super) enum Next {
    /// Advance; the loop reports the event.
    Plain,
    /// Advance; the event has been reported.
    Reported,
    /// The program counter has been set, and the event has been reported.
    Placed,
    /// Repeat the instruction, after other lanes have run.
    Again,
    /// The executing lanes wait; continue with others.
    Leave,
    /// Repeat the instruction when the warp resumes; it counts as executed only then.
    Suspend(Stop),
    Stop(Stop),
}

impl Warp {
    /// Creates the register file, and fills the registers that are the same for all blocks.
    pub(super) fn new(launch: &Launched<'_>, index: u32) -> Self {
        let rows = &launch.entry.program.rows;
        let mut regs = Regs {
            words: File::new(rows.words),
            doubles: File::new(rows.doubles),
            predicates: vec![0; usize::from(rows.predicates.max(FIXED_PREDICATES))],
        };
        regs.predicates[usize::from(TRUE)] = FULL;
        let local_bytes = launch.entry.program.local_bytes as usize;
        let local = vec![0; local_bytes * LANES];
        let mut warp = Self { regs, index, local, local_bytes, ..Self::default() };
        for &(row, init) in &rows.inits {
            warp.fill(launch, row, init, &launch.place(0, 0));
        }
        warp
    }

    fn fill(&mut self, launch: &Launched<'_>, row: u16, init: Init, place: &PlaceInGrid) {
        let row = usize::from(row);
        let warp = self.index;
        let value = |special| move |lane| special_value(launch, place, warp, lane, special);
        match init {
            Init::Word(value) => self.regs.words[row] = [value; LANES],
            Init::Frame | Init::Scratch => self.regs.words[row] = [0; LANES],
            Init::Double(value) => self.regs.doubles[row] = [value; LANES],
            Init::Global(variable, offset) => {
                let address = launch.globals[variable as usize].wrapping_add(offset as u64);
                self.regs.doubles[row] = [address; LANES];
            }
            // Values that differ between blocks are equal in all lanes.
            Init::Special(special) if special.varies() => {
                self.regs.words[row] = [value(special)(0) as u32; LANES];
            }
            Init::Special(special) => {
                let value = value(special);
                self.regs.words[row] = std::array::from_fn(|lane| value(lane) as u32);
            }
            Init::SpecialPredicate(special) => {
                let holds = value(special)(0) != 0;
                self.regs.predicates[row] = if holds { FULL } else { 0 };
            }
            Init::Special64(special) => {
                self.regs.doubles[row] = std::array::from_fn(value(special));
            }
        }
    }

    pub(super) fn reset(&mut self, launch: &Launched<'_>, place: &PlaceInGrid) {
        let threads = launch.threads() - self.index * 32;
        self.exited = if threads >= 32 { 0 } else { FULL << threads };
        (self.pc, self.active, self.join) = (0, self.live(), NOWHERE);
        self.stack.clear();
        self.others.clear();
        (self.stuck, self.released, self.starved) = (false, false, 0);
        // Skip empty slices: a zero-length fill compiles to a masked store that stalls the host.
        if !self.local.is_empty() {
            self.local.fill(0);
        }
        if let Some(frame) = launch.entry.program.frame {
            self.regs.words[usize::from(frame)] = [0; LANES];
            self.reset_stacks(&launch.entry.program);
        }
        self.cluster_phase = None;
        if !launch.entry.program.asynchronous.is_empty() {
            (*self.commits, *self.bulk_commits) = ([0; LANES], [0; LANES]);
        }
        for &(row, init) in &launch.entry.program.rows.inits {
            if matches!(init, Init::Special(special) | Init::Special64(special) if special.varies()) {
                self.fill(launch, row, init, place);
            }
        }
    }

    /// Returns the active lanes for which the guard of an instruction holds.
    #[inline(always)]
    pub(super) fn executing(&self, inst: &Inst) -> u32 {
        self.active & (self.regs.predicates[usize::from(inst.guard)] ^ inst.invert)
    }

    pub(super) fn joined(&self, holds: u32, c: u16, join: Join) -> u32 {
        let other = |negate| {
            let p = self.regs.predicates[usize::from(c)];
            if negate { !p } else { p }
        };
        match join {
            Join::None => holds,
            Join::And { negate } => holds & other(negate),
            Join::Or { negate } => holds | other(negate),
            Join::Xor { negate } => holds ^ other(negate),
        }
    }

    #[inline(always)]
    pub(super) fn compare(&mut self, holds: u32, o: &Operands, join: Join, mask: u32) {
        let (first, second) = match join {
            Join::None => (holds, !holds),
            _ => (self.joined(holds, o.c, join), self.joined(!holds, o.c, join)),
        };
        for (row, value) in [(o.d, first), (o.e, second)] {
            // Predicate 0 is always true; as a destination it stands for none.
            if row != TRUE {
                let p = &mut self.regs.predicates[usize::from(row)];
                *p = *p & !mask | value & mask;
            }
        }
    }

    #[inline(always)]
    pub(super) fn branch(&mut self, taken: u32, target: u32, join: u32) {
        let fall = self.active & !taken;
        if fall == 0 {
            self.pc = target;
        } else if taken == 0 {
            self.pc += 1;
        } else {
            self.diverge(&[(target, taken), (self.pc + 1, fall)], join);
        }
    }

    pub(super) fn branch_table<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        mask: u32,
        (index, table, join): (u16, u32, u32),
    ) -> Outcome<()> {
        let (pc, active) = (self.pc, self.active);
        let targets = context.launch.entry.program.tables[table as usize].as_slice();
        let indices = self.regs.words[usize::from(index)];
        if let Err((lane, index)) = self.branch_indexed(&indices, mask, targets, join) {
            return trouble(FaultKind::BranchIndex { index, targets: targets.len() as u32 }, lane);
        }
        if P::ENABLED {
            let branch = Branch { taken: mask, diverged: self.active != active };
            context.report((pc, self.index, active, mask), Detail::Branch(branch));
        }
        Ok(())
    }

    pub(super) fn barrier<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        entry: u32,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        let program = &context.launch.entry.program;
        let lane = mask.trailing_zeros();
        let value = |scalar: Scalar| match scalar {
            Scalar::Constant(value) => value,
            Scalar::Row(row) => self.regs.words[usize::from(row)][lane as usize],
        };
        let barrier = &program.barriers[entry as usize];
        let (id, threads) = (value(barrier.id), barrier.threads.map(value));
        if id > 15 {
            let kind =
                FaultKind::InvalidBarrier { what: "number", value: id.into(), allowed: "0 to 15" };
            return trouble(kind, lane);
        }
        if let Some(threads) = threads.filter(|&t| t == 0 || t % 32 != 0 || t > 1024) {
            let allowed = "a multiple of 32 from 32 to 1024";
            let what = "thread count";
            return trouble(FaultKind::InvalidBarrier { what, value: threads.into(), allowed }, lane);
        }
        let wait = if barrier.aligned { Wait::Warp } else { Wait::Barrier(id) };
        match self.whole(program, mask, wait) {
            Whole::Here => {}
            Whole::Later(next) => return Ok(next),
            Whole::Missing(missing) => {
                return trouble(FaultKind::DivergentBarrier { id, warp: self.index, missing }, lane);
            }
        }
        if P::ENABLED {
            let kind = barrier.kind.observed(id);
            context.report((self.pc, self.index, self.live(), self.live()), Detail::Barrier(kind));
        }
        Ok(Next::Stop(Stop::Barrier { entry, id, threads }))
    }

    pub(super) fn read_timer(&mut self, now: u64, kind: Timer, wide: bool, d: u16, mask: u32) {
        let value = match kind {
            Timer::Clock | Timer::GlobalNanoseconds => now,
            Timer::ClockHigh | Timer::GlobalNanosecondsHigh => now >> 32,
        };
        if wide {
            commit(&mut self.regs.doubles[usize::from(d)], &[value; LANES], mask);
        } else {
            commit(&mut self.regs.words[usize::from(d)], &[value as u32; LANES], mask);
        }
    }

    pub(super) fn report<P: Probe>(
        &self,
        context: &mut ExecContext<'_, P>,
        executed: u32,
        detail: Detail<'_>,
    ) {
        context.report((self.pc, self.index, self.active, executed), detail);
    }
}
