//! The reducer beside CUB and PyTorch: how many times as fast it is, and what it is meant to reach.

use warpfold_suite::{Dtype, Op};

use super::{Figure, Table, distinct, tip};
use crate::{
    compare::timed::targets::Measure,
    report::{
        curves::{Curve, Curves, Place},
        format::{count, digits, or_dash},
        lines::Point,
        results::{Choice, Results},
        scale::Scale,
        svg::Shape,
    },
};

/// The picture's name, and the table's of operations and types.
pub(in crate::report) const SUMS: &str = "reducer";
const TYPES: &str = "reducer-types";

/// Sizes at which all operations and types are compared.
pub(in crate::report) const TYPE_SIZES: [u64; 4] = [1 << 16, 1 << 20, 1 << 24, 1 << 28];

/// A time of the reducer with those of the same case in the same set.
pub(in crate::report) struct Beside<'a> {
    pub(in crate::report) own: &'a Point,
    /// The same by rust-cuda.
    pub(in crate::report) nvvm: Option<&'a Point>,
    pub(in crate::report) cub: Option<&'a Point>,
    pub(in crate::report) torch: Option<&'a Point>,
    pub(in crate::report) empty: Option<&'a Point>,
}

impl<'a> Beside<'a> {
    fn new(results: &'a Results, own: &'a Point) -> Self {
        let set = results.sets.iter().find(|set| set.points.iter().any(|p| std::ptr::eq(p, own)));
        let points = set.map_or(&[][..], |set| &set.points);
        let of = |peer: &str| points.iter().find(|p| p.peer == peer && p.case() == own.case());
        let nvvm = |p: &&Point| p.is_reducer() && p.is_nvvm() && p.case() == own.case();
        let nvvm = points.iter().find(nvvm);
        Self { own, nvvm, cub: of("cub"), torch: of("torch"), empty: of("empty") }
    }

    /// How many times as fast as CUB, which took turns with it.
    pub(in crate::report) fn over_cub(&self) -> Option<f64> {
        self.own.over_cub.map(|ratio| 1.0 / ratio.median)
    }

    /// Rust-cuda's time over this one, round by round.
    pub(in crate::report) fn nvvm_over_llvm(&self) -> Option<f64> {
        self.nvvm.and_then(|nvvm| nvvm.over_llvm).map(|ratio| ratio.median)
    }

    /// How many times as fast as PyTorch, which did not.
    pub(in crate::report) fn over_torch(&self) -> Option<f64> {
        self.torch.map(|torch| torch.median / self.own.median)
    }

    /// What it is to reach against CUB.
    fn target(&self) -> Option<f64> {
        let against_cub = self.own.verdicts.iter().find(|verdict| verdict.measure == Measure::OverCub);
        against_cub.map(|verdict| verdict.bound.value())
    }

    /// Whether its targets are met, and which are not; nothing where it has none.
    pub(in crate::report) fn verdict(&self) -> String {
        let missed = self.own.verdicts.iter().filter(|verdict| !verdict.met);
        let missed: Vec<String> =
            missed.map(|v| format!("{} {}", v.measure.name(), v.bound.text())).collect();
        match (self.own.verdicts.is_empty(), missed.is_empty()) {
            (true, _) => String::new(),
            (_, true) => "met".to_owned(),
            _ => format!("missed: {}", missed.join(", ")),
        }
    }
}

/// The points of the f32 sums, launched one by one or in graphs, by size.
pub(in crate::report) fn sums(results: &Results, graph: bool) -> (Choice<'_>, Vec<Beside<'_>>) {
    let is_sum = |p: &Point| p.op.as_deref() == Some("sum") && p.dtype == "f32" && p.graph == graph;
    of(results, is_sum)
}

/// The points of all operations and types at [`TYPE_SIZES`].
pub(in crate::report) fn types(results: &Results) -> (Choice<'_>, Vec<Beside<'_>>) {
    of(results, |p| !p.graph && TYPE_SIZES.contains(&p.n))
}

fn of(results: &Results, wanted: impl Fn(&Point) -> bool) -> (Choice<'_>, Vec<Beside<'_>>) {
    let choice = results.choose_reducer(|point| point.is_llvm() && wanted(point));
    let beside = choice.points.iter().map(|own| Beside::new(results, own)).collect();
    (choice, beside)
}

/// How many times as fast as CUB and PyTorch, against the number of elements.
pub(super) fn speed_up(results: &Results) -> Option<Figure> {
    let (choice, all) = sums(results, false);
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    if sizes.len() < 2 || all.iter().all(|beside| beside.over_cub().is_none()) {
        return None;
    }
    let curves: Vec<Curve> = [
        curve("target against CUB", "empty", Shape::Ring, &all, Beside::target),
        curve("as fast as PyTorch", "torch", Shape::Triangle, &all, Beside::over_torch),
        curve("as fast as CUB", "cub", Shape::Diamond, &all, Beside::over_cub),
    ]
    .into_iter()
    .filter(|curve| !curve.points.is_empty())
    .collect();
    let values = curves.iter().flat_map(|curve| &curve.points).map(|place| place.y).chain([1.0]);
    let picture = Curves {
        title: "The reducer beside CUB and PyTorch".to_owned(),
        x: ("elements (f32 sum)".to_owned(), Scale::doubling(sizes.iter().map(|n| *n as f64))),
        y: ("times as fast".to_owned(), Scale::from_zero(values.collect::<Vec<_>>())),
        rules: vec![(1.0, "as fast".to_owned())],
        curves,
    };
    let mut figure = Figure::new(SUMS, &picture, lead(&all)?, table(&all, false), &choice.sets);
    let (_, graphs) = sums(results, true);
    figure.tables.extend((!graphs.is_empty()).then(|| table(&graphs, true)));
    Some(figure)
}

fn curve<'a>(
    name: &str,
    class: &'static str,
    shape: Shape,
    all: &[Beside<'a>],
    y: impl Fn(&Beside<'a>) -> Option<f64>,
) -> Curve {
    let place = |beside: &Beside<'a>| {
        let y = y(beside)?;
        let tip = format!("{}\n{} × {name}", tip(beside.own), digits(y));
        Some(Place { x: beside.own.n as f64, y, tip })
    };
    Curve { name: name.to_owned(), class, shape, points: all.iter().filter_map(place).collect() }
}

fn lead(all: &[Beside<'_>]) -> Option<String> {
    let of = |beside: &Beside<'_>| beside.over_cub().unwrap_or(0.0);
    let most = all.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let least = all.iter().filter(|b| b.over_cub().is_some()).min_by(|a, b| of(a).total_cmp(&of(b)))?;
    let largest = all.iter().max_by_key(|beside| beside.own.n)?;
    let share = largest.own.percent.map(|percent| {
        format!(" At {} elements it reads {percent:.1} % of the peak.", count(largest.own.n))
    });
    Some(format!(
        "The library's reduction is between {} times ({} elements) and {} times ({}) as fast as CUB, launch \
         by launch.{} Targets are those of lab/src/compare/timed/targets.rs.",
        digits(of(least)),
        count(least.own.n),
        digits(of(most)),
        count(most.own.n),
        share.unwrap_or_default()
    ))
}

fn table(all: &[Beside<'_>], graph: bool) -> Table {
    let name = if graph { "Times in a CUDA graph" } else { "Times, launched one by one" };
    let head = [
        "n",
        "launch",
        "µs",
        "from",
        "to",
        "GB/s",
        "% of peak",
        "CUB µs",
        "× CUB",
        "PyTorch µs",
        "× PyTorch",
        "empty µs",
        "/ empty",
        "/ limit",
        "rust-cuda µs",
        "/ rustc",
        "target",
    ];
    let mut table = Table::new(name, &head, 2);
    let three = |value: f64| format!("{value:.3}");
    for beside in all {
        let Beside { own, nvvm, cub, torch, empty } = beside;
        let row = table.push([
            count(own.n),
            own.launch.clone().unwrap_or_default(),
            digits(own.median),
            digits(own.spread.0),
            digits(own.spread.1),
            or_dash(own.gbps, digits),
            or_dash(own.percent, |percent| format!("{percent:.1}")),
            or_dash(*cub, |cub| digits(cub.median)),
            or_dash(beside.over_cub(), three),
            or_dash(*torch, |torch| digits(torch.median)),
            or_dash(beside.over_torch(), three),
            or_dash(*empty, |empty| digits(empty.median)),
            or_dash(own.over_empty, |ratio| format!("{ratio:.2}")),
            or_dash(own.over_limit, three),
            or_dash(*nvvm, |nvvm| digits(nvvm.median)),
            or_dash(beside.nvvm_over_llvm(), three),
            beside.verdict(),
        ]);
        if own.verdicts.iter().any(|verdict| !verdict.met) {
            row.marked.push(head.len() - 1);
        }
    }
    table
}

/// A table of how many times as fast as CUB every operation of every type is.
pub(super) fn all_types(results: &Results) -> Option<Figure> {
    let (choice, all) = types(results);
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    let rows = pairs(&all);
    // Sums of f32 alone have a picture of their own.
    if rows.len() < 2 {
        return None;
    }
    let heads: Vec<String> =
        ["op", "type"].map(String::from).into_iter().chain(sizes.iter().map(|n| count(*n))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table { open: true, ..Table::new("Times as fast as CUB", &heads, 2) };
    for (op, dtype) in &rows {
        let here: Vec<Option<&Beside<'_>>> = sizes.iter().map(|n| find(&all, op, dtype, *n)).collect();
        let cell = |beside: &Option<&Beside<'_>>| {
            or_dash(beside.and_then(Beside::over_cub), |factor| format!("{factor:.3}"))
        };
        let cells = [op.to_string(), dtype.to_string()].into_iter().chain(here.iter().map(cell));
        let row = table.push(cells);
        let missed = |beside: &Beside<'_>| beside.own.verdicts.iter().any(|verdict| !verdict.met);
        let marked = here.iter().enumerate().filter(|(_, beside)| beside.is_some_and(missed));
        row.marked = marked.map(|(at, _)| at + 2).collect();
    }
    let judged = all.iter().filter(|beside| beside.over_cub().is_some()).count();
    let ahead = all.iter().filter(|beside| beside.over_cub().is_some_and(|by| by > 1.0)).count();
    let by_nvvm = nvvm_span(&all).map(|span| format!(" {span}")).unwrap_or_default();
    let lead = format!(
        "Every operation and element type: {ahead} of {judged} times are ahead of CUB's, round by round. \
         What misses its target is marked.{by_nvvm}"
    );
    Some(Figure {
        id: TYPES.to_owned(),
        title: "The reducer's operations and types".to_owned(),
        lead,
        pictures: None,
        tables: vec![table],
        sources: choice.sets.iter().map(|set| set.name()).collect(),
    })
}

/// What rust-cuda's code takes in place of rustc's, over all of these; none where it took no part.
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

/// The operations and types that were measured, in the order of the library.
pub(in crate::report) fn pairs(all: &[Beside<'_>]) -> Vec<(Op, Dtype)> {
    let pairs = Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
    pairs.filter(|(op, dtype)| TYPE_SIZES.iter().any(|n| find(all, op, dtype, *n).is_some())).collect()
}

/// The time of an operation, type and size.
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
