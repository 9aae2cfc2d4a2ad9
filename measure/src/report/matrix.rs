//! Rows of matrices: the library's reductions beside CUB's segments and PyTorch, a table per operation.

use super::figure::*;
use crate::compare::timed::{matrix::shape::Shape, targets::Bound};

const RIVALS: [(&str, &str); 3] =
    [("cub", "CUB"), ("cub-offsets", "CUB by offsets"), ("torch", "PyTorch")];

const LEAD: &str = "f32, a result for every row of a matrix, left in device memory; medians. GB/s are of \
    elements and results. × fastest: how many times as fast as the fastest of the others the library is, \
    which is named.";

/// Target in GB/s for sums of at least [`LARGE`] elements: nine tenths of an H200's peak.
const RATE: f64 = 4330.0;

/// Number of elements from which [`RATE`] applies. Matrices of about 2^28 elements may have fewer.
const LARGE: u64 = 1 << 27;

/// Returns the set with the most rows, the newest if several have as many, and its rows.
fn all(results: &Results) -> Option<(&Set, Vec<WithPeers<'_>>)> {
    let rows = |set: &Set| set.points.iter().filter(|point| point.is_of_rows()).count();
    let sets = results.sets.iter().filter(|set| rows(set) > 0);
    let set = sets.max_by_key(|set| (rows(set), set.date()))?;
    let own = set.points.iter().filter(|point| point.is_of_rows() && point.is_llvm());
    Some((set, own.map(|own| WithPeers::new(set, own)).collect()))
}

/// Returns the speed-up over the fastest peer, and the peer's name.
fn over_fastest(beside: &WithPeers<'_>) -> Option<(f64, &'static str)> {
    let over = |(peer, name)| Some((beside.of(peer)?.median / beside.own.median, name));
    RIVALS.into_iter().filter_map(over).min_by(|a, b| a.0.total_cmp(&b.0))
}

fn is_behind(beside: &WithPeers<'_>) -> bool {
    over_fastest(beside).is_some_and(|(over, _)| over < 1.0)
}

fn shape(own: &Point) -> String {
    let shape = own.height.zip(own.width).map(|(rows, len)| Shape { rows, len }.to_string());
    or_dash(shape, |shape| shape.replace('x', " × "))
}

/// Returns a table per operation. Marks the ratio if a peer is faster and, if `both`, the peer's name.
fn tables(all: &[WithPeers<'_>], both: bool) -> Vec<Table> {
    let ops = in_order(all.iter().filter_map(|beside| beside.own.op.as_deref()));
    let table = |op| {
        let mine = all.iter().filter(|beside| beside.own.op.as_deref() == Some(op)).collect::<Vec<_>>();
        let table = Table::of(op, &mine).columns(&[
            ("<rows × length", &|b| shape(b.own)),
            ("<launched", &|b| if b.own.graph { "in a graph" } else { "one by one" }.to_owned()),
            ("µs", &|b| digits(b.own.median)),
            ("GB/s", &|b| or_dash(b.own.gbps, digits)),
            ("% of peak", &|b| or_dash(b.own.percent, fixed::<1>)),
            ("rust-cuda µs", &|b| b.median("rust-nvvm")),
            ("CUB µs", &|b| b.median("cub")),
            ("CUB by offsets µs", &|b| b.median("cub-offsets")),
            ("PyTorch µs", &|b| b.median("torch")),
            ("× fastest", &|b| {
                marked(or_dash(over_fastest(b), |(over, _)| fixed::<3>(over)), is_behind(b))
            }),
            (if both { "<of" } else { "of" }, &|b| {
                marked(or_dash(over_fastest(b), |(_, who)| who.to_owned()), both && is_behind(b))
            }),
        ]);
        table.opened()
    };
    ops.into_iter().map(table).collect()
}

fn score(all: &[WithPeers<'_>]) -> String {
    let beside = all.iter().filter(|beside| over_fastest(beside).is_some()).count();
    let behind = all.iter().filter(|beside| is_behind(beside)).count();
    or_empty((beside > 0).then_some(beside), |beside| {
        format!(" It is behind in {behind} of {beside} cases.")
    })
}

pub(super) fn figure(results: &Results) -> Option<Figure> {
    let (set, all) = all(results)?;
    let marked = if score(&all).is_empty() { "" } else { " Those are marked." };
    let (lead, tables) = (format!("{LEAD}{}{marked}", score(&all)), tables(&all, false));
    tables.first()?;
    Some(Figure::new("rows", "Rows of a matrix", lead, tables, &[set]))
}

pub(super) fn block(results: &Results) -> Block<'_> {
    let Some((set, all)) = all(results) else { return Block::default() };
    let text = format!("{LEAD}{} **Bold**: there it is.", score(&all));
    Block { text, tables: tables(&all, true), sets: vec![set], ..Block::default() }
}

/// Returns the targets of sums and argmax of rows, with the measured values.
pub(super) fn aims(results: &Results) -> Vec<(String, &'static str, &'static str, Bound, Vec<f64>)> {
    let Some((_, all)) = all(results) else { return Vec::new() };
    let of = |op: &'static str| all.iter().filter(move |beside| beside.own.op.as_deref() == Some(op));
    let is_large = |beside: &&WithPeers<'_>| !beside.own.graph && beside.own.n >= LARGE;
    let rates = of("sum").filter(is_large).filter_map(|beside| beside.own.gbps).collect();
    let over = |op| of(op).filter_map(over_fastest).map(|(over, _)| over).collect();
    let (fastest, least) = ("times as fast as the fastest of the others", Bound::AtLeast(1.0));
    vec![
        ("sums of rows of 2^28 elements".to_owned(), "one by one", "GB/s", Bound::AtLeast(RATE), rates),
        ("sums of rows".to_owned(), "both", fastest, least, over("sum")),
        ("places of the largest of rows".to_owned(), "both", fastest, least, over("argmax")),
    ]
}
