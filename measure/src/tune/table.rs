use warpfold_suite::{
    DeviceInfo,
    reducer::{Choice, tuning::Blocks},
};

use super::{
    brackets::{Range, ranges},
    session::Tuned,
    show,
};
use crate::table::{Cell, Column, Table};

/// Returns a row per bracket, with the time at its largest size and the speed-up over the generic
/// choice.
pub(super) fn table(tuned: &[Tuned], info: &DeviceInfo) -> Table {
    let mut table = Table::new([
        Column::new("op"),
        Column::new("type"),
        Column::new("sizes"),
        Column::new("choice"),
        Column::number("at").rank(3),
        Column::number("us").rank(1),
        Column::number("GB/s").rank(2),
        Column::number("x generic").rank(1),
    ]);
    for tuned in tuned {
        for range in ranges(&tuned.points) {
            table.row(row(tuned, &range, info));
        }
    }
    table
}

fn row(tuned: &Tuned, range: &Range<'_>, info: &DeviceInfo) -> Vec<Cell> {
    let (first, last) = (&range.points[0], &range.points[range.points.len() - 1]);
    let time = last.trial(range.choice).map(|trial| trial.time);
    let generic = last.trial(Choice::generic(last.bytes, info.arch)).map(|trial| trial.time.median);
    let factor = generic.zip(time).map(|(generic, time)| generic / time.median);
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    vec![
        tuned.op.into(),
        tuned.dtype.into(),
        format!("{} to {}", show(first.bytes), show(last.bytes)).into(),
        named(range.choice).into(),
        show(last.bytes).into(),
        number(time.map(|time| time.median), 2).into(),
        number(time.map(|time| time.gigabytes_per_second(last.bytes)), 1).into(),
        number(factor, 3).into(),
    ]
}

/// Formats kernel, blocks and threads: `grid 2/SM x 512`.
pub(super) fn named(Choice { kernel, block, blocks }: Choice) -> String {
    let blocks = match blocks {
        Blocks::Total(blocks) => blocks.to_string(),
        Blocks::PerMultiprocessor(blocks) => format!("{blocks}/SM"),
    };
    format!("{} {blocks} x {block}", kernel.name())
}
