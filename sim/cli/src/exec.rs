//! `warpfold-sim exec`

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;

use warpfold_io::{files, say};
use warpfold_sim_driver::{CAPABILITIES, CAPABILITY_VARIABLE};
use warpfold_sim_report::{
    Coverage, Diagnostic,
    exchange::{self, Ran},
};

use crate::{Done, call::Limits, report::ReportArgs};

const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcudart.so.13"];

/// The variable by which build scripts of Rust's CUDA crates find the folder `lib64` with `libcuda.so`.
const LINK_VARIABLE: &str = "CUDA_LIBRARY_PATH";

/// Largest `--round`: the size of a GPU page.
const MOST_ROUND: u64 = 2 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of simulated GPUs, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    gpus: u32,
    /// Compute capability of the GPUs, for programs whose only PTX is for a newer GPU, or that choose
    /// kernels by it [default: 9.0, or that of WARPFOLD_SIM_CAPABILITY]
    #[arg(long, value_name = "X.Y", value_parser = PossibleValuesParser::new(CAPABILITIES))]
    capability: Option<String>,
    /// Round allocations up to a multiple of BYTES, a power of two up to 2 MiB. An H200 rounds to 512
    /// bytes, so that a kernel may read a few bytes past the end of an array without a fault
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    round: u64,
    /// Check all kernels for races, missing barriers and reads of unwritten memory
    #[arg(long)]
    check: bool,
    /// Like --check, and also report two likely mistakes that PTX allows: lanes that communicate without
    /// a barrier as if in lockstep, and member masks that name exited lanes
    #[arg(long)]
    strict: bool,
    /// Print the kernels' instruction and memory counters by source line after the program has ended
    #[arg(long, conflicts_with_all = ["check", "strict"])]
    explain: bool,
    /// Write the source lines and branches of kernels that have run to a file, in the format of lcov
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "strict", "explain"])]
    coverage: Option<PathBuf>,
    /// Let a program succeed that launches no kernel, such as a test that needs no GPU
    #[arg(long)]
    allow_no_launch: bool,
    /// Run lanes, warps and blocks in a random order with this seed [default: lockstep and round robin]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    report: ReportArgs,
    /// Program to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    call: Vec<OsString>,
}

/// Returns the folder `lib` beside this executable, where `cargo xtask build-sim` puts the libraries.
fn libraries() -> Result<PathBuf> {
    let own = env::current_exe().context("the path of this program cannot be found")?;
    let folder = own.parent().map(|folder| folder.join("lib")).unwrap_or_default();
    for name in LIBRARIES {
        if !folder.join(name).is_file() {
            bail!(
                "{name} is missing in {}; install warpfold-sim again, or run `cargo xtask build-sim`",
                folder.display()
            );
        }
    }
    Ok(folder)
}

/// Returns the folders of a variable of the environment, after others.
fn preceded(variable: &str, others: &[&Path]) -> Result<OsString> {
    let mut folders: Vec<PathBuf> = others.iter().copied().map(Path::to_owned).collect();
    if let Some(before) = env::var_os(variable) {
        folders.extend(env::split_paths(&before));
    }
    env::join_paths(folders).context("the name of a library folder has a colon")
}

pub(crate) fn run(args: &Args) -> Result<Done> {
    if !(args.round.is_power_of_two() && args.round <= MOST_ROUND) {
        bail!("--round is {}; give a power of two from 1 to {MOST_ROUND}", args.round);
    }
    let folder = libraries()?;
    let (program, rest) = args.call.split_first().expect("clap asks for it");
    let [link, unversioned] = ["link", "unversioned"].map(|name| folder.with_file_name(name));
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_LIBRARY_PATH", preceded("LD_LIBRARY_PATH", &[&folder, &unversioned])?)
        // For linkers that the program starts: `-lcuda` and `-lcudart` find linker scripts.
        .env("LIBRARY_PATH", preceded("LIBRARY_PATH", &[&link.join("lib64"), &folder])?)
        .env("WARPFOLD_LIBCUDA", folder.join(LIBRARIES[0]))
        .env("WARPFOLD_SIM_DEVICES", args.gpus.to_string())
        .env("WARPFOLD_SIM_ROUND", args.round.to_string())
        // Makes faults readable: the program itself only gets the error code of a fault.
        .env("WARPFOLD_SIM_TELL", "1")
        .env(exchange::STEPS, args.limits.steps.to_string())
        .env(exchange::SECONDS, args.limits.seconds.to_string());
    if env::var_os(LINK_VARIABLE).is_none() {
        command.env(LINK_VARIABLE, &link);
    }
    if let Some(capability) = &args.capability {
        command.env(CAPABILITY_VARIABLE, capability);
    }
    if let Some(seed) = args.seed {
        command.env(exchange::SEED, seed.to_string());
    }
    if let Some(what) = args.watch() {
        command.env(exchange::WATCH, what);
    }
    args.watched(&mut command, Path::new(program))
}

impl Args {
    /// Returns the value of [`exchange::WATCH`], if the program is watched.
    fn watch(&self) -> Option<&'static str> {
        let kinds = [
            (self.strict, exchange::STRICT),
            (self.check, exchange::CHECK),
            (self.explain, exchange::EXPLAIN),
            (self.coverage.is_some(), exchange::COVER),
        ];
        kinds.into_iter().find_map(|(is_wanted, what)| is_wanted.then_some(what))
    }

    /// Runs the program to its end and reports the findings, and what has run, on stderr, because stdout
    /// is the program's.
    fn watched(&self, command: &mut Command, program: &Path) -> Result<Done> {
        let known = self.report.suppressions()?;
        if let Some(path) = &self.coverage {
            files::require_writable(path)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        let folder = tempfile::tempdir().context("a folder for the results cannot be created")?;
        let status = command.env(exchange::FOLDER, folder.path()).status();
        let status = status.with_context(|| format!("{} cannot be started", program.display()))?;
        let (mut found, mut ran) = (Vec::<Diagnostic>::new(), Ran::default());
        let mut coverage = Coverage::default();
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder.path())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file)?;
            let extension = file.extension().unwrap_or_default();
            if extension == exchange::FOUND {
                let lines = text.lines().map(serde_json::from_str);
                found.extend(lines.collect::<Result<Vec<_>, _>>().context("the findings are cut off")?);
            } else if extension == exchange::RAN {
                ran.add(serde_json::from_str(&text).context("the counts of launches are cut off")?);
            } else if extension == exchange::COVERED {
                coverage.add(serde_json::from_str(&text).context("the coverage is cut off")?);
            } else {
                // The text is lost if standard error is closed, as output of the program itself is.
                let _lost = io::stderr().write_all(text.as_bytes());
            }
        }
        let done = self.report.tell(found, &known, program, |line| {
            let _lost = writeln!(io::stderr(), "{line}");
            Ok(())
        })?;
        if let Some(path) = &self.coverage {
            files::replace(path, coverage.lcov())?;
        }
        if status.success() && ran.launches == 0 && !self.allow_no_launch {
            bail!(
                "{} launched no kernel on a simulated GPU; if that is right, give --allow-no-launch",
                program.display()
            );
        }
        say!("warpfold-sim: {}", ran.line());
        // A failing status of the program takes precedence over the findings.
        match status.code() {
            Some(0) => Ok(done),
            Some(code) => Ok(Done::Program(u8::try_from(code).unwrap_or(1))),
            None => Ok(Done::Program(128 + status.signal().unwrap_or(0) as u8)),
        }
    }
}
