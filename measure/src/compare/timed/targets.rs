//! The reducer's performance targets. A missed target is shown but is not an error, because it depends
//! on the machine.

use warpfold_suite::{Dtype, Op};

use super::record::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// CUB's time over the reducer's: the speed-up.
    OverCub,
    /// The reducer's time over the limit: the sum of an empty launch's time and the time to read the
    /// bytes at the best bandwidth.
    OfLimit,
    /// Percent of the memory's theoretical bandwidth.
    OfPeak,
    /// The reducer's time over an empty kernel's, both in a CUDA graph.
    OfEmpty,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    Above(f64),
    AtMost(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    ops: &'static [Op],
    dtypes: &'static [Dtype],
    /// Inclusive ranges of numbers of elements.
    sizes: &'static [(u64, u64)],
    graph: bool,
    measure: Measure,
    bound: Bound,
}

const ANY_SIZE: u64 = u64::MAX;

/// The targets. For each measure, the first one that matches a case applies.
pub const TARGETS: &[Target] = &[
    sum_f32(&[(1, 1 << 12), ((1 << 22) + 1, ANY_SIZE)], Measure::OverCub, Bound::AtLeast(1.0)),
    sum_f32(&[((1 << 12) + 1, 1 << 22)], Measure::OverCub, Bound::AtLeast(1.3)),
    sum_f32(&[(1 << 18, 1 << 22)], Measure::OfLimit, Bound::AtMost(1.25)),
    sum_f32(&[((1 << 22) + 1, 1 << 25)], Measure::OfLimit, Bound::AtMost(1.08)),
    sum_f32(&[((1 << 25) + 1, ANY_SIZE)], Measure::OfLimit, Bound::AtMost(1.05)),
    sum_f32(&[(1 << 32, ANY_SIZE)], Measure::OfPeak, Bound::AtLeast(98.0)),
    Target { graph: true, ..sum_f32(&[(1 << 10, 1 << 20)], Measure::OverCub, Bound::AtLeast(2.0)) },
    Target { graph: true, ..sum_f32(&[(1 << 10, 1 << 10)], Measure::OfEmpty, Bound::AtMost(1.1)) },
    Target {
        ops: Op::ALL,
        dtypes: Dtype::ALL,
        sizes: &[(1 << 16, 1 << 16), (1 << 20, 1 << 20), (1 << 24, 1 << 24), (1 << 28, 1 << 28)],
        graph: false,
        measure: Measure::OverCub,
        bound: Bound::Above(1.0),
    },
];

const fn sum_f32(sizes: &'static [(u64, u64)], measure: Measure, bound: Bound) -> Target {
    Target { ops: &[Op::Sum], dtypes: &[Dtype::F32], sizes, graph: false, measure, bound }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    pub measure: Measure,
    pub bound: Bound,
    pub value: f64,
    pub met: bool,
}

impl Measure {
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverCub => "x cub",
            Self::OfLimit => "/ limit",
            Self::OfPeak => "% of peak",
            Self::OfEmpty => "/ empty",
        }
    }

    fn of(self, time: &Time) -> Option<f64> {
        match self {
            Self::OverCub => time.ratio_to_cub.map(|ratio| 1.0 / ratio.median),
            Self::OfLimit => time.ratio_to_limit,
            Self::OfPeak => time.percent_of_peak,
            Self::OfEmpty => time.ratio_to_empty,
        }
    }
}

impl Bound {
    pub const fn value(self) -> f64 {
        match self {
            Self::AtLeast(bound) | Self::Above(bound) | Self::AtMost(bound) => bound,
        }
    }

    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Above(bound) => value > bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    /// Formats the bound as it follows a measure: `>= 1.5`.
    pub fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::Above(bound) => format!("> {bound}"),
            Self::AtMost(bound) => format!("<= {bound}"),
        }
    }
}

impl Target {
    fn is_for(&self, time: &Time) -> bool {
        let op = |op: &Op| time.op.as_deref() == Some(op.name());
        let dtype = |dtype: &Dtype| time.dtype == dtype.name();
        let size = |&(from, to): &(u64, u64)| (from..=to).contains(&time.n);
        self.graph == time.graph
            && self.ops.iter().any(op)
            && self.dtypes.iter().any(dtype)
            && self.sizes.iter().any(size)
    }
}

/// Returns the verdicts on a time of the reducer, for all targets whose quantity was measured.
pub fn verdicts(time: &Time) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    for &Target { measure, bound, .. } in TARGETS.iter().filter(|target| target.is_for(time)) {
        let first = !verdicts.iter().any(|verdict| verdict.measure == measure);
        if let (true, Some(value)) = (first, measure.of(time)) {
            verdicts.push(Verdict { measure, bound, value, met: bound.admits(value) });
        }
    }
    verdicts
}

/// Formats a time's targets for a cell: `x cub >= 1.5 met, / limit <= 1.05 missed`.
pub fn cell(verdicts: &[Verdict]) -> String {
    let one = |verdict: &Verdict| {
        let word = if verdict.met { "met" } else { "missed" };
        format!("{} {} {word}", verdict.measure.name(), verdict.bound.text())
    };
    verdicts.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Ratio;

    fn time(op: &str, dtype: &str, n: u64, over_cub: f64) -> Time {
        let ratio = Ratio { median: over_cub, q1: over_cub, q3: over_cub };
        Time {
            op: Some(op.into()),
            dtype: dtype.into(),
            n,
            ratio_to_cub: Some(ratio),
            ratio_to_limit: Some(1.04),
            ratio_to_empty: Some(1.4),
            percent_of_peak: Some(97.9),
            ..Time::default()
        }
    }

    fn said(time: &Time) -> String {
        cell(&verdicts(time))
    }

    #[test]
    fn sums_of_f32_have_the_bound_of_their_size() {
        let factor = |n: u64| {
            let all = verdicts(&time("sum", "f32", n, 0.5));
            let of: Vec<&Verdict> = all.iter().filter(|v| v.measure == Measure::OverCub).collect();
            assert_eq!((of.len(), of[0].value, of[0].met), (1, 2.0, true));
            of[0].bound
        };
        for (exponent, bound) in [(10, 1.0), (12, 1.0), (13, 1.3), (22, 1.3), (23, 1.0), (32, 1.0)] {
            assert_eq!(factor(1 << exponent), Bound::AtLeast(bound), "2^{exponent}");
        }
        // Between two powers of two, the target of the larger one applies.
        assert_eq!(factor(1_000_003), Bound::AtLeast(1.3));
    }

    #[test]
    fn row_lists_met_and_missed_targets() {
        assert_eq!(said(&time("sum", "f32", 1 << 12, 1.0)), "x cub >= 1 met");
        assert_eq!(said(&time("sum", "f32", 1 << 17, 0.7)), "x cub >= 1.3 met");
        assert_eq!(said(&time("sum", "f32", 1 << 20, 0.8)), "x cub >= 1.3 missed, / limit <= 1.25 met");
        assert_eq!(said(&time("sum", "f32", 1 << 24, 0.8)), "x cub >= 1 met, / limit <= 1.08 met");
        assert_eq!(
            said(&time("sum", "f32", 1 << 32, 0.98)),
            "x cub >= 1 met, / limit <= 1.05 met, % of peak >= 98 missed"
        );
        let graph = |n| said(&Time { graph: true, ..time("sum", "f32", n, 0.5) });
        assert_eq!(
            [graph(1 << 10), graph(1 << 11), graph(1 << 21)],
            ["x cub >= 2 met, / empty <= 1.1 missed", "x cub >= 2 met", ""]
        );
    }

    #[test]
    fn every_operation_and_type_is_to_be_ahead_of_cub() {
        for &op in Op::ALL {
            for &dtype in Dtype::ALL {
                for exponent in [16, 20, 24, 28] {
                    let time = time(op.name(), dtype.name(), 1 << exponent, 0.5);
                    assert!(said(&time).starts_with("x cub "), "{op} {dtype} 2^{exponent}");
                }
            }
        }
        // A tie does not meet `Above`.
        assert_eq!(said(&time("max", "i8", 1 << 20, 1.0)), "x cub > 1 missed");
        assert_eq!(said(&time("max", "i8", 1 << 21, 0.5)), "");
        // A quantity that was not measured is not judged.
        assert_eq!(said(&Time { ratio_to_cub: None, ..time("max", "i8", 1 << 20, 1.0) }), "");
    }
}
