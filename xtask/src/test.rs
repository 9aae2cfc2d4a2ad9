//! `cargo xtask test`: all tests, on the simulator or on the GPU.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use warpfold_suite::{Codegen, Selection, device, say};

use crate::{build_ptx::CodegenArg, mutate, packages, suite, workspace::Workspace};

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to run the kernels on: sim, cuda, or auto (a GPU if available, else the simulator)
    #[arg(long, default_value = "sim", value_parser = str::parse::<Selection>)]
    pub device: Selection,
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// Instead, break the code in one place at a time, and check that tests fail; only the changes of
    /// tests/mutations.json whose name contains NAME
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with = "cargo")]
    pub mutations: Option<String>,
    /// Arguments for `cargo test`, as in `-- --test catalogue`
    #[arg(last = true)]
    pub cargo: Vec<String>,
}

/// Builds the PTX, then runs `cargo test` over the workspace.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(name) = &args.mutations {
        return mutate::run(name);
    }
    let device = match (args.device, device::probe()) {
        (Selection::Sim, _) | (Selection::Auto, Err(_)) => "sim",
        (_, Ok(_)) => "cuda",
        (Selection::Cuda, Err(error)) => bail!(error),
    };
    let codegen = args.codegen.choose()?;
    let store = warpfold_measure::suite::ptx_store(&suite::Sources, codegen)?;
    say!("testing on {device} with the PTX under {}", store.root().display());
    // The targets are listed, so that the variants' binaries, which have no tests, are not built as test
    // programs.
    const SUITES: [&[&str]; 2] = [&["--lib", "--test", "*"], &["--doc"]];
    let chosen: Vec<&str> = args.cargo.iter().map(String::as_str).collect();
    let suites = if chosen.is_empty() { SUITES.to_vec() } else { vec![chosen.as_slice()] };
    let workspace = Workspace::locate()?;
    for suite in suites {
        let status = packages::cargo(&workspace.root)
            .arg("test")
            .arg("--target-dir")
            .arg(&workspace.target)
            .arg("--workspace")
            .args(suite)
            .env("WARPFOLD_TEST_DEVICE", device)
            .env(warpfold_suite::CODEGEN, Codegen::from(codegen).name())
            .status()
            .context("cargo does not start")?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
