//! Divergent lanes of a warp, under independent thread scheduling.
//!
//! A path is a set of lanes in lock step, with a stack of the lanes that reconverge with them. A warp
//! runs one path at a time. A path is split only where it would not make progress otherwise: where
//! lanes wait for lanes of the warp at other instructions, and where lanes poll memory that lanes on
//! their own stack may write. Paths that reach the same place merge.

use std::mem::take;

use crate::program::Program;

use super::control::Split;
use super::warp::{Next, Warp};
use super::{ExecContext, Probe};

/// Consecutive turns that a path may spend polling memory before the lanes on its stack run.
const PATIENCE: u32 = 16;

#[derive(Debug, Clone, Default, Hash)]
pub(super) struct DivergentPath {
    pc: u32,
    active: u32,
    join: u32,
    stack: Vec<Split>,
    wait: Wait,
}

/// The condition under which a path can execute its current instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Wait {
    #[default]
    Nothing,
    /// All live lanes of `mask` are at this instruction or, if `barrier` is set, at any `bar.warp.sync`.
    Members {
        mask: u32,
        barrier: bool,
    },
    /// All live lanes of the warp are at this instruction.
    Warp,
    /// All live lanes of the warp are at unaligned block barriers with this number.
    Barrier(u32),
    Mbarrier,
}

/// Readiness of an instruction that the whole warp executes together.
pub(super) enum Whole {
    Here,
    Later(Next),
    /// Lanes that will not arrive.
    Missing(u32),
}

impl DivergentPath {
    fn is_like(&self, other: &Self) -> bool {
        let places = |path: &Self| (path.pc, path.join, path.stack.len());
        let pairs = || self.stack.iter().zip(&other.stack);
        let place = |split: &Split| (split.pc, split.join, split.is_return_point);
        places(self) == places(other) && pairs().all(|(a, b)| place(a) == place(b))
    }
}

impl Warp {
    fn take_current(&mut self, wait: Wait) -> DivergentPath {
        let (pc, active, join) = (self.pc, take(&mut self.active), self.join);
        DivergentPath { pc, active, join, stack: take(&mut self.stack), wait }
    }

    fn run_path(&mut self, path: DivergentPath) {
        DivergentPath { pc: self.pc, active: self.active, join: self.join, stack: self.stack, .. } =
            path;
    }

    /// Suspends `lanes` at this instruction until the condition `wait` holds; the others continue.
    pub(super) fn set_aside(&mut self, lanes: u32, wait: Wait) {
        let part = |stack: &[Split], lanes: u32| -> Vec<Split> {
            let parts = stack.iter().map(|split| Split { mask: split.mask & lanes, ..*split });
            parts.filter(|split| split.mask != 0).collect()
        };
        let stack = part(&self.stack, lanes);
        self.stack = part(&self.stack, !lanes);
        self.active &= !lanes;
        self.others.push(DivergentPath { pc: self.pc, active: lanes, join: self.join, stack, wait });
    }

    /// Returns other paths' lanes with this [`Wait`], at this instruction or, if `anywhere`, at any.
    pub(super) fn waiting(&self, wait: Wait, anywhere: bool) -> u32 {
        self.waiting_at(self.pc, wait, anywhere)
    }

    fn waiting_at(&self, pc: u32, wait: Wait, anywhere: bool) -> u32 {
        let alike = |path: &&DivergentPath| path.wait == wait && (anywhere || path.pc == pc);
        self.others.iter().filter(alike).fold(0, |lanes, path| lanes | path.active)
    }

    /// Advances the paths with this wait past their instruction. Calls `elsewhere` with the instruction
    /// and lanes of each path that was not at the current instruction.
    pub(super) fn wake(&mut self, wait: Wait, anywhere: bool, mut elsewhere: impl FnMut(u32, u32)) {
        let here = self.pc;
        for path in &mut self.others {
            if path.wait == wait && (anywhere || path.pc == here) {
                if path.pc != here {
                    elsewhere(path.pc, path.active);
                }
                path.pc += 1;
                path.wait = Wait::Nothing;
            }
        }
    }

    /// Advances all paths past a barrier at which every lane has arrived.
    pub(super) fn pass(&mut self) {
        self.pc += 1;
        self.released = true;
        if !self.others.is_empty() {
            for path in &mut self.others {
                path.pc += 1;
                path.wait = Wait::Nothing;
            }
            self.unite();
        }
    }

    /// Returns the lanes that have arrived at this instruction, which the whole warp executes together.
    pub(super) fn gathered(&self) -> u32 {
        self.active | self.waiting(Wait::Warp, false)
    }

    /// Checks whether all live lanes of the warp can execute an instruction together: at this one for
    /// [`Wait::Warp`], else at any at which lanes have this `wait`. If not, returns how to continue.
    pub(super) fn whole(&mut self, program: &Program, mask: u32, wait: Wait) -> Whole {
        if self.live() & !mask == 0 {
            return Whole::Here;
        }
        let aligned = wait == Wait::Warp;
        let missing = self.live() & !mask & !self.waiting(wait, !aligned);
        if missing == 0 {
            return Whole::Here;
        }
        let own = self.stack.iter().fold(self.active, |lanes, split| lanes | split.mask) & missing;
        if own != 0 && self.release(program, own) {
            return Whole::Later(Next::Again);
        }
        if self.stuck || aligned && own != 0 {
            return Whole::Missing(missing);
        }
        self.set_aside(mask, wait);
        Whole::Later(Next::Leave)
    }

    /// Merges the paths that are at the same place as the running one.
    pub(super) fn unite(&mut self) {
        if self.others.is_empty() {
            return;
        }
        let mut current = self.take_current(Wait::Nothing);
        self.others.retain(|path| {
            let same = path.wait == Wait::Nothing && path.is_like(&current);
            if same {
                current.active |= path.active;
                for (split, other) in current.stack.iter_mut().zip(&path.stack) {
                    split.mask |= other.mask;
                }
            }
            !same
        });
        self.run_path(current);
    }

    pub(super) fn paths(&self) -> usize {
        self.others.len() + 1
    }

    /// Swaps the running path with another that can run, if any: the first from index `from` on,
    /// wrapping around.
    pub(super) fn switch(&mut self, from: usize) {
        let count = self.others.len();
        if count == 0 {
            return;
        }
        self.others.rotate_left(from % count);
        if let Some(next) = self.runnable() {
            let path = self.others.remove(next);
            let current = self.take_current(Wait::Nothing);
            self.run_path(path);
            self.others.push(current);
        }
    }

    fn runnable(&self) -> Option<usize> {
        let can = |path: &DivergentPath| match path.wait {
            Wait::Nothing => true,
            Wait::Members { mask, barrier } => {
                mask & self.live() & !self.waiting_at(path.pc, path.wait, barrier) == 0
            }
            Wait::Warp => self.live() & !self.waiting_at(path.pc, path.wait, false) == 0,
            Wait::Barrier(_) => self.live() & !self.waiting_at(path.pc, path.wait, true) == 0,
            Wait::Mbarrier => false,
        };
        let tries = |path: &DivergentPath| path.wait == Wait::Mbarrier;
        self.others.iter().position(can).or_else(|| self.others.iter().position(tries))
    }

    /// Continues with lanes of the stack, or with another path, when no lane is active; returns
    /// `false` if there is neither. If all paths wait for lanes that will not arrive, resumes the
    /// first, whose instruction then reports the error.
    pub(super) fn leave(&mut self) -> bool {
        if self.rejoin() {
            return true;
        }
        if self.others.is_empty() {
            return false;
        }
        let next = self.runnable();
        self.stuck = next.is_none();
        let path = self.others.remove(next.unwrap_or(0));
        self.run_path(path);
        self.unite();
        true
    }

    /// Ends a turn: another path runs in the next one. After [`PATIENCE`] turns of polling, the
    /// polling lanes become a path of their own, and the lanes on the stack run first.
    #[cold]
    pub(super) fn give_way<P: Probe>(&mut self, context: &ExecContext<'_, P>) {
        let watched = self.turn.polled || self.turn.contended;
        self.starved = if watched { self.starved + 1 } else { 0 };
        // An exploration schedules whole warps, whose paths do not preempt each other.
        if context.probe.exploration().is_some() {
            return;
        }
        let waits = |split: &Split| split.mask & !self.active & !self.exited != 0;
        if self.starved >= PATIENCE && self.stack.iter().any(waits) {
            self.set_aside(self.active, Wait::Nothing);
            self.rejoin();
        } else {
            self.switch(0);
        }
    }

    /// Suspends the path at an mbarrier and runs another one. Returns `false` if there is no other path,
    /// or if that path only retries an mbarrier, too.
    pub(super) fn try_others(&mut self) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let current = self.take_current(Wait::Mbarrier);
        self.others.push(current);
        let next = self.runnable().unwrap_or(0);
        let path = self.others.remove(next);
        let goes_on = path.wait != Wait::Mbarrier;
        self.run_path(path);
        goes_on
    }
}
