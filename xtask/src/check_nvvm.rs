//! Type-checks the kernels as the nvvm code generator compiles them, without rustc_codegen_nvvm.
//!
//! The code generator needs a specially prepared machine, but its library `cuda_std` is an ordinary
//! crate. So that no change breaks the kernels for this code generator unnoticed, the pinned compiler
//! checks them with and without the features of compute capability 9.0, against the signatures of
//! `cuda_std` in this repository or against a `cuda_std` that the user names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use warpfold_build::internal::{TARGET, common_flags};

use crate::{
    process, rust_src,
    toolchain::Toolchain,
    workspace::{self, Workspace},
};
use warpfold_suite::{Arch, say};

/// Time limit, far above a cold check on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// Type-checks the kernels against a `cuda_std`, by default the signatures in this repository.
pub fn check_kernels(cuda_std: Option<&Path>) -> Result<()> {
    let workspace = Workspace::locate()?;
    let signatures = workspace.nvvm().join("cuda_std_signatures");
    let cuda_std = cuda_std.unwrap_or(&signatures);
    check(&workspace, &workspace.kernels(), cuda_std)?;
    say!("the nvvm side of the kernels agrees with the cuda_std at {}", workspace.show(cuda_std));
    Ok(())
}

/// Type-checks a crate of kernels in its rust-cuda configuration against a `cuda_std`.
pub fn check(workspace: &Workspace, kernels: &Path, cuda_std: &Path) -> Result<()> {
    let cuda_std = require_cuda_std(cuda_std)?;
    let toolchain = Toolchain::pinned(workspace)?;
    rust_src::ensure(&toolchain)?;
    let folder = workspace.target.join("check-nvvm");
    let _lock = workspace::lock(&folder.join("lock"))?;
    let job = Job { folder, workspace, toolchain, kernels, cuda_std };
    let half = job.half_without_std()?;
    let project = job.write_manifest("project", half.as_deref())?;

    for arch in [Arch::OLDEST, Arch::SIMULATED] {
        job.check(&project, arch)?;
    }
    Ok(())
}

fn attribute(attribute: &str) -> String {
    format!("-Zcrate-attr={attribute}")
}

fn require_cuda_std(path: &Path) -> Result<PathBuf> {
    let manifest = fs::read_to_string(path.join("Cargo.toml"));
    let is_it = |text: &str| text.lines().any(|line| line.replace(' ', "") == "name=\"cuda_std\"");
    ensure!(
        manifest.is_ok_and(|text| is_it(&text)),
        "no cuda_std at {}: give --cuda-std the folder of its Cargo.toml, crates/cuda_std of rust-cuda",
        path.display()
    );
    fs::canonicalize(path).with_context(|| format!("{} cannot be read", path.display()))
}

struct Job<'a> {
    folder: PathBuf,
    workspace: &'a Workspace,
    toolchain: Toolchain,
    kernels: &'a Path,
    cuda_std: PathBuf,
}

impl Job<'_> {
    fn check(&self, project: &Path, arch: Arch) -> Result<()> {
        let mut command = self.cargo("check", project);
        // rust-cuda also compiles core and alloc for the device.
        command.args(["--target", TARGET, "-Zbuild-std=core,alloc"]);
        let mut flags = common_flags(arch);
        // Attributes that cuda_builder adds to every crate, and that cuda_std requires.
        flags
            .extend(["feature(register_tool)", "register_tool(nvvm_internal)", "no_std"].map(attribute));
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        let output = process::run(&mut command, LIMIT)?;
        if !output.status.success() {
            say!("{}", output.stderr.trim_end());
            bail!(
                "the nvvm side of the kernels does not agree for {arch} with the cuda_std at {} (the \
                 compiler's messages are above)",
                self.cuda_std.display()
            );
        }
        Ok(())
    }

    fn cargo(&self, subcommand: &str, project: &Path) -> Command {
        let mut command = self.toolchain.command("cargo");
        command.arg(subcommand).current_dir(project);
        // build-std and inline PTX are unstable.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC_WRAPPER", "");
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command
    }

    /// Creates a crate with the source of kernels/ and a dependency on `cuda_std`, as a separate
    /// workspace.
    fn write_manifest(&self, name: &str, half: Option<&Path>) -> Result<PathBuf> {
        // A JSON string is also a TOML string.
        let quoted = |path: &Path| Value::from(path.display().to_string()).to_string();
        let patch =
            half.map(|path| format!("\n[patch.crates-io]\nhalf = {{ path = {} }}\n", quoted(path)));
        let dependencies =
            self.workspace.device_crates().filter(|name| *name != "kernels").map(|name| {
                let path = quoted(&self.workspace.root.join(name));
                // Only `warpfold-device` has a feature for this code generator.
                let features = if name == "device" { ", features = [\"nvvm\"]" } else { "" };
                format!("warpfold-{name} = {{ path = {path}{features} }}\n")
            });
        let text = format!(
            "# Made by `cargo xtask lint nvvm`.\n\
             [package]\nname = \"warpfold-kernels-nvvm\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[lib]\npath = {}\n\n\
             [dependencies]\ncuda_std = {{ path = {} }}\n{}{}",
            quoted(&self.kernels.join("src/lib.rs")),
            quoted(&self.cuda_std),
            dependencies.collect::<String>(),
            patch.unwrap_or_default()
        );
        let project = self.folder.join(name);
        fs::create_dir_all(&project)
            .and_then(|()| fs::write(project.join("Cargo.toml"), text))
            .with_context(|| format!("{} cannot be written", project.display()))?;
        // Uses the versions that the nvvm workspace locks, for the packages that this project has.
        let _ = fs::copy(self.workspace.nvvm().join("Cargo.lock"), project.join("Cargo.lock"));
        Ok(project)
    }

    /// Copies the `half` that `cuda_std` depends on, and removes `std` from its default features.
    ///
    /// `cuda_std` enables the defaults, and std does not compile for this target with a stock compiler.
    /// The crate is otherwise unchanged, so all that `cuda_std` uses of it is available.
    fn half_without_std(&self) -> Result<Option<PathBuf>> {
        let Some((version, original)) = self.resolved_half()? else {
            return Ok(None);
        };
        let copy = self.folder.join(format!("half-{version}"));
        // Copied only once, because cargo would rebuild the crate from new files.
        if !copy.is_dir() {
            let unfinished = tempfile::tempdir_in(&self.folder)?;
            copy_folder(&original, unfinished.path())?;
            let manifest = unfinished.path().join("Cargo.toml");
            let text = fs::read_to_string(&manifest)?;
            fs::write(&manifest, text.replace("default = [\"std\"]", "default = []"))?;
            fs::rename(unfinished.keep(), &copy)?;
        }
        Ok(Some(copy))
    }

    fn resolved_half(&self) -> Result<Option<(String, PathBuf)>> {
        let project = self.write_manifest("resolve", None)?;
        let mut command = self.cargo("metadata", &project);
        command.args(["--format-version", "1", "--filter-platform", TARGET]);
        let text = process::run(&mut command, LIMIT)?
            .success()
            .context("the dependencies of cuda_std cannot be listed")?;
        let metadata: Value =
            serde_json::from_str(&text).context("the output of cargo metadata cannot be parsed")?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let half = packages.find(|package| package["name"] == "half");
        Ok(half.and_then(|half| {
            let folder = Path::new(half["manifest_path"].as_str()?).parent()?;
            Some((half["version"].as_str()?.to_owned(), folder.to_owned()))
        }))
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be written", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{} cannot be read", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
