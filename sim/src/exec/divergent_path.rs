//! Divergent lanes of a warp, under independent thread scheduling.
//!
//! A warp runs one strand at a time: lanes in lock step, with the lanes that reconverge with them on its
//! stack. A strand is split only where it would not make progress otherwise: where lanes wait for lanes
//! of the warp that are elsewhere, and where lanes poll memory that lanes on their own stack may write.
//! Strands that reach the same place merge.

use std::mem::take;

use crate::program::Program;

use super::control::Split;
use super::warp::{Next, Warp};
use super::{Probe, Scene};

/// Consecutive turns that a strand may end polling memory before the lanes on its stack run without it.
const PATIENCE: u32 = 16;

/// Lanes of a warp that are not running.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Strand {
    pc: u32,
    active: u32,
    join: u32,
    stack: Vec<Split>,
    wait: Wait,
}

/// The condition that a strand waits for, at an instruction that it executes when it resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Wait {
    #[default]
    Nothing,
    /// The members of a mask that have not exited: at any `bar.warp.sync` if `barrier` is set, else
    /// here.
    Members {
        mask: u32,
        barrier: bool,
    },
    /// All lanes of the warp that have not exited, at the same instruction.
    Warp,
    /// As [`Warp`](Self::Warp), at any unaligned barrier of the block with this number.
    Barrier(u32),
    Mbarrier,
}

/// The state of an instruction that the whole warp executes together.
pub(super) enum Whole {
    Here,
    /// It cannot be executed now.
    Later(Next),
    /// Lanes that will not arrive.
    Missing(u32),
}

impl Strand {
    /// Returns whether both strands are at the same place and reconverge at the same places.
    fn is_like(&self, other: &Self) -> bool {
        let places = |strand: &Self| (strand.pc, strand.join, strand.stack.len());
        let pairs = || self.stack.iter().zip(&other.stack);
        let place = |split: &Split| (split.pc, split.join, split.behind_call);
        places(self) == places(other) && pairs().all(|(a, b)| place(a) == place(b))
    }
}

impl Warp {
    /// Takes the running strand, and leaves an empty one.
    fn take_current(&mut self, wait: Wait) -> Strand {
        let (pc, active, join) = (self.pc, take(&mut self.active), self.join);
        Strand { pc, active, join, stack: take(&mut self.stack), wait }
    }

    fn run_strand(&mut self, strand: Strand) {
        Strand { pc: self.pc, active: self.active, join: self.join, stack: self.stack, .. } = strand;
    }

    /// Makes active lanes wait here; the rest of the strand continues without them.
    pub(super) fn set_aside(&mut self, lanes: u32, wait: Wait) {
        let part = |stack: &[Split], lanes: u32| -> Vec<Split> {
            let parts = stack.iter().map(|split| Split { mask: split.mask & lanes, ..*split });
            parts.filter(|split| split.mask != 0).collect()
        };
        let stack = part(&self.stack, lanes);
        self.stack = part(&self.stack, !lanes);
        self.active &= !lanes;
        self.others.push(Strand { pc: self.pc, active: lanes, join: self.join, stack, wait });
    }

    /// Returns the lanes of other strands with this [`Wait`], at this instruction or anywhere.
    pub(super) fn waiting(&self, wait: Wait, anywhere: bool) -> u32 {
        self.waiting_at(self.pc, wait, anywhere)
    }

    fn waiting_at(&self, pc: u32, wait: Wait, anywhere: bool) -> u32 {
        let alike = |strand: &&Strand| strand.wait == wait && (anywhere || strand.pc == pc);
        self.others.iter().filter(alike).fold(0, |lanes, strand| lanes | strand.active)
    }

    /// Advances the strands with this wait past their instruction; calls `elsewhere` for those that were
    /// at another instruction than this strand.
    pub(super) fn wake(&mut self, wait: Wait, anywhere: bool, mut elsewhere: impl FnMut(u32, u32)) {
        let here = self.pc;
        for strand in &mut self.others {
            if strand.wait == wait && (anywhere || strand.pc == here) {
                if strand.pc != here {
                    elsewhere(strand.pc, strand.active);
                }
                strand.pc += 1;
                strand.wait = Wait::Nothing;
            }
        }
    }

    /// Advances all strands past a barrier at which every lane has arrived.
    pub(super) fn pass(&mut self) {
        self.pc += 1;
        self.released = true;
        if !self.others.is_empty() {
            for strand in &mut self.others {
                strand.pc += 1;
                strand.wait = Wait::Nothing;
            }
            self.unite();
        }
    }

    /// Returns the lanes at this instruction, for one that the whole warp executes.
    pub(super) fn gathered(&self) -> u32 {
        self.active | self.waiting(Wait::Warp, false)
    }

    /// Returns whether an instruction can be executed that the whole warp executes together, here or at
    /// several places as `wait` says; if not, how to continue.
    pub(super) fn whole(&mut self, program: &Program, mask: u32, wait: Wait) -> Whole {
        // The common case: all live lanes are here.
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

    /// Merges the strands that are at the same place as this one.
    pub(super) fn unite(&mut self) {
        if self.others.is_empty() {
            return;
        }
        let mut current = self.take_current(Wait::Nothing);
        self.others.retain(|strand| {
            let same = strand.wait == Wait::Nothing && strand.is_like(&current);
            if same {
                current.active |= strand.active;
                for (split, other) in current.stack.iter_mut().zip(&strand.stack) {
                    split.mask |= other.mask;
                }
            }
            !same
        });
        self.run_strand(current);
    }

    pub(super) fn strands(&self) -> usize {
        self.others.len() + 1
    }

    /// Swaps the running strand with another that can run, if there is one: the first from index `from`
    /// on, wrapping around.
    pub(super) fn switch(&mut self, from: usize) {
        let count = self.others.len();
        if count == 0 {
            return;
        }
        self.others.rotate_left(from % count);
        if let Some(next) = self.runnable() {
            let strand = self.others.remove(next);
            let current = self.take_current(Wait::Nothing);
            self.run_strand(strand);
            self.others.push(current);
        }
    }

    /// Returns the first other strand that can run; if none can, the first that would try an mbarrier
    /// again.
    fn runnable(&self) -> Option<usize> {
        let can = |strand: &Strand| match strand.wait {
            Wait::Nothing => true,
            Wait::Members { mask, barrier } => {
                mask & self.live() & !self.waiting_at(strand.pc, strand.wait, barrier) == 0
            }
            Wait::Warp => self.live() & !self.waiting_at(strand.pc, strand.wait, false) == 0,
            Wait::Barrier(_) => self.live() & !self.waiting_at(strand.pc, strand.wait, true) == 0,
            Wait::Mbarrier => false,
        };
        let tries = |strand: &Strand| strand.wait == Wait::Mbarrier;
        self.others.iter().position(can).or_else(|| self.others.iter().position(tries))
    }

    /// Continues with lanes of the stack, or with another strand, when no lane is active; returns
    /// `false` if there is neither. If all strands wait for lanes that will not arrive, resumes the
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
        let strand = self.others.remove(next.unwrap_or(0));
        self.run_strand(strand);
        self.unite();
        true
    }

    /// Ends a turn: another strand runs in the next one. If lanes have polled memory for long, they
    /// become a strand of their own, and the lanes on the stack go first.
    #[cold]
    pub(super) fn give_way<P: Probe>(&mut self, scene: &Scene<'_, P>) {
        let watched = scene.turn.polled || scene.turn.contended;
        self.starved = if watched { self.starved + 1 } else { 0 };
        // An exploration schedules whole warps, whose strands do not preempt each other.
        if scene.probe.exploration().is_some() {
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

    /// Makes the strand wait at an mbarrier and runs another one. Returns whether that one does more
    /// than try an mbarrier again; `false` if there is none.
    pub(super) fn try_others(&mut self) -> bool {
        if self.others.is_empty() {
            return false;
        }
        let current = self.take_current(Wait::Mbarrier);
        self.others.push(current);
        let next = self.runnable().unwrap_or(0);
        let strand = self.others.remove(next);
        let goes_on = strand.wait != Wait::Mbarrier;
        self.run_strand(strand);
        goes_on
    }
}
