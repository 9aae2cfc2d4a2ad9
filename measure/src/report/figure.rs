//! Figures of the page and blocks of the docs, and their common parts.

pub(super) use super::{
    bars::{Bars, Mark, Row},
    curves::{Curve, Curves, Place},
    format::*,
    record::{Case, Point, place},
    results::{Choice, Results, Set},
    scale::{Scale, Steps},
    svg::{Picture, Shape, Width},
    table::Table,
};

/// A section of the page.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// The anchor, and the stem of the file name.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) lead: String,
    /// The wide and the narrow picture; `None` if there is only a table.
    pub(super) pictures: Option<[String; 2]>,
    pub(super) tables: Vec<Table>,
    pub(super) sources: Vec<String>,
}

/// A block of a Markdown file. It is empty if all its tables are empty.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// The id of the figure that is shown first.
    pub(super) picture: &'static str,
    pub(super) text: String,
    pub(super) tables: Vec<Table>,
    pub(super) sets: Vec<&'a Set>,
}

impl Figure {
    pub(super) fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        lead: String,
        tables: Vec<Table>,
        sets: &[&Set],
    ) -> Self {
        let sources = sets.iter().map(|set| set.name()).collect();
        Self { id: id.into(), title: title.into(), lead, pictures: None, tables, sources }
    }

    pub(super) fn with(self, picture: &impl Picture) -> Self {
        let pictures = [Width::Wide, Width::Narrow].map(|width| picture.draw(&self.title, width));
        Self { pictures: Some(pictures), ..self }
    }
}

impl<'a> Block<'a> {
    pub(super) fn new(text: impl Into<String>, table: Table, sets: Vec<&'a Set>) -> Self {
        Self { picture: "", text: text.into(), tables: vec![table], sets }
    }
}

/// A time of the library, and the peers' times for the same work in the same set.
pub(super) struct WithPeers<'a> {
    pub(super) own: &'a Point,
    others: Vec<&'a Point>,
}

impl<'a> WithPeers<'a> {
    pub(super) fn new(set: &'a Set, own: &'a Point) -> Self {
        Self { own, others: set.points.iter().filter(|point| point.work() == own.work()).collect() }
    }

    pub(super) fn of(&self, peer: &str) -> Option<&'a Point> {
        let is_it = |p: &&Point| p.peer == peer && (!p.is_rust() || p.variant == self.own.variant);
        self.others.iter().copied().find(is_it)
    }

    pub(super) fn median(&self, peer: &str) -> String {
        or_dash(self.of(peer), |point| digits(point.median))
    }
}

pub(super) fn peer_name(peer: &str) -> &str {
    match peer {
        "rust-llvm" => "Rust",
        "rust-nvvm" => "Rust, rust-cuda",
        "cuda-c" => "CUDA C",
        "cub" => "CUB",
        "torch" => "PyTorch",
        "empty" => "empty kernel",
        other => other,
    }
}

pub(super) fn peak_name(peak: f64) -> String {
    format!("theoretical peak {} GB/s", digits(peak))
}

pub(super) fn tip(point: &Point) -> String {
    let who = match place(&point.variant) {
        usize::MAX => peer_name(&point.peer).to_owned(),
        _ => format!("{}, {}", point.variant, peer_name(&point.peer)),
    };
    let of = [point.op.as_deref().unwrap_or_default(), &point.dtype].join(" ");
    let (of, n, us) = (of.trim(), count(point.n), digits(point.median));
    let spread = if point.single { "fastest to slowest" } else { "middle half" };
    let [from, to] = [point.spread.0, point.spread.1].map(digits);
    let gbps = or_empty(point.gbps, |gbps| format!("\n{} GB/s", digits(gbps)));
    let percent = or_empty(point.percent, |percent| format!(", {} % of peak", digits(percent)));
    format!("{who}\n{of}, n = {n}\n{us} µs ({spread} {from} to {to}){gbps}{percent}")
}

pub(super) fn times(name: &str, choice: &Choice<'_>) -> Table {
    let table = Table::of(name, &choice.points).columns(&[
        ("<variant", &|p| p.variant.clone()),
        ("<by", &|p| peer_name(&p.peer).to_owned()),
        ("<type", &|p| p.dtype.clone()),
        ("stride", &|p| or_dash(p.stride, |stride| stride.to_string())),
        ("n", &|p| count(p.n)),
        ("µs", &|p| digits(p.median)),
        ("from", &|p| digits(p.spread.0)),
        ("to", &|p| digits(p.spread.1)),
        ("GB/s", &|p| or_dash(p.gbps, digits)),
        ("% of peak", &|p| or_dash(p.percent, digits)),
        ("× CUDA C", &|p| or_dash(p.over_cuda_c.map(|ratio| ratio.median), fixed::<3>)),
        ("× CUB", &|p| or_dash(p.over_cub.map(|ratio| ratio.median), fixed::<3>)),
    ]);
    table.without_empty()
}
