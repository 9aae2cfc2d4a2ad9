//! `cargo xtask <command>`: see `cargo xtask --help`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use warpfold_measure::{check, compare, explain, report, run, tune};
use warpfold_suite::{
    Error, cli,
    device::{self, GpuProbe},
    say,
};
use warpfold_suite_build::{
    build_ptx, embed_ptx,
    failure::Failure,
    suite::{self, Sources},
    twins,
};
use xtask::{build_sim, doctor, fuzz, lint, python, test};

/// The tools of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile the kernels to PTX, one checked file per variant
    BuildPtx(build_ptx::Args),
    /// Write the reducer's PTX to warpfold/ptx, which the library embeds
    EmbedPtx(embed_ptx::Args),
    /// Compile the CUDA C twins to PTX, one file per variant, or CUB's reductions to a library
    BuildTwins(twins::Args),
    /// Build warpfold-sim, which runs kernels and whole CUDA programs without a GPU
    BuildSim(build_sim::Args),
    /// Run every variant and check each result; on a GPU also time it. Or list the variants
    Run(run::Args),
    /// Compare the Rust kernels with their CUDA C twins, CUB and PyTorch
    Compare(compare::Args),
    /// Find the reducer's fastest launches on this GPU, and write them to a tuning file
    Tune(tune::Args),
    /// Count a kernel's divergence, bank conflicts and coalescing by source line. Needs no GPU
    Explain(explain::Args),
    /// Find races, reads of unwritten memory and other hazards of the kernels. Needs no GPU
    Check(check::Args),
    /// Show a machine's results: as an HTML page, and as plots and tables in the documents
    Report(report::Args),
    /// Run all tests, on the simulator or on the GPU; or check that they notice broken code
    Test(test::Args),
    /// Test the Python packages, or run the regression cases of tests/cases, or build wheels
    Python(python::Args),
    /// Show the GPUs and tools of this machine, and how to install missing ones; or fetch NVIDIA's
    /// compiler
    Doctor(doctor::Args),
    /// Fuzz with random PTX, fat binaries, data files, tunings, expressions, results and driver calls,
    /// and keep the inputs that crash or hang
    Fuzz(fuzz::Args),
    /// Check documents, comments, public items, features, and the kernels' nvvm side
    Lint(lint::Args),
}

/// Exit status for usage errors and for machines that lack something; 1 means wrong results.
const CANNOT: u8 = 2;

fn main() -> ExitCode {
    let call = match Cli::try_parse() {
        Ok(call) => call,
        Err(error) => return cli::usage(&error),
    };
    match dispatch(&call.command) {
        Ok(status) => status,
        Err(error) => {
            lines(&error).iter().for_each(|line| say!("error: {line}"));
            ExitCode::from(CANNOT)
        }
    }
}

fn lines(error: &anyhow::Error) -> Vec<String> {
    let Some(failure) = error.downcast_ref::<Failure>() else { return vec![format!("{error:#}")] };
    let around = error.chain().take_while(|cause| !cause.is::<Failure>());
    let around: String = around.map(|cause| format!("{cause}: ")).collect();
    failure.lines().iter().map(|line| format!("{around}{line}")).collect()
}

fn dispatch(command: &Command) -> Result<ExitCode> {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match command {
        Command::BuildPtx(args) => done(build_ptx::run(args, &suite::variants(), &suite::gpu_arch)),
        Command::EmbedPtx(args) => done(embed_ptx::run(args)),
        Command::BuildTwins(args) => done(twins::run(args)),
        Command::BuildSim(args) => done(build_sim::run(args)),
        Command::Run(args) => run::run(args, &Sources),
        Command::Compare(args) => compare::run(args, &Sources),
        Command::Tune(args) => tune::run(args, &Sources),
        Command::Explain(args) => explain::run(args, &Sources),
        Command::Check(args) => check::run(args, &Sources),
        Command::Report(args) => report::run(args),
        Command::Test(args) => test::run(args),
        Command::Python(args) => python::run(args),
        Command::Fuzz(args) => fuzz::run(args),
        Command::Doctor(args) => done(doctor::run(args, &driver())),
        Command::Lint(args) => lint::run(args),
    }
}

fn driver() -> doctor::Driver {
    let GpuProbe { driver: (major, minor), gpu } = device::probe().map_err(|error| match error {
        Error::NoCuda { reason } => reason,
        other => other.to_string(),
    })?;
    let gpu = doctor::Gpu { name: gpu.name, arch: gpu.arch.to_string(), memory_bytes: gpu.memory_bytes };
    Ok(doctor::Gpus { version: format!("{major}.{minor}"), gpus: vec![gpu] })
}
