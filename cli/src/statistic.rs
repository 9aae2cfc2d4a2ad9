//! What can be asked for: the library's operations by its own names, and what follows from one of them.

use std::fmt;

use anyhow::{Result, bail};
use warpfold::internal::{Dtype, Nan, Op, OpKind};

use crate::options::Level;

/// How something follows from the numbers of an operation's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The mean, which is the first number of the result.
    Mean,
    /// The mean of the squared distances from the mean.
    Variance,
    /// The root of the variance.
    Deviation,
    /// The sum of the magnitudes, as `f64`.
    L1,
    /// The largest magnitude, of the smallest element and the largest one; NaN of NaN.
    LargestMagnitude,
    /// The same of those that are numbers, of which there may be none.
    LargestMagnitudeOfNumbers,
}

/// What follows from a library's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Derived {
    name: &'static str,
    op: Op,
    pub(crate) rule: Rule,
}

impl Derived {
    /// The operation that it follows from, of elements of a type at a level.
    fn op(self, dtype: Dtype, level: Level) -> Op {
        match self.op.kind {
            // Its mean is reproducible.
            OpKind::Mean if level == Level::Everywhere && dtype.is_float() => {
                OpKind::MeanAndVariance.plain()
            }
            _ => self.op.for_elements(dtype),
        }
    }
}

const fn derived(name: &'static str, op: Op, rule: Rule) -> Derived {
    Derived { name, op, rule }
}

/// All statistics that follow from an operation.
const DERIVED: [Derived; 7] = [
    derived("mean", OpKind::Mean.plain(), Rule::Mean),
    derived("variance", OpKind::MeanAndVariance.plain(), Rule::Variance),
    derived("std", OpKind::MeanAndVariance.plain(), Rule::Deviation),
    derived("l1", OpKind::L1Norm.plain(), Rule::L1),
    derived("maxnorm", OpKind::MinMax.plain(), Rule::LargestMagnitude),
    derived("nanl1", Op { nan: Nan::Skip, ..OpKind::L1Norm.plain() }, Rule::L1),
    derived(
        "nanmaxnorm",
        Op { nan: Nan::Skip, ..OpKind::MinMax.plain() },
        Rule::LargestMagnitudeOfNumbers,
    ),
];

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
        let ops = Op::all().filter(|op| has_name(*op)).map(Self::Of);
        ops.chain(DERIVED.map(Self::Derived))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Of(op) => op.name(),
            Self::Derived(derived) => derived.name,
        }
    }

    /// The operation that is launched, of elements of a type at a level.
    pub(crate) fn op(self, dtype: Dtype, level: Level) -> Op {
        let op = match self {
            Self::Of(op) => op,
            Self::Derived(derived) => derived.op(dtype, level),
        };
        match level {
            Level::RunToRun => op,
            Level::Everywhere => op.reproducible(dtype),
        }
    }

    /// Whether it is an index among the elements.
    pub(crate) fn is_place(self) -> bool {
        matches!(self, Self::Of(op) if op.has_places())
    }

    /// Whether no elements have a value.
    pub(crate) fn has_value_of_none(self) -> bool {
        match self {
            Self::Of(op) => op.has_value_of_none(),
            Self::Derived(derived) => {
                !matches!(derived.rule, Rule::Mean | Rule::Variance | Rule::Deviation)
            }
        }
    }

    /// Accepts elements of a type that have it, at a level that it has.
    pub(crate) fn require(self, dtype: Dtype, level: Level) -> Result<()> {
        let op = self.op(dtype, level);
        if !op.takes(dtype) {
            let its = if dtype.is_float() { "integers" } else { "floats" };
            bail!("--op {self} is for {its}, and the elements are {dtype}; leave it out");
        }
        if level == Level::Everywhere && !op.is_reproducible(dtype) {
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

/// Whether users have its own name for it.
fn has_name(op: Op) -> bool {
    !op.is_binned() && !op.wide && !matches!(op.kind, OpKind::Mean | OpKind::L1Norm)
}
