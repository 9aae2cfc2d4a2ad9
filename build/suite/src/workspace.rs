//! Locations of the suite's files.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};
use warpfold_suite::say;

use anyhow::{Context, Result};

/// Path dependencies of the kernels: types shared with the host, and the primitives.
pub const DEPENDENCIES: [&str; 2] = ["abi", "device"];

/// The folders that commands read and write.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the root manifest, absolute and free of symbolic links.
    pub root: PathBuf,
    /// The output folder, `target/` of the root. `CARGO_TARGET_DIR` does not change it, because programs
    /// load PTX from this folder.
    pub target: PathBuf,
    /// The PATH for compilers and other tools; by default that of this process.
    pub path: Option<OsString>,
}

impl Workspace {
    /// Finds the workspace that contains the current folder, else the one in which this tool was built.
    pub fn locate() -> Result<Self> {
        let here = env::current_dir().unwrap_or_default();
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors()
            .chain(built_in.ancestors())
            .find(|folder| folder.join("kernels/Cargo.toml").is_file() && folder.join("xtask").is_dir())
            .context("no warpfold workspace (a folder with kernels/ and xtask/) at or above the current folder")
            .and_then(Self::at)
    }

    pub fn at(root: &Path) -> Result<Self> {
        let root = fs::canonicalize(root)
            .with_context(|| format!("the folder {} cannot be opened", root.display()))?;
        Ok(Self { target: root.join("target"), root, path: None })
    }

    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Returns the crates that are compiled to PTX, each as a folder of the root whose package is
    /// `warpfold-<folder>`: the kernels' crate, and its dependencies in this source tree.
    pub fn device_crates(&self) -> impl Iterator<Item = &'static str> {
        let manifest = fs::read_to_string(self.kernels().join("Cargo.toml")).unwrap_or_default();
        let is_named = move |name: &&str| manifest.contains(&format!("path = \"../{name}\""));
        DEPENDENCIES.into_iter().filter(is_named).chain(["kernels"])
    }

    /// Returns the folder of the workspace that compiles the kernels with rust-cuda.
    pub fn nvvm(&self) -> PathBuf {
        self.root.join("nvvm")
    }

    /// Returns the compiler release that `rust-toolchain.toml` pins.
    pub fn pinned_channel(&self) -> Result<String> {
        let path = self.root.join("rust-toolchain.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        text.lines()
            .find_map(|line| line.trim().strip_prefix("channel")?.trim().strip_prefix('='))
            .map(|value| value.trim().trim_matches('"').to_owned())
            .with_context(|| format!("{} has no `channel`", path.display()))
    }

    /// Formats a path relative to the root, if it is inside.
    pub fn show(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Takes a lock, waiting for its holder. It is released when the file is dropped or the process ends.
pub fn lock(path: &Path) -> Result<File> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let file = made.and_then(|()| File::create(path));
    let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            say!("waiting for another process, which has locked {}", path.display())
        }
        Err(TryLockError::Error(_)) => {}
    }
    file.lock().with_context(|| format!("{} cannot be locked", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_read_from_the_toolchain_file() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path()).unwrap();
        assert!(workspace.pinned_channel().unwrap_err().to_string().ends_with("cannot be read"));
        fs::write(folder.path().join("rust-toolchain.toml"), "[toolchain]\nchannel = \"1.2.3\"\n")
            .unwrap();
        assert_eq!(workspace.pinned_channel().unwrap(), "1.2.3");
    }

    #[test]
    fn paths_inside_are_shown_relative() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path()).unwrap();
        assert_eq!(workspace.show(&workspace.target.join("ptx")), "target/ptx");
        assert_eq!(workspace.show(Path::new("/elsewhere")), "/elsewhere");
    }

    #[test]
    fn this_workspace_is_found() {
        assert!(Workspace::locate().unwrap().kernels().join("src/lib.rs").is_file());
    }
}
