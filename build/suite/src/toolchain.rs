//! The pinned compiler, isolated from the environment.

use std::{env, ffi::OsString, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use warpfold_build::internal::{LIST_ARCHS, clean, listed_archs};
use warpfold_suite::Arch;

use crate::{process, workspace::Workspace};

/// Time limit, far above any query of the compiler.
const QUESTION: Duration = Duration::from_secs(60);

/// The compiler release that the workspace pins.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The release, which is also the toolchain's name in rustup.
    pub release: String,
    /// The output of `rustc -vV`.
    pub version: String,
    /// The search path of the toolchain's programs; `None` for this process's PATH.
    pub path: Option<OsString>,
}

impl Toolchain {
    /// Returns the pinned toolchain, even if another one runs this program. Without rustup, `rustc` must
    /// be of the pinned release.
    pub fn pinned(workspace: &Workspace) -> Result<Self> {
        let toolchain = Self::named(workspace, &workspace.pinned_channel()?)?;
        let found = toolchain.field("release").unwrap_or("unknown");
        ensure!(
            found == toolchain.release,
            "rustc is {found}, but rust-toolchain.toml pins {0}; run `rustup toolchain install {0}`",
            toolchain.release
        );
        Ok(toolchain)
    }

    /// Returns the toolchain that rustup knows by this name.
    pub fn named(workspace: &Workspace, name: &str) -> Result<Self> {
        let (release, path) = (name.to_owned(), workspace.path.clone());
        let mut toolchain = Self { release, version: String::new(), path };
        toolchain.version = toolchain.ask(&["-vV"]).with_context(|| {
            format!("rustc {name} is missing; run `rustup toolchain install {name}`")
        })?;
        Ok(toolchain)
    }

    /// Returns a field of `rustc -vV`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the releases of the compiler and of its LLVM in one line.
    pub fn describe(&self) -> String {
        let compiler = self.version.lines().next().unwrap_or("rustc");
        format!("{compiler} / LLVM {}", self.field("LLVM version").unwrap_or("unknown"))
    }

    pub fn sysroot(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(self.ask(&["--print", "sysroot"])?.trim()))
    }

    /// Returns the GPU architectures that the compiler knows.
    pub fn gpu_archs(&self) -> Result<Vec<Arch>> {
        Ok(listed_archs(&self.ask(&LIST_ARCHS)?))
    }

    /// Returns a command for one of the toolchain's programs, in a clean environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        clean(&mut command);
        // Overrides `cargo +other` and directory overrides; ignored without rustup.
        command.env("RUSTUP_TOOLCHAIN", &self.release);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }

    /// Returns a note if the user has selected a toolchain other than the pinned one.
    pub fn overridden(&self) -> Option<String> {
        let chosen = env::var("RUSTUP_TOOLCHAIN").ok()?;
        let same = chosen
            .strip_prefix(&self.release)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        (!same).then(|| format!("kernels are compiled by the pinned {}, not by {chosen}", self.release))
    }

    fn ask(&self, args: &[&str]) -> Result<String> {
        process::run(self.command("rustc").args(args), QUESTION)?.success()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let version =
            "rustc 1.2.3 (abc 2026-01-02)\nbinary: rustc\nrelease: 1.2.3\nLLVM version: 9.8.7\n";
        let toolchain = Toolchain { release: "1.2.3".into(), version: version.into(), path: None };
        assert_eq!(toolchain.describe(), "rustc 1.2.3 (abc 2026-01-02) / LLVM 9.8.7");
        assert_eq!(toolchain.field("release"), Some("1.2.3"));
    }
}
