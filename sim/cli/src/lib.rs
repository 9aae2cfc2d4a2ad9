//! `warpfold-sim`: GPU kernels and whole CUDA programs without a GPU. See `warpfold-sim --help`.

mod arguments;
mod call;
mod exec;
mod image;
mod ls;
mod report;
mod run;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Run GPU kernels and whole CUDA programs without a GPU
#[derive(Debug, Parser)]
#[command(name = "warpfold-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look for what is wrong with a kernel: races, missing barriers, what is read before it is written
    Check(run::CheckArgs),
    /// Show what a kernel executes beside its source lines
    Explain(run::ExplainArgs),
    /// Run a CUDA program as it is, on simulated GPUs
    Exec(exec::Args),
    /// Show the kernels of a file, their parameters, and what of them is not supported
    Ls(ls::Args),
    /// Run a kernel of a file on arrays, and compare what comes out
    Run(run::RunArgs),
}

/// What came of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Right,
    /// A result is not what was expected, or the kernel has a fault or a hazard.
    Wrong,
    /// A program that was run has ended with this status.
    Program(u8),
}

/// The exit status of a wrong call, and of a file that cannot be taken.
const CANNOT: u8 = 2;

fn main() -> ExitCode {
    let done: Result<Done> = match &Cli::parse().command {
        Command::Check(args) => run::check(args),
        Command::Explain(args) => run::explain(args),
        Command::Exec(args) => exec::run(args),
        Command::Ls(args) => ls::run(args),
        Command::Run(args) => run::run(args),
    };
    match done {
        Ok(Done::Right) => ExitCode::SUCCESS,
        Ok(Done::Wrong) => ExitCode::FAILURE,
        Ok(Done::Program(status)) => ExitCode::from(status),
        Err(error) => {
            eprintln!("warpfold-sim: {error:#}");
            ExitCode::from(CANNOT)
        }
    }
}
