//! Kernels that move elements.

use super::figure::*;

fn style(dtype: &str, peer: &str) -> (&'static str, Shape) {
    match (dtype, peer) {
        ("f32", "cuda-c") => ("cuda-c", Shape::SQUARE),
        ("f32", "rust-nvvm") => ("nvvm", Shape::RING),
        (_, "rust-nvvm") => ("nvvm", Shape::FRAME),
        ("f32", _) => ("rust", Shape::CIRCLE),
        (_, "cuda-c") => ("cuda-c", Shape::DIAMOND),
        _ => ("rust-second", Shape::TRIANGLE),
    }
}

fn bytes(dtype: &str) -> &'static str {
    if dtype == "f64" { "8 bytes" } else { "4 bytes" }
}

fn strides_of(choice: &Choice<'_>) -> Vec<u64> {
    distinct(choice.points.iter().filter_map(|point| point.stride))
}

pub(super) fn strides(results: &Results) -> Option<Figure> {
    let all = results.choose(|p| p.stride.is_some() && !p.graph && p.gbps.is_some());
    // The largest of the sizes at which the most strides were measured.
    let n = all.sizes().into_iter().max_by_key(|n| (strides_of(&all.at(*n)).len(), *n))?;
    let choice = all.at(n);
    let strides = strides_of(&choice);
    let [first, .., last] = strides.as_slice() else { return None };
    let curve = |((dtype, peer), mine): ((&str, &str), Choice<'_>)| {
        let (class, shape) = style(dtype, peer);
        let place = |point: &&Point| {
            let stride = point.stride?;
            Some(Place::new(stride, point.gbps?, format!("stride {stride}\n{}", tip(point))))
        };
        let name = format!("{}, {}", bytes(dtype), peer_name(peer));
        Curve { name, class, shape, points: mine.points.iter().filter_map(place).collect() }
    };
    let groups = choice.by(|point| (point.dtype.as_str(), point.peer.as_str()));
    let mut curves: Vec<Curve> = groups.into_iter().map(curve).collect();
    curves.sort_by_key(|curve| curve.name.ends_with("Rust"));
    let rules = results.peak_rule(peak_name);
    let picture = Curves { rules, ..Curves::new("stride", "useful GB/s", Steps::Linear, curves) };
    let at =
        |stride| choice.find(|point| point.stride == Some(stride) && point.is_rust())?.gbps.map(digits);
    let (at_first, at_last) = (at(*first)?, at(*last)?);
    let lead = format!(
        "Memory is read in sectors of 32 bytes. With stride {first} all bytes of a sector are used and the \
         copy has {at_first} GB/s; with stride {last} it is {at_last}. Only bytes that are asked for count."
    );
    let title = format!("Strided copies of {} elements", count(n));
    let tables = vec![times("Times and bandwidths", &choice)];
    Some(Figure::new("strides", title, lead, tables, &choice.sets).with(&picture))
}

pub(super) fn transposes(results: &Results) -> Option<Figure> {
    let is_move = |p: &Point| p.variant.starts_with("transpose_") || p.variant == "copy_random";
    let choice = results.choose(|p| is_move(p) && !p.graph && p.gbps.is_some());
    let shaped = choice.only(|p| p.width.is_some());
    let shape = |p: &Point| (p.dtype.clone(), p.width.unwrap_or_default(), p.height.unwrap_or_default());
    let mut groups = shaped.by(shape);
    groups.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut rows = Vec::new();
    for ((dtype, width, height), group) in groups {
        let mut heading = Some(format!("{}, {} × {}", bytes(&dtype), count(width), count(height)));
        for (variant, mine) in group.by(|point| point.variant.as_str()) {
            rows.push(Row { heading: heading.take(), ..row(variant, &mine) });
        }
    }
    rows.first()?;
    let peers = ["rust-llvm", "rust-nvvm", "cuda-c"].into_iter();
    let peers: Vec<_> = peers.filter(|peer| shaped.find(|p| p.peer == *peer).is_some()).collect();
    let key = |peer: &&str| (style("f32", peer), peer_name(peer).to_owned());
    let legend = peers.iter().filter(|_| peers.len() > 1).map(key).collect();
    let rules = results.peak_rule(|_| "peak".to_owned());
    let picture = Bars { x: "GB/s, read and written", rules, legend, rows, ..Bars::default() };
    let best = shaped.by(|point| point.variant.as_str()).into_iter().map(|(id, mine)| {
        let best = mine.points.iter().filter_map(|p| p.gbps).fold(0.0, f64::max);
        format!("{id} {} GB/s", digits(best))
    });
    let best = join(best, ", ");
    let lead = format!(
        "Either reads or writes of a transpose are strided, unless a tile goes through shared memory; one \
         unused word per row of the tile then avoids bank conflicts. The best of each: {best}."
    );
    let tables = vec![times("Times and bandwidths, with the random copy", &choice)];
    Some(Figure::new("transposes", "Transposes", lead, tables, &choice.sets).with(&picture))
}

fn row(variant: &str, choice: &Choice<'_>) -> Row {
    let mark = |(line, point): (usize, &&Point)| Mark {
        series: format!("{variant} {}", peer_name(&point.peer)),
        class: style("f32", &point.peer).0,
        at: point.gbps.unwrap_or_default(),
        line,
        tip: tip(point),
        ..Mark::default()
    };
    let marks = choice.points.iter().enumerate().map(mark).collect();
    let value = join(choice.points.iter().filter_map(|point| point.gbps).map(digits), " | ");
    Row { name: variant.to_owned(), marks, value, ..Row::default() }
}
