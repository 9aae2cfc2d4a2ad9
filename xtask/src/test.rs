//! `cargo xtask test`: all tests, on the simulator or on the GPU.

use std::{
    env,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use warpfold_suite::{Codegen, Selection, device, say};

use crate::{build_ptx::CodegenArg, suite, workspace::Workspace};

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to run the kernels on: sim, cuda, or auto (a GPU if available, else the simulator)
    #[arg(long, default_value = "sim", value_parser = str::parse::<Selection>)]
    pub device: Selection,
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// Arguments for `cargo test`, as in `-- --test catalogue`
    #[arg(last = true)]
    pub cargo: Vec<String>,
}

/// Builds the PTX, then runs `cargo test` over the workspace.
///
/// # Errors
/// Fails if PTX cannot be built, there is no GPU, or cargo does not start.
pub fn run(args: &Args) -> Result<ExitCode> {
    let device = match (args.device, device::probe()) {
        (Selection::Sim, _) | (Selection::Auto, Err(_)) => "sim",
        (_, Ok(_)) => "cuda",
        (Selection::Cuda, Err(error)) => bail!(error),
    };
    let codegen = args.codegen.choose()?;
    let store = warpfold_lab::suite::ptx_store(&suite::Sources, codegen)?;
    say!("testing on {device} with the PTX under {}", store.root().display());
    // Listed explicitly, so that the variants' binaries, which contain no tests, are not built as test
    // programs.
    const SUITES: [&[&str]; 2] = [&["--lib", "--test", "*"], &["--doc"]];
    let chosen: Vec<&str> = args.cargo.iter().map(String::as_str).collect();
    let suites = if chosen.is_empty() { SUITES.to_vec() } else { vec![chosen.as_slice()] };
    let root = Workspace::locate()?.root;
    for suite in suites {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(&root)
            // No other crate of the workspace enables the library's cust feature.
            .args(["test", "--workspace", "--features", "warpfold/cust"])
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
