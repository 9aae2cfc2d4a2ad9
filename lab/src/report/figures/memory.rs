//! Kernels that move elements.

use super::{Figure, distinct, in_order, peer_name, sums::peak_name, times, tip};
use crate::report::{
    curves::{Curve, Curves, Place},
    format::{count, digits},
    lines::Point,
    results::{Choice, Results},
    rows::{Mark, Row, Rows},
    scale::Scale,
    svg::Shape,
};

fn style(dtype: &str, peer: &str) -> (&'static str, Shape) {
    match (dtype, peer) {
        ("f32", "cuda-c") => ("cuda-c", Shape::Square),
        ("f32", "rust-nvvm") => ("nvvm", Shape::Ring),
        (_, "rust-nvvm") => ("nvvm", Shape::Frame),
        ("f32", _) => ("rust", Shape::Circle),
        (_, "cuda-c") => ("cuda-c", Shape::Diamond),
        _ => ("rust-second", Shape::Triangle),
    }
}

fn bytes(dtype: &str) -> &'static str {
    if dtype == "f64" { "8 bytes" } else { "4 bytes" }
}

pub(super) fn strides(results: &Results) -> Option<Figure> {
    let all = results.choose(|p| p.stride.is_some() && !p.graph && p.gbps.is_some());
    // The largest size at which every stride was measured.
    let strides_of =
        |n: u64| distinct(all.points.iter().filter(|p| p.n == n).filter_map(|point| point.stride)).len();
    let sizes = distinct(all.points.iter().map(|point| point.n));
    let n = sizes.into_iter().max_by_key(|n| (strides_of(*n), *n))?;
    let points: Vec<&Point> = all.points.iter().filter(|point| point.n == n).copied().collect();
    let strides = distinct(points.iter().filter_map(|point| point.stride));
    if strides.len() < 2 {
        return None;
    }
    let peak = results.peak();
    let gbps = points.iter().filter_map(|point| point.gbps);
    let picture = Curves {
        title: format!("Strided copies of {} elements", count(n)),
        x: ("stride".to_owned(), Scale::doubling(strides.iter().map(|stride| *stride as f64))),
        y: ("useful GB/s".to_owned(), Scale::from_zero(gbps.chain(peak))),
        rules: peak.map(|peak| (peak, peak_name(peak))).into_iter().collect(),
        curves: stride_curves(&points),
    };
    let lead = stride_lead(&points, *strides.first()?, *strides.last()?)?;
    let choice = Choice { points, sets: all.sets.clone() };
    let mut table = times("Times and bandwidths", &choice);
    let strides = choice.points.iter().map(|p| p.stride.unwrap_or(1).to_string());
    table.head.insert(3, "stride".to_owned());
    for (row, stride) in table.rows.iter_mut().zip(strides) {
        row.cells.insert(3, stride);
    }
    Some(Figure::new("strides", &picture, lead, table, &all.sets))
}

fn stride_curves(points: &[&Point]) -> Vec<Curve> {
    let keys = in_order(points.iter().map(|point| (point.dtype.as_str(), point.peer.as_str())));
    let curves = keys.into_iter().map(|(dtype, peer)| {
        let (class, shape) = style(dtype, peer);
        let mine = points.iter().filter(|point| point.dtype == dtype && point.peer == peer);
        let points = mine.map(|point| Place {
            x: point.stride.unwrap_or(1) as f64,
            y: point.gbps.unwrap_or_default(),
            half: None,
            tip: format!("stride {}\n{}", point.stride.unwrap_or(1), tip(point)),
        });
        let name = format!("{}, {}", bytes(dtype), peer_name(peer));
        Curve { name, class, shape, points: points.collect() }
    });
    let mut curves: Vec<Curve> = curves.collect();
    curves.sort_by_key(|curve| curve.name.ends_with("Rust"));
    curves
}

fn stride_lead(points: &[&Point], first: u64, last: u64) -> Option<String> {
    let at = |stride: u64| {
        let found = points.iter().find(|point| point.stride == Some(stride) && point.is_rust());
        found.and_then(|point| point.gbps).map(digits)
    };
    Some(format!(
        "Memory is read in sectors of 32 bytes. With stride {first} all bytes of a sector are used and the \
         copy has {} GB/s; with stride {last} it is {}. Only bytes that are asked for count.",
        at(first)?,
        at(last)?
    ))
}

pub(super) fn transposes(results: &Results) -> Option<Figure> {
    let choice = results.choose(|p| {
        (p.variant.starts_with("transpose_") || p.variant == "copy_random")
            && !p.graph
            && p.gbps.is_some()
    });
    let shaped: Vec<&Point> = choice.points.iter().filter(|p| p.width.is_some()).copied().collect();
    let rows = transpose_rows(&shaped);
    if rows.is_empty() {
        return None;
    }
    let peak = results.peak();
    let gbps = shaped.iter().filter_map(|point| point.gbps);
    let here = |peer: &&str| shaped.iter().any(|point| point.peer == *peer);
    let peers: Vec<&str> = ["rust-llvm", "rust-nvvm", "cuda-c"].into_iter().filter(here).collect();
    let picture = Rows {
        dense: false,
        title: "Transposes".to_owned(),
        x: ("GB/s, read and written".to_owned(), Scale::from_zero(gbps.chain(peak))),
        rules: peak.map(|peak| (peak, "peak".to_owned())).into_iter().collect(),
        legend: match peers.as_slice() {
            [_] => Vec::new(),
            several => several
                .iter()
                .map(|peer| (style("f32", peer).0, style("f32", peer).1, peer_name(peer).to_owned()))
                .collect(),
        },
        rows,
    };
    let lead = transpose_lead(&shaped);
    let table = times("Times and bandwidths, with the random copy", &choice);
    Some(Figure::new("transposes", &picture, lead, table, &choice.sets))
}

fn transpose_rows(points: &[&Point]) -> Vec<Row> {
    fn shape(point: &Point) -> (&str, u64, u64) {
        let extent = |extent: Option<u64>| extent.unwrap_or_default();
        (point.dtype.as_str(), extent(point.width), extent(point.height))
    }
    let mut rows = Vec::new();
    for group in distinct(points.iter().map(|point| shape(point))) {
        let mine: Vec<&Point> = points.iter().filter(|p| shape(p) == group).copied().collect();
        let mut heading = Some(format!("{}, {} × {}", bytes(group.0), count(group.1), count(group.2)));
        for variant in in_order(mine.iter().map(|point| point.variant.as_str())) {
            let of: Vec<&Point> = mine.iter().filter(|p| p.variant == variant).copied().collect();
            rows.push(Row { heading: heading.take(), ..row(variant, &of) });
        }
    }
    rows
}

fn transpose_lead(points: &[&Point]) -> String {
    let best =
        |id: &str| points.iter().filter(|p| p.variant == id).filter_map(|p| p.gbps).reduce(f64::max);
    let ids = in_order(points.iter().map(|point| point.variant.as_str()));
    let all: Vec<String> =
        ids.into_iter().filter_map(|id| Some(format!("{id} {} GB/s", digits(best(id)?)))).collect();
    format!(
        "Either reads or writes of a transpose are strided, unless a tile goes through shared memory; one \
         unused word per row of the tile then avoids bank conflicts. The best of each: {}.",
        all.join(", ")
    )
}

fn row(variant: &str, points: &[&Point]) -> Row {
    let mark = |(line, point): (usize, &&Point)| Mark {
        line,
        series: format!("{variant} {}", peer_name(&point.peer)),
        class: style("f32", &point.peer).0,
        shape: None,
        at: point.gbps.unwrap_or_default(),
        whisker: None,
        tip: tip(point),
    };
    let values: Vec<String> = points.iter().filter_map(|point| point.gbps).map(digits).collect();
    Row {
        name: variant.to_owned(),
        marks: points.iter().enumerate().map(mark).collect(),
        value: values.join(" | "),
        ..Row::default()
    }
}
