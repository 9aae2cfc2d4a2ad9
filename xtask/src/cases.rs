//! `cargo xtask cases`: runs the calls and expressions of `tests/cases`, which once gave wrong results,
//! with the current programs and Python package.

use std::{ffi::OsStr, process::ExitCode};

use anyhow::{Context, Result, ensure};

use crate::{build_sim, python::Installed, workspace::Workspace};

const FOLDER: &str = "tests/cases";
const REQUIREMENTS: &str = "tests/cases/requirements.txt";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to run the program on; may be repeated [default: sim and cpu]
    #[arg(long, value_name = "DEVICE", value_parser = ["sim", "cpu", "gpu"])]
    pub device: Vec<String>,
    /// Run only the cases whose line contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
}

/// Runs the command. Exits 1 if a case fails.
///
/// # Errors
/// Fails if programs or packages cannot be built or fetched, or input files cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let packages = ["--package", "warpfold-cli", "--package", "warpfold-sim-cli"];
    build_sim::cargo(&workspace, false, &packages.map(OsStr::new))?;
    let installed = Installed::new(&workspace, &[REQUIREMENTS])?;
    let (scripts, programs) = (workspace.root.join(FOLDER), workspace.target.join("debug"));
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let written = installed.python()?.arg(scripts.join("make.py")).arg(folder.path()).status();
    ensure!(written.context("python3 does not start")?.success(), "the input files cannot be written");
    let mut python = installed.python()?;
    python.arg(scripts.join("run.py")).arg("--folder").arg(folder.path()).args(["--only", &args.only]);
    for (option, program) in [("--run", "warpfold"), ("--sim", "warpfold-sim")] {
        python.arg(option).arg(programs.join(program));
    }
    let default = ["sim".to_owned(), "cpu".to_owned()];
    let devices = if args.device.is_empty() { &default[..] } else { &args.device };
    devices.iter().for_each(|device| _ = python.args(["--device", device]));
    let status = python.status().context("python3 does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
