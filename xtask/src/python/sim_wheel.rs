//! The wheel of the Python package `warpfold-sim`: the files of `sim/python`, and the program
//! `warpfold-sim` with its libraries, without debug information.
//!
//! The files are compiled on this machine, so that the wheel needs its glibc version or an older one,
//! which the platform tag has. zig cannot link them against an older glibc, as it does the wheels of
//! `python/`, because its linker does not support the default symbol versions of `libcudart.so.13`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Place, wheels_of};
use crate::{
    build_sim::{self, BUILT},
    process,
    workspace::Workspace,
};

/// Time limit of pip and of binutils, far above their time.
const LIMIT: Duration = Duration::from_secs(600);

const PACKAGE: &str = "package/warpfold_sim";

/// Files of the workspace, and their places in the folder in which setuptools builds.
const SOURCES: [(&str, &str); 6] = [
    ("sim/python/pyproject.toml", "pyproject.toml"),
    ("sim/python/package/warpfold_sim/__init__.py", "package/warpfold_sim/__init__.py"),
    ("sim/python/package/warpfold_sim/pytest_plugin.py", "package/warpfold_sim/pytest_plugin.py"),
    ("sim/README.md", "README.md"),
    ("sim/LICENSE-APACHE", "LICENSE-APACHE"),
    ("sim/LICENSE-MIT", "LICENSE-MIT"),
];

/// Builds the wheel in a folder, and returns its path.
pub(super) fn build(
    workspace: &Workspace,
    place: &Place,
    packages: &Path,
    built: &Path,
    folder: &Path,
) -> Result<PathBuf> {
    let project = tempfile::Builder::new().prefix("sim-wheel-").tempdir_in(&place.folder)?;
    fs::create_dir_all(project.path().join(PACKAGE).join("lib"))?;
    for (source, name) in SOURCES {
        build_sim::replace(&workspace.root.join(source), &project.path().join(name))?;
    }
    let mut glibc = 0;
    for (_, name) in BUILT {
        let file = project.path().join(PACKAGE).join(name);
        build_sim::replace(&built.join(name), &file)?;
        run(Command::new("strip").arg("--strip-debug").arg(&file))?;
        glibc = glibc.max(newest_glibc(&run(Command::new("objdump").arg("-T").arg(&file))?));
    }
    build_sim::name_libraries(&project.path().join(PACKAGE))?;
    ensure!(glibc > 0, "objdump -T prints no symbol version of glibc; build on a system with glibc");
    let out = tempfile::Builder::new().prefix("wheel-").tempdir_in(&place.folder)?;
    let platform = format!("manylinux_2_{glibc}_{}", env::consts::ARCH);
    let mut pip = Command::new(&place.python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-input", "--disable-pip-version-check"])
        .args(["--no-index", "--no-deps", "--no-build-isolation"])
        .arg(format!("--config-settings=--build-option=--plat-name={platform}"))
        .arg("--wheel-dir")
        .args([out.path(), project.path()])
        .env("PYTHONPATH", packages);
    run(&mut pip)?;
    let made = wheels_of(out.path())?.pop().context("pip wrote no wheel of warpfold-sim")?;
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let wheel = folder.join(made.file_name().expect("paths of a folder have names"));
    build_sim::replace(&made, &wheel)?;
    Ok(wheel)
}

/// Runs a program and returns its output.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    process::run(command, LIMIT)
        .and_then(process::Output::success)
        .with_context(|| format!("{program} failed; the wheel needs pip and binutils"))
}

/// Returns the newest minor version of glibc 2 among the symbol versions that objdump printed.
fn newest_glibc(symbols: &str) -> u32 {
    let versions = symbols.split("GLIBC_2.").skip(1).map(|rest| {
        let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or(0)
    });
    versions.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_has_the_newest_glibc_that_is_needed() {
        let symbols = "\
            0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) free\n\
            0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_join\n\
            0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.17) clock_gettime\n";
        assert_eq!(newest_glibc(symbols), 34);
        assert_eq!(newest_glibc(""), 0);
    }

    #[test]
    fn the_wheel_has_the_version_of_the_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let project = fs::read_to_string(root.join("sim/python/pyproject.toml")).unwrap();
        let version = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"\n");
        assert!(project.contains(version), "{version}");
    }
}
