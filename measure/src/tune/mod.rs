//! `cargo xtask tune`: measures the reducer's fastest launch by operation, type and size on this
//! machine's GPU, and writes it to the file that the library embeds for its architecture.
//!
//! All candidates of a size alternate in one contest, with a swept cache before every run, so that the
//! GPU's time on cold inputs is measured, independent of the preceding run. Every launch is checked
//! against the host's reference before and after the timing. All sizes are prefixes of one random input
//! per type, which is uploaded once.

mod brackets;
mod candidates;
mod file;
mod session;
mod table;

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use crate::contest::{Contest, LEAST_ROUNDS, Options};
use anyhow::{Result, bail};
use warpfold_suite::{Device, Dtype, Op, Reducer, Tuning, cli, measure::MAX_ITERATIONS, say};

use crate::{
    Builder,
    builder::Choice,
    compare::timed::{machine, record::Destination, sizes::Sizes},
    options, suite,
    workspace::Workspace,
};
use session::Session;

/// Microseconds for all rounds of one launch: enough for the largest inputs.
const BUDGET: f64 = 1e4;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these operations, separated by commas [default: all]
    #[arg(long = "op", value_name = "OP", value_delimiter = ',', value_parser = options::op(), hide_possible_values = true)]
    pub ops: Vec<Op>,
    /// Only these element types, separated by commas [default: all]
    #[arg(long = "dtype", value_name = "TYPE", value_delimiter = ',', value_parser = options::dtype(), hide_possible_values = true)]
    pub dtypes: Vec<Dtype>,
    /// Numbers of elements: a list such as 1000,4Mi, or a range such as 2^10..2^32, which doubles at
    /// each step [default: those of 4 KiB to 16 GiB]
    #[arg(long, value_name = "RANGE", value_parser = str::parse::<Sizes>)]
    pub n: Option<Sizes>,
    /// Timed rounds per size; large inputs have fewer
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(i64::from(LEAST_ROUNDS)..=i64::from(MAX_ITERATIONS))
    )]
    pub iters: u32,
    /// Tuning file to update; tables of other operations and types stay if the GPU is the same [default:
    /// warpfold/tuning/ARCH.json]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Runs the command. Exits 1 when a result is wrong, and then writes no file.
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    let start = Instant::now();
    let out = args.out.as_deref();
    let named = out.map(Destination::new).transpose()?;
    let device = suite::gpu("tuning needs a GPU")?;
    let path = out.map_or_else(|| standard(&device), |path| Ok(path.to_owned()))?;
    let destination = named.map_or_else(|| Destination::new(&path), Ok)?;
    let store = suite::ptx_store(builder, Choice::by_default()?)?;
    let reducer = Reducer::with(&device, &store, Tuning::generic())?;
    let options = Options { rounds: args.iters, slices: 1, budget: BUDGET, ..Options::default() };
    let mut session = Session { reducer: &reducer, options, contest: Contest::new, wrong: Vec::new() };
    let tuned = measure(args, &mut session)?;
    let info = device.info();
    writeln!(cli::stdout(), "{}", table::table(&tuned, info))?;
    let seconds = start.elapsed().as_secs_f32();
    say!("{} operations and types on {}, in {seconds:.1} s", tuned.len(), info.name);
    if !session.wrong.is_empty() {
        session.wrong.iter().for_each(|line| say!("{line}"));
        say!("nothing is written: a result is wrong");
        return Ok(ExitCode::FAILURE);
    }
    let command = machine::command(env::args());
    file::write(&file::file(&tuned, file::earlier(&path), info, command), info, &destination)?;
    say!("written: {}; the library contains it when it is built again", path.display());
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args, session: &mut Session<'_>) -> Result<Vec<session::Tuned>> {
    let ops = suite::unique(if args.ops.is_empty() { Op::ALL } else { &args.ops }, Op::eq);
    let dtypes =
        suite::unique(if args.dtypes.is_empty() { Dtype::ALL } else { &args.dtypes }, Dtype::eq);
    let mut tuned = Vec::new();
    for (at, &dtype) in dtypes.iter().enumerate() {
        let mut sizes = match &args.n {
            Some(Sizes(counts)) => {
                counts.iter().map(|n| n.saturating_mul(dtype.size() as u64)).collect()
            }
            None => candidates::sizes(),
        };
        let left_out = session.fit(&mut sizes)?;
        left_out.iter().filter(|_| at == 0).for_each(|line| say!("{line}"));
        if sizes.is_empty() {
            bail!("nothing to tune: none of these sizes fits this GPU's memory");
        }
        tuned.extend(session.run(&ops, dtype, &sizes)?);
    }
    Ok(tuned)
}

fn standard(device: &Device) -> Result<PathBuf> {
    let folder = Workspace::locate()?.root.join(Path::new("warpfold/tuning"));
    Ok(folder.join(format!("{}.json", device.info().arch)))
}

/// Formats a number of bytes in the largest exact unit: `64 MiB`.
fn show(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |&&(shift, _): &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    let unit = units.iter().find(whole);
    unit.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests;
