//! What can be asked for: the library's operations by its own names, and what follows from one of them.

use std::fmt;

use anyhow::{Result, bail};
use warpfold::internal::{Dtype, Op};

use crate::options::Level;

/// What follows from a library's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derived {
    /// The sum over the number of elements.
    Mean,
    /// The mean of the squared distances from the mean.
    Variance,
    /// The root of the variance.
    Deviation,
    /// The sum of the magnitudes.
    L1,
    /// The root of the sum of the squares.
    L2,
    /// The largest magnitude.
    LargestMagnitude,
}

/// An operation that a user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// One of the library's.
    Of(Op),
    /// One that is made from it.
    Derived(Derived),
}

impl Statistic {
    /// All that there are. Sums with the same bits everywhere are the level of ordinary ones; what sums
    /// in wider types are, depends on the elements.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let ops = Op::ALL.iter().copied().filter(|op| has_name(*op)).map(Self::Of);
        let derived = [
            Derived::Mean,
            Derived::Variance,
            Derived::Deviation,
            Derived::L1,
            Derived::L2,
            Derived::LargestMagnitude,
        ];
        ops.chain(derived.map(Self::Derived))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Of(op) => op.name(),
            Self::Derived(Derived::Mean) => "mean",
            Self::Derived(Derived::Variance) => "variance",
            Self::Derived(Derived::Deviation) => "std",
            Self::Derived(Derived::L1) => "l1",
            Self::Derived(Derived::L2) => "l2",
            Self::Derived(Derived::LargestMagnitude) => "maxnorm",
        }
    }

    /// The operation that is launched.
    pub(crate) fn op(self) -> Op {
        match self {
            Self::Of(op) => op,
            Self::Derived(Derived::Mean) => Op::Sum,
            Self::Derived(Derived::Variance | Derived::Deviation) => Op::Spread,
            Self::Derived(Derived::L1) => Op::SumAbs,
            Self::Derived(Derived::L2) => Op::SumSq,
            Self::Derived(Derived::LargestMagnitude) => Op::MinMax,
        }
    }

    /// Whether it is an index among the elements.
    pub(crate) fn is_place(self) -> bool {
        matches!(self.op(), Op::ArgMin | Op::ArgMax | Op::NanArgMin | Op::NanArgMax)
    }

    /// Whether no elements have a value.
    pub(crate) fn has_value_of_none(self) -> bool {
        match self {
            Self::Of(op) => !matches!(
                op,
                Op::Min
                    | Op::Max
                    | Op::MinMax
                    | Op::ArgMin
                    | Op::ArgMax
                    | Op::Spread
                    | Op::NanMin
                    | Op::NanMax
                    | Op::NanArgMin
                    | Op::NanArgMax
                    | Op::NanSpread
            ),
            Self::Derived(Derived::L1 | Derived::L2 | Derived::LargestMagnitude) => true,
            Self::Derived(_) => false,
        }
    }

    /// Accepts elements of a type that have it, at a level that it has.
    pub(crate) fn require(self, dtype: Dtype, level: Level) -> Result<()> {
        if !self.op().takes(dtype) {
            let its = if dtype.is_float() { "integers" } else { "floats" };
            bail!("--op {self} is for {its}, and the elements are {dtype}; leave it out");
        }
        if level == Level::Everywhere && !self.op().has_everywhere(dtype) {
            bail!(
                "--op {self} of {dtype} has no result with the same bits everywhere; leave it out, or \
                 give --level run-to-run"
            );
        }
        Ok(())
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether users have a name for it.
fn has_name(op: Op) -> bool {
    !matches!(op, Op::BinnedSum | Op::BinnedSumSq | Op::BinnedSumAbs | Op::WideSum)
}
