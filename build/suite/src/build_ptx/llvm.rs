//! The `llvm` code generator: compiles kernels/ to one PTX file with rustc's own NVPTX target.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use warpfold_build::internal::{Compilation, LINE_FLAGS, TARGET};
use warpfold_suite::{Arch, say};

use super::Feature;
use crate::{process, toolchain::Toolchain, workspace::Workspace};

/// Time limit for a compiler that hangs, far above a cold build on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub(super) struct Compile<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) toolchain: &'a Toolchain,
    pub(super) arch: Arch,
    pub(super) verbose: bool,
    pub(super) folder: PathBuf,
    pub(super) feature: Feature,
}

/// Returns the flags of one feature. The library's kernels get no line tables, which would increase
/// their PTX from about 0.1 to 1 GB.
pub(super) const fn flags_of(feature: Feature) -> &'static [&'static str] {
    match feature {
        Feature::Library | Feature::Matrices => &[],
        Feature::Suite => LINE_FLAGS,
    }
}

impl Compile<'_> {
    pub(super) fn run(&self) -> Result<String> {
        let (folder, kernels) = (&self.folder, self.workspace.kernels());
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        self.forget_last(&kernels)?;

        let name = self.feature.name();
        let mut arguments = vec!["--no-default-features".to_owned(), format!("--features={name}")];
        if kernels.join("Cargo.lock").is_file() {
            arguments.push("--locked".to_owned());
        }
        let ptx = &folder.join("kernels.s");
        let (arch, flags) = (self.arch, self.flags());
        let compilation =
            Compilation { kernels: &kernels, arch, target_folder: folder, ptx, flags, arguments };
        let mut command = compilation.command(self.toolchain.command("cargo"));
        let output = process::run(&mut command, LIMIT)?;
        if self.verbose || !output.status.success() {
            say!("{}", output.stderr.trim_end());
        }
        if !output.status.success() {
            bail!("kernels/ does not compile for {arch} (the compiler's messages are above)");
        }
        fs::read_to_string(ptx)
            .with_context(|| format!("the compiler wrote no PTX to {}", ptx.display()))
    }

    /// Makes cargo recompile the device crates, though not core. Cargo compares modification times,
    /// which are meaningless after a copy that preserves them; the caller has compared the files'
    /// contents.
    fn forget_last(&self, kernels: &Path) -> Result<()> {
        let mut command = self.toolchain.command("cargo");
        command.args(["clean", "--release", "--target", TARGET, "--target-dir"]).arg(&self.folder);
        for name in self.workspace.device_crates() {
            command.args(["--package", &format!("warpfold-{name}")]);
        }
        process::run(command.current_dir(kernels), LIMIT)?.success().context("cargo clean")?;
        Ok(())
    }

    fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = flags_of(self.feature).iter().map(|&flag| flag.into()).collect();
        // Makes `.file` lines the same on every machine: `kernels/src/...`, `rust/library/...`.
        let mut remap = |from: String, to: &str| flags.push(format!("--remap-path-prefix={from}/={to}"));
        remap(self.workspace.root.display().to_string(), "");
        if let Ok(sysroot) = self.toolchain.sysroot() {
            remap(sysroot.join("lib/rustlib/src/rust").display().to_string(), "rust/");
        }
        flags
    }
}
