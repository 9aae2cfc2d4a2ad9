//! The command line of `warpfold-sim`, as a library, so that `cargo xtask fuzz` calls it in its own
//! process.

// Standard output and error may be closed or full, which is no reason to panic.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod arguments;
mod call;
mod exec;
mod file;
mod image;
mod ls;
mod report;
mod run;

use std::{
    env,
    ffi::OsString,
    io::{self, Stdout, Write},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use warpfold_suite::{cli, say};

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

/// The result of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// All is as it should be.
    Right,
    /// A result is not what was expected, or the kernel has a fault or a hazard.
    Wrong,
    /// A program that was run has ended with this status.
    Program(u8),
}

/// The exit status of a wrong call, and of a file that cannot be taken.
const CANNOT: u8 = 2;

/// Runs the program: its exit status is 0, 1 for a wrong kernel or 2 for a wrong call; of `exec` also
/// the program's own.
pub fn main() -> ExitCode {
    let mut out = Output(io::stdout());
    let done = call(env::args_os(), &mut out).and_then(|done| {
        out.flush()?;
        Ok(done)
    });
    match done {
        Ok(Done::Right) => ExitCode::SUCCESS,
        Ok(Done::Wrong) => ExitCode::FAILURE,
        Ok(Done::Program(status)) => ExitCode::from(status),
        Err(error) => match error.downcast_ref() {
            Some(usage) => cli::usage(usage),
            None => {
                say!("warpfold-sim: {error:#}");
                ExitCode::from(CANNOT)
            }
        },
    }
}

/// Carries out a command, its name first among the arguments; what it prints goes to `out`.
///
/// # Errors
/// A [`clap::Error`] for wrong arguments, and else one line: a file that cannot be taken, or an output
/// that cannot be written.
pub fn call(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    out: &mut dyn Write,
) -> Result<Done> {
    match &Cli::try_parse_from(arguments)?.command {
        Command::Check(args) => run::check(args, out),
        Command::Explain(args) => run::explain(args, out),
        Command::Exec(args) => exec::run(args),
        Command::Ls(args) => ls::run(args, out),
        Command::Run(args) => run::run(args, out),
    }
}

/// Standard output, to which kernels print as well: nothing is escaped. Its errors name it, also that
/// its reader has gone: the result has not arrived.
struct Output(Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        // It is to be tried again.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("standard output cannot be written: {error}")),
    }
}
