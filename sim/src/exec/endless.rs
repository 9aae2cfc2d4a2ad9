//! The loop that a thread is in when a limit stops its kernel.

use std::collections::BTreeSet;

use crate::config::Stats;
use crate::error::{Fault, FaultKind, Loop};
use crate::program::{Effect, Inst, Program};

use super::block::{Block, Round};
use super::cluster::ClusterState;
use super::warp::{Stop, Warp};
use super::{ExecContext, InstLocation, LaneFault, Launched, Steered};

const LOOKED_AT: u32 = 1 << 16;

impl Block {
    /// Returns the fault of a warp that exceeded a limit, with the loop that it is in. Runs the warp
    /// further to find the loop.
    #[cold]
    pub(super) fn endless(
        &mut self,
        launch: &Launched<'_>,
        common: &mut ClusterState,
        rank: u32,
        kind: FaultKind,
        warp: usize,
    ) -> Box<Fault> {
        let looking = Steered::recording();
        let (block, total) = (self.index, &mut Stats::default());
        let (round, limit) = (Round::default(), u64::MAX);
        let mut context =
            ExecContext { launch, probe: &looking, common, rank, hint: 0, total, limit, round };
        let warps = &mut self.warps[warp];
        let mut left = LOOKED_AT;
        while left != 0 {
            warps.turn.begin(left);
            let stop = warps.run(&mut context);
            // Counts at least 64 instructions, because polling shortens a turn.
            left = left.saturating_sub(warps.turn.executed().max(64) as u32);
            if !matches!(stop, Ok(Stop::Preempted)) {
                break;
            }
        }
        let program = &launch.entry.program;
        let found = innermost(program, &looking.visited(), warps);
        let pc = found.map_or(warps.pc, |(_, last)| last).min(program.info.len() as u32 - 1);
        let lane = warps.active.trailing_zeros().min(31);
        let place = Some(InstLocation { pc, block, warp: warp as u32 });
        let mut fault = launch.fault(LaneFault { kind, lane, place }, pc, block, warp as u32);
        fault.looping = found.map(|(first, last)| {
            let line = |pc: u32| program.info[pc as usize].line;
            let lines = (first..=last).map(line);
            let (least, most) = lines.fold((u32::MAX, 0), |(a, b), line| (a.min(line), b.max(line)));
            Loop { first_line: least, last_line: most }
        });
        fault
    }
}

/// Returns the first and last instruction of the smallest loop around all executed instructions; if
/// there is none, of the smallest loop around the warp's current instruction.
fn innermost(program: &Program, visited: &BTreeSet<u32>, warp: &Warp) -> Option<(u32, u32)> {
    let back = |(index, inst): (usize, &Inst)| match inst.op.effect() {
        Effect::Branch(target) if target <= index as u32 => Some((target, index as u32)),
        _ => None,
    };
    let loops: Vec<(u32, u32)> = program.code.iter().enumerate().filter_map(back).collect();
    let first = visited.first().copied().unwrap_or(warp.pc);
    let last = visited.last().copied().unwrap_or(warp.pc);
    let around = |least: u32, most: u32| {
        let has = loops.iter().filter(move |&&(start, end)| start <= least && most <= end);
        has.min_by_key(|&&(start, end)| end - start).copied()
    };
    around(first, last).or_else(|| around(warp.pc, warp.pc))
}
