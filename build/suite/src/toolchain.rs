//! The pinned compiler, isolated from the environment.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{build_ptx, process, workspace::Workspace};

/// Far above any query of the compiler.
const QUESTION: Duration = Duration::from_secs(60);

/// The compiler release that the workspace pins.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The release, which is also rustup's name for it.
    pub release: String,
    /// The output of `rustc -vV`.
    pub version: String,
    /// The search path of its programs; `None` for this process's PATH.
    pub path: Option<OsString>,
}

impl Toolchain {
    /// Returns the pinned toolchain, whatever toolchain runs this program.
    ///
    /// # Errors
    /// Fails if it is not installed, or if `rustc` is another release and there is no rustup to choose
    /// it.
    pub fn pinned(workspace: &Workspace) -> Result<Self> {
        let toolchain = Self::named(workspace, &workspace.pinned_channel()?)?;
        let found = toolchain.field("release").unwrap_or("unknown");
        ensure!(
            found == toolchain.release,
            "rustc is {found}, rust-toolchain.toml pins {0}: `rustup toolchain install {0}`",
            toolchain.release
        );
        Ok(toolchain)
    }

    /// Returns the toolchain of this name in rustup.
    ///
    /// # Errors
    /// Fails if it is not installed.
    pub fn named(workspace: &Workspace, name: &str) -> Result<Self> {
        let (release, path) = (name.to_owned(), workspace.path.clone());
        let mut toolchain = Self { release, version: String::new(), path };
        toolchain.version = toolchain
            .ask(&["-vV"])
            .with_context(|| format!("no rustc {name}: `rustup toolchain install {name}`"))?;
        Ok(toolchain)
    }

    /// Returns a field of `rustc -vV`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the releases of compiler and LLVM in one line.
    pub fn describe(&self) -> String {
        let compiler = self.version.lines().next().unwrap_or("rustc");
        format!("{compiler} / LLVM {}", self.field("LLVM version").unwrap_or("unknown"))
    }

    /// Returns the toolchain's installation folder.
    ///
    /// # Errors
    /// Fails if the compiler does not answer.
    pub fn sysroot(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(self.ask(&["--print", "sysroot"])?.trim()))
    }

    /// Returns the GPU architectures that the compiler knows.
    ///
    /// # Errors
    /// Fails if the compiler does not answer.
    pub fn gpu_archs(&self) -> Result<Vec<String>> {
        let text = self.ask(&["--print", "target-cpus", "--target", build_ptx::TARGET])?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        Ok(names.filter(|name| name.starts_with("sm_")).map(str::to_owned).collect())
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

    /// Returns a note if the user has selected another toolchain than the pinned one.
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

/// Removes variables that affect cargo or rustc from a command's environment: those of an outer cargo,
/// and the user's flags, wrappers and target folders, which are meant for host code.
fn clean(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if steers(&name) {
            command.env_remove(&name);
        }
    }
}

fn steers(name: &OsStr) -> bool {
    // Package sources and network access remain the user's configuration.
    const KEPT: &[&str] = &["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_TERM_"];
    const TAKEN: &[&str] = &[
        "CARGO",
        "__CARGO",
        "RUSTC",
        "RUSTFLAGS",
        "RUSTDOC",
        "RUSTUP_TOOLCHAIN",
        "RUST_TARGET_PATH",
        "MAKEFLAGS",
        "MFLAGS",
    ];
    let name = name.to_string_lossy();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    starts(TAKEN) && !starts(KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_build_does_not_steer() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "RUSTC_WRAPPER",
            "RUSTC",
            "CARGO",
            "CARGO_MANIFEST_DIR",
            "RUSTUP_TOOLCHAIN",
            "CARGO_PROFILE_RELEASE_OPT_LEVEL",
        ] {
            assert!(steers(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "CARGO_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "RUSTUP_HOME",
            "RUST_BACKTRACE",
        ] {
            assert!(!steers(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn versions_are_read() {
        let version =
            "rustc 1.2.3 (abc 2026-01-02)\nbinary: rustc\nrelease: 1.2.3\nLLVM version: 9.8.7\n";
        let toolchain = Toolchain { release: "1.2.3".into(), version: version.into(), path: None };
        assert_eq!(toolchain.describe(), "rustc 1.2.3 (abc 2026-01-02) / LLVM 9.8.7");
        assert_eq!(toolchain.field("release"), Some("1.2.3"));
    }
}
