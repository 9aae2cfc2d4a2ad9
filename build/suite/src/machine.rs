//! Locations of programs and libraries.

use std::{
    collections::HashMap,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::Serialize;

use crate::{process, workspace::Workspace};

/// Time limit for a program's answer to `--version`.
pub const ANSWER: Duration = Duration::from_secs(10);

const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const FIREFOX: [&str; 2] = ["firefox", "firefox-esr"];

/// The environment variables and folders in which programs and libraries are searched for.
#[derive(Debug, Clone)]
pub struct Machine {
    variables: HashMap<String, String>,
    root: PathBuf,
    target: PathBuf,
}

impl Machine {
    pub fn this(workspace: &Workspace) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = env::vars_os().filter_map(text).collect();
        Self { variables, root: PathBuf::from("/"), target: workspace.target.clone() }
    }

    /// Returns a machine that has only the files in `root`.
    pub fn empty(root: &Path) -> Self {
        Self { variables: HashMap::new(), root: root.to_owned(), target: root.join("target") }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Returns an environment variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a file or folder of the system, by its absolute path.
    pub fn system(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the folders that may hold a CUDA toolkit, in order of preference: `CUDA_PATH` and
    /// `CUDA_HOME`, the suite's download, `/usr/local/cuda`, and the folder of the nvcc on the PATH.
    pub fn cuda_roots(&self) -> Vec<PathBuf> {
        let named =
            ["CUDA_PATH", "CUDA_HOME"].iter().filter_map(|name| self.variable(name).map(PathBuf::from));
        let cuda = self.target.join("cuda");
        // Packages are unpacked to a folder that is named after the toolkit's major version.
        let packaged = entries(&cuda.join("nvidia"));
        let on_path = self
            .on_path("nvcc")
            .and_then(|nvcc| Some(fs::canonicalize(nvcc).ok()?.parent()?.parent()?.to_owned()));
        let mut roots: Vec<PathBuf> = named.chain([cuda]).chain(packaged).collect();
        roots.push(self.system("/usr/local/cuda"));
        roots.extend(on_path);
        roots.retain(|root| root.is_dir());
        roots
    }

    /// Returns a program of the CUDA toolkit, from the PATH or else from a toolkit's folder.
    pub fn cuda_program(&self, name: &str) -> Option<PathBuf> {
        let in_toolkit = || {
            self.cuda_roots()
                .iter()
                .map(|root| root.join("bin").join(name))
                .find(|path| is_program(path))
        };
        self.on_path(name).or_else(in_toolkit)
    }

    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        let folders = env::split_paths(self.variable("PATH")?).collect::<Vec<_>>();
        folders.into_iter().map(|folder| folder.join(name)).find(|path| is_program(path))
    }

    /// Returns a Chromium for the test of the report's page: the one that `WARPFOLD_CHROMIUM` names,
    /// else one on the PATH.
    pub fn browser(&self) -> Option<PathBuf> {
        self.named_or_on_path("WARPFOLD_CHROMIUM", &CHROMIUM)
    }

    /// Returns a Firefox for the report's page: the one in `WARPFOLD_FIREFOX`, else one on the PATH.
    pub fn firefox(&self) -> Option<PathBuf> {
        self.named_or_on_path("WARPFOLD_FIREFOX", &FIREFOX)
    }

    fn named_or_on_path(&self, variable: &str, names: &[&str]) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from);
        named.or_else(|| names.iter().find_map(|name| self.on_path(name)))
    }

    /// Returns rustup's folder of toolchains.
    pub fn toolchains(&self) -> Option<PathBuf> {
        let home = || Some(Path::new(self.variable("HOME")?).join(".rustup"));
        let rustup = self.variable("RUSTUP_HOME").map(PathBuf::from).or_else(home)?;
        Some(rustup.join("toolchains"))
    }
}

/// Returns a program's version, from `--version`.
pub fn version_of(program: &Path) -> Option<String> {
    let output = process::run(Command::new(program).arg("--version"), ANSWER).ok()?;
    version_in(&output.stdout).or_else(|| version_in(&output.stderr))
}

/// Returns the version number with the most parts: `13.0.88` of `release 13.0, V13.0.88`.
fn version_in(text: &str) -> Option<String> {
    let words = text
        .split([' ', '\n', '\t', ',', '(', ')', '-'])
        .map(|word| word.trim_start_matches(['v', 'V']));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = |word: &&str| word.contains('.') && word.split('.').all(is_number);
    let parts = |word: &str| word.split('.').count();
    // Of several with the same number of parts, the first is returned.
    let better = |best, next| if parts(next) > parts(best) { next } else { best };
    words.filter(is_version).reduce(better).map(str::to_owned)
}

/// Returns a folder's entries, sorted; empty if there is no such folder.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// A program or library that the suite can use, and whether it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub purpose: &'static str,
    #[serde(flatten)]
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Found {
        /// The version of the program or library, if it has one.
        version: String,
        place: String,
    },
    /// The program or library is missing or unsuitable.
    Missing {
        /// The reason, such as what was found instead.
        why: String,
        /// The way to install the program or library.
        get: String,
    },
}

impl Check {
    pub fn found(
        name: &str,
        purpose: &'static str,
        version: impl Into<String>,
        place: impl Into<String>,
    ) -> Self {
        let state = State::Found { version: version.into(), place: place.into() };
        Self { name: name.to_owned(), purpose, state }
    }

    pub fn missing(
        name: &str,
        purpose: &'static str,
        why: impl Into<String>,
        get: impl Into<String>,
    ) -> Self {
        let state = State::Missing { why: why.into(), get: get.into() };
        Self { name: name.to_owned(), purpose, state }
    }

    pub fn is_found(&self) -> bool {
        matches!(self.state, State::Found { .. })
    }

    /// Returns a one-line message if the program or library is missing.
    pub fn complaint(&self) -> Option<String> {
        match &self.state {
            State::Found { .. } => None,
            State::Missing { why, get } => Some(format!("{}: {why}; {get}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_program_output() {
        for (text, version) in [
            ("git version 2.39.5\n", "2.39.5"),
            (
                "Built on Wed\nCuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/c.3",
                "13.0.88",
            ),
            ("Version 2025.3.1.0 (build 36398880) (public-release)", "2025.3.1.0"),
            ("7.1.0\n", "7.1.0"),
            ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95.0"),
            ("rustc 1.97.0-nightly (e50aa6fba 2026-05-19)", "1.97.0"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("no version."), None);
    }

    #[test]
    fn programs_are_sought_on_the_path_then_in_toolkits() {
        let folder = tempfile::tempdir().unwrap();
        let program = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let packaged = program("target/cuda/nvidia/cu13/bin/ptxas");
        let usual = program("usr/local/cuda/bin/ptxas");
        let on_path = program("bin/ptxas");
        let machine = Machine::empty(folder.path());
        assert_eq!(machine.cuda_program("ptxas"), Some(packaged));
        let named = folder.path().join("usr/local/cuda").display().to_string();
        assert_eq!(machine.clone().with("CUDA_HOME", named).cuda_program("ptxas"), Some(usual));
        let path = folder.path().join("bin").display().to_string();
        assert_eq!(machine.with("PATH", path).cuda_program("ptxas"), Some(on_path));
    }
}
