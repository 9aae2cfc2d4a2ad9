//! Human-readable records.

use std::io::{self, Write};

use crate::{Record, Spread, record::Processor, say};

/// Prints records as JSON, one object per line, or as text. A sweep over strides is printed as a table.
pub(super) fn records(out: &mut impl Write, records: &[Record], json: bool) -> io::Result<()> {
    if json {
        for record in records {
            writeln!(out, "{}", serde_json::to_string(record).expect("a record has only plain fields"))?;
        }
    } else if records.len() > 1 && records.iter().all(|record| record.extent.stride.is_some()) {
        strides(out, records)?;
    } else {
        records.iter().try_for_each(|record| text(out, record))?;
        speed_ups(out, records)?;
    }
    records.iter().for_each(blind);
    Ok(())
}

/// Prints a note to stderr if the tolerance is too large to detect a wrong kernel.
fn blind(record: &Record) {
    if let (true, Some(what)) = (record.ok, record.blind_to) {
        say!(
            "note: the check of {} cannot detect a wrong result on these elements: rounding errors may \
             be so large that a kernel that {what} would pass as well",
            record.variant
        );
    }
}

fn text(out: &mut impl Write, record: &Record) -> io::Result<()> {
    result(out, record)?;
    place(out, record)?;
    times(out, record)
}

fn result(out: &mut impl Write, record: &Record) -> io::Result<()> {
    let verdict = if record.ok { "ok" } else { "WRONG" };
    let &Record { variant, n, dtype, result, expected, .. } = record;
    let Some(op) = record.op else {
        writeln!(out, "{variant} of {n} {dtype}{}", record.extent)?;
        return writeln!(out, "  result    {result} elements right of {expected}, {verdict}");
    };
    writeln!(out, "{variant} {op} of {n} {dtype}")?;
    writeln!(out, "  result    {result} (expected {expected}, {verdict})")?;
    record.extent.element.map_or(Ok(()), |element| writeln!(out, "  element   {element}"))
}

fn place(out: &mut impl Write, record: &Record) -> io::Result<()> {
    let made = record.codegen.zip(record.arch);
    let made = made.map(|(codegen, arch)| format!(", PTX by {codegen} for {arch}"));
    writeln!(out, "  device    {} ({}){}", record.device_name, record.device, made.unwrap_or_default())?;
    if let Some((block, grid)) = record.block.zip(record.grid) {
        let kernel = record.extent.kernel.map(|kernel| format!(", {} kernel", kernel.name()));
        writeln!(out, "  geometry  {grid} blocks of {block} threads{}", kernel.unwrap_or_default())?;
    }
    if let Some(threads) = record.extent.threads {
        writeln!(out, "  geometry  {threads} CPU thread{}", if threads == 1 { "" } else { "s" })?;
    }
    match record.op {
        Some(_) => writeln!(out, "  same bits {}", record.determinism),
        None => Ok(()),
    }
}

fn times(out: &mut impl Write, record: &Record) -> io::Result<()> {
    for (what, time) in [
        ("copy", record.extent.copy_us),
        ("reduction", record.extent.reduce_us),
        ("time", record.time_us),
    ] {
        if let Some(Spread { median, min, max, .. }) = time {
            writeln!(out, "  {what:9} {median:.2} us, median ({min:.2} to {max:.2})")?;
        }
    }
    if let Some(bandwidth) = record.bandwidth_gbps {
        let peak = record.percent_of_peak.map(|p| format!(", {p:.1} % of peak")).unwrap_or_default();
        writeln!(out, "  bandwidth {bandwidth:.1} GB/s{peak}")?;
    }
    let Some(counters) = record.counters else { return Ok(()) };
    writeln!(
        out,
        "  counters  {} warp instructions, {} thread instructions, {} launches",
        counters.warp_instructions, counters.thread_instructions, counters.launches
    )
}

fn speed_ups(out: &mut impl Write, records: &[Record]) -> io::Result<()> {
    let median = |record: &Record| record.time_us.map(|timing| timing.median);
    let gpu = records.iter().find(|record| record.device == Processor::Cuda);
    let Some((gpu, time)) = gpu.and_then(|gpu| Some((gpu, median(gpu)?))) else { return Ok(()) };
    for cpu in records.iter().filter(|record| record.device == Processor::Cpu) {
        if let Some(baseline) = median(cpu) {
            writeln!(out, "{} is {:.1} times as fast as {}", gpu.variant, baseline / time, cpu.variant)?;
        }
    }
    Ok(())
}

fn strides(out: &mut impl Write, records: &[Record]) -> io::Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    writeln!(out, "{} of {} {} on {}", first.variant, first.n, first.dtype, first.device_name)?;
    writeln!(out, "  stride  right     time us      GB/s  % of peak")?;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for record in records {
        writeln!(
            out,
            "  {:>6}  {:>5}  {:>10}  {:>8}  {:>9}",
            record.extent.stride.unwrap_or_default(),
            if record.ok { "ok" } else { "WRONG" },
            number(record.time_us.map(|timing| timing.median)),
            number(record.bandwidth_gbps),
            number(record.percent_of_peak),
        )?;
    }
    Ok(())
}
