//! The statistics of the command line: the library's operations by name, and those derived from them.

use std::fmt;

use anyhow::{Result, bail};
use warpfold::internal::{Dtype, Nan, Op, OpKind};

use crate::options::Level;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Mean,
    Variance,
    Deviation,
    L1,
    /// The largest magnitude, computed from the minimum and the maximum; NaN if an element is NaN.
    LargestMagnitude,
    /// The largest magnitude of the elements that are not NaN; 0 if all elements are NaN.
    LargestMagnitudeOfNumbers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Derived {
    name: &'static str,
    op: Op,
    pub(crate) rule: Rule,
}

impl Derived {
    fn op(self, dtype: Dtype, level: Level) -> Op {
        match self.op.kind {
            // The mean of `MeanAndVariance` is reproducible on any device, that of `Mean` is not.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    Of(Op),
    Derived(Derived),
}

impl Statistic {
    /// Returns all statistics that have a name. Reproducible forms of operations are selected by
    /// `--level` instead, and wider sums by the element type.
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

    pub(crate) fn is_place(self) -> bool {
        matches!(self, Self::Of(op) if op.has_places())
    }

    pub(crate) fn has_value_of_none(self) -> bool {
        match self {
            Self::Of(op) => op.has_value_of_none(),
            Self::Derived(derived) => {
                !matches!(derived.rule, Rule::Mean | Rule::Variance | Rule::Deviation)
            }
        }
    }

    pub(crate) fn require(self, dtype: Dtype, level: Level) -> Result<()> {
        let op = self.op(dtype, level);
        if !op.takes(dtype) {
            let its = if dtype.is_float() { "integers" } else { "floats" };
            bail!("--op {self} takes {its}, but the elements are {dtype}; leave it out");
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

/// Returns whether the operation is offered under its own name.
fn has_name(op: Op) -> bool {
    !op.is_binned() && !op.wide && !matches!(op.kind, OpKind::Mean | OpKind::L1Norm)
}
