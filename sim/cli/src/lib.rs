//! The command line of `warpfold-sim` as a library, so that `cargo xtask fuzz` can call it without
//! starting a process.

// Printing macros panic if standard output or error is closed or full.
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
use warpfold_io::say;

/// Run GPU kernels and whole CUDA programs without a GPU
#[derive(Debug, Parser)]
#[command(name = "warpfold-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a kernel for races, missing barriers and reads of unwritten memory
    Check(run::CheckArgs),
    /// Show a kernel's instruction and memory counters by source line
    Explain(run::ExplainArgs),
    /// Run an unmodified CUDA program on simulated GPUs
    Exec(exec::Args),
    /// Run a small launch of a kernel in every order of its steps, and show the shortest wrong one
    Explore(run::ExploreArgs),
    /// List the kernels of a file and their parameters, and why unsupported kernels do not run
    Ls(ls::Args),
    /// Run a kernel of a file on arrays, and print or compare the results
    Run(run::RunArgs),
}

/// The result of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Right,
    /// A result differs from the expected one, or the kernel has a fault or a hazard.
    Wrong,
    /// The program that was run ended with this status.
    Program(u8),
}

/// Exit status of a wrong call, and of a file that cannot be used.
const CANNOT: u8 = 2;

/// Runs the command line. The exit status is 0 for success, 1 for a wrong kernel and 2 for a wrong call.
/// `exec` returns the status of its program unless that is 0; then 1 for findings, and 2 if the program
/// has launched nothing.
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
            Some(usage) => warpfold_io::usage(usage),
            None => {
                say!("warpfold-sim: {error:#}");
                ExitCode::from(CANNOT)
            }
        },
    }
}

/// Carries out a command and writes its output to `out`. The first argument is the program's name.
///
/// # Errors
/// A [`clap::Error`] for wrong arguments, and otherwise one line: a file that cannot be used, or an
/// output that cannot be written.
pub fn call(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    out: &mut dyn Write,
) -> Result<Done> {
    match &Cli::try_parse_from(arguments)?.command {
        Command::Check(args) => run::check(args, out),
        Command::Explain(args) => run::explain(args, out),
        Command::Exec(args) => exec::run(args),
        Command::Explore(args) => run::explore(args, out),
        Command::Ls(args) => ls::run(args, out),
        Command::Run(args) => run::run(args, out),
    }
}

/// Standard output. Its errors name the stream. Nothing is escaped, because kernels print to it as well.
/// A closed pipe is an error, because output is lost.
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
        // `write_all` retries an interrupted write.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("standard output cannot be written: {error}")),
    }
}
