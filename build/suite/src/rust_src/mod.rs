//! The standard library's source, from which core is compiled for the GPU.
//!
//! rustup installs it if its servers can be reached. Otherwise Debian's package of the same release,
//! which has the same tree, is downloaded from the mirror that the machine's package manager uses. The
//! source is unpacked next to its final location and moved there in one step, so that an interrupted
//! installation leaves nothing.

mod debian;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_build::internal::{has_library, library};
use warpfold_suite::say;

use crate::{failure::Failure, process, toolchain::Toolchain};

/// The toolchain that needs std's source, and the settings of the programs that install it.
#[derive(Debug)]
pub struct Provision {
    /// The folder of the toolchain.
    pub sysroot: PathBuf,
    /// The compiler's release, which is also rustup's name of the toolchain.
    pub release: String,
    /// The search path of rustup and the package tools; `None` for this process's PATH.
    pub path: Option<OsString>,
    /// The time limit of a program that waits for the network.
    pub limit: Duration,
}

/// A way to install the source: its name, which is the manual command, and its function.
type Way = (&'static str, fn(&Provision) -> Result<()>);

/// The ways in the order in which they are tried. rustup is first, because it can also remove and update
/// a source that it has installed.
const WAYS: &[Way] =
    &[("rustup component add rust-src", by_rustup), ("debian package rust-src", debian::get)];

/// Installs the source for a toolchain if it is missing.
pub fn ensure(toolchain: &Toolchain) -> Result<()> {
    let sysroot = toolchain.sysroot()?;
    if has_library(&sysroot) {
        return Ok(());
    }
    // A download takes seconds; rustup would retry an unreachable server for much longer than this.
    let limit = Duration::from_secs(120);
    let (release, path) = (toolchain.release.clone(), toolchain.path.clone());
    Provision { sysroot, release, path, limit }.run()
}

impl Provision {
    /// Tries the ways in order until one succeeds.
    pub fn run(&self) -> Result<()> {
        let place = library(&self.sysroot);
        let mut lines = vec![format!(
            "rust-src of rustc {} is missing ({}), and no attempt to install it succeeded",
            self.release,
            place.display()
        )];
        for (name, way) in WAYS {
            if has_library(&self.sysroot) {
                return Ok(());
            }
            say!("rust-src of rustc {} is missing, trying: {name}", self.release);
            match way(self) {
                Ok(()) if has_library(&self.sysroot) => return Ok(()),
                Ok(()) => lines.push(format!("{name}: succeeded, but the source is still missing")),
                Err(error) => lines.push(format!("{name}: {error:#}").replace('\n', " ")),
            }
        }
        lines.push(format!(
            "by hand: unpack library/ of the rust {} source release to {}",
            self.release,
            place.display()
        ));
        Err(Failure::new(lines).into())
    }

    fn ask(&self, program: &str, prepare: impl FnOnce(&mut Command)) -> Result<String> {
        let mut command = Command::new(program);
        // Messages are matched, so they must not be translated.
        command.env("LC_ALL", "C");
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        prepare(&mut command);
        process::run(&mut command, self.limit)?.success()
    }

    fn workplace(&self) -> Result<tempfile::TempDir> {
        let library = library(&self.sysroot);
        let parent = library.parent().context("the sysroot has no parent folder for the source")?;
        fs::create_dir_all(parent)
            .and_then(|()| tempfile::Builder::new().prefix(".rust-src-").tempdir_in(parent))
            .with_context(|| format!("{} cannot be written", parent.display()))
    }

    /// Moves the unpacked source to its location, unless another process was faster.
    fn put(&self, unpacked: &Path) -> Result<()> {
        ensure!(unpacked.join("Cargo.lock").is_file(), "the unpacked source has no library/Cargo.lock");
        let place = library(&self.sysroot);
        match fs::rename(unpacked, &place) {
            Ok(()) => Ok(()),
            Err(_) if has_library(&self.sysroot) => Ok(()),
            Err(error) if place.exists() => {
                bail!("{} exists but is incomplete ({error}); remove it and try again", place.display())
            }
            Err(error) => bail!("{} cannot be created: {error}", place.display()),
        }
    }
}

fn by_rustup(provision: &Provision) -> Result<()> {
    provision.ask("rustup", |command| {
        command.args(["component", "add", "rust-src", "--toolchain", &provision.release]);
        // A backtrace would hide the line with the error.
        command.env("RUST_BACKTRACE", "0");
    })?;
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
