//! Blocks of the docs that are sentences summarising the results.

use super::{
    blocks::{plain, shown, source},
    figures::{
        distinct, in_order, machine_code, matrix,
        ratios::JUDGED,
        reducer::{self, Beside},
        sums, types,
    },
    format::markdown,
    lines::Point,
    results::Results,
};
use crate::compare::timed::targets::{Bound, Measure, Verdict};

/// Sizes of the table of twins: one dominated by launching, and those at which kernels are judged.
const SIZES: [u64; 3] = [1 << 22, JUDGED[0], JUDGED[1]];

/// Elements from which on launching no longer dominates.
const LAUNCHES: u64 = 1 << 13;

/// Elements from which on memory bandwidth dominates.
const MEMORY: u64 = 1 << 24;

pub(super) fn reducer_summary(results: &Results) -> Option<String> {
    let (_, all) = reducer::sums(results, false);
    let (_, graphs) = reducer::sums(results, true);
    let part = |points: &[Beside<'_>], from: u64, to: u64| {
        let here = || points.iter().filter(|b| (from..to).contains(&b.own.n) && b.over_cub().is_some());
        let sizes = distinct(here().map(|beside| beside.own.n));
        let factors = range(here().filter_map(Beside::over_cub))?;
        Some((shown(*sizes.first()?), shown(*sizes.last()?), factors))
    };
    let (from, to, small) = part(&all, LAUNCHES, MEMORY)?;
    let (_, most, large) = part(&all, MEMORY, u64::MAX)?;
    let peak = all.iter().filter_map(|beside| beside.own.percent).fold(0.0, f64::max);
    let graph = part(&graphs, 0, u64::MAX).map(|(_, most, factors)| {
        format!(" In a CUDA graph it is {} times as fast up to {most}.", span(factors, 1))
    });
    Some(format!(
        "On one {} it sums {from} to {to} floats {} times as fast as CUB, and from there to {most} {} times \
         as fast, where it reads up to {peak:.1} % of the memory's peak.{}\n",
        markdown(&results.gpu()?),
        span(small, 2),
        span(large, 2),
        graph.unwrap_or_default()
    ))
}

pub(super) fn reducer_aims(results: &Results) -> Option<String> {
    let points: Vec<(bool, Vec<Beside<'_>>)> =
        [false, true].map(|graph| (graph, reducer::sums(results, graph).1)).into();
    let all: Vec<Judged> = points
        .iter()
        .flat_map(|(graph, all)| all.iter().map(move |beside| (*graph, beside.own)))
        .flat_map(|(graph, own)| own.verdicts.iter().map(move |verdict| (graph, own.n, *verdict)))
        .collect();
    let mut aims = Vec::new();
    for aim in in_order(all.iter().map(aim)) {
        let here: Vec<&Judged> = all.iter().filter(|judged| self::aim(judged) == aim).collect();
        let (graph, _, verdict) = here.first()?;
        aims.push(Aim {
            what: in_runs(&distinct(here.iter().map(|(_, n, _)| *n))),
            launched: if *graph { "in a CUDA graph" } else { "one by one" },
            measure: written(verdict.measure),
            bound: verdict.bound,
            values: here.iter().map(|(_, _, verdict)| verdict.value).collect(),
        });
    }
    let (sizes, torch): (Vec<u64>, Vec<f64>) =
        points[0].1.iter().filter_map(|beside| Some((beside.own.n, beside.over_torch()?))).unzip();
    aims.push(Aim {
        what: in_runs(&sizes),
        launched: "one by one",
        measure: "times as fast as PyTorch",
        bound: Bound::AtLeast(1.0),
        values: torch,
    });
    aims.push(Aim {
        what: "all types and operations".to_owned(),
        launched: "one by one",
        measure: written(Measure::OverCub),
        bound: Bound::Above(1.0),
        values: types::points(results).1.iter().filter_map(Beside::over_cub).collect(),
    });
    aims.extend(matrix::aims(results));
    let rows: String = aims.iter().filter_map(Aim::row).collect();
    (!rows.is_empty()).then(|| {
        format!("| what | launched | aim | measured | meet it |\n|---|---|---|---|--:|\n{rows}\n")
    })
}

pub(super) struct Aim {
    pub(super) what: String,
    pub(super) launched: &'static str,
    pub(super) measure: &'static str,
    pub(super) bound: Bound,
    pub(super) values: Vec<f64>,
}

impl Aim {
    fn row(&self) -> Option<String> {
        let Self { what, launched, measure, bound, values } = self;
        let met = values.iter().filter(|value| bound.admits(**value)).count();
        let measured = span(range(values.iter().copied())?, 3);
        let bound = bound.text().replace(">=", "≥").replace("<=", "≤");
        let all = values.len();
        Some(format!("| {what} | {launched} | {measure} {bound} | {measured} | {met} of {all} |\n"))
    }
}

/// Formats sizes; a run of doublings is given by its first and last size.
fn in_runs(sizes: &[u64]) -> String {
    let runs = sizes.chunk_by(|size, next| *next == 2 * size);
    let named = runs.map(|run| match run {
        [first, .., last] => format!("{} to {}", shown(*first), shown(*last)),
        alone => alone.iter().map(|size| shown(*size)).collect(),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// A verdict, for launches one by one or in a graph, with the number of elements.
type Judged = (bool, u64, Verdict);

fn aim((graph, _, verdict): &Judged) -> (bool, &'static str, String) {
    (*graph, verdict.measure.name(), verdict.bound.text())
}

fn written(measure: Measure) -> &'static str {
    match measure {
        Measure::OverCub => "times as fast as CUB",
        Measure::OfLimit => "time over an empty launch and the bytes at the best bandwidth",
        Measure::OfPeak => "% of the memory's peak",
        Measure::OfEmpty => "time over an empty kernel's",
    }
}

pub(super) fn twins(results: &Results) -> Option<String> {
    let choice = results.choose(|p| {
        sums::is_sum(p) && sums::is_reduction(p) && p.is_rust() && !p.graph && SIZES.contains(&p.n)
    });
    let mut rows = String::new();
    for (n, nvvm) in SIZES.iter().flat_map(|n| [(*n, false), (*n, true)]) {
        let ratio = |point: &Point| point.over_cuda_c.map(|ratio| ratio.median);
        let mut here: Vec<(f64, &Point)> = choice
            .points
            .iter()
            .filter(|point| point.n == n && point.is_nvvm() == nvvm)
            .filter_map(|point| Some((ratio(point)?, *point)))
            .collect();
        here.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(least), Some(most)) = (here.first(), here.last()) else { continue };
        rows += &format!(
            "| {} | {} | {} | {:.3} | {:.3} | `{}`; `{}` |\n",
            shown(n),
            if nvvm { "rust-cuda" } else { "rustc" },
            here.len(),
            least.0,
            most.0,
            least.1.variant,
            most.1.variant
        );
    }
    (!rows.is_empty()).then(|| {
        format!(
            "| n | by | ratios | from | to | who is at the ends |\n|---|---|--:|--:|--:|---|\n{rows}\n{}\n",
            source(results, &choice.sets)
        )
    })
}

pub(super) fn machine_code(results: &Results) -> Option<String> {
    machine_code::summary(results).map(|said| format!("{said}\n"))
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (least, most) = range.unwrap_or((value, value));
        Some((f64::min(least, value), f64::max(most, value)))
    })
}

fn span((least, most): (f64, f64), decimals: usize) -> String {
    let [least, most] = [least, most].map(|value| match value {
        value if value >= 90.0 => plain(value),
        value => format!("{value:.decimals$}"),
    });
    if least == most { least } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_double_are_named_by_their_ends() {
        assert_eq!(
            in_runs(&[1 << 10, 1 << 11, 1 << 12, 1 << 23, 1 << 25, 1 << 26]),
            "2^10 to 2^12, 2^23, 2^25 to 2^26"
        );
        assert_eq!(in_runs(&[]), "");
    }
}
