//! Locations of the suite's files.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};
use warpfold_suite::say;

use anyhow::{Context, Result};

/// The kernels' dependencies: what they share with the host, and the primitives.
pub const DEPENDENCIES: [&str; 2] = ["abi", "device"];

/// The folders that commands read and write.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the root manifest, absolute and free of symbolic links.
    pub root: PathBuf,
    /// The output folder, `target/` of the root. Deliberately not `CARGO_TARGET_DIR`: PTX is loaded from
    /// one place.
    pub target: PathBuf,
    /// The PATH for compilers and other tools; by default that of this process.
    pub path: Option<OsString>,
}

impl Workspace {
    /// Finds the workspace around the current folder, else the one that this tool was built in.
    ///
    /// # Errors
    /// Neither has a `kernels/` crate.
    pub fn locate() -> Result<Self> {
        let here = env::current_dir().unwrap_or_default();
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors()
            .chain(built_in.ancestors())
            .find(|folder| folder.join("kernels/Cargo.toml").is_file() && folder.join("xtask").is_dir())
            .context("no warpfold workspace (a folder with kernels/ and xtask/) at or above the current folder")
            .and_then(Self::at)
    }

    /// Returns the workspace with this root.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn at(root: &Path) -> Result<Self> {
        let root = fs::canonicalize(root).with_context(|| format!("no folder {}", root.display()))?;
        Ok(Self { target: root.join("target"), root, path: None })
    }

    /// Returns the folder of the kernels' crate.
    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Returns the crates that become PTX, as folders of the root, package `warpfold-<folder>` each: the
    /// kernels' crate, and those of its dependencies that are in this source tree.
    pub fn device_crates(&self) -> impl Iterator<Item = &'static str> {
        let manifest = fs::read_to_string(self.kernels().join("Cargo.toml")).unwrap_or_default();
        let is_named = move |name: &&str| manifest.contains(&format!("path = \"../{name}\""));
        DEPENDENCIES.into_iter().filter(is_named).chain(["kernels"])
    }

    /// Returns the workspace that compiles the device crate with rust-cuda.
    pub fn nvvm(&self) -> PathBuf {
        self.root.join("nvvm")
    }

    /// Returns the compiler release that `rust-toolchain.toml` pins.
    ///
    /// # Errors
    /// The file is missing or pins nothing.
    pub fn pinned_channel(&self) -> Result<String> {
        let path = self.root.join("rust-toolchain.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        text.lines()
            .find_map(|line| line.trim().strip_prefix("channel")?.trim().strip_prefix('='))
            .map(|value| value.trim().trim_matches('"').to_owned())
            .with_context(|| format!("{} names no channel", path.display()))
    }

    /// Formats a path relative to the root, if it is inside.
    pub fn show(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Takes a lock, waiting for its holder. It is released when the file is dropped or the process ends.
///
/// # Errors
/// The file cannot be created or locked.
pub fn lock(path: &Path) -> Result<File> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let file = made.and_then(|()| File::create(path));
    let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            say!("waiting for another process that holds {}", path.display())
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
