//! Kernels that do not end: the loop that a thread is in when a limit stops it.

use std::collections::BTreeSet;

use crate::error::{Fault, FaultKind, Loop};
use crate::program::{Op, Program};

use super::block::Block;
use super::cluster::Common;
use super::guided::Guided;
use super::turn::Turn;
use super::warp::{Stop, Warp};
use super::{Launched, Scene, Trouble, Whereabouts};

/// Warp instructions for which a warp is traced.
const LOOKED_AT: u32 = 1 << 16;

impl Block {
    /// Returns the fault of a warp that exceeded a limit, with the loop that it is in.
    #[cold]
    pub(super) fn endless(
        &mut self,
        launch: &Launched<'_>,
        common: &mut Common,
        kind: FaultKind,
        warp: usize,
    ) -> Box<Fault> {
        let looking = Guided::looking();
        let (warps, arena) = self.warp_and_arena(warp);
        let mut left = LOOKED_AT;
        while left != 0 {
            let (common, turn) = (&mut *common, Turn::new(left));
            let mut scene = Scene { launch, arena, common, probe: &looking, turn };
            let stop = warps.run(&mut scene);
            // A turn that polls executes few instructions, since polling shortens it.
            left = left.saturating_sub(scene.turn.executed().max(64) as u32);
            if !matches!(stop, Ok(Stop::Preempted)) {
                break;
            }
        }
        let (program, block) = (&launch.entry.program, arena.block);
        let found = innermost(program, &looking.visited(), warps);
        let pc = found.map_or(warps.pc, |(_, last)| last).min(program.info.len() as u32 - 1);
        let lane = warps.active.trailing_zeros().min(31);
        let place = Some(Whereabouts { pc, block, warp: warp as u32 });
        let mut fault = launch.fault(Trouble { kind, lane, place }, pc, block, warp as u32);
        fault.looping = found.map(|(first, last)| {
            let line = |pc: u32| program.info[pc as usize].line;
            let lines = (first..=last).map(line);
            let (least, most) = lines.fold((u32::MAX, 0), |(a, b), line| (a.min(line), b.max(line)));
            Loop { first_line: least, last_line: most }
        });
        fault
    }
}

/// Returns the smallest loop that contains all executed instructions: its first one, and the branch back
/// at its end. If none does, returns the smallest that contains the warp's current instruction.
fn innermost(program: &Program, visited: &BTreeSet<u32>, warp: &Warp) -> Option<(u32, u32)> {
    let back = |(index, inst): (usize, &crate::program::Inst)| match inst.op {
        Op::Branch { target, .. } if target <= index as u32 => Some((target, index as u32)),
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
