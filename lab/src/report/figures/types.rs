//! The reducer's operations and element types beside CUB.

use warpfold_suite::{Dtype, Op};

use super::{
    Figure, Table, distinct,
    reducer::{Beside, of},
    tip,
};
use crate::report::{
    format::{count, digits, or_dash},
    lines::Point,
    panels::{Cell, Panel, Panels},
    results::{Choice, Results},
};

const ID: &str = "reducer-types";

pub(in crate::report) const SIZES: [u64; 4] = [1 << 16, 1 << 20, 1 << 24, 1 << 28];

/// Speed-ups at which the shades begin.
const STEPS: [f64; 5] = [1.0, 1.05, 1.15, 1.3, 1.6];

pub(in crate::report) fn points(results: &Results) -> (Choice<'_>, Vec<Beside<'_>>) {
    of(results, |p| !p.graph && SIZES.contains(&p.n))
}

pub(super) fn all(results: &Results) -> Option<Figure> {
    let (choice, all) = points(results);
    // Sums of f32 have their own figure.
    if pairs(&all).len() < 2 {
        return None;
    }
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    let picture = Panels {
        title: "The reducer's operations and types".to_owned(),
        columns: sizes.iter().map(|n| count(*n)).collect(),
        panels: panels(&all, &sizes),
        steps: STEPS,
        corner: "misses its target",
    };
    Some(Figure::new(ID, &picture, lead(&all), table(&all, &sizes), &choice.sets))
}

fn panels(all: &[Beside<'_>], sizes: &[u64]) -> Vec<Panel> {
    let pairs = pairs(all);
    let panel = |op: Op| {
        let mine = pairs.iter().filter(|(other, _)| *other == op);
        let rows = mine.map(|(op, dtype)| {
            let cells = sizes.iter().map(|n| find(all, op, dtype, *n).and_then(cell));
            (dtype.to_string(), cells.collect())
        });
        Panel { name: op.to_string(), rows: rows.collect() }
    };
    distinct(pairs.iter().map(|(op, _)| *op)).into_iter().map(panel).collect()
}

fn cell(beside: &Beside<'_>) -> Option<Cell> {
    let value = beside.over_cub()?;
    let target = beside.verdict();
    let target = if target.is_empty() { String::new() } else { format!("\ntarget {target}") };
    Some(Cell {
        value,
        text: format!("{value:.2}"),
        cornered: missed(beside),
        tip: format!("{}\n{} × as fast as CUB{target}", tip(beside.own), digits(value)),
    })
}

fn missed(beside: &Beside<'_>) -> bool {
    beside.own.verdicts.iter().any(|verdict| !verdict.met)
}

fn lead(all: &[Beside<'_>]) -> String {
    let factors: Vec<f64> = all.iter().filter_map(Beside::over_cub).collect();
    let ahead = factors.iter().filter(|factor| **factor > 1.0).count();
    let by_nvvm = nvvm_span(all).map(|span| format!(" {span}")).unwrap_or_default();
    format!(
        "How many times as fast as CUB every operation of every element type is: {ahead} of {} times are \
         ahead of CUB's, round by round.{by_nvvm}",
        factors.len()
    )
}

fn table(all: &[Beside<'_>], sizes: &[u64]) -> Table {
    let head = ["op", "type", "n", "µs", "CUB µs", "× CUB", "target"];
    let mut table = Table::new("Times", &head, 2);
    for (op, dtype) in pairs(all) {
        for beside in sizes.iter().filter_map(|n| find(all, &op, &dtype, *n)) {
            let Beside { own, cub, .. } = beside;
            let row = table.push([
                op.to_string(),
                dtype.to_string(),
                count(own.n),
                digits(own.median),
                or_dash(*cub, |cub| digits(cub.median)),
                or_dash(beside.over_cub(), |factor| format!("{factor:.3}")),
                Some(beside.verdict())
                    .filter(|verdict| !verdict.is_empty())
                    .unwrap_or_else(|| "–".to_owned()),
            ]);
            row.marked.extend(missed(beside).then_some(5));
        }
    }
    table.drop_empty();
    table
}

pub(in crate::report) fn nvvm_span(all: &[Beside<'_>]) -> Option<String> {
    let mut ratios: Vec<f64> = all.iter().filter_map(Beside::nvvm_over_llvm).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios.first()?, ratios.last()?);
    let median = ratios[ratios.len() / 2];
    Some(format!(
        "Compiled by rust-cuda the same {} take between {least:.3} and {most:.3} times as long as by rustc, \
         {median:.3} in the middle.",
        ratios.len()
    ))
}

pub(in crate::report) fn pairs(all: &[Beside<'_>]) -> Vec<(Op, Dtype)> {
    let pairs = Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
    pairs.filter(|(op, dtype)| SIZES.iter().any(|n| find(all, op, dtype, *n).is_some())).collect()
}

pub(in crate::report) fn find<'b, 'a>(
    all: &'b [Beside<'a>],
    op: &Op,
    dtype: &Dtype,
    n: u64,
) -> Option<&'b Beside<'a>> {
    let is =
        |own: &Point| own.op.as_deref() == Some(op.name()) && own.dtype == dtype.name() && own.n == n;
    all.iter().find(|beside| is(beside.own))
}
