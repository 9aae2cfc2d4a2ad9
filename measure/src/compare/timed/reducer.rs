//! The reducer's times as a separate table: one row per case with its peers, and the targets.

use crate::contest::{Ratio, Spread};

use super::{
    peers::Peer,
    record::Time,
    sizes::show,
    table::{EMPTY, number, ratio, same_case},
    targets::{self, Verdict},
};
use crate::table::{Cell, Column, Table};

pub const REDUCER: &str = "reducer";

pub(super) const LEGEND: &str = "x cub, x torch: the peer's time over the reducer's, how many times as \
    fast it is. / empty: its time over an empty kernel's. / limit: its time over an empty launch and the \
    bytes at the best bandwidth of this comparison. / llvm: the time by rust-nvvm over that by rust-llvm. \
    The reducer's result stays in device memory, as CUB's.";

pub(super) fn table(times: &[Time]) -> Option<Table> {
    let mut table = Table::new(columns());
    for row in times.iter().filter(|time| time.variant == REDUCER) {
        table.row(cells(row, times));
    }
    (!table.is_empty()).then_some(table)
}

/// Returns the columns. Narrow terminals keep the reducer's own times and the ratio to CUB's.
fn columns() -> [Column; 18] {
    [
        Column::new("op"),
        Column::new("type"),
        Column::number("n"),
        Column::new("launch").rank(3),
        Column::new("by").rank(1),
        Column::new("kernel").rank(5),
        Column::number("us [quartiles]"),
        Column::number("GB/s").rank(4),
        Column::number("% of peak").rank(4),
        Column::number("cub us").rank(2),
        Column::number("x cub [quartiles]"),
        Column::number("torch us").rank(6),
        Column::number("x torch").rank(3),
        Column::number("empty us").rank(7),
        Column::number("/ empty").rank(7),
        Column::number("/ limit").rank(6),
        Column::number("/ llvm [quartiles]").rank(5),
        Column::new("target").wraps().rank(2),
    ]
}

fn cells(row: &Time, times: &[Time]) -> Vec<Cell> {
    let median = |peer: &str| median_of(row, times, peer);
    vec![
        row.op.clone().unwrap_or_default().into(),
        (&row.dtype).into(),
        show(row.n).into(),
        if row.graph { "graph" } else { "stream" }.into(),
        (&row.peer).into(),
        launch(row).into(),
        if row.ok { spread(row.time_us) } else { "WRONG".to_owned() }.into(),
        number(row.bandwidth_gbps, 1).into(),
        number(row.percent_of_peak, 1).into(),
        number(median(Peer::Cub.name()), 2).into(),
        ratio(over_cub(row)).into(),
        number(median(Peer::Torch.name()), 2).into(),
        number(over_torch(row, times), 3).into(),
        number(median(EMPTY), 2).into(),
        number(row.ratio_to_empty, 2).into(),
        number(row.ratio_to_limit, 3).into(),
        ratio(row.ratio_to_llvm).into(),
        targets::cell(&targets::verdicts(row)).into(),
    ]
}

fn median_of(row: &Time, times: &[Time], peer: &str) -> Option<f64> {
    let found = times.iter().find(|time| time.peer == peer && same_case(time, row));
    found.and_then(|time| time.time_us).map(|spread| spread.median)
}

fn over_cub(row: &Time) -> Option<Ratio> {
    let inverted = |Ratio { median, q1, q3 }| Ratio { median: 1.0 / median, q1: 1.0 / q3, q3: 1.0 / q1 };
    row.ratio_to_cub.map(inverted)
}

/// Returns PyTorch's median over the reducer's. There is no ratio by round, because PyTorch does not
/// alternate with the others.
fn over_torch(row: &Time, times: &[Time]) -> Option<f64> {
    let torch = median_of(row, times, Peer::Torch.name())?;
    row.time_us.map(|own| torch / own.median)
}

/// Formats kernel, blocks and threads: `grid 264 x 512`.
pub fn launch(row: &Time) -> String {
    let kernel = row.kernel.clone().unwrap_or_default();
    row.grid.zip(row.block).map_or(kernel.clone(), |(grid, block)| format!("{kernel} {grid} x {block}"))
}

fn spread(spread: Option<Spread>) -> String {
    let show = |Spread { median, q1, q3, .. }| format!("{median:.2} [{q1:.2} {q3:.2}]");
    spread.map_or("-".to_owned(), show)
}

pub(super) fn summary(times: &[Time]) -> Option<String> {
    let rows = times.iter().filter(|time| time.variant == REDUCER);
    let judged: Vec<(&Time, Verdict)> =
        rows.flat_map(|row| targets::verdicts(row).into_iter().map(move |v| (row, v))).collect();
    let missed: Vec<String> = judged
        .iter()
        .filter(|(_, verdict)| !verdict.met)
        .map(|(row, Verdict { measure, bound, value, .. })| {
            let op = row.op.as_deref().unwrap_or_default();
            let by = if row.peer == Peer::RustLlvm.name() { "" } else { row.peer.as_str() };
            let what = format!("{op} {} {} {by}", row.dtype, show(row.n));
            format!("{}: {} {value:.3}, not {}", what.trim(), measure.name(), bound.text())
        })
        .collect();
    let met = judged.len() - missed.len();
    let head = format!("targets: {met} of {} met", judged.len());
    (!judged.is_empty())
        .then(|| [head].into_iter().chain(missed).collect::<Vec<_>>().join("\n  missed: "))
}

#[cfg(test)]
mod tests {
    use super::super::table::LIBRARY;
    use super::*;

    fn time(variant: &str, peer: &str, median: f64) -> Time {
        Time {
            variant: variant.into(),
            peer: peer.into(),
            op: Some("sum".into()),
            dtype: "f32".into(),
            n: 1 << 20,
            time_us: Spread::of([median, median, 4.0 * median]),
            ok: true,
            ..Time::default()
        }
    }

    fn own() -> Time {
        Time {
            ratio_to_cub: Some(Ratio { median: 0.8, q1: 0.5, q3: 1.0 }),
            ratio_to_limit: Some(1.0625),
            ratio_to_empty: Some(1.5),
            kernel: Some("grid".into()),
            grid: Some(264),
            block: Some(512),
            ..time(REDUCER, "rust-llvm", 4.0)
        }
    }

    fn line(text: &str, wanted: &[&str]) -> String {
        let has = |line: &&str| wanted.iter().all(|part| line.contains(part));
        text.lines().find(has).unwrap_or_else(|| panic!("{wanted:?} in\n{text}")).to_owned()
    }

    #[test]
    fn row_shows_the_speedup_over_each_peer() {
        let elsewhere = Time { n: 1 << 21, ..time(LIBRARY, "cub", 99.0) };
        let times = [
            time(EMPTY, EMPTY, 2.5),
            time(LIBRARY, "cub", 5.0),
            elsewhere,
            own(),
            time("vectorized", "rust-llvm", 6.0),
            time(LIBRARY, "torch", 10.0),
        ];
        let table = table(&times).unwrap();
        assert_eq!(table.len(), 1);
        let column = |name: &str| table.cell(0, name);
        assert_eq!(column("kernel"), "grid 264 x 512");
        assert_eq!(column("us [quartiles]"), "4.00 [4.00 10.00]");
        assert_eq!((column("cub us"), column("x cub [quartiles]")), ("5.00", "1.250 [1.000 2.000]"));
        assert_eq!((column("torch us"), column("x torch")), ("10.00", "2.500"));
        assert_eq!(
            (column("empty us"), column("/ empty"), column("/ limit")),
            ("2.50", "1.50", "1.062")
        );
        assert_eq!(column("target"), "x cub >= 1.3 missed, / limit <= 1.25 met");
        assert!(super::table(&times[..3]).is_none());
    }

    #[test]
    fn missed_targets_are_listed_with_their_bound() {
        let met = Time { n: 1 << 12, ratio_to_limit: None, ..own() };
        let said = summary(&[met, own()]).unwrap();
        line(&said, &["targets: 2 of 3 met"]);
        line(&said, &["missed: sum f32 2^20: x cub 1.250, not >= 1.3"]);
        assert_eq!(summary(&[time("vectorized", "rust-llvm", 1.0)]), None);
    }

    #[test]
    fn wrong_results_have_no_time() {
        let wrong = Time { ok: false, time_us: None, ratio_to_cub: None, ..own() };
        let text = table(&[wrong]).unwrap().to_string();
        assert!(text.contains("WRONG"), "{text}");
    }
}
