//! A turn: how long a warp may go on, and what it did.

use crate::lanes::FULL;

/// Share of a turn's instructions that watching memory for another thread costs,
/// so that waiting warps give way soon.
const POLL_COST: u32 = 64;

/// A turn of a warp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Instructions that the turn had at its start.
    given: u32,
    /// Instructions left until another warp has its turn.
    pub(super) fuel: u32,
    /// Instructions that were taken away without having been executed.
    penalty: u32,
    /// Lanes without a part in an instruction, summed over all executed.
    idle: u64,
    /// The lanes of the last instruction, and how many are not among them: the next one mostly has the
    /// same, and to count them takes a host without an instruction for that a dozen.
    mask: u32,
    outside: u32,
    /// Whether the warp looked at memory that another thread may change.
    pub(super) polled: bool,
    /// Whether the warp tried to change memory of its block as locks are taken.
    pub(super) contended: bool,
    /// Whether the warp did what a thread that waits at a barrier may wait for.
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

    /// Instructions executed so far.
    pub(super) const fn executed(&self) -> u64 {
        (self.given - self.fuel - self.penalty) as u64
    }

    /// Lanes that took part in them.
    pub(super) const fn lanes(&self) -> u64 {
        self.executed() * 32 - self.idle
    }

    /// Takes an instruction for the lanes of a mask.
    #[inline(always)]
    pub(super) fn spend(&mut self, mask: u32) {
        self.take(1);
        self.note(mask);
    }

    /// Takes instructions whose lanes are noted by themselves.
    #[inline(always)]
    pub(super) fn take(&mut self, instructions: u32) {
        self.fuel -= instructions;
    }

    /// Takes note of the lanes of an instruction.
    #[inline(always)]
    pub(super) fn note(&mut self, mask: u32) {
        if mask != FULL {
            if mask != self.mask {
                (self.mask, self.outside) = (mask, mask.count_zeros());
            }
            self.idle += u64::from(self.outside);
        }
    }

    /// Gives an instruction back that is to be executed again.
    pub(super) fn refund(&mut self, mask: u32) {
        self.fuel += 1;
        self.idle -= u64::from(mask.count_zeros());
    }

    /// Watching memory that another thread may change brings the turn's end nearer.
    pub(super) fn poll(&mut self) {
        self.polled = true;
        self.forfeit(POLL_COST);
    }

    /// So does trying to take what may be a lock of the block.
    pub(super) fn contend(&mut self) {
        self.contended = true;
        self.forfeit(POLL_COST);
    }

    /// Gives up instructions of the turn.
    pub(super) fn forfeit(&mut self, instructions: u32) {
        let taken = instructions.min(self.fuel);
        self.fuel -= taken;
        self.penalty += taken;
    }
}
