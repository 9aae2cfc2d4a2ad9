//! What a tuning came to, as a table: a row for each bracket.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use warpfold_suite::{
    DeviceInfo,
    reducer::{Choice, tuning::Blocks},
};

use super::{
    brackets::{Range, ranges},
    session::Tuned,
    show,
};

const HEAD: [&str; 8] = ["op", "type", "sizes", "choice", "at", "us", "GB/s", "x generic"];

/// All brackets, each with the time at its largest size, and how many times as fast as the generic
/// choice that is.
pub(super) fn table(tuned: &[Tuned], info: &DeviceInfo) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(HEAD);
    for tuned in tuned {
        for range in ranges(&tuned.points) {
            table.add_row(row(tuned, &range, info));
        }
    }
    table
}

fn row(tuned: &Tuned, range: &Range<'_>, info: &DeviceInfo) -> Vec<Cell> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let (first, last) = (&range.points[0], &range.points[range.points.len() - 1]);
    let time = last.trial(range.choice).map(|trial| trial.time);
    let generic = last.trial(Choice::generic(last.bytes, info)).map(|trial| trial.time.median);
    let factor = generic.zip(time).map(|(generic, time)| generic / time.median);
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    vec![
        Cell::new(tuned.op),
        Cell::new(tuned.dtype),
        Cell::new(format!("{} to {}", show(first.bytes), show(last.bytes))),
        Cell::new(named(range.choice)),
        right(show(last.bytes)),
        right(number(time.map(|time| time.median), 2)),
        right(number(time.map(|time| time.gigabytes_per_second(last.bytes)), 1)),
        right(number(factor, 3)),
    ]
}

/// Kernel, blocks and threads: `grid 2/SM x 512`.
pub(super) fn named(Choice { kernel, block, blocks }: Choice) -> String {
    let blocks = match blocks {
        Blocks::Total(blocks) => blocks.to_string(),
        Blocks::PerMultiprocessor(blocks) => format!("{blocks}/SM"),
    };
    format!("{} {blocks} x {block}", kernel.name())
}
