//! `cargo xtask python`: the Python package of `python/`, built by maturin, and its tests.
//!
//! `python/requirements.txt` names what builds and tests it. That and the package itself are installed
//! below `target/python`, apart from all other packages of the machine.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_suite::say;

use crate::{
    doctor::Machine,
    pypi,
    workspace::{self, Workspace},
};

/// What builds and tests the package, relative to the workspace's root.
const REQUIREMENTS: &str = "python/requirements.txt";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Make a release wheel in this folder, and run no tests
    #[arg(long, value_name = "DIR")]
    pub wheel: Option<PathBuf>,
    /// Passed to pytest, as in `-- -k segments`
    #[arg(last = true, conflicts_with = "wheel")]
    pub pytest: Vec<String>,
}

/// The command. Exits 1 when a test fails.
///
/// # Errors
/// No python3 with pip, packages that cannot be fetched, a package that cannot be built.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let python = pypi::python(&Machine::this(&workspace))?;
    let place = workspace.target.join("python");
    fs::create_dir_all(&place).with_context(|| format!("{} cannot be made", place.display()))?;
    let _lock = workspace::lock(&place.join(".lock"))?;
    let packages = fetched(&workspace, &python, &place)?;
    if let Some(folder) = &args.wheel {
        let folder = env::current_dir()?.join(folder);
        let wheel = build(&workspace, &packages, &folder, "release")?;
        say!("{}", wheel.display());
        return Ok(ExitCode::SUCCESS);
    }
    let wheels = tempfile::Builder::new().prefix("wheel-").tempdir_in(&place)?;
    let wheel = build(&workspace, &packages, wheels.path(), "dev")?;
    let installed = tempfile::Builder::new().prefix("installed-").tempdir_in(&place)?;
    pypi::unpack(&python, &wheel, installed.path())?;
    let status = Command::new(&python)
        .current_dir(workspace.root.join("python"))
        // Neither the machine's own packages of these names nor compiled files beside the tests.
        .args(["-B", "-m", "pytest", "-p", "no:cacheprovider"])
        .args(&args.pytest)
        .env("PYTHONPATH", env::join_paths([installed.path(), &packages])?)
        .status()
        .context("pytest does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The folder of the packages that are asked for.
fn fetched(workspace: &Workspace, python: &Path, place: &Path) -> Result<PathBuf> {
    let requirements = workspace.root.join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("{} cannot be read", requirements.display()))?;
    let (packages, note) = (place.join("packages"), "requirements.txt");
    if fs::read_to_string(packages.join(note)).is_ok_and(|installed| installed == wanted) {
        return Ok(packages);
    }
    say!("fetching the packages of {REQUIREMENTS} to {}", packages.display());
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(place)?;
    pypi::install(python, &workspace.root, REQUIREMENTS, new.path())?;
    fs::write(new.path().join(note), &wanted)?;
    pypi::replace(new, &packages)?;
    Ok(packages)
}

/// Builds the package's wheel in a folder, by a profile of its crate. What is compiled goes to the
/// workspace's own folder for that, where dependencies may be already.
fn build(workspace: &Workspace, packages: &Path, folder: &Path, profile: &str) -> Result<PathBuf> {
    let maturin = packages.join("bin/maturin");
    ensure!(maturin.is_file(), "the packages of {REQUIREMENTS} brought no {}", maturin.display());
    let status = Command::new(&maturin)
        .current_dir(workspace.root.join("python"))
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .args([OsString::from("--out"), folder.into()])
        .args([OsString::from("--target-dir"), workspace.target.clone().into()])
        .status()
        .context("maturin does not start")?;
    ensure!(status.success(), "maturin could not build the package ({status})");
    let wheels = fs::read_dir(folder).with_context(|| format!("{} is not there", folder.display()))?;
    let mut wheels: Vec<PathBuf> = wheels
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    match (wheels.pop(), wheels.is_empty()) {
        (Some(wheel), true) => Ok(wheel),
        (None, _) => bail!("maturin has left no wheel in {}", folder.display()),
        (Some(_), false) => {
            bail!("{} has several wheels; give a folder that has none", folder.display())
        }
    }
}
