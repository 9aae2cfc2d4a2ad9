//! Lockstep execution of a block's warps: warps at the same instruction execute it together, as a batch,
//! as long as they follow the same path.
//!
//! Any order of warps is legal. An observer receives the events of one warp after the other, so this
//! mode is for launches without an observer.

use crate::error::Fault;

use crate::program::Effect;

use super::block::Block;
use super::execute::{Member, Others, execute};
use super::warp::Stop;
use super::{ExecContext, Probe};

/// Maximum warps of a batch: the registers of a block of 256 threads fit into the host's L1 cache.
const MAX_BATCH: usize = 8;
const OVER: u64 = u64::MAX;
/// Added to the sort key (the program counter) of members at a block barrier. They run last, because the
/// others may still reach the barrier, even from a higher program counter.
const AT_BARRIER: u64 = 1 << 40;

impl Block {
    /// Runs all runnable warps for a time slice. Returns `false` if they must run one by one, because
    /// the program reads the clock, the step limit is near, or fewer than two can run.
    pub(super) fn in_step<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
    ) -> Result<bool, Box<Fault>> {
        let launch = context.launch;
        // In lockstep, the block's clock could run backwards from one warp to the next.
        if launch.entry.program.timed {
            return Ok(false);
        }
        let quantum = launch.config.quantum.max(1);
        let can = (0..self.warps.len())
            .filter(|&warp| self.can_go_on(warp, context))
            .fold(0_u32, |set, warp| set | 1 << warp);
        let all = can.count_ones();
        if all < 2 || context.left() / u64::from(all) < u64::from(quantum) {
            return Ok(false);
        }
        let awaited = self.all_awaited();
        let mut members = Vec::with_capacity(all as usize);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            if can >> index & 1 == 1 {
                warp.turn.begin(quantum);
                members.push(Member::new(warp));
            }
        }
        advance(context, &mut members, awaited);
        members.sort_unstable_by_key(|member| member.warp.index);
        let end = |Member { warp, end, .. }: Member<'_>| (warp.index as usize, end);
        let ends: Vec<_> = members.into_iter().map(end).collect();
        for (warp, end) in ends {
            self.end_turn(context, warp, end.unwrap_or(Ok(Stop::Preempted)))?;
        }
        Ok(true)
    }
}

/// Runs members to the ends of their turns. After a fault, only warps with lower indices continue,
/// because the fault of the lowest warp is reported.
fn advance<P: Probe>(
    context: &mut ExecContext<'_, P>,
    members: &mut [Member<'_>],
    awaited: Option<u32>,
) {
    let code = context.launch.entry.program.code.as_slice();
    let (mut running, mut erred) = (members.len(), u32::MAX);
    while running != 0 {
        let (mut least, mut most) = (OVER, 0);
        for member in &mut members[..running] {
            let Member { warp, end, divided, .. } = member;
            if end.is_none() && warp.index < erred {
                while warp.pc == warp.join && warp.leave() {}
                // A warp with other paths, or without active lanes, must run alone.
                let alone = !warp.others.is_empty() || warp.active == 0;
                if warp.turn.fuel == 0 || *divided == 0 || alone {
                    *end = Some(warp.run(context));
                }
            }
            if matches!(end, Some(Err(_))) {
                erred = erred.min(warp.index);
            }
            let key = if end.is_some() || warp.index > erred {
                OVER
            } else {
                let waits = matches!(code[warp.pc as usize].op.effect(), Effect::Barrier(_));
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
        let (batch, others) = members[..running].split_at_mut(count.min(MAX_BATCH));
        let pc = batch[0].warp.pc;
        let ahead = others.iter().map(|other| other.warp.pc).filter(|&other| other > pc);
        let others = Others {
            next: ahead.min().unwrap_or(u32::MAX),
            awaited,
            behind: !others.is_empty() && least < AT_BARRIER,
        };
        // When a member faults, the members before it have executed the instruction, and those after it
        // no longer count.
        batch.sort_unstable_by_key(|member| member.warp.index);
        execute(context, batch, Some(others));
    }
}
