//! The command line that the binaries share: one binary per variant, the same options for all.
//!
//! Exit codes: 0 right, 1 wrong result, 2 usage or environment.

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::{
    Codegen, Data, Device, Dtype, Error, Op, PtxStore, Record, Reduction, Request, Selection,
    catalogue::{self, Variant},
    device::Kind,
    input,
    measure::Options,
    plan::{self, Plan},
    reference::Expected,
};

/// Runs, checks and, on a GPU, times one variant.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    /// Number of random elements: 1000, 4Mi, 2^20, 10M
    #[arg(long, value_name = "N", default_value = "4Mi", value_parser = parse_count, conflicts_with = "input")]
    n: u64,
    /// Elements from a file: .npy, or raw little-endian with --dtype
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Type of the elements [default: the file's, else the variant's first]
    #[arg(long, value_parser = str::parse::<Dtype>)]
    dtype: Option<Dtype>,
    /// What to compute
    #[arg(long, default_value = "sum", value_parser = str::parse::<Op>)]
    op: Op,
    /// Threads of a block, a power of two from 32 to 1024
    #[arg(long, default_value_t = plan::DEFAULT_BLOCK)]
    block: u32,
    /// Blocks of the first launch, for grid-stride variants [default: as many as fill the device]
    #[arg(long)]
    grid: Option<u64>,
    /// Timed runs on a GPU; 0 only checks
    #[arg(long, default_value_t = Options::default().iterations)]
    iters: u32,
    /// Where to run: auto, cuda or sim
    #[arg(long, default_value = "auto", value_parser = str::parse::<Selection>)]
    device: Selection,
    /// Which PTX to run: auto, llvm or nvvm
    #[arg(long, default_value = "auto", value_parser = parse_codegen)]
    codegen: CodegenChoice,
    /// Seed of the random elements
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A code generator, or whichever was built.
#[derive(Debug, Clone, Copy)]
struct CodegenChoice(Option<Codegen>);

fn parse_codegen(given: &str) -> Result<CodegenChoice, Error> {
    match given {
        "auto" => Ok(CodegenChoice(None)),
        _ => given.parse().map(|codegen| CodegenChoice(Some(codegen))),
    }
}

/// A count: digits, with `_` between them, a suffix (k, M, G by thousands; Ki, Mi, Gi by 1024), or a
/// power such as 2^20.
///
/// # Errors
/// A line that says what is allowed.
pub fn parse_count(given: &str) -> Result<u64, String> {
    let number = |digits: &str| digits.replace('_', "").parse::<u64>().ok();
    let suffixes = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("k", 1000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let count = if let Some((base, exponent)) = given.split_once('^') {
        let exponent = exponent.parse().ok();
        number(base).zip(exponent).and_then(|(base, exponent)| base.checked_pow(exponent))
    } else if let Some((digits, unit)) =
        suffixes.iter().find_map(|&(suffix, unit)| Some((given.strip_suffix(suffix)?, unit)))
    {
        number(digits).and_then(|number| number.checked_mul(unit))
    } else {
        number(given)
    };
    count.ok_or_else(|| "write a count such as 1000, 4Mi, 10M or 2^20".to_owned())
}

/// The whole program of a variant's binary.
pub fn main(id: &str) -> ExitCode {
    let variant = catalogue::find(id).expect("every binary has a row");
    let command = Arguments::command()
        .name(variant.id)
        .about(format!("{}\n\nShows: {}.", variant.summary, variant.shows));
    let parsed = command.try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => match run(variant, &arguments) {
            Ok(record) => {
                print(&record, arguments.json);
                ExitCode::from(u8::from(!record.ok))
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::from(2)
            }
        },
        Err(error) => usage(&error),
    }
}

/// Prints what clap has to say and gives the exit code: help and version in full on stdout with 0, an
/// error in one line on stderr with 2.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| {
        !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    eprintln!("{}", lines.collect::<Vec<_>>().join("; "));
    ExitCode::from(2)
}

fn run(variant: &'static Variant, arguments: &Arguments) -> anyhow::Result<Record> {
    let file = arguments.input.as_deref().map(|path| input::read(path, arguments.dtype)).transpose()?;
    let dtype = file.as_ref().map(Data::dtype).or(arguments.dtype).unwrap_or(variant.dtypes[0]);
    let request = Request {
        variant,
        op: arguments.op,
        dtype,
        n: file.as_ref().map_or(arguments.n, |data| data.len() as u64),
        block: arguments.block,
        grid: arguments.grid,
    };
    let device = open(arguments.device)?;
    // Everything that can be refused is, before time goes into elements and their reference.
    let plan = Plan::new(&request, device.info())?;
    let bytes = request.n.saturating_mul(dtype.size() as u64);
    device.require_memory(bytes.saturating_add(plan.workspace_bytes()))?;
    let reduction = Reduction::new(&device, &PtxStore::locate(arguments.codegen.0)?, &request)?;

    let data = file.unwrap_or_else(|| Data::random(dtype, request.n as usize, arguments.seed));
    let expected = Expected::of(request.op, &data)?;
    let options = Options { iterations: arguments.iters, ..Options::default() };
    Ok(Record::of(&reduction, &data, &expected, options)?)
}

/// Opens a device and says on stderr when that is the simulator although nobody asked for it.
///
/// # Errors
/// Those of [`Device::open`].
pub fn open(selection: Selection) -> Result<Device, Error> {
    let device = Device::open(selection)?;
    if selection == Selection::Auto && device.info().kind == Kind::Sim {
        eprintln!("note: no CUDA device; running on the simulator, which has no times");
    }
    Ok(device)
}

fn print(record: &Record, json: bool) {
    if json {
        println!("{}", serde_json::to_string(record).expect("a record has only plain fields"));
        return;
    }
    let verdict = if record.ok { "ok" } else { "WRONG" };
    println!("{} {} of {} {}", record.variant, record.op, record.n, record.dtype);
    println!("  result    {} (expected {}, {verdict})", record.result, record.expected);
    println!(
        "  device    {} ({}), PTX by {} for {}",
        record.device_name, record.device, record.codegen, record.arch
    );
    println!("  geometry  {} blocks of {} threads", record.grid, record.block);
    if let (Some(time), Some(bandwidth)) = (record.time_us, record.bandwidth_gbps) {
        println!("  time      {:.2} us, median ({:.2} to {:.2})", time.median, time.min, time.max);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_every_notation() {
        for (given, count) in [
            ("0", 0),
            ("1_000_003", 1_000_003),
            ("4Mi", 4 << 20),
            ("10M", 10_000_000),
            ("2k", 2000),
            ("2^33", 1 << 33),
            ("8Gi", 8 << 30),
        ] {
            assert_eq!(parse_count(given), Ok(count), "{given}");
        }
        for given in ["", "x", "-1", "1.5", "4 Mi", "2^64", "99999999999Gi", "Mi"] {
            assert!(parse_count(given).is_err(), "{given}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
