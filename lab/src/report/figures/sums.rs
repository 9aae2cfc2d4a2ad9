//! Sums: bandwidth and time against the number of elements, and the ladder.

use warpfold_suite::catalogue;

use super::{Figure, distinct, in_order, peer_name, times, tip};
use crate::compare::timed::reducer::REDUCER;
use crate::report::{
    curves::{Curve, Curves, Place},
    format::{count, digits},
    lines::Point,
    results::{Choice, Results, Set},
    rows::{Mark, Row, Rows},
    scale::Scale,
    svg::Shape,
};

/// Elements up to which launching takes longer than reading.
const SMALL: u64 = 1 << 20;

/// Speed-up below which a step of the ladder is not worth noting.
const GAIN: f64 = 1.05;

/// Returns whether the point is a sum of f32, or of i32 for a variant without f32.
pub(in crate::report) fn is_sum(point: &Point) -> bool {
    let has_f32 = |id| {
        let found = catalogue::VARIANTS.iter().find(|variant| variant.id == id);
        found.is_none_or(|variant| variant.dtypes.contains(&warpfold_suite::Dtype::F32))
    };
    let dtype = if has_f32(point.variant.as_str()) { "f32" } else { "i32" };
    point.op.as_deref() == Some("sum") && point.dtype == dtype
}

pub(in crate::report) fn is_reduction(point: &Point) -> bool {
    catalogue::reductions().any(|variant| variant.id == point.variant)
}

/// Returns whether the point is a reduction of elements that are on the GPU.
fn on_gpu(point: &Point) -> bool {
    is_reduction(point) || point.is_reducer() || matches!(point.peer.as_str(), "cub" | "torch" | "empty")
}

/// Returns the fastest Rust variant over these points, by the product of its times.
fn fastest<'a>(points: &[&'a Point]) -> Option<&'a str> {
    let sizes = distinct(points.iter().map(|point| point.n));
    let of =
        |id: &str| points.iter().filter(|p| p.variant == id && p.is_rust()).copied().collect::<Vec<_>>();
    let ids = in_order(points.iter().filter(|p| p.is_rust()).map(|p| p.variant.as_str()));
    // Products over fewer sizes are not comparable.
    let most = ids.iter().map(|id| of(id).len()).max().unwrap_or(0).min(sizes.len());
    let score = |id: &str| of(id).iter().map(|point| point.median.ln()).sum::<f64>();
    ids.into_iter().filter(|id| of(id).len() >= most).min_by(|a, b| score(a).total_cmp(&score(b)))
}

fn curves(points: &[&Point], best: &[&str], y: impl Fn(&Point) -> Option<f64>) -> Vec<Curve> {
    let keys = in_order(points.iter().map(|p| (p.variant.as_str(), p.peer.as_str())));
    let mut curves: Vec<Curve> = keys
        .into_iter()
        .filter_map(|(variant, peer)| {
            let mine = points.iter().filter(|p| p.variant == variant && p.peer == peer);
            let place = |p: &&Point| Some(Place { x: p.n as f64, y: y(p)?, half: None, tip: tip(p) });
            let points: Vec<Place> = mine.filter_map(place).collect();
            let (class, shape, name) = style(variant, peer, best);
            (!points.is_empty()).then_some(Curve { name, class, shape, points })
        })
        .collect();
    let rank = |curve: &Curve| {
        ["twins", "ghost", "empty", "torch", "cuda-c", "cub", "nvvm", "rust-second"]
            .iter()
            .position(|class| *class == curve.class)
            .unwrap_or(9)
    };
    curves.sort_by_key(rank);
    curves
}

fn style(variant: &str, peer: &str, best: &[&str]) -> (&'static str, Shape, String) {
    let whose = |name: &str| format!("{variant} {name}");
    match (peer, best.iter().position(|id| *id == variant)) {
        ("rust-llvm", _) if variant == REDUCER => ("reducer", Shape::Circle, variant.to_owned()),
        ("cub", _) => ("cub", Shape::Diamond, peer_name(peer).to_owned()),
        ("torch", _) => ("torch", Shape::Triangle, peer_name(peer).to_owned()),
        ("empty", _) => ("empty", Shape::Ring, peer_name(peer).to_owned()),
        ("cuda-c", Some(0)) => ("cuda-c", Shape::Square, "its CUDA C twin".to_owned()),
        ("cuda-c", _) => ("twins", Shape::Dot, whose("CUDA C")),
        ("rust-nvvm", Some(0)) => ("nvvm", Shape::Ring, "it by rust-cuda".to_owned()),
        ("rust-nvvm", _) => ("twins", Shape::Dot, whose("rust-cuda")),
        (_, Some(0)) => ("rust", Shape::Circle, variant.to_owned()),
        (_, Some(1)) => ("rust-second", Shape::Circle, variant.to_owned()),
        _ => ("ghost", Shape::Dot, variant.to_owned()),
    }
}

pub(super) fn bandwidth(results: &Results) -> Option<Figure> {
    let choice = results.choose(|p| is_sum(p) && on_gpu(p) && !p.graph && p.gbps.is_some());
    let sizes = distinct(choice.points.iter().map(|point| point.n));
    let (&largest, true) = (sizes.last()?, sizes.len() > 1) else { return None };
    let at_most: Vec<&Point> = choice.points.iter().filter(|p| p.n == largest).copied().collect();
    let small: Vec<&Point> = choice.points.iter().filter(|p| p.n <= SMALL).copied().collect();
    let mut best: Vec<&str> = fastest(&at_most).into_iter().chain(fastest(&small)).collect();
    best.dedup();
    let (choice, another_run) = with_reducer(results, choice);
    let sizes = distinct(choice.points.iter().map(|point| point.n));
    let peak = results.peak();
    let gbps = choice.points.iter().filter_map(|point| point.gbps);
    let picture = Curves {
        title: "Bandwidth against the number of elements".to_owned(),
        x: ("elements (f32 sum)".to_owned(), Scale::doubling(sizes.iter().map(|n| *n as f64))),
        y: ("GB/s".to_owned(), Scale::from_zero(gbps.chain(peak))),
        rules: peak.map(|peak| (peak, peak_name(peak))).into_iter().collect(),
        curves: curves(&choice.points, &best, |point| point.gbps),
    };
    let lead = bandwidth_lead(&at_most, best.first()?)? + &another_run;
    let table = times("Times and bandwidths", &choice);
    Some(Figure::new("bandwidth", &picture, lead, table, &choice.sets))
}

/// Adds the library's sums to the variants', and returns a sentence if they are from another run.
fn with_reducer<'a>(results: &'a Results, mut choice: Choice<'a>) -> (Choice<'a>, String) {
    if choice.points.iter().any(|point| point.is_reducer()) {
        return (choice, String::new());
    }
    let own = results.choose_reducer(|p| is_sum(p) && p.is_llvm() && !p.graph && p.gbps.is_some());
    if own.points.is_empty() {
        return (choice, String::new());
    }
    let sets: Vec<String> = own.sets.iter().map(|set| set.file.clone()).collect();
    choice.points.extend(own.points);
    choice.sets.extend(own.sets);
    let said = format!(" The reducer's times are of a run of their own ({}).", sets.join(", "));
    (choice, said)
}

fn bandwidth_lead(points: &[&Point], best: &str) -> Option<String> {
    let mine = points.iter().filter(|point| point.variant == best && point.is_rust());
    let point = mine.min_by(|a, b| a.median.total_cmp(&b.median))?;
    let share = point.percent.map(|percent| format!(", {} % of the peak", digits(percent)));
    Some(format!(
        "At {} elements {best} reads {} GB/s{}. Small inputs are ruled by what launching costs, large ones \
         by how many bytes a kernel keeps under way; grey are all other variants, each with its CUDA C \
         twin, and itself by rust-cuda, as dots where they were measured.",
        count(point.n),
        digits(point.gbps?),
        share.unwrap_or_default()
    ))
}

pub(in crate::report) fn peak_name(peak: f64) -> String {
    format!("theoretical peak {} GB/s", digits(peak))
}

pub(super) fn latency(results: &Results, graph: bool) -> Option<Figure> {
    let choice = results.choose(|p| is_sum(p) && on_gpu(p) && p.graph == graph && p.n <= SMALL);
    let sizes = distinct(choice.points.iter().map(|point| point.n));
    if sizes.len() < 2 {
        return None;
    }
    let best: Vec<&str> = fastest(&choice.points).into_iter().collect();
    let (near, far) = near_and_far(&choice.points);
    let (id, title, how) = match graph {
        false => ("latency", "Time of small sums", "launched one by one"),
        true => {
            ("latency-graph", "Time of small sums in a CUDA graph", "many launches in one CUDA graph")
        }
    };
    let picture = Curves {
        title: title.to_owned(),
        x: ("elements (f32 sum)".to_owned(), Scale::doubling(sizes.iter().map(|n| *n as f64))),
        y: ("µs".to_owned(), Scale::tenfold(near.iter().map(|point| point.median))),
        rules: Vec::new(),
        curves: curves(&near, &best, |point| Some(point.median)),
    };
    let lead = latency_lead(&choice.points, how, best.first()?, &far) + &torch_lead(&choice.points);
    let table = times("Times", &choice);
    Some(Figure::new(id, &picture, lead, table, &choice.sets))
}

fn latency_lead(points: &[&Point], how: &str, best: &str, far: &[&str]) -> String {
    let largest = points.iter().map(|point| point.n).max().unwrap_or_default();
    let empty = points.iter().filter(|point| point.peer == "empty").map(|point| point.median);
    let floor = empty.reduce(f64::min).map(|least| {
        format!(" A kernel that does nothing takes {} µs or more: no time can be below.", digits(least))
    });
    let beyond = match far {
        [] => String::new(),
        far => format!(" Far slower, and in the table alone: {}.", far.join(", ")),
    };
    format!(
        "Sums of up to {} elements, {how}. {best} is the fastest of the suite over these sizes.{}{beyond}",
        count(largest),
        floor.unwrap_or_default()
    )
}

/// If the fastest run took less than this part of the median, the GPU was still busy with the preceding
/// run.
const UNWAITED: f64 = 0.75;

/// Explains why PyTorch's times of small sums vary. If the GPU is kept busy ahead of the calls, its
/// medians are as smooth as others': the variation is the host's.
pub(in crate::report) fn torch_lead(points: &[&Point]) -> String {
    let host = |p: &&&Point| p.peer == "torch" && !p.graph && p.fastest < UNWAITED * p.median;
    let mut by_host: Vec<&Point> = points.iter().filter(host).copied().collect();
    by_host.sort_by_key(|point| point.n);
    let (Some(first), Some(last)) = (by_host.first(), by_host.last()) else { return String::new() };
    format!(
        " PyTorch's times up to {} elements are those of its calls on the host, which jump from one \
         moment to the next: the GPU waits between the events. Runs that found the GPU still busy, so \
         that nothing waited, took from {} µs ({} elements).",
        count(last.n),
        digits(first.fastest),
        count(first.n)
    )
}

/// Splits off the variants that take over ten times the best time, which would compress the scale.
fn near_and_far<'a>(points: &[&'a Point]) -> (Vec<&'a Point>, Vec<&'a str>) {
    let is_kernel = |point: &&&Point| point.peer != "empty";
    let best = |n: u64| {
        points
            .iter()
            .filter(is_kernel)
            .filter(|p| p.n == n)
            .map(|p| p.median)
            .fold(f64::INFINITY, f64::min)
    };
    let slow = points.iter().filter(|point| point.median > 10.0 * best(point.n));
    let far = in_order(slow.map(|point| point.variant.as_str()));
    let near = points.iter().filter(|point| !far.contains(&point.variant.as_str())).copied().collect();
    (near, far)
}

fn ladder_size(choice: &Choice<'_>) -> Option<u64> {
    let variants = |n: u64| choice.points.iter().filter(|point| point.n == n).count();
    distinct(choice.points.iter().map(|point| point.n)).into_iter().max_by_key(|n| (variants(*n), *n))
}

pub(super) fn ladder(results: &Results) -> Option<Figure> {
    let choice =
        results.choose(|p| is_sum(p) && is_reduction(p) && p.is_llvm() && !p.graph && p.gbps.is_some());
    let n = ladder_size(&choice)?;
    let steps: Vec<&Point> = choice.points.iter().filter(|p| p.n == n).copied().collect();
    if steps.len() < 2 {
        return None;
    }
    let peak = results.peak();
    let most = steps.iter().max_by(|a, b| b.median.total_cmp(&a.median))?;
    let gbps = steps.iter().filter_map(|point| point.gbps);
    let picture = Rows {
        dense: false,
        title: format!("The ladder at {} elements", count(n)),
        x: ("GB/s".to_owned(), Scale::from_zero(gbps.chain(peak))),
        rules: peak.map(|peak| (peak, "peak".to_owned())).into_iter().collect(),
        legend: Vec::new(),
        rows: steps
            .iter()
            .enumerate()
            .map(|(at, point)| step(point, at.checked_sub(1).map(|at| steps[at]), most))
            .collect(),
    };
    let slowest = steps.iter().max_by(|a, b| a.median.total_cmp(&b.median))?;
    let lead = format!(
        "The variants in the order in which they are taught. On the right, how many times as fast each is \
         as the one before it. From {} to {} it is a factor of {}.",
        slowest.variant,
        most.variant,
        digits(slowest.median / most.median)
    );
    let shown: Choice<'_> = Choice { points: steps, sets: vec![*choice.sets.first()?] };
    let table = times("Times and bandwidths", &shown);
    Some(Figure::new("ladder", &picture, lead, table, &source(results, &choice, n)))
}

fn source<'a>(results: &'a Results, choice: &Choice<'a>, n: u64) -> Vec<&'a Set> {
    let has = |set: &&Set| {
        let here = |point: &Point| point.n == n && choice.points.iter().any(|p| std::ptr::eq(*p, point));
        set.points.iter().any(here)
    };
    results.sets.iter().filter(has).collect()
}

fn step(point: &Point, before: Option<&Point>, best: &Point) -> Row {
    let gbps = point.gbps.unwrap_or_default();
    let factor = before.map(|before| before.median / point.median);
    let name = match point.dtype.as_str() {
        "f32" => point.variant.clone(),
        other => format!("{} ({other})", point.variant),
    };
    let mut tip = tip(point);
    if let Some((factor, before)) = factor.zip(before) {
        tip += &format!("\n{factor:.2} × as fast as {}", before.variant);
    }
    Row {
        heading: None,
        name,
        marks: vec![Mark {
            series: point.variant.clone(),
            class: if point.variant == best.variant { "rust" } else { "ghost" },
            shape: None,
            at: gbps,
            line: 0,
            whisker: None,
            tip,
        }],
        value: digits(gbps),
        note: factor.map_or_else(String::new, |factor| format!("×{factor:.2}")),
        strong: factor.is_some_and(|factor| factor >= GAIN),
    }
}
