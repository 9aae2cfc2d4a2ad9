//! States of the L2 cache at the start of a run.

use crate::contest::Contest;

/// A state of the L2 cache at the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Inputs {
    /// Runs use copies of the elements in turn. The other copies evict each one before its next use.
    Rotated,
    /// Like `Rotated`, but a kernel that reads other memory precedes each run, so that the GPU is busy
    /// until the host has enqueued the run.
    Swept,
    /// All runs read the same copy, which stays in the cache if it fits.
    Warm,
}

impl Inputs {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Swept => "swept",
            Self::Warm => "warm",
        }
    }

    pub(super) fn of(self, contest: Contest<'_>) -> warpfold_suite::Result<Contest<'_>> {
        match self {
            Self::Rotated => Ok(contest),
            Self::Swept => contest.cold(),
            Self::Warm => Ok(contest.warm()),
        }
    }
}

pub(super) const METHOD: &str = " In this comparison each case was timed for several states of the cache: \
    `rotated`, as said; `swept`, in which twice the cache of other memory is read before each run, so that \
    the GPU is busy until the host has handed it over; `warm`, in which all runs read one copy.";
