//! States of the L2 cache at the start of a run.

use warpfold_bench::Contest;

/// Where the elements are when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Inputs {
    /// Copies take turns, so that each was pushed out by the others since its last turn.
    Rotated,
    /// As rotated, and other memory is read before every run, which starts on a GPU that is busy until
    /// then.
    Swept,
    /// All runs read one copy, which the cache keeps where it has room.
    Warm,
}

impl Inputs {
    /// Returns the name, as on the command line and in files.
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
