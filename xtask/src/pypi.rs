//! Packages from Python's index: pip downloads those that a file lists with their hashes. The user's
//! configuration of pip selects the index.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{doctor::Machine, failure::Failure, process};

/// Time limit, far above a download over a slow line.
const LIMIT: Duration = Duration::from_secs(3600);

/// Finds a python3 that has pip.
pub fn python(machine: &Machine) -> Result<PathBuf> {
    let Some(python) = machine.on_path("python3") else {
        bail!(
            "no python3 on the PATH: install python3 and python3-pip with the system's package manager"
        );
    };
    let asked = process::run(Command::new(&python).args(["-m", "pip", "--version"]), LIMIT)?;
    ensure!(
        asked.status.success(),
        "{} has no pip: install python3-pip with the system's package manager, or run `python3 -m ensurepip --user`",
        python.display()
    );
    Ok(python)
}

/// Downloads the packages that a file of the workspace lists with their hashes, verifies and unpacks
/// them.
pub fn install(python: &Path, root: &Path, requirements: &str, folder: &Path) -> Result<()> {
    let mut pip = pip_install(python, folder);
    // Excludes packages that would have to be built.
    pip.args(["--only-binary=:all:", "--require-hashes"]);
    pip.args([OsStr::new("--requirement"), root.join(requirements).as_os_str()]);
    finish(pip, &format!("the packages of {requirements}"))
}

/// Unpacks a wheel of this repository, without its dependencies.
pub fn unpack(python: &Path, wheel: &Path, folder: &Path) -> Result<()> {
    let mut pip = pip_install(python, folder);
    pip.arg("--no-index").arg(wheel);
    finish(pip, &wheel.display().to_string())
}

/// Returns a pip command that installs only the named packages, into a folder.
fn pip_install(python: &Path, folder: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        .args(["--no-deps", "--no-compile"])
        .args([OsStr::new("--target"), folder.as_os_str()])
        // Overrides user settings that contradict a target folder.
        .env("PIP_USER", "0")
        .env("PIP_REQUIRE_VIRTUALENV", "0")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    pip
}

fn finish(mut pip: Command, what: &str) -> Result<()> {
    let output = process::run(&mut pip, LIMIT)?;
    if output.status.success() {
        return Ok(());
    }
    let lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    // The lines before the first error are warnings; those after it describe a hash mismatch.
    let said: Vec<&str> = lines.skip_while(|line| !line.starts_with("ERROR")).collect();
    let first = format!("pip could not install {what} ({})", output.status);
    Err(Failure::new([first.as_str()].into_iter().chain(said)).into())
}

/// Replaces a folder by a finished one.
pub fn replace(new: tempfile::TempDir, place: &Path) -> Result<()> {
    let failed = || format!("{} cannot be replaced", place.display());
    // A rename replaces only an empty folder, so the old one is moved away. `old` is deleted on return.
    let parent = place.parent().with_context(failed)?;
    let old = tempfile::Builder::new().prefix(".old-").tempdir_in(parent).with_context(failed)?;
    if place.exists() {
        fs::rename(place, old.path().join("it")).with_context(failed)?;
    }
    // Temporary folders are private, but this one now belongs to the workspace.
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755)).with_context(failed)?;
    fs::rename(new.path(), place).with_context(failed)?;
    let _ = new.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_with_its_hash() {
        for (file, package) in [
            ("cuda/requirements.txt", "nvidia-cuda-nvcc=="),
            ("python/requirements.txt", "maturin=="),
            ("python/requirements-torch.txt", "torch=="),
            ("python/requirements-wheel.txt", "ziglang=="),
            ("tests/cases/requirements.txt", "pyarrow=="),
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
            let text = fs::read_to_string(path).unwrap();
            let lines = text.replace("\\\n", " ");
            let packages: Vec<&str> =
                lines.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
            assert!(packages.iter().any(|line| line.starts_with(package)), "{file}");
            for line in packages {
                let mut words = line.split_whitespace();
                assert!(words.next().is_some_and(|name| name.contains("==")), "{line}");
                let hashes: Vec<&str> =
                    words.map(|word| word.strip_prefix("--hash=sha256:").unwrap_or("")).collect();
                let is_hash =
                    |hash: &&str| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
                assert!(!hashes.is_empty() && hashes.iter().all(is_hash), "{line}");
            }
        }
    }
}
