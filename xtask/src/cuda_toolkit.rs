//! Installation of NVIDIA's CUDA compiler and tools from their Python packages.
//!
//! `cuda/requirements.txt` lists the packages with versions and hashes. They are installed into a
//! temporary folder that becomes `target/cuda` when complete, so that an interrupted download leaves
//! nothing.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use warpfold_suite::say;

use anyhow::{Context, Result, ensure};

use crate::{
    doctor::{Machine, version_of},
    pypi,
    workspace::{self, Workspace},
};

const REQUIREMENTS: &str = "cuda/requirements.txt";

/// A copy of the requirements, stored with the installation.
const INSTALLED: &str = "requirements.txt";

/// Folders of programs below the toolkit's root, which the packages install without execute permission.
const PROGRAMS: &[&str] = &["bin", "nvvm/bin"];

#[derive(Debug)]
pub struct Toolkit {
    /// The folder with bin/, include/ and nvvm/.
    pub root: PathBuf,
    pub version: String,
    /// True if this call has fetched the toolkit.
    pub fetched: bool,
}

pub(crate) fn fetch(workspace: &Workspace) -> Result<()> {
    let toolkit = ensure(workspace, &Machine::this(workspace))?;
    let what = if toolkit.fetched { "fetched" } else { "up to date" };
    say!("{}: {what}, nvcc {}", workspace.show(&toolkit.root), toolkit.version);
    Ok(())
}

/// Installs the packages that the workspace lists to `target/cuda` if they are not up to date.
pub fn ensure(workspace: &Workspace, machine: &Machine) -> Result<Toolkit> {
    let requirements = workspace.root.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("{} cannot be read", requirements.display()))?;
    let place = workspace.target.join("cuda");
    if let Some(toolkit) = present(&place, &wanted) {
        return Ok(toolkit);
    }
    supported(env::consts::OS, env::consts::ARCH)?;
    let python = pypi::python(machine)?;
    let _lock = workspace::lock(&workspace.target.join(".cuda.lock"))?;
    // Another process may have fetched the toolkit before the lock was taken.
    if let Some(toolkit) = present(&place, &wanted) {
        return Ok(toolkit);
    }

    let packages = wanted.lines().filter(|line| line.contains("==")).count();
    say!("fetching {packages} packages of {REQUIREMENTS}, about 110 MB, to {}", place.display());
    let new = tempfile::Builder::new().prefix(".cuda-").tempdir_in(&workspace.target)?;
    pypi::install(&python, &workspace.root, REQUIREMENTS, new.path())?;
    let compiler = toolkit_in(new.path()).context("the packages contain no nvidia/*/bin/nvcc")?;
    make_runnable(&compiler)?;
    version_of(&compiler.join("bin/nvcc"))
        .context("the fetched nvcc cannot be started on this machine")?;
    fs::write(new.path().join(INSTALLED), &wanted)?;
    pypi::replace(new, &place)?;

    let toolkit = present(&place, &wanted).context("the fetched toolkit has disappeared")?;
    Ok(Toolkit { fetched: true, ..toolkit })
}

fn present(place: &Path, wanted: &str) -> Option<Toolkit> {
    let installed = fs::read_to_string(place.join(INSTALLED)).ok()?;
    if installed != wanted {
        return None;
    }
    let root = toolkit_in(place)?;
    let version = version_of(&root.join("bin/nvcc"))?;
    Some(Toolkit { root, version, fetched: false })
}

/// Returns the folder with the compiler, which is named after the toolkit's major version.
fn toolkit_in(place: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(place.join("nvidia")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|root| root.join("bin/nvcc").is_file())
}

fn supported(system: &str, processor: &str) -> Result<()> {
    ensure!(
        (system, processor) == ("linux", "x86_64"),
        "these packages are for x86-64 Linux, but this is {processor} {system}; install NVIDIA's CUDA \
         toolkit and set CUDA_PATH to it"
    );
    Ok(())
}

fn make_runnable(root: &Path) -> Result<()> {
    for folder in PROGRAMS.iter().map(|name| root.join(name)) {
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("the packages contain no {}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            let mode = path.metadata()?.permissions().mode();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o111))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_systems_get_install_advice() {
        assert!(supported("linux", "x86_64").is_ok());
        for (system, processor) in [("linux", "aarch64"), ("macos", "x86_64")] {
            let error = supported(system, processor).unwrap_err().to_string();
            assert!(error.contains(&format!("this is {processor} {system}; install")), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
