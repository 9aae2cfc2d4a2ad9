//! `cargo xtask cuda-toolkit`: NVIDIA's CUDA compiler and tools, from their Python packages.
//!
//! `cuda/requirements.txt` names the packages, their versions and the hash of what each must hold. They
//! are installed into a temporary folder that becomes `target/cuda` when all is there, so that a
//! download that breaks leaves nothing. Where packages come from stays pip's configuration.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use warpfold_suite::say;

use anyhow::{Context, Result, bail, ensure};

use crate::{
    doctor::{Machine, version_of},
    failure::Failure,
    process,
    workspace::{self, Workspace},
};

/// The packages, relative to the workspace's root.
const REQUIREMENTS: &str = "cuda/requirements.txt";

/// What was installed, beside it: a copy of the requirements.
const INSTALLED: &str = "requirements.txt";

/// Far above a download over a slow line.
const LIMIT: Duration = Duration::from_secs(3600);

/// Programs that the packages bring, below the toolkit's folder; they come without their run bits.
const PROGRAMS: &[&str] = &["bin", "nvvm/bin"];

/// A toolkit that is there now.
#[derive(Debug)]
pub struct Toolkit {
    /// The folder with bin/, include/ and nvvm/.
    pub root: PathBuf,
    /// Its compiler's version.
    pub version: String,
    /// Whether it was fetched just now.
    pub fetched: bool,
}

/// The command.
///
/// # Errors
/// See [`ensure()`].
pub fn run() -> Result<()> {
    let workspace = Workspace::locate()?;
    let toolkit = ensure(&workspace, &Machine::this(&workspace))?;
    let what = if toolkit.fetched { "fetched" } else { "up to date" };
    say!("{}: {what}, nvcc {}", workspace.show(&toolkit.root), toolkit.version);
    Ok(())
}

/// Makes sure that the packages that the workspace asks for are in `target/cuda`.
///
/// # Errors
/// Another system than x86-64 Linux, no pip, a download that fails or is not what it must be, and a
/// compiler that does not start.
pub fn ensure(workspace: &Workspace, machine: &Machine) -> Result<Toolkit> {
    let requirements = workspace.root.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("{} cannot be read", requirements.display()))?;
    let place = workspace.target.join("cuda");
    if let Some(toolkit) = present(&place, &wanted) {
        return Ok(toolkit);
    }
    supported(env::consts::OS, env::consts::ARCH)?;
    let python = python(machine)?;
    let _lock = workspace::lock(&workspace.target.join(".cuda.lock"))?;
    // Another process may have fetched it meanwhile.
    if let Some(toolkit) = present(&place, &wanted) {
        return Ok(toolkit);
    }

    let packages = wanted.lines().filter(|line| line.contains("==")).count();
    say!("fetching {packages} packages of {REQUIREMENTS}, about 110 MB, to {}", place.display());
    let new = tempfile::Builder::new().prefix(".cuda-").tempdir_in(&workspace.target)?;
    install(&python, &requirements, new.path())?;
    let compiler = toolkit_in(new.path()).context("the packages brought no nvidia/*/bin/nvcc")?;
    make_runnable(&compiler)?;
    version_of(&compiler.join("bin/nvcc")).context("the nvcc that came does not start here")?;
    fs::write(new.path().join(INSTALLED), &wanted)?;
    replace(new, &place)?;

    let toolkit = present(&place, &wanted).context("what was fetched is gone again")?;
    Ok(Toolkit { fetched: true, ..toolkit })
}

/// The toolkit that these requirements were installed as.
fn present(place: &Path, wanted: &str) -> Option<Toolkit> {
    let installed = fs::read_to_string(place.join(INSTALLED)).ok()?;
    if installed != wanted {
        return None;
    }
    let root = toolkit_in(place)?;
    let version = version_of(&root.join("bin/nvcc"))?;
    Some(Toolkit { root, version, fetched: false })
}

/// The folder that packages unpacked a compiler to: it is named after the toolkit's major version.
fn toolkit_in(place: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(place.join("nvidia")).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|root| root.join("bin/nvcc").is_file())
}

/// There are packages for one kind of machine.
fn supported(system: &str, processor: &str) -> Result<()> {
    ensure!(
        (system, processor) == ("linux", "x86_64"),
        "these packages are for x86-64 Linux, this is {processor} {system}: install NVIDIA's CUDA toolkit and set CUDA_PATH to it"
    );
    Ok(())
}

/// A python3 that has pip.
fn python(machine: &Machine) -> Result<PathBuf> {
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

/// Downloads the packages, checks their hashes and unpacks them.
fn install(python: &Path, requirements: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        // Nothing but what is listed, and nothing that would have to be built.
        .args(["--no-deps", "--only-binary=:all:", "--no-compile", "--require-hashes"])
        .args([OsStr::new("--requirement"), requirements.as_os_str()])
        .args([OsStr::new("--target"), folder.as_os_str()])
        // The user's settings for other installations, which contradict a folder of our own.
        .env("PIP_USER", "0")
        .env("PIP_REQUIRE_VIRTUALENV", "0")
        .env("PIP_ROOT_USER_ACTION", "ignore");
    let output = process::run(&mut command, LIMIT)?;
    if output.status.success() {
        return Ok(());
    }
    let lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    // What comes before is warnings; what is wrong with a hash is told on the lines after.
    let said: Vec<&str> = lines.skip_while(|line| !line.starts_with("ERROR")).collect();
    let first = format!("pip could not install the packages of {REQUIREMENTS} ({})", output.status);
    Err(Failure::new([first.as_str()].into_iter().chain(said)).into())
}

/// Sets the run bits.
fn make_runnable(root: &Path) -> Result<()> {
    for folder in PROGRAMS.iter().map(|name| root.join(name)) {
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("the packages brought no {}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            let mode = path.metadata()?.permissions().mode();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o111))?;
        }
    }
    Ok(())
}

/// Puts a finished folder in the place of what was there.
fn replace(new: tempfile::TempDir, place: &Path) -> Result<()> {
    let failed = || format!("{} cannot be replaced", place.display());
    // Moved away first: a folder that is not empty cannot be renamed over. Deleted when this returns.
    let parent = place.parent().with_context(failed)?;
    let old = tempfile::Builder::new().prefix(".cuda-old-").tempdir_in(parent).with_context(failed)?;
    if place.exists() {
        fs::rename(place, old.path().join("cuda")).with_context(failed)?;
    }
    // Temporary folders are private; this one is the workspace's from here on.
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755)).with_context(failed)?;
    fs::rename(new.path(), place).with_context(failed)?;
    let _ = new.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_systems_are_told_what_to_do() {
        assert!(supported("linux", "x86_64").is_ok());
        for (system, processor) in [("linux", "aarch64"), ("macos", "x86_64")] {
            let error = supported(system, processor).unwrap_err().to_string();
            assert!(error.contains(&format!("this is {processor} {system}: install")), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn every_package_is_pinned_with_its_hash() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(REQUIREMENTS);
        let text = fs::read_to_string(path).unwrap();
        let lines = text.replace("\\\n", " ");
        let packages: Vec<&str> =
            lines.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        assert!(packages.iter().any(|line| line.starts_with("nvidia-cuda-nvcc==")));
        for line in packages {
            let hash = line.split_once("--hash=sha256:").map(|(_, hash)| hash.trim());
            let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(line.contains("==") && hash.is_some_and(is_hash), "{line}");
        }
    }
}
