//! Times of rows as a table: a row per operation, shape and launch, with the peers' times beside the
//! library's, and a summary of the cases in which a peer is faster.

use super::{
    super::{
        peers::Peer,
        record::Time,
        table::{EMPTY, number, ratio, same_case},
    },
    OFFSETS, ROWS,
    shape::Shape,
};
use crate::table::{Cell, Color, Column, Table};

const RIVALS: [&str; 3] = [Peer::Cub.name(), OFFSETS, Peer::Torch.name()];

const WRONG: &str = "WRONG";

const LEGEND: &str = "cub: segments of equal lengths; cub-offsets: the same by offsets. GB/s: of the \
    elements and the results, as each writes them. x fastest: the time of the fastest of the others over \
    the library's, median over median; BEHIND, where it is below 1. / llvm: the time by rust-nvvm over \
    that by rust-llvm.";

pub(in crate::compare::timed) fn text(times: &[Time]) -> String {
    format!("{}\n{LEGEND}", table(times))
}

fn table(times: &[Time]) -> Table {
    let mut table = Table::new(columns());
    for lead in leads(times) {
        table.row(cells(lead, times));
    }
    table
}

fn leads(times: &[Time]) -> Vec<&Time> {
    let is_lead = |time: &&Time| {
        time.variant == ROWS
            && Peer::RUST.into_iter().find_map(|peer| of(time, times, peer.name())) == Some(time)
    };
    times.iter().filter(is_lead).collect()
}

/// Returns the columns. Narrow terminals keep the library's own times and the verdicts.
fn columns() -> Vec<Column> {
    let rivals = RIVALS
        .into_iter()
        .flat_map(|name| [Column::number(format!("{name} us")).rank(2), Column::number("GB/s").rank(4)]);
    [
        Column::new("op"),
        Column::new("rows x length"),
        Column::new("launch").rank(3),
        Column::new("by").rank(4),
        Column::new("kernel").rank(5),
        Column::number("us [quartiles]"),
        Column::number("GB/s").rank(1),
        Column::number("% of peak").rank(3),
        Column::number("/ llvm [quartiles]").rank(5),
    ]
    .into_iter()
    .chain(rivals)
    .chain([Column::number("empty us").rank(6), Column::number("x fastest"), Column::new("of").rank(1)])
    .collect()
}

fn cells(lead: &Time, times: &[Time]) -> Vec<Cell> {
    let over_llvm = match of(lead, times, Peer::RustNvvm.name()) {
        Some(nvvm) if !nvvm.ok => WRONG.to_owned(),
        nvvm => ratio(nvvm.and_then(|time| time.ratio_to_llvm)),
    };
    let kernel = lead.kernel.clone().unwrap_or_else(|| "as a buffer".to_owned());
    let mut cells: Vec<Cell> = vec![
        lead.op.clone().unwrap_or_default().into(),
        shape(lead).into(),
        launched(lead).into(),
        (&lead.peer).into(),
        kernel.into(),
        lead.time_us
            .filter(|_| lead.ok)
            .map_or(WRONG.to_owned(), |us| format!("{:.2} [{:.2} {:.2}]", us.median, us.q1, us.q3))
            .into(),
        number(lead.bandwidth_gbps, 0).into(),
        number(lead.percent_of_peak, 1).into(),
        over_llvm.into(),
    ];
    for name in RIVALS {
        let rival = of(lead, times, name);
        cells.push(rival.map_or("-".to_owned(), median).into());
        cells.push(number(rival.and_then(|time| time.bandwidth_gbps), 0).into());
    }
    cells.push(of(lead, times, EMPTY).map_or("-".to_owned(), median).into());
    match Verdict::of(lead, times) {
        Some(verdict) if verdict.is_behind() => {
            cells.push(Cell::coloured(format!("BEHIND {:.3}", verdict.over), Color::Red));
            cells.push(Cell::coloured(verdict.rival, Color::Red));
        }
        Some(Verdict { over, rival, .. }) => cells.extend([format!("{over:.3}").into(), rival.into()]),
        None => cells.extend(["-".into(), "-".into()]),
    }
    cells
}

fn of<'t>(lead: &Time, times: &'t [Time], peer: &str) -> Option<&'t Time> {
    times.iter().find(|time| time.peer == peer && same_case(time, lead))
}

fn median(time: &Time) -> String {
    match time.ok {
        true => number(time.time_us.map(|us| us.median), 2),
        false => WRONG.to_owned(),
    }
}

fn shape(time: &Time) -> String {
    let extent = time.height.zip(time.width);
    extent.map_or_else(String::new, |(rows, len)| Shape { rows, len }.to_string())
}

fn launched(time: &Time) -> &'static str {
    if time.graph { "graph" } else { "stream" }
}

#[derive(Debug, PartialEq)]
struct Verdict<'t> {
    time: &'t Time,
    rival: &'t str,
    over: f64,
}

impl<'t> Verdict<'t> {
    /// Compares a time with that of the fastest peer; `None` unless both results are right.
    fn of(time: &'t Time, times: &'t [Time]) -> Option<Self> {
        let own = time.time_us?.median;
        let rivals = RIVALS.into_iter().filter_map(|name| of(time, times, name));
        let medians = rivals.filter_map(|rival| Some((rival.time_us?.median, rival.peer.as_str())));
        let (median, rival) = medians.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { time, rival, over: median / own })
    }

    /// Returns whether the fastest peer is faster than the library. A tie does not count.
    fn is_behind(&self) -> bool {
        self.over < 1.0
    }
}

pub(super) struct Verdicts<'t>(Vec<Verdict<'t>>);

impl<'t> Verdicts<'t> {
    pub(super) fn of(times: &'t [Time]) -> Self {
        let own = times.iter().filter(|time| time.variant == ROWS);
        Self(own.filter_map(|time| Verdict::of(time, times)).collect())
    }

    /// Returns how often the library is at least as fast as all others, and which peer is faster
    /// elsewhere; `None` without peers.
    pub(super) fn summary(&self) -> Option<String> {
        let mut lines = Vec::new();
        for peer in Peer::RUST.map(Peer::name) {
            let own = || self.0.iter().filter(|verdict| verdict.time.peer == peer);
            let behind: Vec<&Verdict<'_>> = own().filter(|verdict| verdict.is_behind()).collect();
            let (all, ahead) = (own().count(), own().count() - behind.len());
            if all == 0 {
                continue;
            }
            lines.push(format!(
                "rows by {peer}: as fast as every peer or faster in {ahead} of {all} cases"
            ));
            lines.extend(behind.into_iter().map(|Verdict { time, rival, over }| {
                let op = time.op.as_deref().unwrap_or_default();
                format!(
                    "  behind: {op} {} ({}): {rival} takes {over:.3} of its time",
                    shape(time),
                    launched(time)
                )
            }));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::table::LIBRARY;
    use super::*;
    use crate::contest::{Ratio, Spread};

    fn time(variant: &str, peer: &str, (rows, len): (u64, u64), median: f64) -> Time {
        Time {
            variant: variant.into(),
            peer: peer.into(),
            op: Some("sum".into()),
            dtype: "f32".into(),
            n: rows * len,
            width: Some(len),
            height: Some(rows),
            time_us: Spread::of([median]),
            bandwidth_gbps: Some(1000.0 / median),
            ok: true,
            ..Time::default()
        }
    }

    /// Two shapes with the same number of elements. The library is faster than CUB at the first only.
    fn times() -> Vec<Time> {
        let (long, short) = ((16, 1 << 20), (1 << 20, 16));
        let over_llvm = Some(Ratio { median: 1.04, q1: 1.03, q3: 1.06 });
        vec![
            time(EMPTY, EMPTY, long, 2.5),
            time(LIBRARY, "cub", long, 12.0),
            time(LIBRARY, OFFSETS, long, 99.0),
            Time { kernel: Some("grid".into()), ..time(ROWS, "rust-llvm", long, 10.0) },
            Time { ratio_to_llvm: over_llvm, ..time(ROWS, "rust-nvvm", long, 10.4) },
            time(LIBRARY, "torch", long, 11.0),
            time(LIBRARY, "cub", short, 8.0),
            time(LIBRARY, OFFSETS, short, 800.0),
            time(ROWS, "rust-llvm", short, 10.0),
            time(LIBRARY, "torch", short, 9.0),
        ]
    }

    #[test]
    fn row_has_all_times_and_names_the_fastest_peer() {
        let times = times();
        let table = table(&times);
        assert_eq!(table.len(), 2);
        let row = |row: usize, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| table.cell(row, name).to_owned()).collect()
        };
        let heads =
            ["rows x length", "us [quartiles]", "cub us", "cub-offsets us", "torch us", "empty us"];
        assert_eq!(
            row(0, &heads),
            ["16x2^20", "10.00 [10.00 10.00]", "12.00", "99.00", "11.00", "2.50"]
        );
        assert_eq!(row(1, &heads), ["2^20x16", "10.00 [10.00 10.00]", "8.00", "800.00", "9.00", "-"]);
        let verdicts = ["kernel", "/ llvm [quartiles]", "x fastest", "of"];
        assert_eq!(row(0, &verdicts), ["grid", "1.040 [1.030 1.060]", "1.100", "torch"]);
        assert_eq!(row(1, &verdicts), ["as a buffer", "-", "BEHIND 0.800", "cub"]);
        assert!(text(&times).ends_with(LEGEND));
    }

    #[test]
    fn the_summary_names_every_loss_and_its_winner() {
        let said = Verdicts::of(&times()).summary().unwrap();
        assert_eq!(
            said.lines().collect::<Vec<_>>(),
            [
                "rows by rust-llvm: as fast as every peer or faster in 1 of 2 cases",
                "  behind: sum 2^20x16 (stream): cub takes 0.800 of its time",
                "rows by rust-nvvm: as fast as every peer or faster in 1 of 1 cases",
            ]
        );
        // A tie counts as ahead.
        let mut tie = times()[6..9].to_vec();
        tie[0].time_us = Spread::of([10.0]);
        assert!(!Verdicts::of(&tie).summary().unwrap().contains("behind"));
        assert_eq!(Verdicts::of(&times()[8..9]).summary(), None);
    }

    #[test]
    fn wrong_code_generator_is_marked() {
        let mut times = times();
        times[4] = Time { ok: false, time_us: None, ratio_to_llvm: None, ..times[4].clone() };
        assert_eq!(table(&times).cell(0, "/ llvm [quartiles]"), "WRONG");
    }

    /// A contender with a wrong result has no time, and the verdict ignores it.
    #[test]
    fn wrong_peer_is_excluded_from_the_verdict() {
        let mut times = times()[6..].to_vec();
        times[0] = Time { ok: false, time_us: None, bandwidth_gbps: None, ..times[0].clone() };
        let shown = table(&times);
        assert_eq!((shown.cell(0, "cub us"), shown.cell(0, "of")), ("WRONG", "torch"));
        assert_eq!(shown.cell(0, "x fastest"), "BEHIND 0.900");
        let mut times = times[2..].to_vec();
        times[0] = Time { ok: false, time_us: None, bandwidth_gbps: None, ..times[0].clone() };
        let shown = table(&times);
        assert_eq!((shown.cell(0, "us [quartiles]"), shown.cell(0, "x fastest")), ("WRONG", "-"));
    }
}
