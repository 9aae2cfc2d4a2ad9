//! Figures that involve the host: transfers over the bus, and sums on the CPU.

use super::{Figure, Table, distinct, in_order, sums::is_reduction, times, tip};
use crate::report::{
    curves::{Curve, Curves, Place},
    format::{count, digits, or_dash},
    lines::Point,
    results::{Choice, Results},
    rows::{Mark, Row, Rows},
    scale::Scale,
    svg::Shape,
};

type Part = (&'static str, &'static str, Shape, fn(&Point) -> Option<f64>);

const PARTS: [Part; 3] = [
    ("copies alone", "size-2", Shape::Square, |point| point.copy_us),
    ("reductions alone", "size-1", Shape::Diamond, |point| point.reduce_us),
    ("the whole", "rust", Shape::Circle, |point| Some(point.median)),
];

pub(super) fn transfers(results: &Results) -> Vec<Figure> {
    let all = results.choose_runs(|point| point.copy_us.is_some());
    let sizes = distinct(all.points.iter().map(|point| point.n));
    sizes.into_iter().filter_map(|n| transfer(&all, n)).collect()
}

fn transfer(all: &Choice<'_>, n: u64) -> Option<Figure> {
    let points: Vec<&Point> = all.points.iter().filter(|point| point.n == n).copied().collect();
    let slowest = points.iter().max_by(|a, b| a.median.total_cmp(&b.median))?;
    let fastest = points.iter().min_by(|a, b| a.median.total_cmp(&b.median))?;
    let spans = points.iter().flat_map(|point| PARTS.iter().filter_map(|part| part.3(point)));
    let picture = Rows {
        dense: false,
        title: format!("Transfer and sum of {} elements", count(n)),
        x: ("µs".to_owned(), Scale::from_zero(spans)),
        rules: Vec::new(),
        legend: PARTS.iter().map(|part| (part.1, part.2, part.0.to_owned())).collect(),
        rows: points.iter().map(|point| transfer_row(point)).collect(),
    };
    let lead = format!(
        "The elements start on the host, and the bus takes most of the time. {} is {} × as fast as {}.{}",
        fastest.variant,
        digits(slowest.median / fastest.median),
        slowest.variant,
        points.iter().map(|point| slow_copies(point)).collect::<String>()
    );
    let head =
        ["variant", "type", "n", "chunks", "copies alone µs", "reductions alone µs", "whole µs", "GB/s"];
    let mut table = Table::new("Times", &head, 2);
    for point in &points {
        table.push([
            point.variant.clone(),
            point.dtype.clone(),
            count(point.n),
            or_dash(point.chunks, |chunks| chunks.to_string()),
            or_dash(point.copy_us, digits),
            or_dash(point.reduce_us, digits),
            digits(point.median),
            or_dash(point.gbps, digits),
        ]);
    }
    let id = format!("transfers-{n}");
    Some(Figure::new(&id, &picture, lead, table, &all.sets))
}

/// Explains why copies alone may take longer than copies and reductions, where they do.
fn slow_copies(point: &Point) -> String {
    let Some((from, to)) = point.copy_spread else { return String::new() };
    match point.copy_us.is_some_and(|copies| copies > point.median) {
        false => String::new(),
        true => format!(
            " The copies alone of {} were not timed in the same moments as the whole, and vary from {} to \
             {} µs: the CPU copies pageable memory piece by piece into page-locked memory of the driver's, \
             and is as fast as its caches and its other work let it be.",
            point.variant,
            digits(from),
            digits(to)
        ),
    }
}

fn transfer_row(point: &Point) -> Row {
    let marks = PARTS.iter().enumerate().filter_map(|(line, (name, class, _, of))| {
        let at = of(point)?;
        Some(Mark {
            series: format!("{} {name}", point.variant),
            class,
            shape: None,
            at,
            line,
            whisker: None,
            tip: format!("{}, {name}\nn = {}\n{} µs", point.variant, count(point.n), digits(at)),
        })
    });
    Row {
        name: point.variant.clone(),
        marks: marks.collect(),
        value: format!("{} µs", digits(point.median)),
        note: or_dash(point.gbps, |gbps| format!("{} GB/s", digits(gbps))),
        ..Row::default()
    }
}

pub(super) fn cpu(results: &Results) -> Option<Figure> {
    let choice = results.choose_runs(|p| {
        p.op.as_deref() == Some("sum")
            && p.dtype == "f32"
            && (p.peer == "cpu" || p.copy_us.is_some() || (is_reduction(p) && p.is_rust()))
    });
    let cpu: Vec<&Point> = choice.points.iter().filter(|p| p.peer == "cpu").copied().collect();
    let sizes = distinct(cpu.iter().map(|point| point.n));
    let (&largest, true) = (sizes.last()?, sizes.len() > 1) else { return None };
    let kernels: Vec<&Point> = choice.points.iter().filter(|p| is_reduction(p)).copied().collect();
    let best: Vec<&Point> = sizes.iter().filter_map(|n| fastest(&kernels, *n)).collect();
    let moved = |p: &&&Point| p.variant == "transfer_overlapped" && sizes.contains(&p.n);
    let moved: Vec<&Point> = choice.points.iter().filter(moved).copied().collect();
    let mut curves = cpu_curves(&cpu);
    curves.push(curve("best kernel".to_owned(), "rust", Shape::Circle, &best));
    if !moved.is_empty() {
        curves.push(curve("transfer_overlapped".to_owned(), "rust-second", Shape::Diamond, &moved));
    }
    let places = || curves.iter().flat_map(|curve| &curve.points);
    let picture = Curves {
        title: "The CPU beside the GPU".to_owned(),
        x: ("elements (f32 sum)".to_owned(), Scale::doubling(sizes.iter().map(|n| *n as f64))),
        y: ("µs".to_owned(), Scale::tenfold(places().map(|place| place.y))),
        rules: Vec::new(),
        curves,
    };
    let lead = cpu_lead(fastest(&cpu, largest)?, fastest(&kernels, largest));
    let points = cpu.into_iter().chain(moved).chain(best).collect();
    let shown = Choice { points, sets: choice.sets };
    Some(Figure::new("cpu", &picture, lead, times("Times", &shown), &shown.sets))
}

fn fastest<'a>(points: &[&'a Point], n: u64) -> Option<&'a Point> {
    points.iter().filter(|point| point.n == n).min_by(|a, b| a.median.total_cmp(&b.median)).copied()
}

fn cpu_curves(points: &[&Point]) -> Vec<Curve> {
    let styles = [("empty", Shape::Square), ("size-2", Shape::Triangle)];
    let ids = in_order(points.iter().map(|point| point.variant.as_str()));
    let curves = ids.into_iter().zip(styles.into_iter().cycle()).map(|(id, (class, shape))| {
        let mine: Vec<&Point> = points.iter().filter(|p| p.variant == id).copied().collect();
        let threads = mine.iter().filter_map(|p| p.threads).max().filter(|threads| *threads > 1);
        let name = threads.map_or(id.to_owned(), |threads| format!("{id}, {threads} threads"));
        curve(name, class, shape, &mine)
    });
    curves.collect()
}

fn cpu_lead(cpu: &Point, gpu: Option<&Point>) -> String {
    let n = count(cpu.n);
    let Some(gpu) = gpu else { return format!("At {n} elements {} is the fastest.", cpu.variant) };
    format!(
        "At {n} elements {} takes {} µs and {} on the GPU {} µs, {} × as fast. Where the elements start on \
         the host, the bus decides.",
        cpu.variant,
        digits(cpu.median),
        gpu.variant,
        digits(gpu.median),
        digits(cpu.median / gpu.median)
    )
}

fn curve(name: String, class: &'static str, shape: Shape, points: &[&Point]) -> Curve {
    let place = |p: &&Point| Place { x: p.n as f64, y: p.median, half: None, tip: tip(p) };
    Curve { name, class, shape, points: points.iter().map(place).collect() }
}
