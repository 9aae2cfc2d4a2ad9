//! The release wheels of the Python package: for every platform, one for all CPythons from 3.9 on and
//! one for the free-threaded 3.14, which has no stable ABI.
//!
//! The zig of `python/requirements-wheel.txt` links them against the symbols of glibc 2.28 on any host.
//! maturin knows the settings of both interpreters, so that none has to be installed. For a platform
//! whose std is not installed, cargo compiles std from its source.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use warpfold_suite::say;

use super::{Place, REQUIREMENTS, maturin, wheels_of};
use crate::{rust_src, toolchain::Toolchain, workspace::Workspace};

/// The requirements file of the linker, which only the wheels need.
const REQUIREMENTS_WHEEL: &str = "python/requirements-wheel.txt";

/// The oldest glibc that can load the wheels, as a platform tag.
const GLIBC: &str = "manylinux_2_28";

/// The interpreters as maturin names them, and their tags in the names of the wheels.
const INTERPRETERS: [(&str, &str); 2] = [("python3.9", "cp39-abi3"), ("python3.14t", "cp314-cp314t")];

/// A platform of the wheels: Linux on these processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Platform {
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// Returns the ends of the wheels' names, which follow the version.
    fn tags(self) -> [String; 2] {
        INTERPRETERS.map(|(_, tag)| format!("-{tag}-{GLIBC}_{}.whl", self.name()))
    }
}

/// Builds the wheels of some platforms in a folder, of all if none is given, and prints their paths.
pub(super) fn build(workspace: &Workspace, folder: &Path, platforms: &[Platform]) -> Result<()> {
    let place = Place::of(workspace)?;
    let maturin = maturin(&place.fetched(workspace, REQUIREMENTS)?)?;
    let zig = place.fetched(workspace, REQUIREMENTS_WHEEL)?.join("ziglang/zig");
    let toolchain = Toolchain::pinned(workspace)?;
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let job = Job { workspace, place, maturin, zig, toolchain };
    let platforms = if platforms.is_empty() { Platform::value_variants() } else { platforms };
    for &platform in platforms {
        job.build(platform, folder)?;
    }
    Ok(())
}

struct Job<'a> {
    workspace: &'a Workspace,
    place: Place,
    maturin: PathBuf,
    zig: PathBuf,
    toolchain: Toolchain,
}

impl Job<'_> {
    fn build(&self, platform: Platform, folder: &Path) -> Result<()> {
        say!("building the wheels of {}", platform.name());
        let new = tempfile::Builder::new().prefix("wheels-").tempdir_in(&self.place.folder)?;
        self.run_maturin(platform, new.path())?;
        let built = wheels_of(new.path())?;
        for tags in platform.tags() {
            let name = built.iter().filter_map(|path| path.file_name()?.to_str());
            let name = name.into_iter().find(|name| name.ends_with(&tags));
            let name = name.with_context(|| format!("maturin wrote no wheel `*{tags}`"))?;
            let wheel = folder.join(name);
            fs::copy(new.path().join(name), &wheel)
                .with_context(|| format!("{} cannot be written", wheel.display()))?;
            say!("{}", wheel.display());
        }
        Ok(())
    }

    fn run_maturin(&self, platform: Platform, out: &Path) -> Result<()> {
        let caches = self.place.folder.join("zig");
        let mut maturin = self.toolchain.command(&self.maturin.display().to_string());
        maturin
            .current_dir(self.workspace.root.join("python"))
            .args(["build", "--quiet", "--locked", "--profile", "release"])
            .args(["--zig", "--compatibility", GLIBC, "--target", &platform.target()])
            .args(INTERPRETERS.iter().flat_map(|(interpreter, _)| ["--interpreter", interpreter]))
            .args([OsString::from("--out"), out.into()])
            // Separate from other builds, which RUSTC_BOOTSTRAP would make cargo repeat.
            .args([OsString::from("--target-dir"), self.place.folder.join("target").into()])
            .env("CARGO_ZIGBUILD_ZIG_PATH", &self.zig)
            .env("CARGO_ZIGBUILD_CACHE_DIR", caches.join("wrappers"))
            .env("ZIG_GLOBAL_CACHE_DIR", caches.join("cache"));
        let installed = self.toolchain.sysroot()?.join("lib/rustlib").join(platform.target());
        if !installed.join("lib").is_dir() {
            rust_src::ensure(&self.toolchain)?;
            // build-std is unstable.
            maturin.arg("-Zbuild-std=std,panic_unwind").env("RUSTC_BOOTSTRAP", "1");
        }
        let status = maturin.status().context("maturin does not start")?;
        ensure!(
            status.success(),
            "maturin could not build the wheels of {} ({status})",
            platform.name()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::python::Args;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Args, String> {
        let words = ["python"].into_iter().chain(line.split_whitespace());
        Command::try_parse_from(words).map(|command| command.args).map_err(|error| error.to_string())
    }

    /// pip selects a wheel by these tags.
    #[test]
    fn wheels_are_tagged_for_pip() {
        assert_eq!(
            Platform::X86_64.tags(),
            ["-cp39-abi3-manylinux_2_28_x86_64.whl", "-cp314-cp314t-manylinux_2_28_x86_64.whl"]
        );
        assert_eq!(
            Platform::Aarch64.tags(),
            ["-cp39-abi3-manylinux_2_28_aarch64.whl", "-cp314-cp314t-manylinux_2_28_aarch64.whl"]
        );
    }

    #[test]
    fn platforms_are_options_of_wheels_only() {
        assert_eq!(parsed("--wheel out").unwrap().platform, []);
        assert_eq!(
            parsed("--wheel out --platform aarch64 --platform x86_64").unwrap().platform,
            [Platform::Aarch64, Platform::X86_64]
        );
        let error = parsed("--platform aarch64").err().unwrap();
        assert!(error.contains("--wheel <DIR>"), "{error}");
        let error = parsed("--wheel out --platform riscv64").err().unwrap();
        assert!(error.contains("[possible values: x86_64, aarch64]"), "{error}");
    }

    /// The oldest interpreter is that of the package's metadata and of pyo3's stable ABI.
    #[test]
    fn the_stable_abi_is_that_of_the_oldest_python() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("Cargo.toml").contains("\"abi3-py39\""));
        assert!(read("pyproject.toml").contains("requires-python = \">=3.9\""));
    }
}
