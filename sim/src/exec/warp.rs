//! A warp and its instruction loop.

use std::sync::atomic::{Ordering, fence};

use crate::error::FaultKind;
use crate::lanes::{FULL, File, Regs, Row, commit};
use crate::observe::{Branch, Detail};
use crate::program::{
    FIXED_PREDICATES, Init, Inst, Join, LANES, NOWHERE, Op, Operands, Scalar, TRUE, Timer,
};

use super::call::Activations;
use super::control::Split;
use super::special::special_value;
use super::strand::{Strand, Wait, Whole};
use super::{Launched, Outcome, PlaceInGrid, Probe, Scene, trouble};

#[derive(Debug, Default)]
pub(super) struct Warp {
    pub(super) regs: Regs,
    pub(super) index: u32,
    pub(super) pc: u32,
    pub(super) active: u32,
    /// Reconvergence point of the active lanes.
    pub(super) join: u32,
    pub(super) exited: u32,
    pub(super) stack: Vec<Split>,
    pub(super) others: Vec<Strand>,
    /// Set if all strands wait for lanes that will not arrive.
    pub(super) stuck: bool,
    /// Set after a barrier of the block: the next instruction that an observer ignores is reported
    /// nevertheless.
    pub(super) released: bool,
    /// Consecutive turns that ended polling memory.
    pub(super) starved: u32,
    /// Local memory, one lane after the other, and the bytes of each: those of the entry, or more since
    /// functions were called.
    pub(super) local: Vec<u8>,
    pub(super) local_bytes: usize,
    pub(super) activations: Activations,
    /// Groups of copies and of bulk copies that each lane has committed.
    pub(super) commits: Box<Row>,
    pub(super) bulk_commits: Box<Row>,
    /// Phase in which the warp has arrived at the cluster barrier, until it has waited there.
    pub(super) cluster_phase: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Exited,
    Preempted,
    /// At barrier `id`, of an entry of the barrier table, with its thread count.
    Barrier {
        entry: u32,
        id: u32,
        threads: Option<u32>,
    },
    /// At the cluster barrier, until its phase differs from this one.
    ClusterBarrier(u32),
    /// At the mbarrier of this address, whose phase is incomplete.
    Mbarrier(u32),
}

pub(super) enum Next {
    /// Advance; the loop gives the event.
    Plain,
    /// Advance; the event has been given.
    Told,
    /// The program counter has been set, and the event given.
    Placed,
    /// Repeat the instruction, after other lanes have run.
    Again,
    /// The executing lanes wait; continue with others.
    Leave,
    /// Repeat the instruction when the warp resumes; it counts only then.
    Suspend(Stop),
    Stop(Stop),
}

impl Warp {
    /// Creates the register file, and fills the rows that are the same for all blocks.
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

    /// Fills a row that no instruction writes, for a block of the grid.
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
            // Values that differ between blocks are the same in all lanes.
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
            self.activations.clear();
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

    /// Runs until the warp exits, waits at a barrier or has used up its turn.
    pub(super) fn run<P: Probe>(&mut self, scene: &mut Scene<'_, P>) -> Outcome<Stop> {
        let program = &scene.launch.entry.program;
        let code = program.code.as_slice();
        loop {
            while self.pc == self.join {
                if !self.leave() {
                    return Ok(Stop::Exited);
                }
            }
            if scene.turn.fuel == 0 {
                if scene.turn.polled || scene.turn.contended || !self.others.is_empty() {
                    self.give_way(scene);
                }
                return Ok(Stop::Preempted);
            }
            let inst = &code[self.pc as usize];
            let mask = self.executing(inst);
            if let Some(world) = scene.probe.exploration()
                && self.halts(world, scene.launch, inst, mask)
            {
                scene.turn.polled = true;
                return Ok(Stop::Preempted);
            }
            if let Some(guide) = scene.probe.guide()
                && self.wanders(guide, &scene.launch.entry.program, inst)
            {
                continue;
            }
            scene.turn.spend(mask);

            match &inst.op {
                Op::Alu { f, o } => f(&mut self.regs, o, mask),
                Op::Compare { f, o, join } => self.compare(f(&self.regs, o), o, *join, mask),
                Op::Branch { target, join } => {
                    self.branch(scene, mask, *target, *join);
                    continue;
                }
                Op::Load(index) => {
                    self.load(scene, &program.accesses[*index as usize], mask)?;
                    self.pc += 1;
                    continue;
                }
                Op::Store(index) => {
                    self.store(scene, &program.accesses[*index as usize], mask)?;
                    self.pc += 1;
                    continue;
                }
                _ => match self.step(scene, inst, mask)? {
                    Next::Plain => {}
                    Next::Told => {
                        self.pc += 1;
                        continue;
                    }
                    next => match self.follow(scene, mask, next) {
                        None => continue,
                        Some(stop) => return Ok(stop),
                    },
                },
            }
            if P::ENABLED && self.is_told(scene) {
                self.tell(scene, mask, Detail::None);
            }
            self.pc += 1;
        }
    }

    /// Returns the active lanes for which the guard of an instruction holds.
    #[inline(always)]
    pub(super) fn executing(&self, inst: &Inst) -> u32 {
        self.active & (self.regs.predicates[usize::from(inst.guard)] ^ inst.invert)
    }

    /// Applies the action after an instruction; returns why the warp stops, if it does.
    #[inline]
    pub(super) fn follow<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        mask: u32,
        next: Next,
    ) -> Option<Stop> {
        match next {
            Next::Plain | Next::Told => self.pc += 1,
            Next::Placed => {}
            Next::Again => scene.turn.refund(mask),
            Next::Leave => {
                scene.turn.refund(mask);
                if self.active != 0 {
                    self.pc += 1;
                } else {
                    // The lanes were set aside, so there is a strand to run.
                    self.leave();
                }
            }
            Next::Suspend(stop) => {
                scene.turn.refund(mask);
                if !(matches!(stop, Stop::Mbarrier(_)) && self.try_others()) {
                    return Some(stop);
                }
            }
            Next::Stop(stop) => return Some(stop),
        }
        None
    }

    /// Returns whether the observer gets an event of the current instruction, which only computes or
    /// branches.
    #[inline]
    fn is_told<P: Probe>(&mut self, scene: &Scene<'_, P>) -> bool {
        scene.probe.hears_all()
            || !scene.launch.ignored[self.pc as usize]
            || std::mem::take(&mut self.released)
    }

    /// Executes an instruction that the loop does not execute itself. Out of line, so that the loop's
    /// own values stay in registers.
    #[inline(never)]
    pub(super) fn step<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        inst: &Inst,
        mask: u32,
    ) -> Outcome<Next> {
        let program = &scene.launch.entry.program;
        match inst.op {
            Op::Shuffle(_)
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Reduce { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier { .. } => {
                return self.collective(scene, &inst.op, mask);
            }
            Op::Atomic(index) => {
                let access = &program.accesses[index as usize];
                self.atomic(scene, access, mask)?;
                return Ok(Next::Told);
            }
            Op::Async(index) => {
                return self.asynchronous(scene, &program.asynchronous[index as usize], mask);
            }
            Op::ClusterBarrier { wait } => return self.cluster_barrier(scene, wait, mask),
            Op::Barrier(entry) => return self.barrier(scene, entry, mask),
            Op::Exit => {
                if P::ENABLED {
                    self.tell(scene, mask, Detail::None);
                }
                self.exited |= mask;
                self.active &= !mask;
                if self.active != 0 {
                    return Ok(Next::Told);
                }
                return Ok(if self.leave() { Next::Placed } else { Next::Stop(Stop::Exited) });
            }
            Op::Matrix(index) => return self.matrix(scene, index, mask),
            Op::Texture(index) => {
                self.texture(scene, &program.textures[index as usize], mask)?;
                return Ok(Next::Told);
            }
            Op::Call(index) => return self.call(scene, index, mask),
            Op::Return => return Ok(self.ret(scene, mask)),
            Op::BranchIndex { index, table, join } => {
                self.branch_table(scene, mask, (index, table, join))?;
                return Ok(Next::Placed);
            }
            Op::Set { f, ref o, join } => {
                let holds = self.joined(f(&self.regs, o), o.c, join);
                let value = |lane| if holds >> lane & 1 == 1 { o.imm } else { 0 };
                let values = std::array::from_fn(value);
                commit(&mut self.regs.words[usize::from(o.d)], &values, mask);
            }
            Op::Trap { assertion } if mask != 0 => {
                let kind = if assertion { FaultKind::Assertion } else { FaultKind::Trap };
                return trouble(kind, mask.trailing_zeros());
            }
            Op::ActiveMask { d } => {
                commit(&mut self.regs.words[usize::from(d)], &[self.active; LANES], mask);
            }
            Op::Timer { kind, wide, d } => {
                self.read_timer(scene.arena.clock + scene.turn.executed(), kind, wide, d, mask)
            }
            Op::Fence { order, sc } => match scene.probe.exploration() {
                Some(world) => world.fence(self.index, mask, order, sc),
                None => fence(Ordering::SeqCst),
            },
            Op::GridDependency { wait } => {
                if let Some(world) = scene.probe.exploration() {
                    world.depend(self.index, wait);
                }
            }
            Op::Sleep => {
                scene.turn.polled = true;
                scene.turn.forfeit(u32::MAX);
            }
            Op::Print(index) => self.print(scene, index, mask)?,
            Op::Condition(index) => {
                self.condition(scene, &program.condition_calls[index as usize], mask)?;
            }
            Op::Heap(index) => self.heap(scene, &program.heap_calls[index as usize], mask)?,
            Op::Trap { .. } | Op::Nop => {}
            Op::Alu { .. } | Op::Compare { .. } | Op::Branch { .. } | Op::Load(_) | Op::Store(_) => {}
        }
        Ok(Next::Plain)
    }

    fn joined(&self, holds: u32, c: u16, join: Join) -> u32 {
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

    #[inline]
    pub(super) fn compare(&mut self, holds: u32, o: &Operands, join: Join, mask: u32) {
        let (first, second) = match join {
            Join::None => (holds, !holds),
            _ => (self.joined(holds, o.c, join), self.joined(!holds, o.c, join)),
        };
        for (row, value) in [(o.d, first), (o.e, second)] {
            // Row 0 is always true, and stands for an absent destination.
            if row != TRUE {
                let p = &mut self.regs.predicates[usize::from(row)];
                *p = *p & !mask | value & mask;
            }
        }
    }

    #[inline]
    pub(super) fn branch<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        taken: u32,
        target: u32,
        join: u32,
    ) {
        let fall = self.active & !taken;
        if P::ENABLED && self.is_told(scene) {
            let branch = Branch { taken, diverged: taken != 0 && fall != 0 };
            self.tell(scene, taken, Detail::Branch(branch));
        }
        if fall == 0 {
            self.pc = target;
        } else if taken == 0 {
            self.pc += 1;
        } else {
            self.diverge(&[(target, taken), (self.pc + 1, fall)], join);
        }
    }

    fn branch_table<P: Probe>(
        &mut self,
        scene: &mut Scene<'_, P>,
        mask: u32,
        (index, table, join): (u16, u32, u32),
    ) -> Outcome<()> {
        let (pc, active) = (self.pc, self.active);
        let targets = scene.launch.entry.program.tables[table as usize].as_slice();
        let indices = self.regs.words[usize::from(index)];
        if let Err((lane, index)) = self.branch_indexed(&indices, mask, targets, join) {
            return trouble(FaultKind::BranchIndex { index, targets: targets.len() as u32 }, lane);
        }
        if P::ENABLED {
            let branch = Branch { taken: mask, diverged: self.active != active };
            scene.tell((pc, self.index, active, mask), Detail::Branch(branch));
        }
        Ok(())
    }

    fn barrier<P: Probe>(&mut self, scene: &mut Scene<'_, P>, entry: u32, mask: u32) -> Outcome<Next> {
        if mask == 0 {
            return Ok(Next::Plain);
        }
        let program = &scene.launch.entry.program;
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
            scene.tell((self.pc, self.index, self.live(), self.live()), Detail::Barrier(kind));
        }
        Ok(Next::Stop(Stop::Barrier { entry, id, threads }))
    }

    fn read_timer(&mut self, now: u64, kind: Timer, wide: bool, d: u16, mask: u32) {
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

    pub(super) fn tell<P: Probe>(&self, scene: &mut Scene<'_, P>, executed: u32, detail: Detail<'_>) {
        scene.tell((self.pc, self.index, self.active, executed), detail);
    }
}
