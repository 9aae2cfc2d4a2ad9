//! The statistics of the command line: the library's operations by name, and those derived from them.

use std::{fmt, iter};

use anyhow::{Result, bail};
use clap::ValueEnum;
use warpfold::{
    Plain,
    internal::{
        Dtype, DynamicOp, ExpressionText, MapOp, Nan, Op, OpKind, StaticExpression, described,
        result_bytes,
    },
};

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

/// The type of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SumType {
    I64,
    U64,
    I128,
    U128,
    F32,
    F64,
}

impl SumType {
    /// Returns the type of the results of a sum of elements of type `dtype`.
    pub(crate) fn of(sum: Op, dtype: Dtype) -> Self {
        match (dtype.sum(), result_bytes(sum, dtype)) {
            (Dtype::I64, 8) => Self::I64,
            (Dtype::I64, _) => Self::I128,
            (Dtype::U64, 8) => Self::U64,
            (Dtype::U64, _) => Self::U128,
            (Dtype::F32, 4) => Self::F32,
            _ => Self::F64,
        }
    }

    /// Returns the sum of elements of type `dtype` that has this type, if there is one.
    fn sum(self, dtype: Dtype) -> Option<Op> {
        sums(dtype).find(|&sum| Self::of(sum, dtype) == self)
    }
}

impl fmt::Display for SumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Returns the sums of elements of a type, the one in the widest type last.
fn sums(dtype: Dtype) -> impl Iterator<Item = Op> {
    let wide = Op { wide: true, ..OpKind::Sum.plain() };
    iter::once(OpKind::Sum.plain()).chain(Some(wide).filter(|wide| wide.takes(dtype)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    Of(Op),
    /// The sum in the type of `--accumulate`.
    SumIn(SumType),
    /// The sum of integers, if it does not overflow.
    CheckedSum,
    Derived(Derived),
    /// The number of NaN, and the mean, variance, minimum and maximum of the other elements.
    Describe,
    /// A statistic of the values of an expression.
    Mapped(MapOp, &'static ExpressionText),
}

/// The reduction that the library launches for a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The operation; for an expression the sum, whose results have the same type.
    pub(crate) op: Op,
    expression: Option<StaticExpression>,
}

impl Launch {
    pub(crate) fn dynamic<R: Plain>(self, dtype: Dtype) -> DynamicOp<R> {
        self.expression.map_or_else(|| DynamicOp::new(self.op, dtype), DynamicOp::expression)
    }
}

impl Statistic {
    /// Returns all statistics that have a name. Reproducible forms of operations are selected by
    /// `--level` instead, and wider sums by `--accumulate`.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let ops = Op::all().filter(|op| has_name(*op)).map(Self::Of);
        ops.chain(DERIVED.map(Self::Derived)).chain([Self::Describe])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Of(op) => op.name(),
            Self::Derived(derived) => derived.name,
            Self::Describe => "describe",
            Self::SumIn(_) | Self::CheckedSum | Self::Mapped(MapOp::Sum, _) => {
                OpKind::Sum.plain().name()
            }
            Self::Mapped(MapOp::Min, _) => OpKind::Min.plain().name(),
            Self::Mapped(MapOp::Max, _) => OpKind::Max.plain().name(),
        }
    }

    /// Returns the same statistic of the values of an expression, or an error if there is none.
    pub(crate) fn of_values(self, text: &'static ExpressionText) -> Result<Self> {
        let op = match self {
            Self::Of(op) if op == OpKind::Sum.plain() => MapOp::Sum,
            Self::Of(op) if op == OpKind::Min.plain() => MapOp::Min,
            Self::Of(op) if op == OpKind::Max.plain() => MapOp::Max,
            _ => bail!(
                "--op {self} cannot be combined with --map and --where; there are sum, min and max"
            ),
        };
        Ok(Self::Mapped(op, text))
    }

    /// Returns the reductions of elements of a type, which the statistic must [take](Self::require).
    pub(crate) fn launches(self, dtype: Dtype, level: Level) -> Vec<Launch> {
        let ops = match self {
            Self::Of(op) => vec![op],
            Self::SumIn(sum) => vec![sum.sum(dtype).expect("`require` has found it")],
            Self::CheckedSum => sums(dtype).last().into_iter().collect(),
            Self::Derived(derived) => vec![derived.op(dtype, level)],
            Self::Describe => described(dtype).collect(),
            Self::Mapped(op, text) => {
                let expression = text.compiled(op, dtype).expect("`require` has compiled it");
                return vec![Launch { op: OpKind::Sum.plain(), expression: Some(expression) }];
            }
        };
        let launch = |op: Op| {
            let op = match level {
                Level::RunToRun => op,
                Level::Everywhere => op.reproducible(dtype),
            };
            Launch { op, expression: None }
        };
        ops.into_iter().map(launch).collect()
    }

    pub(crate) fn is_place(self) -> bool {
        matches!(self, Self::Of(op) if op.has_places())
    }

    pub(crate) fn has_value_of_none(self) -> bool {
        match self {
            Self::Of(op) => op.has_value_of_none(),
            Self::SumIn(_) | Self::CheckedSum => true,
            Self::Derived(derived) => {
                !matches!(derived.rule, Rule::Mean | Rule::Variance | Rule::Deviation)
            }
            Self::Describe => false,
            Self::Mapped(op, _) => op == MapOp::Sum,
        }
    }

    pub(crate) fn require(self, dtype: Dtype, level: Level) -> Result<()> {
        if let Self::Mapped(op, text) = self {
            if level == Level::Everywhere && op == MapOp::Sum && dtype.is_float() {
                bail!(
                    "--op {self} of an expression of {dtype} has no result with the same bits everywhere; \
                     give --level run-to-run"
                );
            }
            text.compiled(op, dtype)?;
            return Ok(());
        }
        match self {
            Self::SumIn(sum) if sum.sum(dtype).is_none() => {
                let all: Vec<_> = sums(dtype).map(|sum| SumType::of(sum, dtype).to_string()).collect();
                let all = all.join(" or ");
                bail!("--accumulate {sum} cannot add {dtype} elements; give {all}");
            }
            Self::CheckedSum if dtype.is_float() => {
                bail!("--checked takes integers, but the elements are {dtype}; leave it out");
            }
            _ => {}
        }
        for Launch { op, .. } in self.launches(dtype, level) {
            if !op.takes(dtype) {
                let its = if dtype.is_float() { "integers" } else { "floats" };
                bail!("--op {self} takes {its}, but the elements are {dtype}; leave it out");
            }
            if level == Level::Everywhere && !op.is_reproducible(dtype) {
                let (what, option) = match self {
                    Self::SumIn(sum) => (format!("--accumulate {sum}"), "--accumulate"),
                    _ => (format!("--op {self}"), "it"),
                };
                bail!(
                    "{what} of {dtype} has no result with the same bits everywhere; leave {option} out, or \
                     give --level run-to-run"
                );
            }
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
