//! The `nvvm` code generator: compiles a crate of kernels to one PTX file with rust-cuda's
//! rustc_codegen_nvvm, through the builder in nvvm/.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::flags;
use crate::{
    doctor::{self, Machine},
    process,
    toolchain::Toolchain,
    workspace::Workspace,
};
use warpfold_suite::{Arch, say};

/// Far above a cold build, which compiles rustc_codegen_nvvm itself.
const LIMIT: Duration = Duration::from_secs(3600);

/// The files of nvvm/ that determine the PTX.
pub(super) const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "kernels/Cargo.toml",
    "builder/Cargo.toml",
    "builder/src/main.rs",
];

pub(super) struct Compile<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) toolchain: &'a Toolchain,
    pub(super) machine: &'a Machine,
    pub(super) arch: Arch,
    pub(super) verbose: bool,
    /// The crate of kernels, with a manifest for this code generator.
    pub(super) kernels: PathBuf,
    pub(super) folder: PathBuf,
}

/// Returns the versions of compiler and code generator in one line.
pub(super) fn describe(workspace: &Workspace, toolchain: &Toolchain) -> String {
    let manifest = fs::read_to_string(workspace.nvvm().join("Cargo.toml")).unwrap_or_default();
    let revision = manifest
        .split_once("rev = \"")
        .and_then(|(_, rest)| rest.get(..7))
        .unwrap_or("of unknown revision");
    // Queried with cuda_builder's flags: the toolchain may be a wrapper around two compilers, one of
    // which builds the code generator and the other loads it.
    let mut command = toolchain.command("rustc");
    command.arg("-vV").env("CARGO_ENCODED_RUSTFLAGS", "-Zcodegen-backend=rustc_codegen_nvvm");
    let asked = process::run(&mut command, LIMIT).and_then(process::Output::success);
    let version = asked.unwrap_or_else(|_| toolchain.version.clone());
    format!("{} / rustc_codegen_nvvm {revision}", version.lines().next().unwrap_or("rustc"))
}

impl Compile<'_> {
    pub(super) fn run(&self) -> Result<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let ptx = folder.join("kernels.ptx");
        // So that a failed build never leaves stale PTX to be picked up.
        let _ = fs::remove_file(&ptx);

        let output = process::run(&mut self.command(&ptx), LIMIT)?;
        if self.verbose || !output.status.success() {
            say!("{}", output.stderr.trim_end());
        }
        if !output.status.success() {
            bail!(
                "{}/ does not compile for {} (its messages are above); --codegen llvm needs none of it",
                self.workspace.show(&self.kernels),
                self.arch
            );
        }
        fs::read_to_string(&ptx)
            .with_context(|| format!("nvvm-builder left no PTX at {}", ptx.display()))
    }

    fn command(&self, ptx: &Path) -> std::process::Command {
        let nvvm = self.workspace.nvvm();
        let mut command = self.toolchain.command("cargo");
        command
            .args(["run", "--release", "--package", "nvvm-builder", "--"])
            .arg(&self.kernels)
            .arg(format!("compute_{}", self.arch.suffixed_number()))
            .arg(ptx)
            .args(flags::of_both_as_profile(self.arch))
            // The folder where cuda_builder looks for the code generator when it is not run by a build
            // script.
            .env("CARGO_WORKSPACE_DIR", &nvvm)
            .current_dir(&nvvm);
        for (name, value) in doctor::nvvm::environment(self.machine) {
            command.env(name, value);
        }
        // rustc loads the code generator, which loads libNVVM.
        if let Some(libraries) = doctor::nvvm::library_folder(self.machine) {
            let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let all = [libraries].into_iter().chain(env::split_paths(&before));
            command.env("LD_LIBRARY_PATH", env::join_paths(all).unwrap_or(before));
        }
        command
    }
}
