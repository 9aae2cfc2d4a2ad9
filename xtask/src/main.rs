//! `cargo xtask <command>`: see `cargo xtask --help`.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use warpfold_lab::{check, compare, explain, failure::Failure, list, report, run, scale, tune};
use warpfold_suite::{
    Error, cli,
    device::{self, GpuProbe},
    say,
};
use xtask::{
    build_ptx, build_sim, cases, check_features, check_nvvm, check_text, cub, cuda_toolkit, doctor,
    embed_ptx, examples, from_packages, fuzz, mutate, public_api, python, suite, suite::Sources, test,
    twins,
};

/// The tools of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the catalogue of variants
    List(list::Args),
    /// Compile the kernels to PTX, one checked file per variant
    BuildPtx(build_ptx::Args),
    /// Write the reducer's PTX to warpfold/ptx, which the library embeds
    EmbedPtx(embed_ptx::Args),
    /// Compile the CUDA C twins to PTX, one file per variant
    BuildTwins(twins::Args),
    /// Compile CUB's reductions to a shared library
    BuildCub(cub::Args),
    /// Build warpfold-sim, which runs kernels and whole CUDA programs without a GPU
    BuildSim(build_sim::Args),
    /// Fetch NVIDIA's CUDA compiler and tools into target/cuda
    CudaToolkit,
    /// Run every variant and check each result; on a GPU also time it
    Run(run::Args),
    /// Compare the Rust kernels with their CUDA C twins, CUB and PyTorch
    Compare(compare::Args),
    /// Find the reducer's fastest launches on this GPU, and write them to a tuning file
    Tune(tune::Args),
    /// Count a kernel's divergence, bank conflicts and coalescing by source line. Needs no GPU
    Explain(explain::Args),
    /// Find races, reads of unwritten memory and other hazards of the kernels. Needs no GPU
    Check(check::Args),
    /// Generate an HTML page with figures and tables of a machine's results
    Report(report::Args),
    /// Model reductions over many GPUs and hosts, and update the tables of docs/scale.md
    Scale(scale::Args),
    /// Run all tests, on the simulator or on the GPU
    Test(test::Args),
    /// Build and test the Python package, or build its wheel
    Python(python::Args),
    /// Run the regression cases of tests/cases
    Cases(cases::Args),
    /// Show the GPUs and tools of this machine, and how to install missing ones
    Doctor(doctor::Args),
    /// Run the mutation tests: break the code in one place at a time, and check that the tests fail
    Mutate(mutate::Args),
    /// Fuzz with random PTX, fat binaries, data files, tunings, results and driver calls, and keep the
    /// inputs that crash or hang
    Fuzz(fuzz::Args),
    /// Type-check the kernels for the nvvm code generator against the signatures of cuda_std
    CheckNvvm(check_nvvm::Args),
    /// Print shell completions for the alias xtask='cargo xtask'
    Completions {
        /// Shell to generate completions for
        shell: Shell,
    },
    /// Check the published packages with no features, with each feature alone, and with all features
    CheckFeatures,
    /// Check the links of documents, the book's table of contents, and the width and style of comments
    CheckText(check_text::Args),
    /// Run the library's examples in the simulator, and compare their output
    Examples,
    /// Rehearse publishing, and run a new project on the built packages in a bare home
    FromPackages(from_packages::Args),
    /// List the public items of the published libraries in docs/public-api, or check the lists
    PublicApi(public_api::Args),
}

/// Exit status for usage errors and for machines that lack something; 1 is for wrong results.
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

/// Returns an error as lines: one, or one per finding.
fn lines(error: &anyhow::Error) -> Vec<String> {
    let Some(failure) = error.downcast_ref::<Failure>() else { return vec![format!("{error:#}")] };
    let around = error.chain().take_while(|cause| !cause.is::<Failure>());
    let around: String = around.map(|cause| format!("{cause}: ")).collect();
    failure.lines().iter().map(|line| format!("{around}{line}")).collect()
}

fn dispatch(command: &Command) -> Result<ExitCode> {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match command {
        Command::List(args) => done(list::run(args)),
        Command::BuildPtx(args) => done(build_ptx::run(args, &suite::variants(), &suite::gpu_arch)),
        Command::EmbedPtx(args) => done(embed_ptx::run(args)),
        Command::BuildTwins(args) => done(twins::run(args)),
        Command::BuildCub(args) => done(cub::run(args)),
        Command::BuildSim(args) => done(build_sim::run(args)),
        Command::CudaToolkit => done(cuda_toolkit::run()),
        Command::Run(args) => run::run(args, &Sources),
        Command::Compare(args) => compare::run(args, &Sources),
        Command::Tune(args) => tune::run(args, &Sources),
        Command::Explain(args) => explain::run(args, &Sources),
        Command::Check(args) => check::run(args, &Sources),
        Command::Report(args) => report::run(args),
        Command::Scale(args) => scale::run(args),
        Command::Test(args) => test::run(args),
        Command::Python(args) => python::run(args),
        Command::Cases(args) => cases::run(args),
        Command::Mutate(args) => mutate::run(args),
        Command::Fuzz(args) => fuzz::run(args),
        Command::Doctor(args) => done(doctor::run(args, &driver())),
        Command::CheckNvvm(args) => done(check_nvvm::run(args)),
        Command::Completions { shell } => done(completions(*shell)),
        Command::CheckFeatures => check_features::run(),
        Command::CheckText(args) => check_text::run(args),
        Command::Examples => examples::run(),
        Command::FromPackages(args) => from_packages::run(args),
        Command::PublicApi(args) => public_api::run(args),
    }
}

fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    // Through memory, because the generator panics on write errors.
    clap_complete::generate(shell, &mut Cli::command(), "xtask", &mut script);
    Ok(cli::stdout().write_all(&script)?)
}

fn driver() -> doctor::Driver {
    let GpuProbe { driver: (major, minor), gpu } = device::probe().map_err(|error| match error {
        Error::NoCuda { reason } => reason,
        other => other.to_string(),
    })?;
    let gpu = doctor::Gpu { name: gpu.name, arch: gpu.arch.to_string(), memory_bytes: gpu.memory_bytes };
    Ok(doctor::Gpus { version: format!("{major}.{minor}"), gpus: vec![gpu] })
}
