//! Ratios of the times of Rust kernels and their CUDA C twins.

use super::{
    Figure, Table, distinct,
    sums::{is_reduction, is_sum},
};
use warpfold_bench::Ratio;

use crate::report::{
    format::{count, digits, or_dash},
    lines::Point,
    results::{Choice, Results, Set},
    rows::{Mark, Row, Rows},
    scale::Scale,
    svg::Shape,
};

/// Limit for a Rust kernel's ratio to its twin's time.
pub(in crate::report) const LIMIT: f64 = 1.02;

/// Sizes at which kernels are judged; others are in the table.
pub(in crate::report) const JUDGED: [u64; 2] = [1 << 26, 1 << 28];

/// Sizes for other types and operations: not all moves were measured at the larger ones.
const SHOWN: [u64; 3] = [1 << 22, 1 << 26, 1 << 28];

/// Widest range of the axis; values outside are written at its ends.
const WIDEST: (f64, f64) = (0.90, 1.10);

/// Styles by size, from light to dark; rust-cuda's mark is the same shape, hollow.
const STYLES: [(&str, Shape, Shape); 3] = [
    ("size-1", Shape::Diamond, Shape::Lozenge),
    ("size-2", Shape::Square, Shape::Frame),
    ("size-3", Shape::Circle, Shape::Ring),
];

pub(super) fn sums(results: &Results) -> Option<Figure> {
    let choice = results
        .choose(|p| is_sum(p) && is_reduction(p) && !p.graph && p.is_rust() && p.over_cuda_c.is_some());
    let reducer =
        results.choose_reducer(|p| is_sum(p) && !p.graph && p.is_rust() && p.over_cub.is_some());
    let beside = |point: &Point| point.variant.clone();
    figure("ratio", "Rust over CUDA C, f32 sums", false, [&choice, &reducer], beside)
}

/// Returns the ratio that a kernel is judged by: to its twin, or to CUB for the library, which has none.
fn over(point: &Point) -> Option<Ratio> {
    if point.is_reducer() { point.over_cub } else { point.over_cuda_c }
}

fn against(point: &Point) -> &'static str {
    if point.is_reducer() { "CUB" } else { "CUDA C" }
}

pub(super) fn others(results: &Results) -> Option<Figure> {
    let wanted = |p: &Point| !is_sum(p) && !p.graph && p.is_rust() && p.over_cuda_c.is_some();
    // The library has no twin, so ratios to one in a file are ignored.
    let choice = results.choose(|p| !p.is_reducer() && wanted(p));
    let name = |point: &Point| {
        let stride = point.stride.map(|stride| format!("stride {stride}")).unwrap_or_default();
        let op = point.op.clone().unwrap_or(stride);
        format!("{} {op} {}", point.variant, point.dtype).replace("  ", " ")
    };
    let none = Choice::default();
    figure("ratio-others", "Rust over CUDA C, other types and operations", true, [&choice, &none], name)
}

fn figure(
    id: &str,
    title: &str,
    many: bool,
    [choice, reducer]: [&Choice<'_>; 2],
    name: impl Fn(&Point) -> String,
) -> Option<Figure> {
    let all = distinct(choice.points.iter().map(|point| point.n));
    let wanted = if many { &SHOWN[..] } else { &JUDGED[..] };
    let judged: Vec<u64> = all.iter().copied().filter(|n| wanted.contains(n)).collect();
    // If none of those was measured, the largest sizes are shown.
    let sizes = if judged.is_empty() { all[all.len().saturating_sub(3)..].to_vec() } else { judged };
    let shown: Vec<&Point> =
        choice.points.iter().filter(|point| sizes.contains(&point.n)).copied().collect();
    let mut rows = rows(&shown, &sizes, many, &name);
    if rows.is_empty() {
        return None;
    }
    let library: Vec<&Point> =
        reducer.points.iter().filter(|point| sizes.contains(&point.n)).copied().collect();
    let mut of_library = self::rows(&library, &sizes, many, &name);
    if let Some(first) = of_library.first_mut() {
        first.heading = Some("The library, over CUB".to_owned());
    }
    rows.extend(of_library);
    let drawn: Vec<&Point> = shown.iter().chain(&library).copied().collect();
    let by = |nvvm: bool| shown.iter().any(|point| point.is_nvvm() == nvvm);
    let legend = sizes.iter().flat_map(|n| {
        let sides = [false, true].into_iter().filter(|nvvm| by(*nvvm));
        sides.map(|nvvm| {
            let (class, shape) = style(&sizes, *n, nvvm);
            (class, shape, format!("{}, n = {}", generator(nvvm), count(*n)))
        })
    });
    let picture = Rows {
        title: title.to_owned(),
        x: ("time of Rust over time of CUDA C (less is better)".to_owned(), scale(&drawn, many)),
        dense: many,
        rules: vec![(1.0, "1.00".to_owned()), (LIMIT, format!("{LIMIT:.2}"))],
        legend: legend.collect(),
        rows,
    };
    let mut lead = lead(&shown, many, &name)?;
    if !library.is_empty() {
        lead += " The reducer has no twin: its time is held against CUB's, which took turns with it.";
    }
    let sets: Vec<&Set> = choice.sets.iter().chain(&reducer.sets).copied().collect();
    let all = choice.points.iter().chain(&reducer.points).copied();
    Some(Figure::new(id, &picture, lead, table(all, &name), &sets))
}

fn generator(nvvm: bool) -> &'static str {
    if nvvm { "rust-cuda" } else { "rustc" }
}

fn style(sizes: &[u64], n: u64, nvvm: bool) -> (&'static str, Shape) {
    let at = sizes.iter().position(|size| *size == n).unwrap_or(0);
    let (class, filled, hollow) = STYLES[at % STYLES.len()];
    if nvvm { ("nvvm", hollow) } else { (class, filled) }
}

/// Returns a row per kernel, with both code generators' marks; for many kernels without whiskers and on
/// one line per code generator.
fn rows(points: &[&Point], sizes: &[u64], many: bool, name: impl Fn(&Point) -> String) -> Vec<Row> {
    let names = super::in_order(points.iter().map(|point| name(point)));
    let row = |row: String| {
        let mut mine: Vec<(&Point, Ratio)> = points
            .iter()
            .filter(|point| name(point) == row)
            .filter_map(|point| Some((*point, over(point)?)))
            .collect();
        mine.sort_by_key(|(point, _)| (point.n, point.is_nvvm()));
        let marks = mine.iter().enumerate().map(|(at, (point, ratio))| {
            let mark = mark(point, *ratio, sizes, &row);
            match many {
                true => Mark { line: point.is_nvvm().into(), whisker: None, ..mark },
                false => Mark { line: at, ..mark },
            }
        });
        let marks = marks.collect();
        Row { name: row, marks, ..Row::default() }
    };
    names.into_iter().map(row).collect()
}

fn named(point: &Point, name: impl Fn(&Point) -> String) -> String {
    if point.is_nvvm() { format!("{}, {}", name(point), generator(true)) } else { name(point) }
}

fn scale(points: &[&Point], medians: bool) -> Scale {
    let ends = |ratio: Ratio| if medians { [ratio.median; 2] } else { [ratio.q1, ratio.q3] };
    let ends = points.iter().filter_map(|point| over(point)).flat_map(ends);
    let (least, most) = ends.fold((0.97, 1.04), |(least, most): (f64, f64), end| {
        (least.min(end - 0.005), most.max(end + 0.005))
    });
    Scale::Linear { from: least.max(WIDEST.0), to: most.min(WIDEST.1) }
}

fn mark(point: &Point, ratio: Ratio, sizes: &[u64], row: &str) -> Mark {
    let (class, shape) = style(sizes, point.n, point.is_nvvm());
    let series = named(point, |_| row.to_owned());
    Mark {
        series,
        line: 0,
        class,
        shape: Some(shape),
        at: ratio.median,
        whisker: Some((ratio.q1, ratio.q3)),
        tip: format!(
            "{row} by {}, n = {}\n{:.3} × the time of {}\nmiddle half {:.3} to {:.3}\n{} µs",
            generator(point.is_nvvm()),
            count(point.n),
            ratio.median,
            against(point),
            ratio.q1,
            ratio.q3,
            digits(point.median)
        ),
    }
}

fn lead(points: &[&Point], many: bool, name: impl Fn(&Point) -> String) -> Option<String> {
    let ratio = |point: &Point| point.over_cuda_c.map_or(0.0, |ratio| ratio.median);
    let within = |nvvm: bool| {
        let mine: Vec<&&Point> = points.iter().filter(|point| point.is_nvvm() == nvvm).collect();
        let within = mine.iter().filter(|point| ratio(point) <= LIMIT).count();
        let of = mine.len();
        (of > 0).then(|| format!("{within} of {of} medians by {}", generator(nvvm)))
    };
    let within: Vec<String> = [false, true].into_iter().filter_map(within).collect();
    let worst = points.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    Some(format!(
        "{} are at most {LIMIT:.2}; the largest is {:.4}, {} at {} elements. The \
         ratio is taken round by round, each time of the Rust kernel over that of its twin; {}.",
        within.join(" and "),
        ratio(worst),
        named(worst, name),
        count(worst.n),
        if many {
            "the table has the middle half of the rounds"
        } else {
            "lines span the middle half of the rounds"
        }
    ))
}

fn table<'a>(points: impl Iterator<Item = &'a Point>, name: impl Fn(&Point) -> String) -> Table {
    let mut table = Table::new(
        "Ratios at all sizes",
        &[
            "kernel",
            "Rust by",
            "over",
            "n",
            "Rust µs",
            "ratio",
            "first quartile",
            "third quartile",
            "nvvm / llvm",
        ],
        3,
    );
    for point in points {
        let Some(ratio) = over(point) else { continue };
        let three = |value: f64| format!("{value:.3}");
        let row = table.push([
            name(point),
            generator(point.is_nvvm()).to_owned(),
            against(point).to_owned(),
            count(point.n),
            digits(point.median),
            three(ratio.median),
            three(ratio.q1),
            three(ratio.q3),
            or_dash(point.over_llvm, |ratio| three(ratio.median)),
        ]);
        if ratio.median > LIMIT {
            row.marked.push(5);
        }
    }
    table.drop_empty();
    table
}
