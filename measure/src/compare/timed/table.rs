//! Times as a table: a row per variant and case, a pair of columns per peer.

use crate::contest::Ratio;

use super::{peers::Peer, record::Time, sizes::show};
use crate::table::{Cell, Column, Table};

pub(super) const EMPTY: &str = "empty";
/// Shown in place of the variant for contenders that are not kernels of the suite.
pub(super) const LIBRARY: &str = "library";

pub(super) fn table(times: &[Time]) -> Table {
    let peers: Vec<Peer> =
        Peer::ALL.into_iter().filter(|peer| times.iter().any(|time| of(time, *peer))).collect();
    let mut table = Table::new(columns(&peers));
    for row in rows(times) {
        table.row(cells(row, times, &peers));
    }
    table
}

fn of(time: &Time, peer: Peer) -> bool {
    time.peer == peer.name()
}

/// Returns the first time of each row. There is one row per variant and case, one for an empty launch,
/// and one for the libraries if no variant's row shows them.
fn rows(times: &[Time]) -> Vec<&Time> {
    let mut rows: Vec<&Time> = Vec::new();
    for time in times {
        let shown = |row: &&Time| same_case(row, time) && row.variant == time.variant;
        let elsewhere = time.variant == LIBRARY
            && times.iter().any(|other| same_case(other, time) && is_suite(other));
        if !elsewhere && !rows.iter().any(shown) {
            rows.push(time);
        }
    }
    rows
}

pub(super) fn is_suite(time: &Time) -> bool {
    time.variant != LIBRARY && time.variant != EMPTY
}

pub(super) fn same_case(a: &Time, b: &Time) -> bool {
    let case =
        |time: &Time| (time.op.clone(), time.dtype.clone(), time.n, time.width, time.stride, time.graph);
    case(a) == case(b)
}

/// Returns the columns. Narrow terminals drop columns; the times are dropped last, and the ratios to the
/// twin and to CUB before them.
fn columns(peers: &[Peer]) -> Vec<Column> {
    let mut columns = vec![
        Column::new("variant"),
        Column::new("type"),
        Column::new("op").rank(1),
        Column::number("n"),
        Column::new("launch").rank(4),
    ];
    for &peer in peers {
        let rank = if peer == Peer::RustLlvm { 0 } else { 1 };
        columns.push(Column::number(format!("{peer} us")).rank(rank));
        columns.push(Column::number("GB/s").rank(5));
    }
    for peer in rust(peers) {
        let rank = if peer == Peer::RustLlvm { 2 } else { 3 };
        columns.push(Column::number(format!("{peer} / cuda-c")).rank(rank));
        columns.push(Column::number(format!("{peer} / cub")).rank(rank));
        columns.push(Column::number("% of peak").rank(4));
        columns.push(Column::number("/ limit").rank(6));
    }
    if both(peers) {
        columns.push(Column::number(format!("{} / {}", Peer::RustNvvm, Peer::RustLlvm)).rank(3));
    }
    columns
}

fn rust(peers: &[Peer]) -> impl Iterator<Item = Peer> {
    peers.iter().copied().filter(|peer| Peer::RUST.contains(peer))
}

fn both(peers: &[Peer]) -> bool {
    Peer::RUST.iter().all(|peer| peers.contains(peer))
}

fn cells(row: &Time, times: &[Time], peers: &[Peer]) -> Vec<Cell> {
    // A library's time is repeated in the row of every variant of its case.
    let time = |peer: Peer| {
        let mine =
            |time: &&Time| time.variant == row.variant || time.variant == LIBRARY && is_suite(row);
        times.iter().filter(|time| same_case(time, row) && of(time, peer)).find(mine)
    };
    let mut cells = vec![
        format!("{}{}", row.variant, extent(row)).into(),
        (&row.dtype).into(),
        row.op.clone().unwrap_or_default().into(),
        show(row.n).into(),
        if row.graph { "graph" } else { "stream" }.into(),
    ];
    let empty = (row.variant == EMPTY).then_some(row);
    for (column, &peer) in peers.iter().enumerate() {
        // An empty launch belongs to no peer and is shown in the first column.
        let time = time(peer).or(empty.filter(|_| column == 0));
        let median = time.map(|time| match time.ok {
            true => number(time.time_us.map(|spread| spread.median), 2),
            false => "WRONG".to_owned(),
        });
        cells.push(median.unwrap_or_else(|| "-".to_owned()).into());
        cells.push(number(time.and_then(|time| time.bandwidth_gbps), 1).into());
    }
    for peer in rust(peers) {
        let time = time(peer);
        cells.push(ratio(time.and_then(|time| time.ratio_to_cuda_c)).into());
        cells.push(ratio(time.and_then(|time| time.ratio_to_cub)).into());
        cells.push(number(time.and_then(|time| time.percent_of_peak), 1).into());
        cells.push(number(time.and_then(|time| time.ratio_to_limit), 2).into());
    }
    if both(peers) {
        cells.push(ratio(time(Peer::RustNvvm).and_then(|time| time.ratio_to_llvm)).into());
    }
    cells
}

pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

pub(super) fn ratio(ratio: Option<Ratio>) -> String {
    let show = |Ratio { median, q1, q3 }| format!("{median:.3} [{q1:.3} {q3:.3}]");
    ratio.map_or("-".to_owned(), show)
}

fn extent(time: &Time) -> String {
    let mut text = time.stride.map(|stride| format!(" stride {stride}")).unwrap_or_default();
    if let Some((width, height)) = time.width.zip(time.height) {
        text += &format!(" {width} x {height}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Spread;

    fn time(variant: &str, peer: &str, n: u64, median: f64) -> Time {
        Time {
            variant: variant.into(),
            peer: peer.into(),
            op: Some("sum".into()),
            dtype: "f32".into(),
            n,
            time_us: Spread::of([median]),
            bandwidth_gbps: Some(n as f64 * 4.0 / median / 1e3),
            ok: true,
            ..Time::default()
        }
    }

    #[test]
    fn a_row_has_every_peer_of_its_case() {
        let ratio = Some(Ratio { median: 1.5, q1: 1.25, q3: 1.75 });
        let over_llvm = Ratio { median: 1.04, q1: 1.03, q3: 1.06 };
        let rust = Time { ratio_to_cuda_c: ratio, ..time("tree", "rust-llvm", 1 << 20, 12.0) };
        let wrong = Time { ok: false, time_us: None, ..time("other", "rust-llvm", 1 << 20, 1.0) };
        let times = [
            time(EMPTY, EMPTY, 1 << 20, 4.25),
            time(LIBRARY, "cub", 1 << 20, 10.5),
            rust,
            time("tree", "cuda-c", 1 << 20, 8.0),
            Time { ratio_to_llvm: Some(over_llvm), ..time("tree", "rust-nvvm", 1 << 20, 12.5) },
            wrong,
            time("tree", "rust-llvm", 1 << 22, 20.0),
        ];
        let text = table(&times).to_string();
        let line = |wanted: &[&str]| {
            let has = |line: &&str| wanted.iter().all(|part| line.contains(part));
            text.lines().find(has).unwrap_or_else(|| panic!("{wanted:?} in\n{text}")).to_owned()
        };
        line(&["variant", "rust-llvm us", "cuda-c us", "cub us", "rust-llvm / cuda-c"]);
        let both = ["12.00", "12.50", "8.00", "10.50", "1.500 [1.250 1.750]", "1.040 [1.030 1.060]"];
        line(&[&["tree", "2^20"], &both[..]].concat());
        line(&["variant", "rust-nvvm us", "rust-nvvm / cuda-c", "rust-nvvm / rust-llvm"]);
        // With a single code generator there is no ratio between code generators.
        let text = table(&[time("tree", "rust-nvvm", 1 << 20, 12.5)]).to_string();
        assert!(text.contains("12.50") && !text.contains("/ rust-llvm"), "{text}");
        line(&["empty", "4.25"]);
        line(&["other", "WRONG", "10.50"]);
        assert!(!line(&["tree", "2^22", "20.00"]).contains("10.50"));
        assert!(!text.contains(LIBRARY) && !text.contains("torch"), "{text}");
    }

    #[test]
    fn stride_and_shape_of_copies_are_shown() {
        let strided = Time { stride: Some(4), ..time("copy_strided", "rust-llvm", 1000, 1.0) };
        let square =
            Time { width: Some(31), height: Some(32), ..time("transpose", "rust-llvm", 992, 1.0) };
        let text = table(&[strided, square]).to_string();
        assert!(text.contains("copy_strided stride 4") && text.contains("transpose 31 x 32"), "{text}");
    }
}
