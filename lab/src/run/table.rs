//! Records as a table.

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use warpfold_suite::{
    Record, Statistic,
    catalogue::{VARIANTS, Work},
};

const HEADER: [&str; 13] = [
    "variant",
    "type",
    "op",
    "n",
    "device",
    "result",
    "expected",
    "ok",
    "time us",
    "GB/s",
    "% of peak",
    "vs serial CPU",
    "vs all CPUs",
];

/// One row a record, with the speed-up against the CPU's baselines where both were timed.
pub(super) fn table(records: &[Record]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(HEADER);
    for record in records {
        table.add_row(row(record, records));
    }
    table
}

fn row(record: &Record, all: &[Record]) -> Vec<Cell> {
    let number =
        |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let ratio = |parallel| number(speed_up(record, all, parallel), 2);
    let verdict =
        if record.ok { Cell::new("ok").fg(Color::Green) } else { Cell::new("WRONG").fg(Color::Red) };
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    vec![
        Cell::new(format!("{}{}", record.variant, record.extent)),
        Cell::new(record.dtype),
        Cell::new(record.op.map(Statistic::name).unwrap_or_default()),
        right(record.n.to_string()),
        Cell::new(record.device),
        right(record.result.to_string()),
        right(record.expected.to_string()),
        verdict,
        right(number(record.time_us.map(|time| time.median), 2)),
        right(number(record.bandwidth_gbps, 1)),
        right(number(record.percent_of_peak, 1)),
        right(ratio(false)),
        right(ratio(true)),
    ]
}

/// How many times as fast as a CPU baseline on the same elements.
fn speed_up(record: &Record, all: &[Record], parallel: bool) -> Option<f64> {
    let id = VARIANTS.iter().find(|variant| variant.work == Work::Cpu { parallel })?.id;
    let alike = |r: &&Record| (r.variant, r.op, r.dtype, r.n) == (id, record.op, record.dtype, record.n);
    let baseline = all.iter().find(alike)?.time_us?;
    Some(baseline.median / record.time_us?.median)
}
