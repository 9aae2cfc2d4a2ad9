//! `cargo xtask run`: checks the whole catalogue, every operation and type, and times it on a GPU.

mod cases;
mod table;

#[cfg(test)]
pub(crate) use cases::SERIAL;

use std::{io::Write, process::ExitCode, time::Instant};

use anyhow::Result;
use warpfold_suite::{
    Dtype, Op, Selection, Statistic,
    catalogue::{VARIANTS, Variant},
    cli,
    measure::Options,
    plan, say,
};

use crate::{Builder, builder::CodegenArg, list, options, suite};

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run nothing; list the variants, with what each does, shows and needs
    #[arg(long)]
    pub list: bool,
    /// Number of random elements: 1000003, 4Mi, 2^20, 10M
    #[arg(long, default_value = "1000003", value_parser = cli::parse_count)]
    pub n: u64,
    /// Device to run on: auto (a GPU if available, else the simulator), cuda or sim
    #[arg(long, default_value = "auto", value_parser = str::parse::<Selection>)]
    pub device: Selection,
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// Run the CUDA C twins instead of the Rust kernels
    #[arg(long, conflicts_with = "codegen")]
    pub twins: bool,
    /// Only these variants, separated by commas [default: all]
    #[arg(long = "variant", value_name = "ID", value_delimiter = ',', value_parser = options::variant(), hide_possible_values = true)]
    pub variants: Vec<&'static Variant>,
    /// Only these element types, separated by commas [default: all]
    #[arg(long = "dtype", value_name = "TYPE", value_delimiter = ',', value_parser = options::dtype(), hide_possible_values = true)]
    pub dtypes: Vec<Dtype>,
    /// Only these operations, separated by commas [default: all]; kernels without an operation run
    /// anyway
    #[arg(long = "op", value_name = "OP", value_delimiter = ',', value_parser = options::op_by(parse_op), hide_possible_values = true)]
    pub ops: Vec<Op>,
    /// Threads per block, a power of two from 32 to 1024; the reducer uses its tuning instead
    #[arg(long, default_value_t = plan::DEFAULT_BLOCK)]
    pub block: u32,
    /// Timed runs on a GPU; 0 only checks the results
    #[arg(long, default_value_t = Options::default().iterations, value_parser = cli::iterations())]
    pub iters: u32,
    /// Seed of the random elements
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show every run, not only the worst of each variant
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print one JSON object per run instead of a table; with --list, one array
    #[arg(long)]
    pub json: bool,
}

/// Runs and checks the catalogue and prints a table. Exits 1 when a result is wrong.
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    if args.list {
        return list::print(args.json).map(|()| ExitCode::SUCCESS);
    }
    let start = Instant::now();
    let store = suite::chosen_store(builder, args.twins, args.codegen)?;
    let device = cli::open(args.device)?;
    let variants =
        if args.variants.is_empty() { VARIANTS.iter().collect() } else { args.variants.clone() };
    let reducer = cli::reducer(&device, &store)?;
    let mut runs = cases::Runs { args, device: &device, store: &store, reducer: &reducer, variants };
    let skipped = runs.skip();
    let progress = suite::progress(runs.count());
    let records = runs.all(&progress)?;
    progress.finish_and_clear();
    let mut out = cli::stdout();
    if args.json {
        for record in &records {
            writeln!(out, "{}", serde_json::to_string(record)?)?;
        }
    } else {
        let table = if args.all { table::by_run(&records) } else { table::by_variant(&records) };
        writeln!(out, "{table}")?;
        for wrong in records.iter().filter(|record| !record.ok) {
            writeln!(out, "{}", table::failure(wrong))?;
        }
    }
    skipped.iter().for_each(|line| say!("{line}"));
    let wrong = records.iter().filter(|record| !record.ok).count();
    say!(
        "{} of {} right, n = {}, on {}, in {:.1} s",
        records.len() - wrong,
        records.len(),
        args.n,
        device.info().name,
        start.elapsed().as_secs_f32()
    );
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

fn parse_op(given: &str) -> Result<Op, String> {
    let statistic = given.parse::<Statistic>().map_err(|error| error.to_string())?;
    let op = statistic.op();
    match Statistic::from(op) == statistic {
        true => Ok(op),
        false => Err(format!("{given} is computed from {op}; give {op}")),
    }
}
