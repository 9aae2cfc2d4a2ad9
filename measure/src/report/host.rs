//! Figures that involve the host: transfers over the bus, and sums on the CPU.

use super::{figure::*, record::Timing};

/// Name, colour and shape of a transfer's part, and its time.
type Part = (&'static str, &'static str, Shape, fn(&Point) -> Option<f64>);

const PARTS: [Part; 3] = [
    ("copies alone", "size-2", Shape::SQUARE, |point| median(point.copy_us)),
    ("reductions alone", "size-1", Shape::DIAMOND, |point| median(point.reduce_us)),
    ("the whole", "rust", Shape::CIRCLE, |point| Some(point.median)),
];

fn median(timing: Option<Timing>) -> Option<f64> {
    timing.map(|timing| timing.median)
}

pub(super) fn transfers(results: &Results) -> Vec<Figure> {
    let all = results.choose_runs(|point| point.copy_us.is_some());
    all.sizes().into_iter().filter_map(|n| transfer(&all.at(n))).collect()
}

fn transfer(choice: &Choice<'_>) -> Option<Figure> {
    let (slowest, fastest) = (choice.slowest()?, choice.fastest()?);
    let legend = PARTS.iter().map(|(name, class, shape, _)| ((*class, *shape), (*name).to_owned()));
    let rows = choice.points.iter().map(|point| transfer_row(point));
    let picture = Bars { x: "µs", legend: legend.collect(), rows: rows.collect(), ..Bars::default() };
    let slow_copies: String = choice.points.iter().filter_map(|point| slow_copies(point)).collect();
    let (id, factor, than) =
        (&fastest.variant, digits(slowest.median / fastest.median), &slowest.variant);
    let lead = format!(
        "The elements start on the host, and the bus takes most of the time. {id} is {factor} × as fast as \
         {than}.{slow_copies}"
    );
    let table = Table::of("Times", &choice.points).columns(&[
        ("<variant", &|p| p.variant.clone()),
        ("<type", &|p| p.dtype.clone()),
        ("n", &|p| count(p.n)),
        ("chunks", &|p| or_dash(p.chunks, |chunks| chunks.to_string())),
        ("copies alone µs", &|p| or_dash(median(p.copy_us), digits)),
        ("reductions alone µs", &|p| or_dash(median(p.reduce_us), digits)),
        ("whole µs", &|p| digits(p.median)),
        ("GB/s", &|p| or_dash(p.gbps, digits)),
    ]);
    let (n, title) = (fastest.n, format!("Transfer and sum of {} elements", count(fastest.n)));
    Some(Figure::new(format!("transfers-{n}"), title, lead, vec![table], &choice.sets).with(&picture))
}

/// Explains how copies alone can take longer than copies with reductions; `None` if they did not.
fn slow_copies(point: &Point) -> Option<String> {
    let copies = point.copy_us.filter(|copies| copies.median > point.median)?;
    let (id, from, to) = (&point.variant, digits(copies.min), digits(copies.max));
    Some(format!(
        " The copies alone of {id} were not timed in the same moments as the whole, and vary from {from} to \
         {to} µs: the CPU copies pageable memory piece by piece into page-locked memory of the driver's, \
         and is as fast as its caches and its other work let it be."
    ))
}

fn transfer_row(point: &Point) -> Row {
    let (id, n) = (&point.variant, count(point.n));
    let marks = PARTS.iter().enumerate().filter_map(|(line, (name, class, _, of))| {
        let (at, series) = (of(point)?, format!("{id} {name}"));
        let tip = format!("{id}, {name}\nn = {n}\n{} µs", digits(at));
        Some(Mark { series, class, at, line, tip, ..Mark::default() })
    });
    Row {
        name: id.clone(),
        marks: marks.collect(),
        value: format!("{} µs", digits(point.median)),
        note: or_dash(point.gbps, |gbps| format!("{} GB/s", digits(gbps))),
        ..Row::default()
    }
}

pub(super) fn cpu(results: &Results) -> Option<Figure> {
    let choice = results.choose_runs(|p| {
        p.is_f32_sum() && (p.peer == "cpu" || p.copy_us.is_some() || p.is_reduction() && p.is_rust())
    });
    let (cpu, kernels) = (choice.only(|p| p.peer == "cpu"), choice.only(Point::is_reduction));
    let sizes = cpu.sizes();
    let (&largest, true) = (sizes.last()?, sizes.len() > 1) else { return None };
    let best = Choice {
        points: sizes.iter().filter_map(|n| kernels.at(*n).fastest()).collect(),
        sets: Vec::new(),
    };
    let moved = choice.only(|p| p.variant == "transfer_overlapped" && sizes.contains(&p.n));
    let curve = |name: &str, class, shape, choice: &Choice<'_>| {
        let points = choice.points.iter().map(|p| Place::new(p.n, p.median, tip(p))).collect();
        Curve { name: name.to_owned(), class, shape, points }
    };
    let styles = [("empty", Shape::SQUARE), ("size-2", Shape::TRIANGLE)].into_iter().cycle();
    let by_id = cpu.by(|point| point.variant.as_str()).into_iter().zip(styles);
    let own = by_id.map(|((id, mine), (class, shape))| {
        let threads = mine.points.iter().filter_map(|p| p.threads).max().filter(|threads| *threads > 1);
        let threads = or_empty(threads, |threads| format!(", {threads} threads"));
        curve(&format!("{id}{threads}"), class, shape, &mine)
    });
    let mut curves: Vec<Curve> = own.collect();
    curves.push(curve("best kernel", "rust", Shape::CIRCLE, &best));
    curves.push(curve("transfer_overlapped", "rust-second", Shape::DIAMOND, &moved));
    let picture = Curves::new("elements (f32 sum)", "µs", Steps::Tenfold, curves);
    let own = cpu.at(largest).fastest()?;
    let (n, id, us) = (count(largest), &own.variant, digits(own.median));
    let lead = match kernels.at(largest).fastest() {
        None => format!("At {n} elements {id} is the fastest."),
        Some(gpu) => {
            let (gpu, by_gpu, factor) =
                (&gpu.variant, digits(gpu.median), digits(own.median / gpu.median));
            format!(
                "At {n} elements {id} takes {us} µs and {gpu} on the GPU {by_gpu} µs, {factor} × as fast. \
                 Where the elements start on the host, the bus decides."
            )
        }
    };
    let shown = Choice { points: [cpu.points, moved.points, best.points].concat(), sets: choice.sets };
    let tables = vec![times("Times", &shown)];
    Some(Figure::new("cpu", "The CPU beside the GPU", lead, tables, &shown.sets).with(&picture))
}
