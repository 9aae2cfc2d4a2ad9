//! The instruction loop, for a batch of warps at the same instruction. A warp that runs alone is a batch
//! of one.
//!
//! Dispatching an instruction takes the host longer than executing it for a warp, so it is done once for
//! all warps of a batch.

use std::hint::cold_path;
use std::sync::atomic::{Ordering, fence};

use crate::error::FaultKind;
use crate::lanes::{FULL, commit};
use crate::observe::{AccessKind, Branch, Detail};
use crate::program::{Access, BarrierOp, Inst, LANES, Op, Program, Scalar, Strength, TRUE};

use super::warp::{Next, Stop, Warp};
use super::{ExecContext, Outcome, Probe, trouble};

/// Divergences in a turn after which a warp runs alone.
const MAX_DIVERGENCES: u32 = 8;

pub(super) struct Member<'w> {
    pub(super) warp: &'w mut Warp,
    pub(super) end: Option<Outcome<Stop>>,
    pub(super) divided: u32,
    /// Sort key among the members; those with the least key run first.
    pub(super) key: u64,
}

/// Warps that run in lockstep with a batch and are at other instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    /// Nearest instruction after the batch's current one where another warp is; the batch stops there.
    pub(super) next: u32,
    /// Number of arrivals that open a block barrier; `None` if a warp already waits at a barrier.
    pub(super) awaited: Option<u32>,
    /// Set if another warp is runnable; the batch then waits for it at a barrier.
    pub(super) behind: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Execute,
    Switched,
    EndTurn,
}

impl<'w> Member<'w> {
    pub(super) const fn new(warp: &'w mut Warp) -> Self {
        Self { warp, end: None, divided: MAX_DIVERGENCES, key: 0 }
    }
}

impl Warp {
    /// Runs the warp alone until it exits, waits at a barrier or has used up its turn.
    pub(super) fn run<P: Probe>(&mut self, context: &mut ExecContext<'_, P>) -> Outcome<Stop> {
        let mut member = Member::new(self);
        loop {
            let warp = &mut *member.warp;
            while warp.pc == warp.join {
                if !warp.leave() {
                    return Ok(Stop::Exited);
                }
            }
            if warp.turn.fuel == 0 {
                if warp.turn.polled || warp.turn.contended || !warp.others.is_empty() {
                    warp.give_way(context);
                }
                return Ok(Stop::Preempted);
            }
            execute(context, std::slice::from_mut(&mut member), None);
            if let Some(end) = member.end.take() {
                return end;
            }
        }
    }
}

/// Executes instructions for a batch, until one of its warps waits or stops, or a turn is used up. With
/// `others`, it also returns if a warp diverges or the batch reaches other warps; without, the batch is
/// one warp that runs alone. Inlined, so that the compiler knows the batch's length in that case.
#[inline(always)]
pub(super) fn execute<P: Probe>(
    context: &mut ExecContext<'_, P>,
    batch: &mut [Member<'_>],
    others: Option<Others>,
) {
    debug_assert!(!P::ENABLED || batch.len() == 1, "observed warps do not run in lockstep");
    let program = &context.launch.entry.program;
    let mut pc = batch[0].warp.pc;
    let (mut given, mut taken) = (least_fuel(batch), 0);
    let mut full = are_full(batch);
    while taken != given && others.is_none_or(|others| pc < others.next) {
        let inst = &program.code[pc as usize];
        if inst.leads && batch.iter().any(|member| member.warp.join == pc) {
            if others.is_some() {
                break;
            }
            let Member { warp, end, .. } = &mut batch[0];
            warp.pc = pc;
            if !warp.leave() {
                *end = Some(Ok(Stop::Exited));
                return warp.turn.take(taken);
            }
            (pc, full) = (warp.pc, warp.active == FULL);
            continue;
        }
        let mut executed = 0;
        if P::ENABLED {
            let Member { warp, end, .. } = &mut batch[0];
            warp.pc = pc;
            executed = warp.executing(inst);
            let before = context.probe.before(warp, context.launch, inst, executed);
            if before != Before::Execute {
                *end = (before == Before::EndTurn).then_some(Ok(Stop::Preempted));
                return warp.turn.take(taken);
            }
        }
        taken += 1;
        // Read once for an observed warp, which is always a batch of its own.
        let mask_of = |warp: &Warp| if P::ENABLED { executed } else { warp.executing(inst) };
        let whole = !P::ENABLED && full && inst.guard == TRUE;
        match &inst.op {
            Op::Alu { f, o } if whole => {
                for member in &mut *batch {
                    f(&mut member.warp.regs, o, FULL);
                }
            }
            Op::Alu { f, o } => {
                for Member { warp, .. } in &mut *batch {
                    let mask = mask_of(warp);
                    warp.turn.note(mask);
                    f(&mut warp.regs, o, mask);
                }
            }
            Op::Compare { f, o, join } => {
                for Member { warp, .. } in &mut *batch {
                    let mask = mask_of(warp);
                    warp.turn.note(mask);
                    warp.compare(f(&warp.regs, o), o, *join, mask);
                }
            }
            Op::Load(index) | Op::Store(index)
                if program.accesses[*index as usize].strength == Strength::Weak =>
            {
                let loads = matches!(inst.op, Op::Load(_));
                let kind = if loads { AccessKind::Load } else { AccessKind::Store };
                let access = &program.accesses[*index as usize];
                if move_all(context, batch, mask_of, (access, kind)) {
                    pc += 1;
                    continue;
                }
                for Member { warp, end, .. } in batch {
                    // A member that faulted stays at its instruction.
                    warp.pc = pc + u32::from(end.is_none());
                    warp.turn.take(taken);
                }
                return;
            }
            Op::Branch { target, join } => {
                if P::ENABLED {
                    let diverged = executed != 0 && executed != batch[0].warp.active;
                    let branch = Branch { taken: executed, diverged };
                    batch[0].warp.tell_wanted(context, executed, Detail::Branch(branch));
                }
                if let Some(to) = branch(batch, mask_of, pc, (*target, *join)) {
                    pc = to;
                    continue;
                }
                if others.is_some() {
                    return batch.iter_mut().for_each(|member| member.warp.turn.take(taken));
                }
                (pc, full) = (batch[0].warp.pc, are_full(batch));
                continue;
            }
            Op::Barrier(entry) if opens(program, *entry, batch, inst, others) => {
                for Member { warp, .. } in &mut *batch {
                    warp.turn.note(warp.active);
                    warp.turn.acted = true;
                }
            }
            Op::Collective { kind, mask }
                if whole && batch.iter().all(|member| member.warp.names_all(*mask)) =>
            {
                batch.iter_mut().for_each(|member| member.warp.agree(kind, FULL));
            }
            op => {
                if let Some(others) = others {
                    // Warps in lockstep that poll each other would repeat the same steps forever.
                    let watches = program.watches(op);
                    if watches {
                        batch.iter_mut().for_each(|member| member.divided = 0);
                    }
                    if watches || others.behind && matches!(op, Op::Barrier(_)) {
                        taken -= 1;
                        break;
                    }
                }
                if each(context, batch, (inst, mask_of), (pc, taken))
                    && (others.is_some() || batch[0].end.is_some())
                {
                    return;
                }
                (pc, given, taken, full) = (batch[0].warp.pc, least_fuel(batch), 0, are_full(batch));
                continue;
            }
        }
        if P::ENABLED {
            batch[0].warp.tell_wanted(context, executed, Detail::None);
        }
        pc += 1;
    }
    for Member { warp, .. } in batch {
        warp.pc = pc;
        warp.turn.take(taken);
    }
}

/// Executes a branch. Returns the next instruction of all members, or `None` if any may have diverged.
#[inline(always)]
fn branch(
    batch: &mut [Member<'_>],
    mask_of: impl Fn(&Warp) -> u32,
    pc: u32,
    (target, join): (u32, u32),
) -> Option<u32> {
    let (mut all, mut none) = (true, true);
    for Member { warp, .. } in &mut *batch {
        let mask = mask_of(warp);
        warp.turn.note(mask);
        all &= mask == warp.active;
        none &= mask == 0;
    }
    // `cold_path` makes the compiler emit a jump here: a conditional move would make all later
    // instructions wait for the comparison.
    if all {
        return Some(target);
    }
    if none {
        cold_path();
        return Some(pc + 1);
    }
    for Member { warp, divided, .. } in batch {
        warp.pc = pc;
        let mask = mask_of(warp);
        if mask != 0 && mask != warp.active {
            *divided = divided.saturating_sub(1);
        }
        warp.branch(mask, target, join);
    }
    None
}

/// Executes a load or store for each member; returns `false` if a member faults.
#[inline(always)]
fn move_all<P: Probe>(
    context: &mut ExecContext<'_, P>,
    batch: &mut [Member<'_>],
    mask_of: impl Fn(&Warp) -> u32,
    (access, kind): (&Access, AccessKind),
) -> bool {
    for Member { warp, end, .. } in batch {
        let mask = mask_of(warp);
        warp.turn.note(mask);
        if let Err(trouble) = warp.access(context, access, mask, kind) {
            *end = Some(Err(trouble));
            return false;
        }
    }
    true
}

/// Executes an instruction of any kind for each member, and charges the `taken` instructions up to it to
/// their turns. Returns whether the members may have diverged.
#[inline(always)]
fn each<P: Probe>(
    context: &mut ExecContext<'_, P>,
    batch: &mut [Member<'_>],
    (inst, mask_of): (&Inst, impl Fn(&Warp) -> u32),
    (pc, taken): (u32, u32),
) -> bool {
    let mut parted = false;
    for Member { warp, end, .. } in batch {
        warp.pc = pc;
        warp.turn.take(taken);
        let mask = mask_of(warp);
        warp.turn.note(mask);
        match warp.step(context, inst, mask) {
            Ok(next @ (Next::Plain | Next::Reported)) => {
                if P::ENABLED && matches!(next, Next::Plain) {
                    warp.tell_wanted(context, mask, Detail::None);
                }
                warp.pc += 1;
            }
            Ok(next) => {
                parted = true;
                *end = warp.follow(mask, next).map(Ok);
            }
            Err(trouble) => {
                parted = true;
                *end = Some(Err(trouble));
            }
        }
    }
    parted
}

#[inline(always)]
fn are_full(batch: &[Member<'_>]) -> bool {
    batch.iter().all(|member| member.warp.active == FULL)
}

#[inline(always)]
fn least_fuel(batch: &[Member<'_>]) -> u32 {
    batch.iter().map(|member| member.warp.turn.fuel).min().unwrap_or(0)
}

/// Returns whether a barrier opens at once: all live lanes of the block are at it.
#[inline(always)]
fn opens(
    program: &Program,
    entry: u32,
    batch: &[Member<'_>],
    inst: &Inst,
    others: Option<Others>,
) -> bool {
    let barrier = &program.barriers[entry as usize];
    others.is_some_and(|others| others.awaited == Some(batch.len() as u32))
        && barrier.kind == BarrierOp::Sync
        && barrier.threads.is_none()
        && matches!(barrier.id, Scalar::Constant(0..=15))
        && batch.iter().all(|member| member.warp.executing(inst) == member.warp.live())
}

impl Warp {
    /// Executes an instruction that the loop does not execute itself. Out of line, so that the loop's
    /// own values stay in registers.
    #[inline(never)]
    fn step<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        inst: &Inst,
        mask: u32,
    ) -> Outcome<Next> {
        let program = &context.launch.entry.program;
        match inst.op {
            Op::Collective { ref kind, mask: row } => {
                return self.collective(context, (kind, row), mask);
            }
            Op::Load(index) => {
                self.load(context, &program.accesses[index as usize], mask)?;
                return Ok(Next::Reported);
            }
            Op::Store(index) => {
                self.store(context, &program.accesses[index as usize], mask)?;
                return Ok(Next::Reported);
            }
            Op::Atomic(index) => {
                self.atomic(context, &program.accesses[index as usize], mask)?;
                return Ok(Next::Reported);
            }
            Op::Async(index) => {
                return self.asynchronous(context, &program.asynchronous[index as usize], mask);
            }
            Op::ClusterBarrier { wait } => return self.cluster_barrier(context, wait, mask),
            Op::Barrier(entry) => return self.barrier(context, entry, mask),
            Op::Exit => {
                if P::ENABLED {
                    self.report(context, mask, Detail::None);
                }
                self.exited |= mask;
                self.active &= !mask;
                if self.active != 0 {
                    return Ok(Next::Reported);
                }
                return Ok(if self.leave() { Next::Placed } else { Next::Stop(Stop::Exited) });
            }
            Op::Matrix(index) => return self.matrix(context, index, mask),
            Op::Texture(index) => {
                self.texture(context, &program.textures[index as usize], mask)?;
                return Ok(Next::Reported);
            }
            Op::Call(index) => return self.call(context, index, mask),
            Op::Return => return Ok(self.ret(context, mask)),
            Op::BranchIndex { index, table, join } => {
                self.branch_table(context, mask, (index, table, join))?;
                return Ok(Next::Placed);
            }
            Op::Set { f, ref o, join } => {
                let holds = self.joined(f(&self.regs, o), o.c, join);
                let value = |lane| if holds >> lane & 1 == 1 { o.imm } else { 0 };
                let values = std::array::from_fn(value);
                commit(&mut self.regs.words[usize::from(o.d)], &values, mask);
            }
            Op::Trap if mask != 0 => return trouble(FaultKind::Trap, mask.trailing_zeros()),
            Op::Assertion(index) if mask != 0 => {
                let lane = mask.trailing_zeros();
                return trouble(self.failed_assertion(context, index, lane as usize), lane);
            }
            Op::ActiveMask { d } => {
                commit(&mut self.regs.words[usize::from(d)], &[self.active; LANES], mask);
            }
            Op::Timer { kind, wide, d } => {
                self.read_timer(context.own().clock + self.turn.executed(), kind, wide, d, mask)
            }
            Op::Fence { order, sc } => match context.probe.exploration() {
                Some(world) => world.fence(self.index, mask, order, sc),
                None => fence(Ordering::SeqCst),
            },
            Op::GridDependency { wait } => {
                if let Some(world) = context.probe.exploration() {
                    world.depend(self.index, wait);
                }
            }
            Op::Sleep => {
                self.turn.polled = true;
                self.turn.forfeit(u32::MAX);
            }
            Op::Stack(op) => self.stack(program, op, mask)?,
            Op::Print(index) => self.print(context, index, mask)?,
            Op::Condition(index) => {
                self.condition(context, &program.condition_calls[index as usize], mask)?;
            }
            Op::Heap(index) => self.heap(context, &program.heap_calls[index as usize], mask)?,
            Op::Trap
            | Op::Assertion(_)
            | Op::Nop
            | Op::Alu { .. }
            | Op::Compare { .. }
            | Op::Branch { .. } => {}
        }
        Ok(Next::Plain)
    }

    #[inline]
    fn follow(&mut self, mask: u32, next: Next) -> Option<Stop> {
        match next {
            Next::Plain | Next::Reported | Next::Placed => {}
            Next::Again => self.turn.refund(mask),
            Next::Leave => {
                self.turn.refund(mask);
                if self.active != 0 {
                    self.pc += 1;
                } else {
                    // `others` is not empty: it has the lanes that have just been suspended.
                    self.leave();
                }
            }
            Next::Suspend(stop) => {
                self.turn.refund(mask);
                if !(matches!(stop, Stop::Mbarrier(_)) && self.try_others()) {
                    return Some(stop);
                }
            }
            Next::Stop(stop) => return Some(stop),
        }
        None
    }

    /// Reports the current instruction, which only computes or branches, unless the observer ignores it.
    #[inline(always)]
    fn tell_wanted<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        executed: u32,
        detail: Detail<'_>,
    ) {
        if context.probe.reports_all()
            || context.launch.ignored.get(self.pc as usize) == Some(&false)
            || std::mem::take(&mut self.released)
        {
            self.report(context, executed, detail);
        }
    }
}
