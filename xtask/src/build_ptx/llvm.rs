//! The `llvm` code generator: a crate of kernels through rustc's own NVPTX target, to one PTX file.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{TARGET, flags};
use crate::{process, toolchain::Toolchain, workspace::Workspace};
use warpfold_suite::{Arch, say};

/// Far above a cold build on a slow machine; a compiler that hangs must not hang the caller.
const LIMIT: Duration = Duration::from_secs(1800);

/// One run of the compiler.
#[derive(Debug)]
pub(super) struct Compile<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) toolchain: &'a Toolchain,
    pub(super) arch: Arch,
    pub(super) verbose: bool,
    /// The crate of kernels.
    pub(super) kernels: &'a Path,
    /// Where it is compiled.
    pub(super) folder: PathBuf,
    /// The crate's only feature; without, those that it has by itself.
    pub(super) feature: Option<&'a str>,
    /// The packages that are compiled anew, whatever the times of their files are.
    pub(super) packages: Vec<String>,
}

/// The flags that decide the code, for the fingerprint: without the paths, which only name files.
pub(super) fn code_flags(arch: Arch) -> Vec<String> {
    let mut flags = flags::of_both(arch);
    flags.extend([
        format!("-Ctarget-cpu={arch}"),
        // Loop strength reduction replaces one index by a pointer for each load of a turn, advanced
        // each on its own: more registers than nvcc takes, so fewer resident blocks, and loads that
        // wait for the additions between them (docs/performance.md has what was measured).
        "-Cllvm-args=-disable-lsr".to_owned(),
        // `.loc` lines and nothing else: any more debug information is PTX that ptxas rejects. The
        // code is the same as without.
        "-Cdebuginfo=line-directives-only".to_owned(),
        // A comment behind each `.loc` with the calls that it was inlined through, which `explain` reads
        // and the format itself leaves out. Comments are all that it adds.
        "-Zverbose-asm".to_owned(),
    ]);
    // rustc knows no features of sm_88, by which kernels for newer GPUs are left out; those of sm_80 say
    // enough.
    if arch.number() == 88 {
        flags.push("-Ctarget-feature=+sm_80".to_owned());
    }
    // LLVM would write the oldest PTX version that knows the architecture, and the assembler then
    // refuses instructions of the kernels that came with a later one.
    if let Some(version) = ptx_version(arch) {
        flags.push(format!("-Ctarget-feature=+{version}"));
    }
    flags
}

/// The PTX version asked for: the oldest that has what the kernels use, since an old driver rejects a
/// new one.
fn ptx_version(arch: Arch) -> Option<&'static str> {
    match arch.number() {
        // Cache hints on loads came with 7.4; 7.8 is the first that knows sm_89.
        80..=87 | 89 => Some("ptx78"),
        // Bulk copies came with 8.0.
        90..=99 => Some("ptx80"),
        // sm_88 and all later ones: their oldest version is newer than that.
        _ => None,
    }
}

impl Compile<'_> {
    /// Compiles and returns the PTX.
    pub(super) fn run(&self) -> Result<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let assembly = folder.join("kernels.s");
        self.forget_last(folder)?;

        let mut command = self.cargo("rustc");
        command.arg("--release").args(["--target", TARGET]).arg("--target-dir").arg(folder);
        // No precompiled core exists for this target: it is compiled along, from rust-src.
        command.arg("-Zbuild-std=core");
        // A library needs no linker; a cdylib would ask for one that LLVM no longer serves.
        command.arg("--crate-type=lib");
        if let Some(feature) = self.feature {
            command.args(["--no-default-features", "--features", feature]);
        }
        if self.kernels.join("Cargo.lock").is_file() {
            command.arg("--locked");
        }
        let mut emit = OsString::from("--emit=asm=");
        emit.push(&assembly);
        // A path of its own, so that nothing stale is ever picked up; one unit, so that there is one
        // file.
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

    /// Makes cargo compile the device crates anew, though not core. Cargo goes by modification times,
    /// which say nothing after a copy that keeps them; whether there is anything to do was decided by
    /// content before.
    fn forget_last(&self, folder: &Path) -> Result<()> {
        let mut command = self.cargo("clean");
        command.args(["--release", "--target", TARGET]).arg("--target-dir").arg(folder);
        for name in &self.packages {
            command.args(["--package", name]);
        }
        process::run(&mut command, LIMIT)?.success().context("cargo clean")?;
        Ok(())
    }

    /// A cargo command on the kernels.
    fn cargo(&self, subcommand: &str) -> std::process::Command {
        let mut command = self.toolchain.command("cargo");
        command
            .arg(subcommand)
            .current_dir(self.kernels)
            // build-std, the PTX calling convention and inline PTX are unstable; the pinned release
            // is what makes them dependable.
            .env("RUSTC_BOOTSTRAP", "1")
            // A wrapper from a configuration file is for host code too.
            .env("RUSTC_WRAPPER", "")
            // The encoded form, because a path may hold a space.
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\u{1f}"));
        command
    }

    /// All flags: those of the code, and how paths are written.
    fn flags(&self) -> Vec<String> {
        let mut flags = code_flags(self.arch);
        // `.file` lines that say the same on every machine: `kernels/src/...`, `rust/library/...`.
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
