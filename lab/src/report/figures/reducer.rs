//! The reducer beside CUB and PyTorch: speed-ups and targets.

use super::{Figure, Table, distinct, sums::torch_lead, tip};
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

pub(in crate::report) const SUMS: &str = "reducer";

pub(in crate::report) struct Beside<'a> {
    pub(in crate::report) own: &'a Point,
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

    /// Returns the speed-up over CUB, which took turns with the reducer.
    pub(in crate::report) fn over_cub(&self) -> Option<f64> {
        self.own.times_cub()
    }

    pub(in crate::report) fn nvvm_over_llvm(&self) -> Option<f64> {
        self.nvvm.and_then(|nvvm| nvvm.over_llvm).map(|ratio| ratio.median)
    }

    /// Returns the speed-up over PyTorch, from medians, because it took no turns.
    pub(in crate::report) fn over_torch(&self) -> Option<f64> {
        self.torch.map(|torch| torch.median / self.own.median)
    }

    fn target(&self) -> Option<f64> {
        let against_cub = self.own.verdicts.iter().find(|verdict| verdict.measure == Measure::OverCub);
        against_cub.map(|verdict| verdict.bound.value())
    }

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

pub(in crate::report) fn sums(results: &Results, graph: bool) -> (Choice<'_>, Vec<Beside<'_>>) {
    let is_sum = |p: &Point| p.op.as_deref() == Some("sum") && p.dtype == "f32" && p.graph == graph;
    of(results, is_sum)
}

pub(super) fn of(results: &Results, wanted: impl Fn(&Point) -> bool) -> (Choice<'_>, Vec<Beside<'_>>) {
    let choice = results.choose_reducer(|point| point.is_llvm() && wanted(point));
    let beside = choice.points.iter().map(|own| Beside::new(results, own)).collect();
    (choice, beside)
}

pub(super) fn speed_up(results: &Results) -> Option<Figure> {
    let (choice, all) = sums(results, false);
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    if sizes.len() < 2 || all.iter().all(|beside| beside.over_cub().is_none()) {
        return None;
    }
    let curves: Vec<Curve> = [
        factors("target against CUB", "empty", Shape::Ring, &all, Beside::target),
        factors("as fast as PyTorch", "torch", Shape::Triangle, &all, Beside::over_torch),
        factors("as fast as CUB", "cub", Shape::Diamond, &all, Beside::over_cub),
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
    let torch: Vec<&Point> = all.iter().filter_map(|beside| beside.torch).collect();
    let lead = lead(&all)? + &torch_lead(&torch);
    let mut figure = Figure::new(SUMS, &picture, lead, table(&all, false), &choice.sets);
    let (_, graphs) = sums(results, true);
    figure.tables.extend((!graphs.is_empty()).then(|| table(&graphs, true)));
    Some(figure)
}

pub(in crate::report) const TIMES: &str = "times";

pub(super) fn times(results: &Results) -> Option<Figure> {
    let (choice, all) = sums(results, false);
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    if sizes.len() < 2 || all.iter().all(|beside| beside.own.over_limit.is_none()) {
        return None;
    }
    let timed = |point: &Point| Place {
        x: point.n as f64,
        y: point.median,
        half: Some(point.spread),
        tip: tip(point),
    };
    let limit = |beside: &Beside<'_>| {
        let (n, us) = (beside.own.n, beside.own.median / beside.own.over_limit?);
        let tip = format!("limit\nn = {}\n{} µs", count(n), digits(us));
        Some(Place { x: n as f64, y: us, half: None, tip })
    };
    let curves: Vec<Curve> = [
        curve("limit", "empty", Shape::Dot, &all, limit),
        curve("PyTorch", "torch", Shape::Triangle, &all, |beside| beside.torch.map(timed)),
        curve("CUB", "cub", Shape::Diamond, &all, |beside| beside.cub.map(timed)),
        curve("the library by rust-cuda", "nvvm", Shape::Ring, &all, |beside| beside.nvvm.map(timed)),
        curve("the library", "rust", Shape::Circle, &all, |beside| Some(timed(beside.own))),
    ]
    .into_iter()
    .filter(|curve| !curve.points.is_empty())
    .collect();
    let values = curves.iter().flat_map(|curve| &curve.points).map(|place| place.y);
    let scale = Scale::tenfold(values);
    let picture = Curves {
        title: "Times of the library's sums".to_owned(),
        x: ("elements (f32 sum)".to_owned(), Scale::doubling(sizes.iter().map(|n| *n as f64))),
        y: ("µs".to_owned(), scale),
        rules: Vec::new(),
        curves,
    };
    let farthest = all.iter().filter_map(|beside| Some((beside.own.over_limit?, beside.own.n)));
    let (most, n) = farthest.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let lead = format!(
        "Launched one by one; the bars are the middle half of the runs. The limit is an empty launch and the \
         bytes at the best bandwidth of the run: the library takes at most {} times as long, of {} elements.",
        digits(most),
        count(n)
    );
    Some(Figure::new(TIMES, &picture, lead, table(&all, false), &choice.sets))
}

fn factors<'a>(
    name: &str,
    class: &'static str,
    shape: Shape,
    all: &[Beside<'a>],
    y: impl Fn(&Beside<'a>) -> Option<f64>,
) -> Curve {
    curve(name, class, shape, all, |beside| {
        let y = y(beside)?;
        let tip = format!("{}\n{} × {name}", tip(beside.own), digits(y));
        Some(Place { x: beside.own.n as f64, y, half: None, tip })
    })
}

fn curve<'a>(
    name: &str,
    class: &'static str,
    shape: Shape,
    all: &[Beside<'a>],
    place: impl Fn(&Beside<'a>) -> Option<Place>,
) -> Curve {
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
