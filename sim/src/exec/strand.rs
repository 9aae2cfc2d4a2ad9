//! Lanes of a warp that go ways of their own, as independent thread scheduling has it.
//!
//! A warp runs one strand at a time: lanes in lock step, and on its stack those that will meet them. It
//! is cut only where that would not do: where lanes wait for others of the warp that are elsewhere, and
//! where lanes watch memory for what others on their stack may write. Strands that come to the same
//! place become one again.

use std::mem::take;

use crate::program::Program;

use super::control::Split;
use super::warp::{Next, Warp};
use super::{Probe, Scene};

/// Turns that a strand ends watching memory, one after the other, before those on its stack go on
/// without it.
const PATIENCE: u32 = 16;

/// Lanes of a warp that do not run at present.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Strand {
    pc: u32,
    active: u32,
    join: u32,
    stack: Vec<Split>,
    wait: Wait,
}

/// What a strand waits for, at an instruction that it executes when it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Wait {
    #[default]
    Nothing,
    /// The members of a mask that have not exited; at `bar.warp.sync` anywhere, else here.
    Members { mask: u32, barrier: bool },
    /// All lanes of the warp that have not exited, at the same instruction.
    Warp,
    /// The same, at any barrier of the block that has this number and is not aligned.
    Barrier(u32),
    /// They wait at an mbarrier.
    Mbarrier,
}

/// How an instruction stands that the whole warp executes together.
pub(super) enum Whole {
    /// It can be executed.
    Here,
    /// It is not executed now.
    Later(Next),
    /// Lanes that do not come.
    Missing(u32),
}

impl Strand {
    /// Whether its lanes meet at the same places as those of another one.
    fn is_like(&self, other: &Self) -> bool {
        let places = |strand: &Self| (strand.pc, strand.join, strand.stack.len());
        let pairs = || self.stack.iter().zip(&other.stack);
        let place = |split: &Split| (split.pc, split.join, split.behind_call);
        places(self) == places(other) && pairs().all(|(a, b)| place(a) == place(b))
    }
}

impl Warp {
    /// The strand that runs, which is empty then.
    fn take_current(&mut self, wait: Wait) -> Strand {
        let (pc, active, join) = (self.pc, take(&mut self.active), self.join);
        Strand { pc, active, join, stack: take(&mut self.stack), wait }
    }

    fn run_strand(&mut self, strand: Strand) {
        Strand { pc: self.pc, active: self.active, join: self.join, stack: self.stack, .. } = strand;
    }

    /// Lets active lanes wait here. The others of the strand go on without them.
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

    /// Lanes of other strands that wait as [`Wait`] says, where this one is or at any place.
    pub(super) fn waiting(&self, wait: Wait, anywhere: bool) -> u32 {
        self.waiting_at(self.pc, wait, anywhere)
    }

    fn waiting_at(&self, pc: u32, wait: Wait, anywhere: bool) -> u32 {
        let alike = |strand: &&Strand| strand.wait == wait && (anywhere || strand.pc == pc);
        self.others.iter().filter(alike).fold(0, |lanes, strand| lanes | strand.active)
    }

    /// Sends the strands that wait so on to the next instruction; those that were at another one than
    /// this strand are given to `elsewhere`.
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

    /// Goes on behind a barrier at which all lanes were.
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

    /// The lanes that are where this strand is, to execute an instruction of the whole warp.
    pub(super) fn gathered(&self) -> u32 {
        self.active | self.waiting(Wait::Warp, false)
    }

    /// Whether an instruction can be executed that the whole warp executes together, or that it executes
    /// at any places as `wait` says; and what is to be done if not.
    pub(super) fn whole(&mut self, program: &Program, mask: u32, wait: Wait) -> Whole {
        // As it mostly is.
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

    /// Makes strands one with this one that are at the same place.
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

    /// Ways that its lanes go at present.
    pub(super) fn strands(&self) -> usize {
        self.others.len() + 1
    }

    /// Lets another strand that can go on take the place of this one, if there is one: the first from
    /// some place on in their list.
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

    /// The first other strand that can go on; of those that only try an mbarrier again, if no other can.
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

    /// Goes on with lanes of the stack, or with another strand, when none is active here; `false` if
    /// there is none. Where all wait for lanes that do not come the first of them goes on, so that its
    /// instruction says so.
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

    /// A turn is over: another strand goes on at the next one. Where lanes have watched memory for long,
    /// those on the stack become a strand, too, and go first.
    #[cold]
    pub(super) fn give_way<P: Probe>(&mut self, scene: &Scene<'_, P>) {
        let watched = scene.turn.polled || scene.turn.contended;
        self.starved = if watched { self.starved + 1 } else { 0 };
        // An exploration gives one warp its turn, whose strands do not take it from each other.
        if scene.probe.exploration().is_some() {
            return;
        }
        let waits = |split: &Split| split.mask & !self.active & !self.exited != 0;
        if self.starved >= PATIENCE && self.stack.iter().any(waits) {
            self.set_aside(self.active, Wait::Nothing);
            self.rejoin();
        } else if let Some(next) = self.runnable() {
            let strand = self.others.remove(next);
            let current = self.take_current(Wait::Nothing);
            self.run_strand(strand);
            self.others.push(current);
        }
    }

    /// The strand waits for an mbarrier: another one goes on, if there is one that can. Whether that one
    /// does not only try an mbarrier, too.
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
