//! The `nvvm` code generator: compiles a crate of kernels to one PTX file with rust-cuda's
//! rustc_codegen_nvvm, through the builder in nvvm/.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use warpfold_build::internal::common_flags;
use warpfold_suite::{Arch, say};

use crate::{machine::Machine, process, rust_cuda, toolchain::Toolchain, workspace::Workspace};

/// Time limit, far above a cold build, which compiles rustc_codegen_nvvm itself.
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
    pub(super) folder: PathBuf,
}

pub(super) fn describe(workspace: &Workspace, toolchain: &Toolchain) -> String {
    let manifest = fs::read_to_string(workspace.nvvm().join("Cargo.toml")).unwrap_or_default();
    let revision = manifest
        .split_once("rev = \"")
        .and_then(|(_, rest)| rest.get(..7))
        .unwrap_or("of unknown revision");
    // Queried with cuda_builder's flags: the toolchain's `rustc` may be a wrapper around two compilers,
    // the one that builds the code generator and the one that loads it.
    let mut command = toolchain.command("rustc");
    command.arg("-vV").env("CARGO_ENCODED_RUSTFLAGS", "-Zcodegen-backend=rustc_codegen_nvvm");
    let asked = process::run(&mut command, LIMIT).and_then(process::Output::success);
    let version = asked.unwrap_or_else(|_| toolchain.version.clone());
    format!("{} / rustc_codegen_nvvm {revision}", version.lines().next().unwrap_or("rustc"))
}

impl Compile<'_> {
    pub(super) fn run(&self) -> Result<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        let ptx = folder.join("kernels.ptx");
        // A failed build must not leave the PTX of an earlier one.
        let _ = fs::remove_file(&ptx);

        let output = process::run(&mut self.command(&ptx), LIMIT)?;
        if self.verbose || !output.status.success() {
            say!("{}", output.stderr.trim_end());
        }
        if !output.status.success() {
            bail!(
                "nvvm/kernels/ does not compile for {} (the compiler's messages are above); --codegen \
                 llvm does not need rust-cuda",
                self.arch
            );
        }
        fs::read_to_string(&ptx)
            .with_context(|| format!("nvvm-builder wrote no PTX to {}", ptx.display()))
    }

    fn command(&self, ptx: &Path) -> std::process::Command {
        let nvvm = self.workspace.nvvm();
        let mut command = self.toolchain.command("cargo");
        command
            .args(["run", "--release", "--package", "nvvm-builder", "--"])
            .arg(nvvm.join("kernels"))
            .arg(format!("compute_{}", self.arch.suffixed_number()))
            .arg(ptx)
            .args(flags_as_profile(self.arch))
            // cuda_builder looks for the code generator here when no build script runs it.
            .env("CARGO_WORKSPACE_DIR", &nvvm)
            .current_dir(&nvvm);
        for (name, value) in rust_cuda::environment(self.machine) {
            command.env(name, value);
        }
        // rustc loads the code generator, which loads libNVVM.
        if let Some(libraries) = rust_cuda::library_folder(self.machine) {
            let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let all = [libraries].into_iter().chain(env::split_paths(&before));
            command.env("LD_LIBRARY_PATH", env::join_paths(all).unwrap_or(before));
        }
        command
    }
}

/// Returns the common flags as arguments of cargo, which adds a profile's flags to those that
/// cuda_builder sets in `CARGO_ENCODED_RUSTFLAGS`. The flags are those of the whole profile, because
/// flags of a single package would replace them.
fn flags_as_profile(arch: Arch) -> Vec<String> {
    // A Rust string literal without escapes is also a TOML string.
    let list = format!("profile.release.rustflags={:?}", common_flags(arch));
    ["-Zprofile-rustflags".to_owned(), "--config".to_owned(), list].into()
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use super::*;

    /// Compiles a crate and a dependency as cuda_builder does and returns the error output.
    fn compile(arch: &str, source: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let package = |name: &str, more: &str, source: &str| {
            let root = folder.path().join(name);
            fs::create_dir_all(root.join("src")).unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{more}");
            fs::write(root.join("Cargo.toml"), manifest).unwrap();
            fs::write(root.join("src/lib.rs"), source).unwrap();
            root
        };
        package("device", "", source);
        let own = "[workspace]\n[dependencies]\ndevice = { path = \"../device\" }\n";
        let kernels = package("kernels", own, "pub use device::*;");
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(kernels)
            .args(["build", "--lib", "--release", "--verbose", "--offline"])
            .args(flags_as_profile(arch.parse().unwrap()))
            .env("CARGO_ENCODED_RUSTFLAGS", "-Coverflow-checks=off")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn dependencies_of_the_kernels_get_all_flags() {
        let said = compile("sm_90", "#[cfg(not(warpfold_sm_90))] compile_error!(\"not 9.0\");");
        let calls = said.lines().filter(|line| line.contains("Running `")).collect::<Vec<_>>();
        assert_eq!(calls.len(), 2, "{said}");
        for call in calls {
            for flag in common_flags("sm_90".parse().unwrap()) {
                assert!(call.contains(&flag) && call.contains("-Coverflow-checks=off"), "{call}");
            }
        }
        assert!(said.contains("Finished"), "{said}");
    }

    #[test]
    fn older_targets_have_no_sm_90_cfg() {
        let said = compile("sm_80", "#[cfg(warpfold_sm_90)] compile_error!(\"9.0\");");
        assert!(said.contains("Finished") && said.contains("-JumpThreading"), "{said}");
        for (arch, has) in [("sm_80", false), ("sm_89", false), ("sm_90a", true), ("sm_120", true)] {
            let flags = common_flags(arch.parse().unwrap());
            assert_eq!(flags.iter().any(|flag| flag == "--cfg=warpfold_sm_90"), has, "{arch}");
        }
    }
}
