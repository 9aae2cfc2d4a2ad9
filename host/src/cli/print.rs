//! Records as a person reads them.

use crate::{Record, Spread, record::Processor};

/// Prints records: JSON as one object a line, else text; a sweep as a table.
pub(super) fn records(records: &[Record], json: bool) {
    if json {
        for record in records {
            println!("{}", serde_json::to_string(record).expect("a record has only plain fields"));
        }
    } else if records.len() > 1 && records.iter().all(|record| record.extent.stride.is_some()) {
        strides(records);
    } else {
        records.iter().for_each(text);
        speed_ups(records);
    }
    records.iter().for_each(blind);
}

/// What was found right although something wrong would have been, too.
fn blind(record: &Record) {
    if let (true, Some(what)) = (record.ok, record.blind_to) {
        eprintln!(
            "note: on these elements {} cannot tell right from wrong: rounding may be so far off that a kernel \
             that {what} would pass as well",
            record.variant
        );
    }
}

fn text(record: &Record) {
    let verdict = if record.ok { "ok" } else { "WRONG" };
    match record.op {
        Some(op) => {
            println!("{} {op} of {} {}", record.variant, record.n, record.dtype);
            println!("  result    {} (expected {}, {verdict})", record.result, record.expected);
            if let Some(element) = record.extent.element {
                println!("  element   {element}");
            }
        }
        None => {
            println!("{} of {} {}{}", record.variant, record.n, record.dtype, record.extent);
            println!("  result    {} elements right of {}, {verdict}", record.result, record.expected);
        }
    }
    let made = record.codegen.zip(record.arch);
    let made = made.map(|(codegen, arch)| format!(", PTX by {codegen} for {arch}"));
    println!("  device    {} ({}){}", record.device_name, record.device, made.unwrap_or_default());
    if let Some((block, grid)) = record.block.zip(record.grid) {
        let kernel = record.extent.kernel.map(|kernel| format!(", {} kernel", kernel.name()));
        println!("  geometry  {grid} blocks of {block} threads{}", kernel.unwrap_or_default());
    }
    if let Some(threads) = record.extent.threads {
        println!("  geometry  {threads} CPU thread{}", if threads == 1 { "" } else { "s" });
    }
    if record.op.is_some() {
        println!("  same bits {}", record.determinism);
    }
    let time = |timing: Spread| {
        format!("{:.2} us, median ({:.2} to {:.2})", timing.median, timing.min, timing.max)
    };
    for (what, timing) in [
        ("copy", record.extent.copy_us),
        ("reduction", record.extent.reduce_us),
        ("time", record.time_us),
    ] {
        if let Some(timing) = timing {
            println!("  {what:9} {}", time(timing));
        }
    }
    if let Some(bandwidth) = record.bandwidth_gbps {
        let peak = record.percent_of_peak.map(|p| format!(", {p:.1} % of peak")).unwrap_or_default();
        println!("  bandwidth {bandwidth:.1} GB/s{peak}");
    }
    if let Some(counters) = record.counters {
        println!(
            "  counters  {} warp instructions, {} thread instructions, {} launches",
            counters.warp_instructions, counters.thread_instructions, counters.launches
        );
    }
}

/// How much faster the GPU is than each of the CPU's baselines.
fn speed_ups(records: &[Record]) {
    let median = |record: &Record| record.time_us.map(|timing| timing.median);
    let gpu = records.iter().find(|record| record.device == Processor::Cuda);
    let Some((gpu, time)) = gpu.and_then(|gpu| Some((gpu, median(gpu)?))) else { return };
    for cpu in records.iter().filter(|record| record.device == Processor::Cpu) {
        if let Some(baseline) = median(cpu) {
            println!("{} is {:.1} times as fast as {}", gpu.variant, baseline / time, cpu.variant);
        }
    }
}

fn strides(records: &[Record]) {
    let Some(first) = records.first() else { return };
    println!("{} of {} {} on {}", first.variant, first.n, first.dtype, first.device_name);
    println!("  stride  right     time us      GB/s  % of peak");
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for record in records {
        println!(
            "  {:>6}  {:>5}  {:>10}  {:>8}  {:>9}",
            record.extent.stride.unwrap_or_default(),
            if record.ok { "ok" } else { "WRONG" },
            number(record.time_us.map(|timing| timing.median)),
            number(record.bandwidth_gbps),
            number(record.percent_of_peak),
        );
    }
}
