//! The reducer beside CUB and PyTorch: speed-ups and targets.

use warpfold_suite::{Dtype, Op};

use super::{
    figure::*,
    heat::{Cell, Heat},
    matrix,
    results::TABLES,
    sums::torch_lead,
};
use crate::compare::timed::{
    inputs::Inputs,
    targets::{Bound, Measure, Verdict},
};

/// Sizes at which all operations and types are measured.
const SIZES: [u64; 4] = [1 << 16, 1 << 20, 1 << 24, 1 << 28];

/// Speed-ups at which the shades begin.
const STEPS: [f64; 5] = [1.0, 1.05, 1.15, 1.3, 1.6];

/// Numbers of elements from which launch time no longer dominates, and from which bandwidth does.
const DOMINANT: [u64; 2] = [1 << 13, 1 << 24];

const STATES: [Inputs; 3] = [Inputs::Rotated, Inputs::Swept, Inputs::Warm];

impl WithPeers<'_> {
    /// Returns the speed-up over CUB, from ratios by round.
    fn over_cub(&self) -> Option<f64> {
        self.own.times_cub()
    }

    fn nvvm_over_llvm(&self) -> Option<f64> {
        Some(self.of("rust-nvvm")?.over_llvm?.median)
    }

    /// Returns the speed-up over PyTorch, from medians, because PyTorch does not alternate with the
    /// reducer.
    fn over_torch(&self) -> Option<f64> {
        Some(self.of("torch")?.median / self.own.median)
    }

    fn target(&self) -> Option<f64> {
        let is_cub = |verdict: &&Verdict| verdict.measure == Measure::OverCub;
        Some(self.own.verdicts.iter().find(is_cub)?.bound.value())
    }

    /// Returns "met", or the list of missed targets; `None` if there are no targets.
    fn verdict(&self) -> Option<String> {
        let missed = self.own.verdicts.iter().filter(|verdict| !verdict.met);
        let missed = join(missed.map(|v| format!("{} {}", v.measure.name(), v.bound.text())), ", ");
        let verdict = if missed.is_empty() { "met".to_owned() } else { format!("missed: {missed}") };
        (!self.own.verdicts.is_empty()).then_some(verdict)
    }

    fn written_verdict(&self) -> String {
        or_dash(self.verdict(), |verdict| signs(&verdict).replace("x cub", "× CUB"))
    }

    fn is(&self, op: Op, dtype: Dtype) -> bool {
        self.own.op.as_deref() == Some(op.name()) && self.own.dtype == dtype.name()
    }
}

fn signs(bound: &str) -> String {
    bound.replace(">=", "≥").replace("<=", "≤")
}

/// Returns the wanted times of the reducer by rustc, with the peers' times of the same work.
fn of(results: &Results, wanted: impl Fn(&Point) -> bool) -> (Choice<'_>, Vec<WithPeers<'_>>) {
    let choice = results.choose_reducer(|point| point.is_llvm() && wanted(point));
    let set = |own: &Point| {
        let mut sets = results.sets.iter();
        sets.find(|set| set.points.iter().any(|point| std::ptr::eq(point, own)))
    };
    let beside = choice.points.iter().filter_map(|own| Some(WithPeers::new(set(own)?, own))).collect();
    (choice, beside)
}

fn sums(results: &Results, graph: bool) -> (Choice<'_>, Vec<WithPeers<'_>>) {
    of(results, |p| p.is_f32_sum() && p.graph == graph)
}

/// Formats the ratio of a peer's time to the reducer's.
fn factor(factor: Option<f64>) -> String {
    or_dash(factor, fixed::<3>)
}

type Style = (&'static str, &'static str, Shape);

fn curve<'a>(
    style: Style,
    all: &[WithPeers<'a>],
    place: impl Fn(&WithPeers<'a>) -> Option<Place>,
) -> Curve {
    let (name, class, shape) = style;
    Curve { name: name.to_owned(), class, shape, points: all.iter().filter_map(place).collect() }
}

pub(super) fn speed_up(results: &Results) -> Option<Figure> {
    let (choice, all) = sums(results, false);
    let by_factor = |a: &&(f64, &WithPeers<'_>), b: &&(f64, &WithPeers<'_>)| a.0.total_cmp(&b.0);
    let factors: Vec<_> = all.iter().filter_map(|beside| Some((beside.over_cub()?, beside))).collect();
    let (least, most) = (factors.iter().min_by(by_factor)?, factors.iter().max_by(by_factor)?);
    let [_, .., largest] = all.as_slice() else { return None };
    let curve = |style: Style, y: fn(&WithPeers<'_>) -> Option<f64>| {
        curve(style, &all, |beside| {
            let tip = format!("{}\n{} × {}", tip(beside.own), digits(y(beside)?), style.0);
            Some(Place::new(beside.own.n, y(beside)?, tip))
        })
    };
    let curves = vec![
        curve(("target against CUB", "empty", Shape::RING), |b| b.target()),
        curve(("as fast as PyTorch", "torch", Shape::TRIANGLE), |b| b.over_torch()),
        curve(("as fast as CUB", "cub", Shape::DIAMOND), |b| b.over_cub()),
    ];
    let picture = Curves {
        rules: vec![(1.0, "as fast".to_owned())],
        ..Curves::new("elements (f32 sum)", "times as fast", Steps::Linear, curves)
    };
    let share = or_empty(largest.own.percent, |percent| {
        format!(" At {} elements it reads {percent:.1} % of the peak.", count(largest.own.n))
    });
    let torch = all.iter().filter_map(|beside| beside.of("torch")).collect();
    let torch = torch_lead(&Choice { points: torch, sets: Vec::new() });
    let [(least, at_least), (most, at_most)] =
        [least, most].map(|(factor, beside)| (digits(*factor), count(beside.own.n)));
    let lead = format!(
        "The library's reduction is between {least} times ({at_least} elements) and {most} times ({at_most}) \
         as fast as CUB, launch by launch.{share} Targets are those of \
         measure/src/compare/timed/targets.rs.{torch}"
    );
    let (_, graphs) = sums(results, true);
    let mut tables = vec![table("Times, launched one by one", &all)];
    tables.extend((!graphs.is_empty()).then(|| table("Times in a CUDA graph", &graphs)));
    let title = "The reducer beside CUB and PyTorch";
    Some(Figure::new("reducer", title, lead, tables, &choice.sets).with(&picture))
}

pub(super) fn times(results: &Results) -> Option<Figure> {
    let (choice, all) = sums(results, false);
    let [_, _, ..] = choice.sizes().as_slice() else { return None };
    let farthest = all.iter().filter_map(|beside| Some((beside.own.over_limit?, beside.own.n)));
    let (most, n) = farthest.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let timed = |p: &Point| Place { half: Some(p.spread), ..Place::new(p.n, p.median, tip(p)) };
    let limit = |beside: &WithPeers<'_>| {
        let (n, us) = (beside.own.n, beside.own.median / beside.own.over_limit?);
        Some(Place::new(n, us, format!("limit\nn = {}\n{} µs", count(n), digits(us))))
    };
    let curves = vec![
        curve(("limit", "empty", Shape::DOT), &all, limit),
        curve(("PyTorch", "torch", Shape::TRIANGLE), &all, |beside| beside.of("torch").map(timed)),
        curve(("CUB", "cub", Shape::DIAMOND), &all, |beside| beside.of("cub").map(timed)),
        curve(("the library by rust-cuda", "nvvm", Shape::RING), &all, |beside| {
            beside.of("rust-nvvm").map(timed)
        }),
        curve(("the library", "rust", Shape::CIRCLE), &all, |beside| Some(timed(beside.own))),
    ];
    let picture = Curves::new("elements (f32 sum)", "µs", Steps::Tenfold, curves);
    let (most, n) = (digits(most), count(n));
    let lead = format!(
        "Launched one by one; the bars are the middle half of the runs. The limit is an empty launch and the \
         bytes at the best bandwidth of the run: the library takes at most {most} times as long, of {n} \
         elements."
    );
    let tables = vec![table("Times, launched one by one", &all)];
    Some(Figure::new("times", "Times of the library's sums", lead, tables, &choice.sets).with(&picture))
}

fn table(name: &str, all: &[WithPeers<'_>]) -> Table {
    Table::of(name, all).columns(&[
        ("<n", &|b| count(b.own.n)),
        ("<launch", &|b| b.own.launch.clone()),
        ("µs", &|b| digits(b.own.median)),
        ("from", &|b| digits(b.own.spread.0)),
        ("to", &|b| digits(b.own.spread.1)),
        ("GB/s", &|b| or_dash(b.own.gbps, digits)),
        ("% of peak", &|b| or_dash(b.own.percent, fixed::<1>)),
        ("CUB µs", &|b| b.median("cub")),
        ("× CUB", &|b| factor(b.over_cub())),
        ("PyTorch µs", &|b| b.median("torch")),
        ("× PyTorch", &|b| factor(b.over_torch())),
        ("empty µs", &|b| b.median("empty")),
        ("/ empty", &|b| or_dash(b.own.over_empty, fixed::<2>)),
        ("/ limit", &|b| factor(b.own.over_limit)),
        ("rust-cuda µs", &|b| b.median("rust-nvvm")),
        ("/ rustc", &|b| factor(b.nvvm_over_llvm())),
        ("target", &|b| marked(b.verdict().unwrap_or_default(), b.own.is_missed())),
    ])
}

pub(super) fn sums_block(results: &Results) -> Block<'_> {
    let (choice, all) = sums(results, false);
    let table = Table::of("", &all).columns(&[
        ("n", &|b| shown(b.own.n)),
        ("µs", &|b| digits(b.own.median)),
        ("GB/s", &|b| or_dash(b.own.gbps, digits)),
        ("% of peak", &|b| or_dash(b.own.percent, fixed::<1>)),
        ("/ limit", &|b| factor(b.own.over_limit)),
        ("CUB µs", &|b| b.median("cub")),
        ("× CUB", &|b| factor(b.over_cub())),
        ("PyTorch µs", &|b| b.median("torch")),
        ("× PyTorch", &|b| factor(b.over_torch())),
        ("nvvm / llvm", &|b| factor(b.nvvm_over_llvm())),
        ("<target", &|b| b.written_verdict()),
    ]);
    let text = "f32 sums by the reducer, launched one by one; medians in microseconds. × CUB and × \
        PyTorch: how many times as fast as these. / limit: its time over an empty launch and the bytes \
        at the best bandwidth of the run. nvvm / llvm: its time by rust-cuda over that by rustc, which \
        made all others.";
    Block { picture: "reducer", ..Block::new(text, table, choice.sets) }
}

pub(super) fn graphs(results: &Results) -> Block<'_> {
    let (choice, all) = sums(results, true);
    let table = Table::of("", &all).columns(&[
        ("n", &|b| shown(b.own.n)),
        ("µs", &|b| digits(b.own.median)),
        ("empty kernel µs", &|b| b.median("empty")),
        ("/ empty", &|b| or_dash(b.own.over_empty, fixed::<2>)),
        ("CUB µs", &|b| b.median("cub")),
        ("× CUB", &|b| or_dash(b.over_cub(), fixed::<2>)),
        ("nvvm / llvm", &|b| or_dash(b.nvvm_over_llvm(), fixed::<2>)),
        ("<target", &|b| b.written_verdict()),
    ]);
    let text = "f32 sums by the reducer in a CUDA graph of many, where its launches overlap from sm_90 on; \
        microseconds of one.";
    Block::new(text, table, choice.sets)
}

/// Returns times of all types and operations, with the pairs of operation and type that were measured.
fn types(results: &Results) -> (Choice<'_>, Vec<WithPeers<'_>>, Vec<(Op, Dtype)>) {
    let (choice, all) = of(results, |p| !p.graph && SIZES.contains(&p.n));
    let pairs = Op::ALL.iter().flat_map(|op| Dtype::ALL.iter().map(|dtype| (*op, *dtype)));
    let pairs = pairs.filter(|(op, dtype)| all.iter().any(|beside| beside.is(*op, *dtype))).collect();
    (choice, all, pairs)
}

fn find<'b, 'a>(all: &'b [WithPeers<'a>], op: Op, dtype: Dtype, n: u64) -> Option<&'b WithPeers<'a>> {
    all.iter().find(|beside| beside.is(op, dtype) && beside.own.n == n)
}

fn nvvm_span(all: &[WithPeers<'_>]) -> String {
    let mut ratios: Vec<f64> = all.iter().filter_map(WithPeers::nvvm_over_llvm).collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return String::new() };
    let (all, middle) = (ratios.len(), ratios[ratios.len() / 2]);
    format!(
        " Compiled by rust-cuda the same {all} take between {least:.3} and {most:.3} times as long as by \
         rustc, {middle:.3} in the middle."
    )
}

pub(super) fn by_type(results: &Results) -> Option<Figure> {
    let (choice, all, pairs) = types(results);
    // Sums of f32 have their own figure.
    let [_, _, ..] = pairs.as_slice() else { return None };
    let sizes = choice.sizes();
    let cell = |beside: &WithPeers<'_>| {
        let target = or_empty(beside.verdict(), |verdict| format!("\ntarget {verdict}"));
        let value = beside.over_cub()?;
        let tip = format!("{}\n{} × as fast as CUB{target}", tip(beside.own), digits(value));
        Some(Cell { value, cornered: beside.own.is_missed(), tip })
    };
    let panel = |op: Op| {
        let rows = pairs.iter().filter(|pair| pair.0 == op).map(|&(op, dtype)| {
            let cells = sizes.iter().map(|n| find(&all, op, dtype, *n).and_then(cell));
            (dtype.to_string(), cells.collect())
        });
        (op.to_string(), rows.collect())
    };
    let columns = sizes.iter().map(|n| count(*n)).collect();
    let panels = distinct(pairs.iter().map(|(op, _)| *op)).into_iter().map(panel).collect();
    let picture = Heat { columns, panels, steps: STEPS, corner: "misses its target" };
    let factors: Vec<f64> = all.iter().filter_map(WithPeers::over_cub).collect();
    let ahead = factors.iter().filter(|factor| **factor > 1.0).count();
    let (of, by_nvvm) = (factors.len(), nvvm_span(&all));
    let lead = format!(
        "How many times as fast as CUB every operation of every element type is: {ahead} of {of} times are \
         ahead of CUB's, round by round.{by_nvvm}"
    );
    let cases = pairs.iter().flat_map(|pair| sizes.iter().map(move |n| (*pair, *n)));
    let rows: Vec<_> =
        cases.filter_map(|((op, dtype), n)| Some((op, dtype, find(&all, op, dtype, n)?))).collect();
    let table = Table::of("Times", &rows).columns(&[
        ("<op", &|(op, _, _)| op.to_string()),
        ("<type", &|(_, dtype, _)| dtype.to_string()),
        ("n", &|(_, _, b)| count(b.own.n)),
        ("µs", &|(_, _, b)| digits(b.own.median)),
        ("CUB µs", &|(_, _, b)| b.median("cub")),
        ("× CUB", &|(_, _, b)| marked(factor(b.over_cub()), b.own.is_missed())),
        ("target", &|(_, _, b)| or_dash(b.verdict(), |verdict| verdict)),
    ]);
    let title = "The reducer's operations and types";
    let tables = vec![table.without_empty()];
    Some(Figure::new("reducer-types", title, lead, tables, &choice.sets).with(&picture))
}

/// Returns the speed-ups over CUB of every operation and type: a row per type, a column per operation,
/// with the sizes in a cell.
pub(super) fn types_block(results: &Results) -> Block<'_> {
    let (choice, all, pairs) = types(results);
    let [_, _, ..] = pairs.as_slice() else { return Block::default() };
    let ops = distinct(pairs.iter().map(|(op, _)| *op));
    let row = |dtype: Dtype| {
        let cells = ops.iter().map(|op| {
            let factor = |n| find(&all, *op, dtype, n).and_then(WithPeers::over_cub);
            join(choice.sizes().into_iter().map(|n| or_dash(factor(n), fixed::<2>)), "&nbsp;/ ")
        });
        [dtype.to_string()].into_iter().chain(cells).collect()
    };
    let rows = distinct(pairs.iter().map(|(_, dtype)| *dtype)).into_iter().map(row).collect();
    let head = ["<type"].into_iter().chain(ops.iter().map(|op| op.name())).map(str::to_owned).collect();
    let sizes = join(choice.sizes().into_iter().map(shown), " / ");
    let by_nvvm = nvvm_span(&all);
    let text = format!("How many times as fast as CUB the reducer is, at {sizes} elements.{by_nvvm}");
    Block::new(text, Table { head, rows, ..Table::default() }, choice.sets)
}

pub(super) fn summary(results: &Results) -> Option<String> {
    let [(_, all), (_, graphs)] = [false, true].map(|graph| sums(results, graph));
    let part = |points: &[WithPeers<'_>], from: u64, to: u64| {
        let here = points.iter().filter(|beside| (from..to).contains(&beside.own.n));
        let here = here.filter_map(|beside| Some((beside.own.n, beside.over_cub()?)));
        let (sizes, factors): (Vec<u64>, Vec<f64>) = here.unzip();
        Some((shown(*sizes.iter().min()?), shown(*sizes.iter().max()?), factors))
    };
    let (from, to, small) = part(&all, DOMINANT[0], DOMINANT[1])?;
    let (_, most, large) = part(&all, DOMINANT[1], u64::MAX)?;
    let peak = all.iter().filter_map(|beside| beside.own.percent).fold(0.0, f64::max);
    let graph = or_empty(part(&graphs, 0, u64::MAX), |(_, most, factors)| {
        format!(" In a CUDA graph it is {} times as fast up to {most}.", span(&factors, 1))
    });
    let (gpu, small, large) = (markdown(results.gpu()?), span(&small, 2), span(&large, 2));
    Some(format!(
        "On one {gpu} it sums {from} to {to} floats {small} times as fast as CUB, and from there to {most} \
         {large} times as fast, where it reads up to {peak:.1} % of the memory's peak.{graph}"
    ))
}

fn span(values: &[f64], decimals: usize) -> String {
    let written = |value: f64| if value >= 90.0 { plain(value) } else { format!("{value:.decimals$}") };
    let least = written(values.iter().copied().fold(f64::INFINITY, f64::min));
    let most = written(values.iter().copied().fold(0.0, f64::max));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Formats sizes. A run of doublings is given by its first and last size.
fn in_runs(sizes: &[u64]) -> String {
    let runs = sizes.chunk_by(|size, next| *next == 2 * size).map(|run| match run {
        [first, .., last] => format!("{} to {}", shown(*first), shown(*last)),
        alone => alone.iter().copied().map(shown).collect(),
    });
    join(runs, ", ")
}

/// Cases, how they are launched, a measure with its bound, and the measured values.
type Aim = (String, &'static str, &'static str, Bound, Vec<f64>);

/// Returns the targets, including those of other figures, and how many cases meet them.
pub(super) fn aims(results: &Results) -> Block<'_> {
    let mut aims: Vec<Aim> = Vec::new();
    for (graph, launched) in [(false, "one by one"), (true, "in a CUDA graph")] {
        let (choice, _) = sums(results, graph);
        let verdicts = choice.points.iter().flat_map(|own| own.verdicts.iter().map(|v| (own.n, v)));
        let verdicts: Vec<(u64, &Verdict)> = verdicts.collect();
        for (measure, bound) in in_order(verdicts.iter().map(|(_, v)| (v.measure, v.bound))) {
            let here = verdicts.iter().filter(|(_, v)| (v.measure, v.bound) == (measure, bound));
            let (sizes, values): (Vec<u64>, Vec<f64>) = here.map(|(n, v)| (*n, v.value)).unzip();
            aims.push((in_runs(&distinct(sizes)), launched, written(measure), bound, values));
        }
    }
    let (_, all) = sums(results, false);
    let torch = all.iter().filter_map(|beside| Some((beside.own.n, beside.over_torch()?)));
    let (sizes, values): (Vec<u64>, Vec<f64>) = torch.unzip();
    aims.push((in_runs(&sizes), "one by one", "times as fast as PyTorch", Bound::AtLeast(1.0), values));
    let (_, all, _) = types(results);
    let values = all.iter().filter_map(WithPeers::over_cub).collect();
    let everything = "all types and operations".to_owned();
    aims.push((everything, "one by one", written(Measure::OverCub), Bound::Above(1.0), values));
    aims.extend(matrix::aims(results));
    aims.retain(|(.., values)| !values.is_empty());
    let met = |(.., bound, values): &Aim| values.iter().filter(|value| bound.admits(**value)).count();
    let table = Table::of("", &aims).columns(&[
        ("<what", &|aim| aim.0.clone()),
        ("<launched", &|aim| aim.1.to_owned()),
        ("<aim", &|aim| format!("{} {}", aim.2, signs(&aim.3.text()))),
        ("<measured", &|aim| span(&aim.4, 3)),
        ("meet it", &|aim| format!("{} of {}", met(aim), aim.4.len())),
    ]);
    Block::new("", table, Vec::new())
}

fn written(measure: Measure) -> &'static str {
    match measure {
        Measure::OverCub => "times as fast as CUB",
        Measure::OfLimit => "time over an empty launch and the bytes at the best bandwidth",
        Measure::OfPeak => "% of the memory's peak",
        Measure::OfEmpty => "time over an empty kernel's",
    }
}

/// Returns the reducer's sums in several states of the cache.
pub(super) fn inputs(results: &Results) -> Block<'_> {
    let sets = results.sets.iter().filter(|set| set.points.iter().any(|point| point.inputs.is_some()));
    let Some(set) = sets.max_by_key(|set| set.date()) else { return Block::default() };
    let is_own = |p: &Point| p.is_reducer() && p.is_llvm() && p.op.as_deref() == Some("sum");
    let all = Choice { points: set.points.iter().filter(|p| is_own(p)).collect(), sets: vec![set] };
    let row = |((dtype, n), mine): ((&str, u64), Choice<'_>)| {
        let cells = STATES.iter().flat_map(|state| {
            let point = mine.find(|p| p.inputs.as_deref() == Some(state.name()));
            let gbps = or_dash(point.and_then(|point| point.gbps), digits);
            [
                or_dash(point, |point| digits(point.median)),
                gbps,
                or_dash(point.and_then(Point::times_cub), fixed::<2>),
            ]
        });
        [dtype.to_owned(), shown(n)].into_iter().chain(cells).collect()
    };
    let heads = STATES
        .iter()
        .flat_map(|state| [&*format!("{} µs", state.name()), "GB/s", "× CUB"].map(str::to_owned));
    let head = ["<type", "n"].map(str::to_owned).into_iter().chain(heads).collect();
    let rows = all.by(|p| (p.dtype.as_str(), p.n)).into_iter().map(row).collect();
    let text = "Sums by the reducer, compiled by rustc, launched one by one; medians. × CUB: how many times as \
        fast as CUB in the same state.";
    Block::new(text, Table { head, rows, ..Table::default() }, all.sets)
}

/// Returns the reducer's sums with and without a tuning table, measured in the same way.
pub(super) fn untuned(results: &Results) -> Block<'_> {
    let [Some(without), Some(with)] = TABLES.map(|file| results.experiment(file)) else {
        return Block::default();
    };
    fn sum(set: &Set) -> impl Iterator<Item = &Point> {
        let sums = set.points.iter().filter(|p| p.is_f32_sum() && p.is_reducer() && p.is_llvm());
        sums.filter(|p| !p.graph && p.over_cub.is_some())
    }
    let pairs =
        sum(with).filter_map(|tuned| Some((sum(without).find(|rule| rule.n == tuned.n)?, tuned)));
    let table = Table::of("", &pairs.collect::<Vec<_>>()).columns(&[
        ("n", &|(_, tuned)| shown(tuned.n)),
        ("without a table: µs", &|(rule, _)| digits(rule.median)),
        ("× CUB", &|(rule, _)| factor(rule.times_cub())),
        ("with the table: µs", &|(_, tuned)| digits(tuned.median)),
        ("× CUB", &|(_, tuned)| factor(tuned.times_cub())),
        ("gain", &|(rule, tuned)| fixed::<3>(rule.median / tuned.median)),
    ]);
    let text = "f32 sums by the reducer, compiled by rustc, launched one by one; medians. × CUB: how many times \
        as fast as CUB in the same run. Gain: how many times as fast the table's launch is as the rule's.";
    Block::new(text, table, vec![without, with])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_double_are_named_by_their_ends() {
        let sizes = [1 << 10, 1 << 11, 1 << 12, 1 << 23, 1 << 25, 1 << 26];
        assert_eq!(in_runs(&sizes), "2^10 to 2^12, 2^23, 2^25 to 2^26");
        assert_eq!(in_runs(&[]), "");
    }
}
