//! `cargo xtask python`: builds the Python packages of `python/`, by maturin, and of `sim/python`, and
//! runs their tests.
//!
//! `python/requirements.txt` lists the build and test packages. They and the packages themselves are
//! installed below `target/python`, separately from the machine's packages.

mod sim_wheel;
mod wheels;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};
use warpfold_suite::say;

pub use self::wheels::Platform;
use crate::{
    build_sim,
    doctor::Machine,
    pypi,
    workspace::{self, Workspace},
};

const REQUIREMENTS: &str = "python/requirements.txt";

const TORCH_REQUIREMENTS: &str = "python/requirements-torch.txt";

const CASES: &str = "tests/cases";
const CASES_REQUIREMENTS: &str = "tests/cases/requirements.txt";

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Build the release wheels in this folder, and run no tests
    #[arg(long, value_name = "DIR")]
    pub wheel: Option<PathBuf>,
    /// Platform of the wheels; may be repeated [default: all]
    #[arg(long, requires = "wheel")]
    pub platform: Vec<Platform>,
    /// Run the calls and expressions of tests/cases, which once gave wrong results, with the programs
    /// and the package, instead of the package's tests
    #[arg(long, conflicts_with = "wheel")]
    pub cases: bool,
    /// Only the cases whose line contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "", requires = "cases")]
    pub only: String,
    /// Device on which the program runs the cases; may be repeated [default: sim and cpu]
    #[arg(long, value_name = "DEVICE", value_parser = ["sim", "cpu", "gpu"], requires = "cases")]
    pub device: Vec<String>,
    /// Also test with the tensors of PyTorch, whose packages have 3.5 GB
    #[arg(long, conflicts_with_all = ["wheel", "cases"])]
    pub torch: bool,
    /// Arguments for pytest, as in `-- -k segments`
    #[arg(last = true, conflicts_with_all = ["wheel", "cases"])]
    pub pytest: Vec<String>,
}

/// Runs the command. Exits 1 if a test fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    if let Some(folder) = &args.wheel {
        let folder = env::current_dir()?.join(folder);
        wheels::build(&workspace, &folder, &args.platform)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.cases {
        return run_cases(&workspace, args);
    }
    let further = [TORCH_REQUIREMENTS];
    let mut installed = Installed::new(&workspace, if args.torch { &further } else { &[] })?;
    installed.add_sim(&workspace)?;
    let status = installed
        .python()?
        .current_dir(workspace.root.join("python"))
        .args(["-m", "pytest", "-p", "no:cacheprovider"])
        .args(&args.pytest)
        .status()
        .context("pytest does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_cases(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let packages = ["--package", "warpfold-cli", "--package", "warpfold-sim-cli"];
    build_sim::cargo(workspace, false, &packages.map(OsStr::new))?;
    let installed = Installed::new(workspace, &[CASES_REQUIREMENTS])?;
    let (scripts, programs) = (workspace.root.join(CASES), workspace.target.join("debug"));
    let folder = tempfile::tempdir().context("a temporary folder cannot be created")?;
    let written = installed.python()?.arg(scripts.join("make.py")).arg(folder.path()).status();
    ensure!(written.context("python3 does not start")?.success(), "the input files cannot be written");
    let mut python = installed.python()?;
    python.arg(scripts.join("run.py")).arg("--folder").arg(folder.path()).args(["--only", &args.only]);
    for (option, program) in [("--run", "warpfold"), ("--sim", "warpfold-sim")] {
        python.arg(option).arg(programs.join(program));
    }
    let default = ["sim".to_owned(), "cpu".to_owned()];
    let devices = if args.device.is_empty() { &default[..] } else { &args.device };
    devices.iter().for_each(|device| _ = python.args(["--device", device]));
    let status = python.status().context("python3 does not start")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the wheel of the simulator in a folder from the files that [`build_sim::ensure`] returned, and
/// returns its path.
pub fn build_sim_wheel(workspace: &Workspace, built: &Path, folder: &Path) -> Result<PathBuf> {
    let place = Place::of(workspace)?;
    let packages = place.fetched(workspace, REQUIREMENTS)?;
    sim_wheel::build(workspace, &place, &packages, built, folder)
}

struct Installed {
    place: Place,
    /// The folders of this repository's packages.
    own: Vec<tempfile::TempDir>,
    /// The folders of other packages; the first one has those of [`REQUIREMENTS`].
    packages: Vec<PathBuf>,
}

impl Installed {
    /// Builds and installs the package, and the packages that further requirements files of the
    /// workspace list.
    fn new(workspace: &Workspace, requirements: &[&str]) -> Result<Self> {
        let place = Place::of(workspace)?;
        let packages = place.fetched(workspace, REQUIREMENTS)?;
        let wheels = tempfile::Builder::new().prefix("wheel-").tempdir_in(&place.folder)?;
        let wheel = build(workspace, &packages, wheels.path())?;
        let own = vec![place.unpacked(&wheel)?];
        let more = requirements.iter().map(|requirements| place.fetched(workspace, requirements));
        let packages = std::iter::once(Ok(packages)).chain(more).collect::<Result<_>>()?;
        Ok(Self { place, own, packages })
    }

    /// Builds and installs the package of the simulator.
    fn add_sim(&mut self, workspace: &Workspace) -> Result<()> {
        let built = build_sim::ensure(workspace, false)?;
        let wheels = tempfile::Builder::new().prefix("wheel-").tempdir_in(&self.place.folder)?;
        let wheel = sim_wheel::build(workspace, &self.place, &self.packages[0], &built, wheels.path())?;
        self.own.push(self.place.unpacked(&wheel)?);
        Ok(())
    }

    /// Returns a Python command that prefers these packages to the machine's, and does not write
    /// bytecode next to the sources.
    fn python(&self) -> Result<Command> {
        let own = self.own.iter().map(tempfile::TempDir::path);
        let folders = own.chain(self.packages.iter().map(PathBuf::as_path));
        let mut python = Command::new(&self.place.python);
        python
            .arg("-B")
            .env("PYTHONPATH", env::join_paths(folders)?)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(python)
    }
}

struct Place {
    python: PathBuf,
    folder: PathBuf,
    _lock: fs::File,
}

impl Place {
    fn of(workspace: &Workspace) -> Result<Self> {
        let python = pypi::python(&Machine::this(workspace))?;
        let folder = workspace.target.join("python");
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let lock = workspace::lock(&folder.join(".lock"))?;
        Ok(Self { python, folder, _lock: lock })
    }

    /// Installs a wheel of this repository in a new folder.
    fn unpacked(&self, wheel: &Path) -> Result<tempfile::TempDir> {
        let folder = tempfile::Builder::new().prefix("installed-").tempdir_in(&self.folder)?;
        pypi::unpack(&self.python, wheel, folder.path())?;
        Ok(folder)
    }

    fn fetched(&self, workspace: &Workspace, requirements: &str) -> Result<PathBuf> {
        let path = workspace.root.join(requirements);
        let wanted =
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let name = if requirements == REQUIREMENTS {
            "packages".to_owned()
        } else {
            requirements.replace('/', "-")
        };
        let (packages, note) = (self.folder.join(name), "requirements.txt");
        if fs::read_to_string(packages.join(note)).is_ok_and(|installed| installed == wanted) {
            return Ok(packages);
        }
        say!("fetching the packages of {requirements} to {}", packages.display());
        let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&self.folder)?;
        pypi::install(&self.python, &workspace.root, requirements, new.path())?;
        fs::write(new.path().join(note), &wanted)?;
        pypi::replace(new, &packages)?;
        Ok(packages)
    }
}

/// Builds the package's wheel for this machine in an empty folder, by the profile for tests. The target
/// folder is the workspace's, where dependencies may be built already.
fn build(workspace: &Workspace, packages: &Path, folder: &Path) -> Result<PathBuf> {
    let status = Command::new(maturin(packages)?)
        .current_dir(workspace.root.join("python"))
        .args(["build", "--quiet", "--locked", "--profile", "dev"])
        .args([OsString::from("--out"), folder.into()])
        .args([OsString::from("--target-dir"), workspace.target.clone().into()])
        .status()
        .context("maturin does not start")?;
    ensure!(status.success(), "maturin could not build the package ({status})");
    wheels_of(folder)?.pop().with_context(|| format!("maturin wrote no wheel to {}", folder.display()))
}

fn maturin(packages: &Path) -> Result<PathBuf> {
    let maturin = packages.join("bin/maturin");
    ensure!(maturin.is_file(), "the packages of {REQUIREMENTS} contain no {}", maturin.display());
    Ok(maturin)
}

/// Returns the paths of a folder's wheels.
fn wheels_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let paths = files.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).collect())
}
