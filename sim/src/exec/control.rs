//! Divergence: the reconvergence stack of a warp.

use crate::lanes::{FULL, for_each_lane};
use crate::program::{NOWHERE, Program};

use super::warp::Warp;

#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Split {
    pub(super) pc: u32,
    pub(super) mask: u32,
    pub(super) join: u32,
    /// Set for the return point of a call; stack entries above it are in the called function.
    pub(super) is_return_point: bool,
}

impl Split {
    pub(super) const fn new(pc: u32, mask: u32, join: u32) -> Self {
        Self { pc, mask, join, is_return_point: false }
    }
}

impl Warp {
    /// Splits the active lanes into paths, each with its first instruction and lanes, that reconverge at
    /// `join`.
    ///
    /// Lanes of a path that starts at `join` wait there. The first other path runs at once; the rest
    /// wait on the stack above the reconvergence point.
    pub(super) fn diverge(&mut self, ways: &[(u32, u32)], join: u32) {
        // A branch without a reconvergence point of its own inherits the enclosing one.
        let join = if join == NOWHERE { self.join } else { join };
        if join != self.join {
            self.stack.push(Split::new(join, self.active, self.join));
        }
        let mut first = None;
        for &(pc, mask) in ways.iter().rev().filter(|way| way.0 != join) {
            if let Some((pc, mask)) = first.replace((pc, mask)) {
                self.stack.push(Split::new(pc, mask, join));
            }
        }
        match first {
            Some((pc, mask)) => (self.pc, self.active, self.join) = (pc, mask, join),
            None => self.pc = join,
        }
    }

    /// Continues with the lanes on top of the stack; returns `false` if it is empty.
    pub(super) fn rejoin(&mut self) -> bool {
        while let Some(split) = self.stack.pop() {
            let mask = split.mask & !self.exited;
            if mask != 0 {
                (self.pc, self.active, self.join) = (split.pc, mask, split.join);
                return true;
            }
        }
        self.active = 0;
        false
    }

    /// Runs lanes of `missing` first if they wait on the stack at an instruction from which no barrier
    /// or warp-wide instruction is reachable: threads that returned early must not block a barrier. The
    /// current lanes then repeat their instruction. Returns `false` if there are no such lanes. Lanes
    /// inside a call do not count.
    #[cold]
    pub(super) fn release(&mut self, program: &Program, missing: u32) -> bool {
        let mut above = self.active;
        for index in (0..self.stack.len()).rev() {
            let Split { pc, mask, .. } = self.stack[index];
            let own = mask & !self.exited & !above;
            let called = || self.stack[..=index].iter().any(|split| split.is_return_point);
            if own & missing != 0 && !program.meets[pc as usize] && !called() {
                for split in &mut self.stack[..=index] {
                    split.mask &= !own;
                }
                self.stack.push(Split::new(self.pc, self.active, self.join));
                (self.pc, self.active, self.join) = (pc, own, NOWHERE);
                return true;
            }
            above |= mask;
        }
        false
    }

    /// Executes an indexed branch: each lane of `mask` goes to its entry of the table, the other active
    /// lanes to the next instruction. Fails with the lane and index of the first index past the end.
    pub(super) fn branch_indexed(
        &mut self,
        indices: &[u32; 32],
        mask: u32,
        targets: &[u32],
        join: u32,
    ) -> Result<(), (u32, u32)> {
        let mut ways: Vec<(u32, u32)> = Vec::new();
        let mut add = |pc: u32, lanes: u32| match ways.iter_mut().find(|way| way.0 == pc) {
            Some(way) => way.1 |= lanes,
            None => ways.push((pc, lanes)),
        };
        let mut outside = None;
        for_each_lane(mask, |lane| match targets.get(indices[lane] as usize) {
            Some(&target) => add(target, 1 << lane),
            None => outside = outside.or(Some((lane as u32, indices[lane]))),
        });
        if let Some(outside) = outside {
            return Err(outside);
        }
        if self.active & !mask != 0 {
            add(self.pc + 1, self.active & !mask);
        }
        match ways.as_slice() {
            [(pc, _)] => self.pc = *pc,
            ways => self.diverge(ways, join),
        }
        Ok(())
    }

    pub(super) fn live(&self) -> u32 {
        FULL & !self.exited
    }
}
