//! `cargo xtask build-sim`: builds the command `warpfold-sim`, and next to it the libraries
//! `libcuda.so.1` and `libcudart.so.13`, with which CUDA programs run in the simulator. With `--wheel`,
//! also packs them into a Python package.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use warpfold_suite::say;

use crate::{
    python,
    workspace::{self, Workspace},
};

/// Cargo's name of each artifact, and its installed name.
pub(crate) const BUILT: [(&str, &str); 3] = [
    ("warpfold-sim", "warpfold-sim"),
    ("libcudart.so", "lib/libcudart.so.13"),
    ("libcuda.so", "lib/libcuda.so.1"),
];

/// The libraries: the names without a version, by which some programs open them and linkers search
/// them, and the files.
const LIBRARIES: [(&str, &str); 2] =
    [("libcudart.so", "libcudart.so.13"), ("libcuda.so", "libcuda.so.1")];

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Build in the debug profile, which compiles faster and runs slower
    #[arg(long)]
    pub debug: bool,
    /// Also build the wheel of the Python package warpfold-sim, which contains them, in this folder
    #[arg(long, value_name = "DIR")]
    pub wheel: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let folder = ensure(&workspace, !args.debug)?;
    say!("{}: warpfold-sim, with {} and {}", workspace.show(&folder), BUILT[1].1, BUILT[2].1);
    if let Some(wheel) = &args.wheel {
        let wheel = python::build_sim_wheel(&workspace, &folder, &env::current_dir()?.join(wheel))?;
        say!("{}", workspace.show(&wheel));
    }
    Ok(())
}

/// Builds the command and the libraries in the release or the debug profile, and returns their folder.
pub fn ensure(workspace: &Workspace, optimized: bool) -> Result<PathBuf> {
    let (profile, name) = if optimized { ("release", "sim") } else { ("debug", "sim-debug") };
    let folder = workspace.target.join(name);
    fs::create_dir_all(folder.join("lib"))
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let _lock = workspace::lock(&folder.join(".lock"))?;
    // libcuda defines symbols that the workspace defines too, so it is a separate workspace. It is built
    // in the target folder of the driver's tests, so that it is built only once.
    let apart = workspace.target.join("tmp/libcuda");
    let manifest = workspace.root.join("sim/libcuda/Cargo.toml");
    let apart_arguments: [&OsStr; 4] =
        ["--manifest-path".as_ref(), manifest.as_ref(), "--target-dir".as_ref(), apart.as_ref()];
    cargo(workspace, optimized, &apart_arguments)?;
    let packages = ["--package", "warpfold-cudart", "--package", "warpfold-sim-cli"];
    cargo(workspace, optimized, &packages.map(OsStr::new))?;
    for (built, called) in BUILT {
        let target = if built == "libcuda.so" { &apart } else { &workspace.target };
        replace(&target.join(profile).join(built), &folder.join(called))?;
    }
    name_libraries(&folder)?;
    Ok(folder)
}

pub(crate) fn cargo(workspace: &Workspace, optimized: bool, arguments: &[&OsStr]) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&workspace.root).args(["build", "--locked"]).args(arguments);
    if optimized {
        cargo.arg("--release");
    }
    let output = cargo.output().context("cargo does not start")?;
    if !output.status.success() {
        bail!("{cargo:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Creates the names of the libraries without a version. The one in `unversioned`, for programs that
/// open it, is an empty library that depends on the versioned one, because a wheel cannot contain
/// symbolic links. The one in `link/lib64`, for linkers, is a script, because they take no symbols from
/// the dependencies of a library.
pub(crate) fn name_libraries(folder: &Path) -> Result<()> {
    let [lib, open, link] = ["lib", "unversioned", "link/lib64"].map(|name| folder.join(name));
    for made in [&open, &link] {
        fs::create_dir_all(made).with_context(|| format!("{} cannot be created", made.display()))?;
    }
    for (name, file) in LIBRARIES {
        let script = link.join(name);
        fs::write(&script, format!("INPUT({file})\n"))
            .with_context(|| format!("{} cannot be written", script.display()))?;
        let new = open.join(name).with_extension("new");
        let mut linker = Command::new("cc");
        linker
            .args(["-shared", "-nostdlib", "-s", "-Wl,--no-as-needed,-z,noseparate-code"])
            .arg(format!("-Wl,-soname,{name}"))
            .args(["-x", "c", "/dev/null", "-x", "none"])
            .arg(lib.join(file))
            .arg("-o")
            .arg(&new);
        let output = linker.output().context("cc, which also links Rust's programs, does not start")?;
        if !output.status.success() {
            bail!("{linker:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(&new, open.join(name))
            .with_context(|| format!("{} cannot be renamed", new.display()))?;
    }
    Ok(())
}

/// Replaces a file that may be in use.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .with_context(|| format!("{} cannot be copied to {}", from.display(), to.display()))
}
