//! A turn (time slice) of a warp: its instruction budget and its activity.

use crate::lanes::FULL;

/// Instructions forfeited by a warp that polls memory, so that its turn ends soon.
const POLL_COST: u32 = 64;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turn {
    given: u32,
    pub(super) fuel: u32,
    /// Instructions forfeited without being executed.
    penalty: u32,
    /// Inactive lanes, summed over all executed instructions.
    idle: u64,
    /// The last partial mask, and the number of its inactive lanes. The next instruction usually has the
    /// same mask, and counting bits takes a dozen instructions on a host without a population count.
    mask: u32,
    outside: u32,
    pub(super) polled: bool,
    pub(super) contended: bool,
    /// Set if the warp executed an mbarrier, copy or barrier operation that other threads may wait for.
    pub(super) acted: bool,
}

impl Turn {
    pub(super) const fn new(fuel: u32) -> Self {
        Self {
            given: fuel,
            fuel,
            penalty: 0,
            idle: 0,
            mask: FULL,
            outside: 0,
            polled: false,
            contended: false,
            acted: false,
        }
    }

    pub(super) const fn executed(&self) -> u64 {
        (self.given - self.fuel - self.penalty) as u64
    }

    pub(super) const fn lanes(&self) -> u64 {
        self.executed() * 32 - self.idle
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
            if mask != self.mask {
                (self.mask, self.outside) = (mask, mask.count_zeros());
            }
            self.idle += u64::from(self.outside);
        }
    }

    pub(super) fn refund(&mut self, mask: u32) {
        self.fuel += 1;
        self.idle -= u64::from(mask.count_zeros());
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
