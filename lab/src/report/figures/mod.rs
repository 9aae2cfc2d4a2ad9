//! The figures of a report, each with a description and a table.
//!
//! A figure without data is left out.

mod host;
mod library;
pub(in crate::report) mod machine_code;
pub(in crate::report) mod matrix;
mod memory;
pub(in crate::report) mod ratios;
pub(in crate::report) mod reducer;
pub(in crate::report) mod scaling;
pub(in crate::report) mod sums;
pub(in crate::report) mod types;

use super::{
    curves::Curves,
    format::{count, digits, or_dash},
    lines::Point,
    panels::Panels,
    results::{Choice, Results, Set},
    rows::Rows,
    svg::Width,
};

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

#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) name: String,
    /// Unfolded, because the table is to be read rather than looked up.
    pub(super) open: bool,
    pub(super) head: Vec<String>,
    pub(super) names: usize,
    pub(super) rows: Vec<TableRow>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct TableRow {
    pub(super) cells: Vec<String>,
    pub(super) marked: Vec<usize>,
}

pub(super) fn all(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    figures.extend(reducer::speed_up(results));
    figures.extend(reducer::times(results));
    figures.extend(types::all(results));
    figures.extend(sums::bandwidth(results));
    figures.extend(sums::latency(results, false));
    figures.extend(sums::latency(results, true));
    figures.extend(sums::ladder(results));
    figures.extend(ratios::sums(results));
    figures.extend(ratios::others(results));
    figures.extend(memory::strides(results));
    figures.extend(memory::transposes(results));
    figures.extend(host::transfers(results));
    figures.extend(host::cpu(results));
    figures.extend(scaling::weak(results));
    figures.extend(matrix::tables(results));
    figures.extend(library::tables(results));
    figures.extend(machine_code::tables(results));
    figures
}

pub(super) trait Picture {
    fn title(&self) -> &str;
    fn draw(&self, width: Width) -> String;
}

impl Picture for Curves {
    fn title(&self) -> &str {
        &self.title
    }
    fn draw(&self, width: Width) -> String {
        Curves::draw(self, width)
    }
}

impl Picture for Panels {
    fn title(&self) -> &str {
        &self.title
    }
    fn draw(&self, width: Width) -> String {
        Panels::draw(self, width)
    }
}

impl Picture for Rows {
    fn title(&self) -> &str {
        &self.title
    }
    fn draw(&self, width: Width) -> String {
        Rows::draw(self, width)
    }
}

impl Figure {
    pub(super) fn new(
        id: &str,
        picture: &impl Picture,
        lead: String,
        table: Table,
        sets: &[&Set],
    ) -> Self {
        Self {
            id: id.to_owned(),
            title: picture.title().to_owned(),
            lead,
            pictures: Some([Width::Wide, Width::Narrow].map(|width| picture.draw(width))),
            tables: vec![table],
            sources: sets.iter().map(|set| set.name()).collect(),
        }
    }
}

impl Table {
    pub(super) fn new(name: &str, head: &[&str], names: usize) -> Self {
        let head = head.iter().map(|head| (*head).to_owned()).collect();
        Self { name: name.to_owned(), open: false, head, names, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, cells: impl IntoIterator<Item = String>) -> &mut TableRow {
        self.rows.push(TableRow { cells: cells.into_iter().collect(), marked: Vec::new() });
        self.rows.last_mut().expect("a row was pushed")
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

pub(super) fn tip(point: &Point) -> String {
    let who = match point.place() {
        usize::MAX => peer_name(&point.peer).to_owned(),
        _ => format!("{}, {}", point.variant, peer_name(&point.peer)),
    };
    let of = [point.op.as_deref().unwrap_or_default(), &point.dtype].join(" ");
    let spread = if point.single { "fastest to slowest" } else { "middle half" };
    let mut tip = format!(
        "{who}\n{}, n = {}\n{} µs ({spread} {} to {})",
        of.trim(),
        count(point.n),
        digits(point.median),
        digits(point.spread.0),
        digits(point.spread.1),
    );
    if let Some(gbps) = point.gbps {
        tip += &format!("\n{} GB/s", digits(gbps));
    }
    if let Some(percent) = point.percent {
        tip += &format!(", {} % of peak", digits(percent));
    }
    tip
}

pub(super) fn times(name: &str, choice: &Choice<'_>) -> Table {
    let head =
        ["variant", "by", "type", "n", "µs", "from", "to", "GB/s", "% of peak", "× CUDA C", "× CUB"];
    let mut table = Table::new(name, &head, 3);
    for point in &choice.points {
        let ratio = |ratio: Option<f64>| or_dash(ratio, |ratio| format!("{ratio:.3}"));
        table.push([
            point.variant.clone(),
            peer_name(&point.peer).to_owned(),
            point.dtype.clone(),
            count(point.n),
            digits(point.median),
            digits(point.spread.0),
            digits(point.spread.1),
            or_dash(point.gbps, digits),
            or_dash(point.percent, digits),
            ratio(point.over_cuda_c.map(|ratio| ratio.median)),
            ratio(point.over_cub.map(|ratio| ratio.median)),
        ]);
    }
    table.drop_empty();
    table
}

impl Table {
    fn drop_empty(&mut self) {
        let says = |column: usize| self.rows.iter().any(|row| row.cells[column] != "–");
        let kept: Vec<usize> = (0..self.head.len()).filter(|column| says(*column)).collect();
        let keep = |cells: &[String]| kept.iter().map(|column| cells[*column].clone()).collect();
        self.head = keep(&self.head);
        self.names = kept.iter().filter(|column| **column < self.names).count();
        for row in &mut self.rows {
            row.cells = keep(&row.cells);
            let place = |column: &usize| kept.iter().position(|kept| kept == column);
            row.marked = row.marked.iter().filter_map(place).collect();
        }
    }
}

pub(super) fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().collect::<std::collections::BTreeSet<T>>().into_iter().collect()
}

/// Returns the distinct values in order of first appearance.
pub(in crate::report) fn in_order<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().fold(Vec::new(), |mut found, value| {
        if !found.contains(&value) {
            found.push(value);
        }
        found
    })
}
