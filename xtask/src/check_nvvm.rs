//! `cargo xtask check-nvvm`: type-checks the kernels' nvvm side without rustc_codegen_nvvm.
//!
//! The code generator needs a machine prepared for it, its library `cuda_std` is an ordinary crate. So
//! that a change to the kernels cannot break the other side unnoticed, they are checked as they are for
//! that code generator by the pinned compiler, with and without what came with compute capability 9.0,
//! against the signatures of `cuda_std` in this repository or a `cuda_std` of the user's.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    build_ptx::{TARGET, flags},
    process, rust_src,
    toolchain::Toolchain,
    workspace::{self, Workspace},
};
use warpfold_suite::{Arch, say};

/// Far above a cold check on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of a cuda_std crate [default: its signatures in nvvm/cuda_std_signatures]
    #[arg(long, value_name = "PATH")]
    pub cuda_std: Option<PathBuf>,
    /// Show all that the compiler says
    #[arg(long)]
    pub verbose: bool,
}

/// The command.
///
/// # Errors
/// See [`check`].
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let signatures = || workspace.nvvm().join("cuda_std_signatures");
    let cuda_std = args.cuda_std.clone().unwrap_or_else(signatures);
    check(&workspace, &workspace.kernels(), &cuda_std, args.verbose)?;
    say!("the nvvm side of the kernels agrees with the cuda_std at {}", workspace.show(&cuda_std));
    Ok(())
}

/// Type-checks a crate of kernels, as it is for rust-cuda, against a `cuda_std`.
///
/// # Errors
/// No `cuda_std` there, a missing tool, or kernels that do not agree with it; the compiler's messages
/// go to standard error.
pub fn check(workspace: &Workspace, kernels: &Path, cuda_std: &Path, verbose: bool) -> Result<()> {
    let cuda_std = require_cuda_std(cuda_std)?;
    let toolchain = Toolchain::pinned(workspace)?;
    rust_src::ensure(&toolchain)?;
    let folder = workspace.target.join("check-nvvm");
    let _lock = workspace::lock(&folder.join("lock"))?;
    let job = Job { folder, workspace, toolchain, kernels, cuda_std };
    let half = job.half_without_std()?;
    let project = job.write_manifest("project", half.as_deref())?;

    for arch in [Arch::OLDEST, Arch::SIMULATED] {
        job.check(&project, arch, verbose)?;
    }
    Ok(())
}

fn attribute(attribute: &str) -> String {
    format!("-Zcrate-attr={attribute}")
}

/// The absolute path of a folder that holds the crate.
fn require_cuda_std(path: &Path) -> Result<PathBuf> {
    let manifest = fs::read_to_string(path.join("Cargo.toml"));
    let is_it = |text: &str| text.lines().any(|line| line.replace(' ', "") == "name=\"cuda_std\"");
    ensure!(
        manifest.is_ok_and(|text| is_it(&text)),
        "no cuda_std at {}: --cuda-std names the folder of its Cargo.toml, crates/cuda_std of rust-cuda",
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
    /// Checks the project as it is compiled for an architecture.
    fn check(&self, project: &Path, arch: Arch, verbose: bool) -> Result<()> {
        let mut command = self.cargo("check", project);
        // Core and alloc are what rust-cuda compiles for the device, too.
        command.args(["--target", TARGET, "-Zbuild-std=core,alloc"]);
        let mut flags = flags::of_both(arch);
        // What cuda_builder makes of every crate; cuda_std is not written without.
        flags
            .extend(["feature(register_tool)", "register_tool(nvvm_internal)", "no_std"].map(attribute));
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        let output = process::run(&mut command, LIMIT)?;
        if verbose || !output.status.success() {
            say!("{}", output.stderr.trim_end());
        }
        if !output.status.success() {
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
        // As for build-ptx: build-std and inline PTX are unstable.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC_WRAPPER", "");
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command
    }

    /// A crate whose source is that of kernels/, with `cuda_std`, in a workspace of its own.
    fn write_manifest(&self, name: &str, half: Option<&Path>) -> Result<PathBuf> {
        // JSON's strings are TOML's.
        let quoted = |path: &Path| Value::from(path.display().to_string()).to_string();
        let patch =
            half.map(|path| format!("\n[patch.crates-io]\nhalf = {{ path = {} }}\n", quoted(path)));
        let dependencies =
            self.workspace.device_crates().filter(|name| *name != "kernels").map(|name| {
                let path = quoted(&self.workspace.root.join(name));
                // What knows a code generator is the crate of the primitives.
                let features = if name == "device" { ", features = [\"nvvm\"]" } else { "" };
                format!("warpfold-{name} = {{ path = {path}{features} }}\n")
            });
        let text = format!(
            "# Made by `cargo xtask check-nvvm`.\n\
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
        // The releases that rust-cuda's side is built with, as far as this project has them.
        let _ = fs::copy(self.workspace.nvvm().join("Cargo.lock"), project.join("Cargo.lock"));
        Ok(project)
    }

    /// A copy of the `half` that `cuda_std` depends on, without `std` among its default features.
    ///
    /// `cuda_std` asks for the defaults, and std does not compile for this target with a stock
    /// compiler. Nothing else of the crate is changed, so whatever `cuda_std` uses of it is there.
    fn half_without_std(&self) -> Result<Option<PathBuf>> {
        let Some((version, original)) = self.resolved_half()? else {
            return Ok(None);
        };
        let copy = self.folder.join(format!("half-{version}"));
        // Copied once: cargo would take new files for changed ones.
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

    /// Version and folder of the `half` that cargo chooses.
    fn resolved_half(&self) -> Result<Option<(String, PathBuf)>> {
        let project = self.write_manifest("resolve", None)?;
        let mut command = self.cargo("metadata", &project);
        command.args(["--format-version", "1", "--filter-platform", TARGET]);
        let text =
            process::run(&mut command, LIMIT)?.success().context("the dependencies of cuda_std")?;
        let metadata: Value = serde_json::from_str(&text).context("what cargo metadata printed")?;
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
