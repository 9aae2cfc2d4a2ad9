//! Sums on several GPUs of one host, each with as many elements as one GPU alone.

use super::{Figure, Table, distinct};
use crate::report::{
    curves::{Curve, Curves, Place},
    format::{count, digits, or_dash},
    groups::{Case, Groups},
    results::Results,
    scale::Scale,
    svg::Shape,
};

pub(in crate::report) const SCALING: &str = "scaling";

/// Transports by name in the file and in the figure, the best last.
const WAYS: [(&str, &str, &str, Shape); 4] = [
    ("PyTorch", "PyTorch and NCCL", "torch", Shape::Triangle),
    ("Nccl", "by NCCL", "cub", Shape::Diamond),
    ("Copies", "by copies", "nvvm", Shape::Ring),
    ("Peers", "by stores", "rust", Shape::Circle),
];

/// Times in microseconds for a number of elements per GPU.
pub(in crate::report) struct Row {
    pub(in crate::report) n: u64,
    pub(in crate::report) alone: f64,
    pub(in crate::report) each: [Option<f64>; WAYS.len()],
    /// One device and all devices by stores, one of many runs in a CUDA graph.
    pub(in crate::report) recorded: [Option<f64>; 2],
}

pub(in crate::report) fn rows(groups: &Groups) -> Vec<Row> {
    let devices = groups.devices();
    let row = |n| {
        let time = |who: &str| groups.time(who, devices, n, |case: &Case| Some(case.us));
        let recorded = |devices| groups.time("Peers", devices, n, |case| case.recorded_us);
        Some(Row {
            n,
            alone: groups.time("Peers", devices, n, |case| case.alone_us)?,
            each: WAYS.map(|(who, ..)| time(who)),
            recorded: [recorded(1), recorded(devices)],
        })
    };
    distinct(groups.cases.iter().map(|case| case.n)).into_iter().filter_map(row).collect()
}

/// Plots weak scaling: each GPU's share of a single GPU's speed.
pub(super) fn weak(results: &Results) -> Option<Figure> {
    let groups = results.groups.as_ref()?;
    let (rows, devices) = (rows(groups), groups.devices());
    if rows.len() < 2 {
        return None;
    }
    let share = |name: &str, alone: f64, together: f64, n: u64| {
        let y = alone / together;
        let tip = format!(
            "{name}\nn = {} on each GPU\n{} µs on {devices}, {} on one: {:.1} %",
            count(n),
            digits(together),
            digits(alone),
            100.0 * y
        );
        Place { x: n as f64, y, half: None, tip }
    };
    let way = |(at, (_, name, class, shape)): (usize, &(&str, &str, &'static str, Shape))| {
        let points = rows.iter().filter_map(|row| Some(share(name, row.alone, row.each[at]?, row.n)));
        Curve { name: (*name).to_owned(), class, shape: *shape, points: points.collect() }
    };
    let mut curves: Vec<Curve> = WAYS.iter().enumerate().map(way).collect();
    let in_graph = rows.iter().filter_map(|row| {
        let [alone, together] = row.recorded;
        Some(share("in a CUDA graph", alone?, together?, row.n))
    });
    curves.push(Curve {
        name: "in a CUDA graph".to_owned(),
        class: "empty",
        shape: Shape::Square,
        points: in_graph.collect(),
    });
    curves.retain(|curve| !curve.points.is_empty());
    let picture = Curves {
        title: format!("Sums on {devices} GPUs beside one"),
        x: (
            "elements of each GPU (f32 sum)".to_owned(),
            Scale::doubling(rows.iter().map(|row| row.n as f64)),
        ),
        y: ("one GPU's time over theirs".to_owned(), Scale::from_zero([1.0])),
        rules: vec![(1.0, "no time lost".to_owned())],
        curves,
    };
    let largest = rows.last()?;
    let of = |at: usize| Some(format!("{:.1} %", 100.0 * largest.alone / largest.each[at]?));
    let lead = format!(
        "Every GPU has as many elements as one has alone; a call waits for the sum of all. Of {} elements \
         each, {devices} GPUs have {} of the speed of as many alone by stores to each other's memory, and \
         PyTorch with an all-reduce by NCCL {}.",
        count(largest.n),
        of(WAYS.len() - 1)?,
        of(0).unwrap_or_else(|| "an unknown part".to_owned())
    );
    Some(Figure::new(SCALING, &picture, lead, table(&rows), &[&groups.set]))
}

fn table(rows: &[Row]) -> Table {
    let ways = WAYS.map(|(_, name, ..)| format!("{name} µs"));
    let mut head = vec!["elements a GPU", "one alone µs"];
    head.extend(ways.iter().map(String::as_str));
    head.extend(["a graph: one µs", "a graph: all µs"]);
    let mut table = Table::new("Times", &head, 1);
    for row in rows {
        let mut cells = vec![count(row.n), digits(row.alone)];
        cells.extend(row.each.into_iter().chain(row.recorded).map(|time| or_dash(time, digits)));
        table.push(cells);
    }
    table
}
