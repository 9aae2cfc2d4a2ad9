//! Rows of matrices: the library's reductions beside CUB's segments and PyTorch, a table per operation.

use super::{Figure, Table, in_order};
use crate::{
    compare::timed::{matrix::shape::Shape, targets::Bound},
    report::{
        format::{digits, or_dash},
        lines::Point,
        prose::Aim,
        results::{Results, Set},
    },
};

const RIVALS: [(&str, &str); 3] =
    [("cub", "CUB µs"), ("cub-offsets", "CUB by offsets µs"), ("torch", "PyTorch µs")];

/// Columns before the two of the verdict.
const HEAD: [&str; 6] = ["rows × length", "launched", "µs", "GB/s", "% of peak", "rust-cuda µs"];

const LEAD: &str = "f32, a result for every row of a matrix, left in device memory; medians. GB/s are of \
    elements and results. × fastest: how many times as fast as the fastest of the others the library is, \
    which is named.";

struct Beside<'a> {
    own: &'a Point,
    others: Vec<&'a Point>,
}

/// Returns the newest of the sets with the most rows.
fn set(results: &Results) -> Option<&Set> {
    let sets = results.sets.iter().filter(|set| !set.rows.is_empty());
    sets.max_by_key(|set| (set.rows.len(), set.date()))
}

fn all(set: &Set) -> Vec<Beside<'_>> {
    let own = set.rows.iter().filter(|point| point.is_llvm());
    let others = |own: &Point| set.rows.iter().filter(|point| point.case() == own.case()).collect();
    own.map(|own| Beside { own, others: others(own) }).collect()
}

impl<'a> Beside<'a> {
    fn of(&self, peer: &str) -> Option<&'a Point> {
        self.others.iter().copied().find(|point| point.peer == peer)
    }

    /// Returns the speed-up over the fastest of the others, and its name.
    fn over_fastest(&self) -> Option<(f64, &'static str)> {
        let others = RIVALS.into_iter().filter_map(|(peer, head)| {
            Some((self.of(peer)?.median / self.own.median, head.trim_end_matches(" µs")))
        });
        others.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn is_behind(&self) -> bool {
        self.over_fastest().is_some_and(|(over, _)| over < 1.0)
    }

    fn cells(&self) -> Vec<String> {
        let median = |point: Option<&Point>| or_dash(point, |point| digits(point.median));
        let own = self.own;
        let shape = own.height.zip(own.width).map(|(rows, len)| Shape { rows, len }.to_string());
        let launched = if own.graph { "in a graph" } else { "one by one" };
        let mut cells = vec![
            or_dash(shape, |shape| shape.replace('x', " × ")),
            launched.to_owned(),
            digits(own.median),
            or_dash(own.gbps, digits),
            or_dash(own.percent, |percent| format!("{percent:.1}")),
            median(self.of("rust-nvvm")),
        ];
        cells.extend(RIVALS.map(|(peer, _)| median(self.of(peer))));
        cells.push(or_dash(self.over_fastest(), |(over, _)| format!("{over:.3}")));
        cells.push(or_dash(self.over_fastest(), |(_, who)| who.to_owned()));
        cells
    }
}

fn heads() -> Vec<&'static str> {
    let rivals = RIVALS.map(|(_, head)| head);
    HEAD.into_iter().chain(rivals).chain(["× fastest", "of"]).collect()
}

fn score(all: &[Beside<'_>]) -> Option<String> {
    let beside = all.iter().filter(|beside| beside.over_fastest().is_some()).count();
    let behind = all.iter().filter(|beside| beside.is_behind()).count();
    (beside > 0).then(|| format!("It is behind in {behind} of {beside} cases."))
}

pub(super) fn tables(results: &Results) -> Option<Figure> {
    let set = set(results)?;
    let all = all(set);
    let tables: Vec<Table> = ops(&all)
        .into_iter()
        .map(|op| {
            let mut table = Table { open: true, ..Table::new(op, &heads(), 2) };
            for beside in of(&all, op) {
                let row = table.push(beside.cells());
                if beside.is_behind() {
                    row.marked = vec![heads().len() - 2];
                }
            }
            table
        })
        .collect();
    let score = score(&all).map(|score| format!(" {score} Those are marked.")).unwrap_or_default();
    (!tables.is_empty()).then(|| Figure {
        id: "rows".to_owned(),
        title: "Rows of a matrix".to_owned(),
        lead: format!("{LEAD}{score}"),
        pictures: None,
        tables,
        sources: vec![set.name()],
    })
}

/// Target in GB/s for sums of at least [`LARGE`] elements: nine tenths of an H200's peak.
const RATE: f64 = 4330.0;

/// Elements from which on [`RATE`] applies; some shapes of 2^28 have slightly fewer.
const LARGE: u64 = 1 << 27;

pub(in crate::report) fn aims(results: &Results) -> Vec<Aim> {
    let Some(set) = set(results) else { return Vec::new() };
    let all = all(set);
    let is_large_sum = |beside: &&Beside<'_>| {
        beside.own.op.as_deref() == Some("sum") && !beside.own.graph && beside.own.n >= LARGE
    };
    let large = Aim {
        what: "sums of rows of 2^28 elements".to_owned(),
        launched: "one by one",
        measure: "GB/s",
        bound: Bound::AtLeast(RATE),
        values: all.iter().filter(is_large_sum).filter_map(|beside| beside.own.gbps).collect(),
    };
    let beside_others = ops(&all).into_iter().map(|op| Aim {
        what: if op == "sum" { "sums of rows" } else { "places of the largest of rows" }.to_owned(),
        launched: "both",
        measure: "times as fast as the fastest of the others",
        bound: Bound::AtLeast(1.0),
        values: of(&all, op).filter_map(Beside::over_fastest).map(|(over, _)| over).collect(),
    });
    [large].into_iter().chain(beside_others).collect()
}

pub(in crate::report) fn markdown(results: &Results) -> Option<(String, &Set)> {
    let set = set(results)?;
    let all = all(set);
    let score = score(&all).map(|score| format!(" {score}")).unwrap_or_default();
    let mut text = format!("{LEAD}{score} **Bold**: there it is.\n");
    for op in ops(&all) {
        let (heads, rule) = (heads(), "--:|".repeat(heads().len() - 3));
        text += &format!("\n{op}:\n\n| {} |\n|---|---|{rule}---|\n", heads.join(" | "));
        for beside in of(&all, op) {
            let mut cells = beside.cells();
            if beside.is_behind() {
                cells[heads.len() - 2..].iter_mut().for_each(|cell| *cell = format!("**{cell}**"));
            }
            text += &format!("| {} |\n", cells.join(" | ").replace('\u{202f}', ""));
        }
    }
    (!all.is_empty()).then_some((text, set))
}

fn ops<'a>(all: &[Beside<'a>]) -> Vec<&'a str> {
    in_order(all.iter().filter_map(|beside| beside.own.op.as_deref()))
}

fn of<'b, 'a>(all: &'b [Beside<'a>], op: &'b str) -> impl Iterator<Item = &'b Beside<'a>> {
    all.iter().filter(move |beside| beside.own.op.as_deref() == Some(op))
}
