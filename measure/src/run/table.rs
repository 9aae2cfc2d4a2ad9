//! Records as tables: a row per variant with its worst case, or a row per run.

use warpfold_suite::{
    Record, Statistic,
    catalogue::{VARIANTS, Work},
    record::Processor,
};

use crate::table::{Cell, Color, Column, Table};

/// Returns a row per variant: the number of correct runs, the run with the largest error relative to the
/// allowed one, and on a GPU the run with the lowest bandwidth.
pub(super) fn by_variant(records: &[Record]) -> Table {
    let timed =
        records.iter().any(|record| record.device == Processor::Cuda && record.time_us.is_some());
    let mut columns = vec![
        Column::new("variant"),
        Column::new("right"),
        Column::new("least exact").rank(2),
        Column::number("off by").rank(1),
    ];
    if timed {
        columns.extend([
            Column::new("slowest"),
            Column::number("time us").rank(1),
            Column::number("GB/s").rank(1),
            Column::number("% of peak"),
            Column::number("vs all CPUs").rank(3),
        ]);
    }
    let mut table = Table::new(columns);
    for runs in records.chunk_by(|a, b| a.variant == b.variant) {
        let mut cells = vec![runs[0].variant.into(), verdict(runs)];
        let worst = runs.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
        let worst = worst.filter(|record| share(record) > 0.0);
        cells.push(worst.map(case).unwrap_or_default().into());
        cells.push(worst.map_or("nothing".to_owned(), off_by).into());
        if timed {
            cells.extend(slowest(runs, records));
        }
        table.row(cells);
    }
    table
}

pub(super) fn by_run(records: &[Record]) -> Table {
    let mut table = Table::new([
        Column::new("variant"),
        Column::new("type"),
        Column::new("op"),
        Column::number("n").rank(3),
        Column::new("device").rank(4),
        Column::number("result").rank(1),
        Column::number("expected").rank(2),
        Column::new("ok"),
        Column::number("time us"),
        Column::number("GB/s").rank(1),
        Column::number("% of peak").rank(3),
        Column::number("vs serial CPU").rank(5),
        Column::number("vs all CPUs").rank(5),
    ]);
    for record in records {
        let ratio = |parallel| number(speed_up(record, records, parallel), 2);
        table.row([
            format!("{}{}", record.variant, record.extent).into(),
            record.dtype.into(),
            record.op.map(Statistic::name).unwrap_or_default().into(),
            record.n.into(),
            record.device.into(),
            record.result.into(),
            record.expected.into(),
            verdict(std::slice::from_ref(record)),
            number(record.time_us.map(|time| time.median), 2).into(),
            number(record.bandwidth_gbps, 1).into(),
            number(record.percent_of_peak, 1).into(),
            ratio(false).into(),
            ratio(true).into(),
        ]);
    }
    table
}

pub(super) fn failure(record: &Record) -> String {
    let Record { variant, n, result, expected, error, allowed, .. } = record;
    let what = format!("WRONG: {variant} {} of {n} on {}", case(record), record.device);
    match record.op {
        Some(_) => {
            format!("{what}: {result}, expected {expected}; off by {error}, allowed is {allowed}")
        }
        None => format!("{what}: {result} elements are right of {expected}"),
    }
}

fn verdict(runs: &[Record]) -> Cell {
    let right = runs.iter().filter(|record| record.ok).count();
    match (right == runs.len(), runs.len()) {
        (true, 1) => Cell::coloured("ok", Color::Green),
        (true, all) => Cell::coloured(format!("all {all}"), Color::Green),
        (false, 1) => Cell::coloured("WRONG", Color::Red),
        (false, all) => Cell::coloured(format!("WRONG {} of {all}", all - right), Color::Red),
    }
}

fn case(record: &Record) -> String {
    let op = record.op.map(|op| format!(" {op}")).unwrap_or_default();
    format!("{}{op}{}", record.dtype, record.extent)
}

/// Returns the error relative to the allowed one; infinity for a wrong run.
fn share(record: &Record) -> f64 {
    match record.ok {
        true if record.error > 0.0 => record.error / record.allowed,
        true => 0.0,
        false => f64::INFINITY,
    }
}

fn off_by(record: &Record) -> String {
    match record.ok {
        true => format!("{:.1} % of allowed", share(record) * 100.0),
        false => "too much".to_owned(),
    }
}

fn slowest(runs: &[Record], all: &[Record]) -> [Cell; 5] {
    let bandwidth = |record: &Record| record.bandwidth_gbps.unwrap_or(f64::INFINITY);
    let timed = runs.iter().filter(|record| record.time_us.is_some());
    let slowest = timed.min_by(|a, b| bandwidth(a).total_cmp(&bandwidth(b)));
    let of = |value: fn(&Record) -> Option<f64>, digits| number(slowest.and_then(value), digits).into();
    [
        slowest.map_or("-".to_owned(), case).into(),
        of(|record| record.time_us.map(|time| time.median), 2),
        of(|record| record.bandwidth_gbps, 1),
        of(|record| record.percent_of_peak, 1),
        number(slowest.and_then(|record| speed_up(record, all, true)), 2).into(),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn speed_up(record: &Record, all: &[Record], parallel: bool) -> Option<f64> {
    let id = VARIANTS.iter().find(|variant| variant.work == Work::Cpu { parallel })?.id;
    let alike = |r: &&Record| (r.variant, r.op, r.dtype, r.n) == (id, record.op, record.dtype, record.n);
    let baseline = all.iter().find(alike)?.time_us?;
    Some(baseline.median / record.time_us?.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::{
        Data, Op, catalogue, cpu::CpuReduction, measure::Options, measure::Spread, reference::Expected,
    };

    fn record(op: Op, values: Vec<f32>, time: f64) -> Record {
        let data = Data::F32(values);
        let variant = catalogue::find("cpu_serial").unwrap();
        let reduction = CpuReduction::new(variant, op, false, None).unwrap();
        let expected = Expected::of(op, &data).unwrap();
        let options = Options { iterations: 0, warm_up: 0 };
        let mut record = Record::of_cpu(&reduction, &data, &expected, options).unwrap();
        (record.device, record.variant) = (Processor::Cuda, "tree");
        record.time_us = Spread::of([time]);
        record.bandwidth_gbps = record.time_us.map(|time| time.gigabytes_per_second(4000));
        record
    }

    #[test]
    fn a_variant_is_one_row_with_its_worst_cases() {
        let exact = record(Op::Max, vec![1.0, 2.0], 9.0);
        let sum = Record { error: 1.0, allowed: 4.0, ..record(Op::Sum, vec![1.0, 2.0], 2.0) };
        let other = Record { variant: "other", ..exact.clone() };
        let table = by_variant(&[exact.clone(), sum.clone(), other]);
        assert_eq!(table.len(), 2);
        let cell = |row, head| table.cell(row, head);
        assert_eq!((cell(0, "variant"), cell(0, "right")), ("tree", "all 2"));
        assert_eq!((cell(0, "least exact"), cell(0, "off by")), ("f32 sum", "25.0 % of allowed"));
        assert_eq!((cell(0, "slowest"), cell(0, "time us")), ("f32 max", "9.00"));
        assert_eq!((cell(1, "right"), cell(1, "off by")), ("ok", "nothing"));

        // A wrong run is the worst, however small its error, and is described in full.
        let wrong = Record { ok: false, error: 0.5, allowed: 0.25, ..exact };
        let table = by_variant(&[sum, wrong.clone()]);
        assert_eq!((table.cell(0, "right"), table.cell(0, "least exact")), ("WRONG 1 of 2", "f32 max"));
        let told = failure(&wrong);
        assert!(
            told.contains("tree f32 max of 2 on cuda: 2, expected 2; off by 0.5, allowed is 0.25"),
            "{told}"
        );
    }

    #[test]
    fn without_a_gpu_there_are_no_times_and_80_columns_are_enough() {
        let ids = VARIANTS.iter().map(|variant| variant.id);
        let records: Vec<Record> = ids
            .map(|id| Record { variant: id, device: Processor::Sim, ..record(Op::Sum, vec![1.0], 1.0) })
            .collect();
        let text = by_variant(&records).fitted(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("time us") && !text.contains("left out"), "{text}");
        assert_eq!(text.lines().count(), VARIANTS.len() + 4, "{text}");
    }
}
