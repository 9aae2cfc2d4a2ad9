//! The `llvm` code generator: compiles a crate of kernels to one PTX file with rustc's own NVPTX target.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{Feature, TARGET, flags};
use crate::{process, toolchain::Toolchain, workspace::Workspace};
use warpfold_suite::{Arch, say};

/// Far above a cold build on a slow machine; bounds the wait for a hung compiler.
const LIMIT: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub(super) struct Compile<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) toolchain: &'a Toolchain,
    pub(super) arch: Arch,
    pub(super) verbose: bool,
    pub(super) kernels: &'a Path,
    pub(super) folder: PathBuf,
    /// The only feature to enable; `None` for the crate's default features.
    pub(super) feature: Option<Feature>,
    /// The packages to recompile regardless of modification times.
    pub(super) packages: Vec<String>,
}

/// Returns the flags of one feature. The library's kernels have no line tables, which would be eight
/// ninths of a gigabyte of PTX.
pub(super) const fn flags_of(feature: Option<Feature>) -> &'static [&'static str] {
    match feature {
        Some(Feature::Library | Feature::Matrices) => &[],
        None | Some(Feature::Suite) => &LINE_FLAGS,
    }
}

const LINE_FLAGS: [&str; 2] = [
    // Emits `.loc` lines only: ptxas rejects the PTX of any other debug information.
    "-Cdebuginfo=line-directives-only",
    // Appends to each `.loc` a comment with the inlined call chain, which `explain` reads and the PTX
    // format itself cannot express. Nothing but comments is added.
    "-Zverbose-asm",
];

/// Returns the flags that determine the code, for the fingerprint. Path remappings are left out, since
/// they only rename files.
pub(super) fn code_flags(arch: Arch) -> Vec<String> {
    let mut flags = flags::of_both(arch);
    flags.extend([
        format!("-Ctarget-cpu={arch}"),
        // Loop strength reduction replaces one index by a separate pointer for each load of an
        // iteration: more registers than nvcc uses, so fewer resident blocks, and loads that wait for
        // the additions between them (measurements in docs/performance.md).
        "-Cllvm-args=-disable-lsr".to_owned(),
    ]);
    // rustc has no feature for sm_88; without one, kernels for newer GPUs would be left out. sm_80
    // enables the same kernels.
    if arch.number() == 88 {
        flags.push("-Ctarget-feature=+sm_80".to_owned());
    }
    // LLVM would emit the oldest PTX version that knows the architecture, and the assembler would then
    // reject instructions of the kernels that a later version introduced.
    if let Some(version) = ptx_version(arch) {
        flags.push(format!("-Ctarget-feature=+{version}"));
    }
    flags
}

/// Returns the PTX version to request: the oldest that has all that the kernels use, since old drivers
/// reject newer ones.
fn ptx_version(arch: Arch) -> Option<&'static str> {
    match arch.number() {
        // Cache hints on loads need 7.4; sm_89 needs 7.8.
        80..=87 | 89 => Some("ptx78"),
        // Bulk copies need 8.0.
        90..=99 => Some("ptx80"),
        // For sm_88 and all later ones LLVM's minimum version is newer than that.
        _ => None,
    }
}

impl Compile<'_> {
    pub(super) fn run(&self) -> Result<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let assembly = folder.join("kernels.s");
        self.forget_last(folder)?;

        let mut command = self.cargo("rustc");
        command.arg("--release").args(["--target", TARGET]).arg("--target-dir").arg(folder);
        // There is no precompiled core for this target: it is built from rust-src.
        command.arg("-Zbuild-std=core");
        // A library needs no linker; a cdylib would need one that LLVM no longer supports.
        command.arg("--crate-type=lib");
        if let Some(feature) = self.feature {
            command.args(["--no-default-features", "--features", feature.name()]);
        }
        if self.kernels.join("Cargo.lock").is_file() {
            command.arg("--locked");
        }
        let mut emit = OsString::from("--emit=asm=");
        emit.push(&assembly);
        // An explicit output path, so that no stale file is picked up; one codegen unit, so that there
        // is one file.
        command.arg("--").arg(emit).arg("-Ccodegen-units=1");

        let output = process::run(&mut command, LIMIT)?;
        if self.verbose || !output.status.success() {
            say!("{}", output.stderr.trim_end());
        }
        if !output.status.success() {
            let kernels = self.workspace.show(self.kernels);
            bail!("{kernels}/ does not compile for {} (the compiler's messages are above)", self.arch);
        }
        fs::read_to_string(&assembly)
            .with_context(|| format!("the compiler left no PTX at {}", assembly.display()))
    }

    /// Makes cargo recompile the device crates, though not core. Cargo compares modification times,
    /// which are meaningless after a copy that preserves them; whether a build is needed has already
    /// been decided by content.
    fn forget_last(&self, folder: &Path) -> Result<()> {
        let mut command = self.cargo("clean");
        command.args(["--release", "--target", TARGET]).arg("--target-dir").arg(folder);
        for name in &self.packages {
            command.args(["--package", name]);
        }
        process::run(&mut command, LIMIT)?.success().context("cargo clean")?;
        Ok(())
    }

    fn cargo(&self, subcommand: &str) -> std::process::Command {
        let mut command = self.toolchain.command("cargo");
        command
            .arg(subcommand)
            .current_dir(self.kernels)
            // build-std, the PTX calling convention and inline PTX are unstable; pinning the release
            // makes them dependable.
            .env("RUSTC_BOOTSTRAP", "1")
            // A wrapper from a configuration file is meant for host code.
            .env("RUSTC_WRAPPER", "")
            // The encoded form, because a path may contain a space.
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\u{1f}"));
        command
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = code_flags(self.arch);
        flags.extend(flags_of(self.feature).iter().map(|&flag| flag.to_owned()));
        // Makes `.file` lines the same on every machine: `kernels/src/...`, `rust/library/...`.
        let mut remap = |from: String, to: &str| flags.push(format!("--remap-path-prefix={from}/={to}"));
        remap(self.workspace.root.display().to_string(), "");
        if let Ok(sysroot) = self.toolchain.sysroot() {
            remap(sysroot.join("lib/rustlib/src/rust").display().to_string(), "rust/");
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arch_gets_a_ptx_version_that_knows_it() {
        let version = |name: &str| ptx_version(name.parse().unwrap());
        assert_eq!(version("sm_80"), Some("ptx78"));
        assert_eq!(version("sm_89"), Some("ptx78"));
        assert_eq!(version("sm_90a"), Some("ptx80"));
        assert_eq!(version("sm_88"), None);
        assert_eq!(version("sm_120"), None);
    }
}
