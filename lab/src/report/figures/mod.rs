//! The pictures of a report, each with what it shows in words and in a table.
//!
//! A picture whose data are not there is not drawn.

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

/// A picture, or a table alone.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// Its anchor, and the name of its file.
    pub(super) id: String,
    pub(super) title: String,
    /// What to see in it.
    pub(super) lead: String,
    /// Wide and narrow; none where the table is the figure.
    pub(super) pictures: Option<[String; 2]>,
    pub(super) tables: Vec<Table>,
    /// The sets that it is made of.
    pub(super) sources: Vec<String>,
}

/// The numbers of a picture.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// What it is called where it is folded up.
    pub(super) name: String,
    /// Whether it is there to be read, not to be looked up.
    pub(super) open: bool,
    /// Heads of the columns.
    pub(super) head: Vec<String>,
    /// How many columns, from the left, are names.
    pub(super) names: usize,
    pub(super) rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct TableRow {
    pub(super) cells: Vec<String>,
    /// Columns that stand out.
    pub(super) marked: Vec<usize>,
}

/// All that these results have the data for.
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

/// What can be drawn.
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

/// What a peer is called in a picture.
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

/// What a point tells on hover: whose, of how many, and its time and bandwidth.
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

/// The usual columns of a table of times.
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
    /// Takes out columns that say nothing in any row.
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

/// The different values of something, in order.
pub(super) fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().collect::<std::collections::BTreeSet<T>>().into_iter().collect()
}

/// The different values of something, in the order of their first appearance.
pub(in crate::report) fn in_order<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().fold(Vec::new(), |mut found, value| {
        if !found.contains(&value) {
            found.push(value);
        }
        found
    })
}
