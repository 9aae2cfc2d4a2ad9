//! Lockstep execution of a block's warps: those at the same instruction execute it one after the other,
//! as long as they follow the same path.
//!
//! Dispatching an instruction, which takes the host longer than executing it for a warp, is then done
//! once for all of them. Any order of warps is legal. Observers get the events of one warp after the
//! other, so this mode is for launches without an observer.

use crate::error::Fault;
use crate::lanes::FULL;
use crate::observe::AccessKind;
use crate::program::{Access, AtomicOp, BarrierOp, Inst, Op, Program, Scalar, Strength, TRUE};

use super::block::{Block, Course};
use super::turn::Turn;
use super::warp::{Next, Stop, Warp};
use super::{Outcome, Probe, Scene};

/// Maximum warps that execute an instruction one after the other: those of a block of 256 threads, whose
/// registers fit into the host's nearest cache.
const ABREAST: usize = 8;

struct Member<'w> {
    warp: &'w mut Warp,
    turn: Turn,
    end: Option<Outcome<Stop>>,
    /// Divergences left before it runs alone.
    divided: u32,
    /// Sort key among the members; the least is first.
    key: u64,
}

/// Divergences of a warp in a turn, after which the others no longer wait for it.
const DIVIDED: u32 = 8;
const OVER: u64 = u64::MAX;
/// Added to the key of members at a block barrier: they wait for the others, which may reach it from
/// anywhere.
const AT_BARRIER: u64 = 1 << 40;

impl Member<'_> {
    fn pc(&self) -> u32 {
        self.warp.pc
    }
}

impl Block {
    /// Gives all runnable warps a turn; returns `false` if they must run one by one, since the limit is
    /// near or fewer than two can run.
    pub(super) fn in_step<P: Probe>(&mut self, course: &mut Course<'_, P>) -> Result<bool, Box<Fault>> {
        let launch = course.launch;
        // The clock of the block would run back between warps in lockstep.
        if launch.entry.program.timed {
            return Ok(false);
        }
        let quantum = launch.config.quantum.max(1);
        let can = (0..self.warps.len())
            .filter(|&warp| self.can_go_on(warp, course))
            .fold(0_u32, |set, warp| set | 1 << warp);
        let all = can.count_ones();
        if all < 2 || course.left() / u64::from(all) < u64::from(quantum) {
            return Ok(false);
        }
        let awaited = self.all_awaited();
        let mut members = Vec::with_capacity(all as usize);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            if can >> index & 1 == 1 {
                members.push(Member {
                    warp,
                    turn: Turn::new(quantum),
                    end: None,
                    divided: DIVIDED,
                    key: 0,
                });
            }
        }
        let (arena, common) = (&mut self.arena, &mut *course.common);
        let mut scene = Scene { launch, arena, common, probe: course.probe, turn: Turn::new(0) };
        advance(&mut scene, &mut members, awaited);
        members.sort_unstable_by_key(|member| member.warp.index);
        let mut ends: Vec<(usize, Turn, Outcome<Stop>)> = Vec::with_capacity(members.len());
        for Member { warp, turn, end, .. } in members {
            ends.push((warp.index as usize, turn, end.unwrap_or(Ok(Stop::Preempted))));
        }
        for (warp, turn, end) in ends {
            self.end_turn(course, warp, &turn, end)?;
        }
        Ok(true)
    }
}

/// Runs members to the ends of their turns. After a fault, only earlier warps go on, because the fault
/// of the first warp is reported.
fn advance<P: Probe>(scene: &mut Scene<'_, P>, members: &mut [Member<'_>], awaited: Option<u32>) {
    let code = scene.launch.entry.program.code.as_slice();
    let (mut running, mut erred) = (members.len(), u32::MAX);
    while running != 0 {
        let (mut least, mut most) = (OVER, 0);
        for member in &mut members[..running] {
            let Member { warp, turn, end, divided, .. } = member;
            if end.is_none() && warp.index < erred {
                while warp.pc == warp.join && warp.leave() {}
                // A warp with other strands, or without active lanes, schedules itself.
                let alone = !warp.others.is_empty() || warp.active == 0;
                if turn.fuel == 0 || *divided == 0 || alone {
                    std::mem::swap(&mut scene.turn, turn);
                    *end = Some(warp.run(scene));
                    std::mem::swap(&mut scene.turn, turn);
                }
            }
            if matches!(end, Some(Err(_))) {
                erred = erred.min(warp.index);
            }
            let key = if end.is_some() || warp.index > erred {
                OVER
            } else {
                let waits = matches!(code[warp.pc as usize].op, Op::Barrier(_));
                u64::from(warp.pc) + if waits { AT_BARRIER } else { 0 }
            };
            member.key = key;
            (least, most) = (least.min(key), most.max(key));
        }
        if least == OVER {
            return;
        }
        if least != most {
            members[..running].sort_by_key(|member| member.key);
            running = members[..running].iter().position(|member| member.key == OVER).unwrap_or(running);
        }
        let count = members[..running].iter().position(|member| member.key != least).unwrap_or(running);
        let (gang, others) = members[..running].split_at_mut(count.min(ABREAST));
        let pc = gang[0].pc();
        let next = others.iter().map(Member::pc).filter(|&other| other > pc).min().unwrap_or(u32::MAX);
        together(scene, gang, next, awaited, !others.is_empty() && least < AT_BARRIER);
    }
}

/// Executes instructions for the members of a gang, until one of them diverges, waits or stops, or they
/// reach others.
fn together<P: Probe>(
    scene: &mut Scene<'_, P>,
    gang: &mut [Member<'_>],
    next: u32,
    awaited: Option<u32>,
    behind: bool,
) {
    let program = &scene.launch.entry.program;
    let code = program.code.as_slice();
    // When a member faults, those before it have executed the instruction, and those after it no longer
    // count.
    gang.sort_unstable_by_key(|member| member.warp.index);
    let mut pc = gang[0].pc();
    let (mut given, mut taken) = (least_fuel(gang), 0);
    let mut full = are_full(gang);
    while taken != given && pc < next {
        let inst = &code[pc as usize];
        if inst.leads && gang.iter().any(|member| member.warp.join == pc) {
            break;
        }
        taken += 1;
        let whole = full && inst.guard == TRUE;
        match &inst.op {
            Op::Alu { f, o } if whole => {
                for member in &mut *gang {
                    f(&mut member.warp.regs, o, FULL);
                }
            }
            Op::Alu { f, o } => {
                for Member { warp, turn, .. } in &mut *gang {
                    let mask = warp.executing(inst);
                    turn.note(mask);
                    f(&mut warp.regs, o, mask);
                }
            }
            Op::Compare { f, o, join } => {
                for Member { warp, turn, .. } in &mut *gang {
                    let mask = warp.executing(inst);
                    turn.note(mask);
                    warp.compare(f(&warp.regs, o), o, *join, mask);
                }
            }
            Op::Load(index) | Op::Store(index)
                if program.accesses[*index as usize].strength == Strength::Weak =>
            {
                let loads = matches!(inst.op, Op::Load(_));
                let kind = if loads { AccessKind::Load } else { AccessKind::Store };
                let access = &program.accesses[*index as usize];
                if !move_all(scene, gang, inst, (access, kind)) {
                    pc += 1;
                    break;
                }
            }
            Op::Branch { target, join } => {
                let (mut all, mut none) = (true, true);
                for Member { warp, turn, .. } in &mut *gang {
                    let mask = warp.executing(inst);
                    turn.note(mask);
                    all &= mask == warp.active;
                    none &= mask == 0;
                }
                if all {
                    pc = *target;
                    continue;
                }
                if !none {
                    for Member { warp, turn, divided, .. } in &mut *gang {
                        warp.pc = pc;
                        let mask = warp.executing(inst);
                        if mask != 0 && mask != warp.active {
                            *divided -= 1;
                        }
                        warp.branch(scene, mask, *target, *join);
                        turn.take(taken);
                    }
                    return;
                }
            }
            Op::Barrier(entry) if opens(program, *entry, gang, inst, awaited) => {
                for Member { warp, turn, .. } in &mut *gang {
                    turn.note(warp.active);
                    turn.acted = true;
                }
            }
            Op::Barrier(_) if behind => {
                taken -= 1;
                break;
            }
            op if whole && gang.iter().all(|member| member.warp.names_all(program, op)) => {
                gang.iter_mut().for_each(|member| member.warp.all_together(program, op));
            }
            // Warps in lockstep that poll each other would repeat the same steps forever.
            op if watches(program, op) => {
                taken -= 1;
                gang.iter_mut().for_each(|member| member.divided = 0);
                break;
            }
            _ => {
                if each(scene, gang, inst, (pc, taken)) {
                    return;
                }
                (given, taken, full) = (least_fuel(gang), 0, are_full(gang));
            }
        }
        pc += 1;
    }
    for Member { warp, turn, end, .. } in gang {
        // A member that faulted stays at its instruction.
        warp.pc = pc - u32::from(end.is_some());
        turn.take(taken);
    }
}

/// Carries out a load or store for each member; returns `false` if one faults.
fn move_all<P: Probe>(
    scene: &mut Scene<'_, P>,
    gang: &mut [Member<'_>],
    inst: &Inst,
    (access, kind): (&Access, AccessKind),
) -> bool {
    for Member { warp, turn, end, .. } in gang {
        let mask = warp.executing(inst);
        turn.note(mask);
        if let Err(trouble) = warp.access(scene, access, mask, kind) {
            *end = Some(Err(trouble));
            return false;
        }
    }
    true
}

/// Executes an instruction of any kind for each member, after charging the `taken` instructions before
/// it to the turn. Returns whether the members may have diverged.
fn each<P: Probe>(
    scene: &mut Scene<'_, P>,
    gang: &mut [Member<'_>],
    inst: &Inst,
    (pc, taken): (u32, u32),
) -> bool {
    let mut parted = false;
    for Member { warp, turn, end, .. } in gang {
        warp.pc = pc;
        turn.take(taken);
        std::mem::swap(&mut scene.turn, turn);
        let mask = warp.executing(inst);
        scene.turn.note(mask);
        match execute(warp, scene, inst, mask) {
            Ok(Next::Plain | Next::Told) => warp.pc += 1,
            Ok(next) => {
                parted = true;
                *end = warp.follow(scene, mask, next).map(Ok);
            }
            Err(trouble) => {
                parted = true;
                *end = Some(Err(trouble));
            }
        }
        std::mem::swap(&mut scene.turn, turn);
    }
    parted
}

fn are_full(gang: &[Member<'_>]) -> bool {
    gang.iter().all(|member| member.warp.active == FULL)
}

fn least_fuel(gang: &[Member<'_>]) -> u32 {
    gang.iter().map(|member| member.turn.fuel).min().unwrap_or(0)
}

/// Returns whether an instruction observes other warps: a load that is not weak, an atomic that returns
/// a value or may take a lock.
fn watches(program: &Program, op: &Op) -> bool {
    match *op {
        Op::Load(_) => true,
        Op::Atomic(index) => {
            let access = &program.accesses[index as usize];
            access.results.is_some() || access.atomic.is_some_and(AtomicOp::may_lock)
        }
        _ => false,
    }
}

/// Returns whether a barrier opens at once, since all lanes of the block that have not exited are there.
fn opens(program: &Program, entry: u32, gang: &[Member<'_>], inst: &Inst, awaited: Option<u32>) -> bool {
    let barrier = &program.barriers[entry as usize];
    awaited == Some(gang.len() as u32)
        && barrier.kind == BarrierOp::Sync
        && barrier.threads.is_none()
        && matches!(barrier.id, Scalar::Constant(0..=15))
        && gang.iter().all(|member| member.warp.executing(inst) == member.warp.live())
}

/// Executes for a warp an instruction that [`together`] does not execute itself; none that polls
/// ([`watches`]).
fn execute<P: Probe>(
    warp: &mut Warp,
    scene: &mut Scene<'_, P>,
    inst: &Inst,
    mask: u32,
) -> Outcome<Next> {
    let program = &scene.launch.entry.program;
    match &inst.op {
        Op::Store(index) => {
            warp.store(scene, &program.accesses[*index as usize], mask)?;
            Ok(Next::Told)
        }
        _ => warp.step(scene, inst, mask),
    }
}
