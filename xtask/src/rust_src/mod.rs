//! The standard library's source, from which core is compiled for the GPU.
//!
//! rustup brings it where its servers can be reached. Elsewhere Debian's package of the same release
//! has the same tree, and comes from the mirror that the machine's package manager uses anyway.
//! Whatever happens on the way, the final place holds all of the source or nothing: it is unpacked
//! beside it and moved in one step.

mod debian;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use warpfold_suite::say;

use anyhow::{Context, Result, bail, ensure};

use crate::{failure::Failure, process, toolchain::Toolchain};

/// Where the source belongs, and how programs that bring it are run.
#[derive(Debug)]
pub struct Provision {
    /// The folder of the toolchain.
    pub sysroot: PathBuf,
    /// The compiler's release, which is also rustup's name of the toolchain.
    pub release: String,
    /// Where rustup and the package tools are looked up; none is this process's own PATH.
    pub path: Option<OsString>,
    /// How long a program may take that waits for the network.
    pub limit: Duration,
}

/// One way to get the source: its name, what a user would do by hand, and how it is done here.
type Way = (&'static str, fn(&Provision) -> Result<()>);

/// In the order in which they are tried: the toolchain's own manager first, because what it brings
/// it also removes and updates.
const WAYS: &[Way] =
    &[("rustup component add rust-src", by_rustup), ("debian package rust-src", debian::get)];

/// Makes sure that the source is there for a toolchain.
///
/// # Errors
/// It is not, and no way leads to it: one line per way.
pub fn ensure(toolchain: &Toolchain) -> Result<()> {
    let sysroot = toolchain.sysroot()?;
    if is_present(&sysroot) {
        return Ok(());
    }
    // Downloads take seconds; rustup alone would retry an unreachable server for much longer.
    let limit = Duration::from_secs(120);
    let (release, path) = (toolchain.release.clone(), toolchain.path.clone());
    Provision { sysroot, release, path, limit }.run()
}

/// Whether a toolchain has the source.
pub fn is_present(sysroot: &Path) -> bool {
    library(sysroot).join("Cargo.lock").is_file()
}

/// Where the source is in a toolchain.
pub fn library(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust/library")
}

impl Provision {
    /// Tries one way after the other until the source is there.
    ///
    /// # Errors
    /// None led to it: one line per way.
    pub fn run(&self) -> Result<()> {
        let place = library(&self.sysroot);
        let mut lines = vec![format!(
            "rust-src of rustc {} is missing ({}), and none of three ways brought it",
            self.release,
            place.display()
        )];
        for (name, way) in WAYS {
            if is_present(&self.sysroot) {
                return Ok(());
            }
            say!("rust-src of rustc {} is missing, trying: {name}", self.release);
            match way(self) {
                Ok(()) if is_present(&self.sysroot) => return Ok(()),
                Ok(()) => lines.push(format!("{name}: succeeded, but the source is not there")),
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

    /// Runs a program that may wait for the network, and returns what it printed.
    fn ask(&self, program: &str, prepare: impl FnOnce(&mut Command)) -> Result<String> {
        let mut command = Command::new(program);
        // Messages are recognised, so they must not be translated.
        command.env("LC_ALL", "C");
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        prepare(&mut command);
        process::run(&mut command, self.limit)?.success()
    }

    /// A temporary folder on the file system of the final place.
    fn workplace(&self) -> Result<tempfile::TempDir> {
        let library = library(&self.sysroot);
        let parent = library.parent().context("a sysroot without folders")?;
        fs::create_dir_all(parent)
            .and_then(|()| tempfile::Builder::new().prefix(".rust-src-").tempdir_in(parent))
            .with_context(|| format!("{} cannot be written", parent.display()))
    }

    /// Moves the unpacked source to its place. Whoever comes second finds it there, which serves too.
    fn put(&self, unpacked: &Path) -> Result<()> {
        ensure!(unpacked.join("Cargo.lock").is_file(), "the source that came has no library/Cargo.lock");
        let place = library(&self.sysroot);
        match fs::rename(unpacked, &place) {
            Ok(()) => Ok(()),
            Err(_) if is_present(&self.sysroot) => Ok(()),
            Err(error) if place.exists() => {
                bail!("{} is there but incomplete ({error}): remove it and try again", place.display())
            }
            Err(error) => bail!("{} cannot be made: {error}", place.display()),
        }
    }
}

fn by_rustup(provision: &Provision) -> Result<()> {
    provision.ask("rustup", |command| {
        command.args(["component", "add", "rust-src", "--toolchain", &provision.release]);
        // A trace would hide the line that says what went wrong.
        command.env("RUST_BACKTRACE", "0");
    })?;
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
