//! State of an mbarrier, in 64 bits of shared memory.

use crate::error::MbarrierProblem;

/// Largest arrival count, and largest magnitude of the transaction count in bytes.
pub(super) const MOST: i64 = (1 << 20) - 1;
const COUNTS: &str = "1 to 1048575";

/// Value of the upper two bits; another value shows that the mbarrier was overwritten.
const TAG: u64 = 0b10 << 62;
const PHASE: u32 = 61;
const TRANSACTIONS: u32 = 40;
const EXPECTED: u32 = 20;
const COUNT: u64 = 0xf_ffff;
const TRANSACTION: u64 = 0x1f_ffff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mbarrier {
    pub(super) pending: u32,
    expected: u32,
    /// Announced bytes not yet transferred; negative if transfers precede their announcement.
    pub(super) transactions: i32,
    pub(super) phase: bool,
}

type Changed = Result<(), MbarrierProblem>;

impl Mbarrier {
    pub(super) fn new(count: u32) -> Result<Self, MbarrierProblem> {
        let expected = in_range(count)?;
        Ok(Self { pending: expected, expected, transactions: 0, phase: false })
    }

    /// Returns the 64-bit object in memory, which is also the state that an arrival returns; its low 20
    /// bits are the pending count, as `mbarrier.pending_count` expects.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.pending)
            | u64::from(self.expected) << EXPECTED
            | (self.transactions as u64 & TRANSACTION) << TRANSACTIONS
            | u64::from(self.phase) << PHASE
            | TAG
    }

    pub(super) fn unpack(bytes: u64) -> Result<Self, MbarrierProblem> {
        let unsigned = bytes >> TRANSACTIONS & TRANSACTION;
        // Sign-extends the 21 bits.
        let transactions = (unsigned << 43) as i64 >> 43;
        if bytes >> 62 != TAG >> 62 || transactions < -MOST {
            return Err(MbarrierProblem::Overwritten { bytes });
        }
        Ok(Self {
            pending: (bytes & COUNT) as u32,
            expected: (bytes >> EXPECTED & COUNT) as u32,
            transactions: transactions as i32,
            phase: parity(bytes),
        })
    }

    /// Returns whether the phase with this parity is complete, that is, not the current phase.
    pub(super) fn is_over(self, parity: bool) -> bool {
        self.phase != parity
    }

    /// Arrives `count` times; with `drop`, later phases expect `count` fewer. Fails if this completes
    /// the phase and `completes` is not set (`.noComplete`).
    pub(super) fn arrive(&mut self, count: u32, drop: bool, completes: bool) -> Changed {
        let arrivals = in_range(count)?;
        if arrivals > self.pending || drop && arrivals > self.expected {
            return Err(MbarrierProblem::Arrivals { arrivals, pending: self.pending });
        }
        if drop {
            self.expected -= arrivals;
        }
        self.pending -= arrivals;
        if self.settle() && !completes {
            return Err(MbarrierProblem::Completes);
        }
        Ok(())
    }

    pub(super) fn expect_arrival(&mut self) -> Changed {
        let value = i64::from(self.pending) + 1;
        if value > MOST {
            return Err(MbarrierProblem::Operand { what: "a pending count of", value, allowed: COUNTS });
        }
        self.pending += 1;
        Ok(())
    }

    /// Adds announced bytes, or subtracts transferred bytes if `bytes` is negative.
    pub(super) fn transact(&mut self, bytes: i64) -> Changed {
        let count = i64::from(self.transactions) + bytes;
        if !(-MOST..=MOST).contains(&count) {
            return Err(MbarrierProblem::Transactions { count });
        }
        self.transactions = count as i32;
        self.settle();
        Ok(())
    }

    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.transactions == 0;
        if complete {
            self.phase = !self.phase;
            self.pending = self.expected;
        }
        complete
    }
}

pub(super) const fn parity(state: u64) -> bool {
    state >> PHASE & 1 == 1
}

fn in_range(count: u32) -> Result<u32, MbarrierProblem> {
    if (1..=MOST).contains(&i64::from(count)) {
        return Ok(count);
    }
    Err(MbarrierProblem::Operand { what: "an arrival count of", value: count.into(), allowed: COUNTS })
}

#[cfg(test)]
mod tests {
    use super::{MOST, Mbarrier, MbarrierProblem};

    fn made(count: u32) -> Mbarrier {
        Mbarrier::new(count).expect("in range")
    }

    #[test]
    fn a_phase_waits_for_arrivals_and_bytes() {
        let mut barrier = made(2);
        barrier.transact(64).expect("in range");
        barrier.arrive(2, false, true).expect("pending");
        assert!(!barrier.is_over(false) && barrier.is_over(true));
        barrier.transact(-64).expect("in range");
        assert!(barrier.is_over(false));
        assert_eq!(barrier, Mbarrier { phase: true, ..made(2) });
    }

    #[test]
    fn complete_tx_may_precede_expect_tx() {
        let mut barrier = made(1);
        barrier.transact(-16).expect("in range");
        barrier.transact(16).expect("in range");
        assert!(!barrier.is_over(false), "the arrival is missing");
        barrier.arrive(1, false, true).expect("pending");
        assert!(barrier.is_over(false));
    }

    #[test]
    fn dropped_arrivals_are_missed_in_later_phases() {
        let mut barrier = made(3);
        barrier.arrive(1, true, true).expect("pending");
        barrier.arrive(2, false, true).expect("pending");
        assert_eq!(barrier, Mbarrier { phase: true, ..made(2) });
        let problem = barrier.arrive(3, false, true).expect_err("too many");
        assert_eq!(problem, MbarrierProblem::Arrivals { arrivals: 3, pending: 2 });
    }

    #[test]
    fn pack_and_unpack_round_trip() {
        for transactions in [0, 1, -1, MOST as i32, -MOST as i32] {
            for phase in [false, true] {
                let barrier = Mbarrier { pending: 5, expected: MOST as u32, transactions, phase };
                assert_eq!(Mbarrier::unpack(barrier.pack()), Ok(barrier));
            }
        }
        assert!(Mbarrier::unpack(0).is_err());
    }

    #[test]
    fn counts_have_a_range() {
        assert!(Mbarrier::new(0).is_err() && Mbarrier::new(1 << 20).is_err());
        assert!(made(1).transact(MOST + 1).is_err());
        assert_eq!(made(1).arrive(1, false, false), Err(MbarrierProblem::Completes));
    }
}
