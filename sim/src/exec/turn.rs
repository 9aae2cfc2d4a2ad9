//! A turn (time slice) of a warp: its instruction budget and its activity.

use crate::lanes::{FULL, Row, count_zeros};
use crate::program::LANES;

/// Instructions forfeited by a warp that polls memory, so that its turn ends soon.
const POLL_COST: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Turn {
    given: u32,
    pub(super) fuel: u32,
    /// Instructions forfeited without being executed.
    penalty: u32,
    /// Inactive lanes, summed over all executed instructions but those of `partial`.
    idle: u64,
    /// Partial masks of the last instructions; the first `noted` are valid. Their lanes are counted for
    /// a row of masks at once, since a host without a population count takes a dozen instructions for
    /// each.
    partial: Row,
    noted: usize,
    pub(super) polled: bool,
    pub(super) contended: bool,
    /// Set if the warp executed an mbarrier, copy or barrier operation that other threads may wait for.
    pub(super) acted: bool,
}

impl Turn {
    pub(super) fn begin(&mut self, fuel: u32) {
        (self.given, self.fuel, self.penalty) = (fuel, fuel, 0);
        (self.idle, self.noted) = (0, 0);
        (self.polled, self.contended, self.acted) = (false, false, false);
    }

    pub(super) const fn executed(&self) -> u64 {
        (self.given - self.fuel - self.penalty) as u64
    }

    /// Returns the number of lanes that executed, summed over all instructions.
    #[inline]
    pub(super) fn lanes(&self) -> u64 {
        let partial = &self.partial[..self.noted];
        let noted = if partial.is_empty() { 0 } else { count_zeros(partial) };
        self.executed() * 32 - self.idle - noted
    }

    #[inline(always)]
    pub(super) fn spend(&mut self, mask: u32) {
        self.take(1);
        self.note(mask);
    }

    /// Counts instructions whose masks are passed to [`note`](Self::note) separately.
    #[inline(always)]
    pub(super) fn take(&mut self, instructions: u32) {
        self.fuel -= instructions;
    }

    #[inline(always)]
    pub(super) fn note(&mut self, mask: u32) {
        if mask != FULL {
            let at = if self.noted < LANES { self.noted } else { self.count_partial() };
            self.partial[at] = mask;
            self.noted = at + 1;
        }
    }

    #[inline(never)]
    fn count_partial(&mut self) -> usize {
        self.idle += count_zeros(&self.partial);
        0
    }

    /// Takes back the last instruction, whose mask was `mask`.
    pub(super) fn refund(&mut self, mask: u32) {
        self.fuel += 1;
        if mask != FULL {
            self.noted -= 1;
            debug_assert_eq!(self.partial[self.noted], mask, "the last noted mask");
        }
    }

    /// Records polling of memory that another thread may change, and shortens the turn.
    pub(super) fn poll(&mut self) {
        self.polled = true;
        self.forfeit(POLL_COST);
    }

    /// Records an atomic on shared memory that may take a lock, and shortens the turn.
    pub(super) fn contend(&mut self) {
        self.contended = true;
        self.forfeit(POLL_COST);
    }

    pub(super) fn forfeit(&mut self, instructions: u32) {
        let taken = instructions.min(self.fuel);
        self.fuel -= taken;
        self.penalty += taken;
    }
}
