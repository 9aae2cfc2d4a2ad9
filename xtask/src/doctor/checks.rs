//! The compiler, the GPU, and NVIDIA's tools.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use warpfold_build::internal::{has_library, library};
use warpfold_suite_build::{machine::ANSWER, process};

use super::{Check, Driver, Machine, version_of};
use crate::{toolchain::Toolchain, workspace::Workspace};

const FETCH: &str = "cargo xtask doctor --fetch-cuda fetches it";

const TOOLS: &[(&str, &str, &str)] = &[
    ("nvcc", "compiles the CUDA C twins and the CUB baseline", FETCH),
    ("ptxas", "assembles the PTX without a GPU: registers, spills, what the driver would reject", FETCH),
    ("nvdisasm", "shows the machine code of a kernel", FETCH),
    ("compute-sanitizer", "finds races and stray accesses on the GPU", "it comes with the CUDA toolkit"),
    ("ncu", "reads the GPU's hardware counters", "it comes with the CUDA toolkit, or as Nsight Compute"),
];

const FOR_RUSTC: &str = "compiles everything";
const FOR_CARGO: &str = "builds everything";
const FOR_SOURCE: &str = "core for the GPU: build-ptx compiles it along";

pub(super) fn toolchain(workspace: &Workspace, machine: &Machine) -> Vec<Check> {
    let release = workspace.pinned_channel().unwrap_or_else(|_| "the pinned release".to_owned());
    let install = format!("rustup toolchain install {release}");
    // Queried only if rustc is on the PATH; otherwise the reason is shorter than the query's error.
    let pinned = match machine.on_path("rustc") {
        Some(_) => Toolchain::pinned(workspace).map_err(|error| error.root_cause().to_string()),
        None => Err("no rustc on the PATH".to_owned()),
    };
    match pinned {
        Ok(toolchain) => installed(&toolchain, &install),
        Err(why) => [("rustc", FOR_RUSTC), ("cargo", FOR_CARGO), ("rust-src", FOR_SOURCE)]
            .map(|(name, purpose)| Check::missing(name, purpose, why.as_str(), install.as_str()))
            .into(),
    }
}

fn installed(toolchain: &Toolchain, install: &str) -> Vec<Check> {
    let sysroot = toolchain.sysroot().unwrap_or_default();
    let cargo = sysroot.join("bin/cargo");
    let source = library(&sysroot);
    vec![
        Check::found("rustc", FOR_RUSTC, toolchain.describe(), sysroot.display().to_string()),
        match version_of(&cargo) {
            Some(version) => Check::found("cargo", FOR_CARGO, version, cargo.display().to_string()),
            None => Check::missing("cargo", FOR_CARGO, "not in the toolchain", install),
        },
        if has_library(&sysroot) {
            Check::found(
                "rust-src",
                FOR_SOURCE,
                toolchain.release.as_str(),
                source.display().to_string(),
            )
        } else {
            let release = &toolchain.release;
            let get = format!(
                "cargo xtask build-ptx fetches it, or rustup component add rust-src --toolchain {release}"
            );
            Check::missing("rust-src", FOR_SOURCE, "not in the toolchain", get)
        },
    ]
}

const LINKER: &str = "apt-get install gcc libc6-dev";

/// Checks for `cc`, which the pinned compiler calls to link, and for the C library's files.
///
/// The toolchain's own linker, rust-lld, is called through `cc`: no toolchain for a glibc target ships
/// the startup files (`crt1.o`) or the C library's link files, and build scripts and macros are programs
/// of that target.
pub(super) fn linker(machine: &Machine) -> Check {
    let (name, purpose) = ("cc", "links every program, build scripts and macros too");
    let Some(cc) = machine.on_path("cc") else {
        return Check::missing(name, purpose, "not on the PATH", LINKER);
    };
    // `cc` echoes the name of a file that it cannot find.
    let asked = process::run(Command::new(&cc).arg("-print-file-name=crt1.o"), ANSWER);
    match asked.map(|said| said.stdout.trim().to_owned()) {
        Ok(start) if start.contains('/') => there(name, purpose, &cc),
        _ => {
            let why = format!("{} finds no crt1.o, the start code of every program", cc.display());
            Check::missing(name, purpose, why, LINKER)
        }
    }
}

/// Checks for the tools that tests and commands use besides compilers.
pub(super) fn helpers(machine: &Machine) -> [Check; 3] {
    let (name, purpose) =
        ("python3", "its pip fetches NVIDIA's compiler: cargo xtask doctor --fetch-cuda");
    let get = "apt-get install python3-pip";
    let python = match machine.on_path("python3") {
        Some(path) if has_pip(&path) => there(name, purpose, &path),
        Some(path) => Check::missing(name, purpose, format!("{} has no pip", path.display()), get),
        None => Check::missing(name, purpose, "not on the PATH", get),
    };
    let purpose = "shows the report's page to the test of it";
    let browser = |name: &str, found: Option<PathBuf>, get: &'static str| match found {
        Some(path) => there(name, purpose, &path),
        None => Check::missing(name, purpose, "not on the PATH", get),
    };
    let get = "apt-get install chromium, or set WARPFOLD_CHROMIUM to one";
    let chromium = browser("chromium", machine.browser(), get);
    let get = "apt-get install firefox-esr, or set WARPFOLD_FIREFOX to one";
    [python, chromium, browser("firefox", machine.firefox(), get)]
}

fn there(name: &str, purpose: &'static str, path: &Path) -> Check {
    Check::found(name, purpose, version_of(path).unwrap_or_default(), path.display().to_string())
}

fn has_pip(python: &Path) -> bool {
    let asked = process::run(Command::new(python).args(["-m", "pip", "--version"]), ANSWER);
    asked.is_ok_and(|said| said.status.success())
}

pub(super) fn gpus(driver: &Driver) -> Vec<Check> {
    let (for_driver, for_gpu) = ("lets programs use the GPU", "runs the kernels");
    let gpus = match driver {
        Ok(gpus) => gpus,
        Err(why) => {
            let get = "install NVIDIA's driver; without one, --device sim runs the same PTX";
            return vec![Check::missing("gpu driver", for_driver, why.as_str(), get)];
        }
    };
    let driver =
        Check::found("gpu driver", for_driver, format!("CUDA {}", gpus.version), "libcuda.so.1");
    let gpu = |(index, gpu): (usize, &super::Gpu)| {
        let place = format!("{}, {} GiB", gpu.name, gpu.memory_bytes >> 30);
        Check::found(&format!("gpu {index}"), for_gpu, gpu.arch.as_str(), place)
    };
    [driver].into_iter().chain(gpus.gpus.iter().enumerate().map(gpu)).collect()
}

pub(super) fn tools(machine: &Machine) -> Vec<Check> {
    let check = |(name, purpose, get): &(&str, &'static str, &str)| match machine.cuda_program(name) {
        Some(path) => there(name, purpose, &path),
        None => Check::missing(name, purpose, "not found", *get),
    };
    TOOLS.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn with(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in scripts {
            let path = folder.path().join(name);
            // Written by another process: a file that this one has open for writing cannot be executed.
            let write = format!("printf '#!/bin/sh\\n%s\\n' \"$1\" >'{}'", path.display());
            assert!(Command::new("sh").args(["-c", &write, "sh", script]).status().unwrap().success());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let machine = Machine::empty(folder.path());
        let path = folder.path().display().to_string();
        (folder, machine.with("PATH", path))
    }

    #[test]
    fn a_linker_needs_a_compiler_and_the_files_of_the_c_library() {
        let (_folder, bare) = with(&[]);
        let line = linker(&bare).complaint().unwrap();
        assert_eq!(line, "cc: not on the PATH; apt-get install gcc libc6-dev");
        // Debian's gcc prints this name even without libc6-dev.
        let (folder, alone) = with(&[("cc", "echo crt1.o")]);
        let line = linker(&alone).complaint().unwrap();
        let cc = folder.path().join("cc");
        let expected = format!(
            "cc: {} finds no crt1.o, the start code of every program; apt-get install gcc libc6-dev",
            cc.display()
        );
        assert_eq!(line, expected);
        let script = "case \"$1\" in --version) echo cc 12.2.0;; *) echo /usr/lib/crt1.o;; esac";
        let (folder, whole) = with(&[("cc", script)]);
        let place = folder.path().join("cc").display().to_string();
        assert_eq!(linker(&whole), Check::found("cc", linker(&bare).purpose, "12.2.0", place));
    }

    #[test]
    fn readme_and_doctor_name_the_same_linker_packages() {
        let root = Workspace::locate().unwrap().root;
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        assert!(readme.contains(&format!("a C compiler to link with (`{LINKER}`)")), "{readme}");
        let packages = fs::read_to_string(root.join(".ci/packages")).unwrap();
        let named = LINKER.trim_start_matches("apt-get install ");
        assert!(packages.contains(&format!("missing+=({named})")), "{packages}");
    }

    #[test]
    fn python_without_pip_is_reported() {
        let (_folder, machine) =
            with(&[("python3", "exit 1"), ("chromium-browser", "echo Chromium 1.2.3")]);
        let [python, browser, _] = helpers(&machine);
        assert!(
            python.complaint().unwrap().ends_with("/python3 has no pip; apt-get install python3-pip")
        );
        assert!(browser.is_found(), "{browser:?}");
        let (_folder, machine) = with(&[("python3", "echo pip 23.0.1")]);
        let [python, browser, other] = helpers(&machine);
        assert!(python.is_found() && !browser.is_found(), "{python:?} {browser:?}");
        assert!(!other.is_found(), "{other:?}");
        let machine = machine.with("WARPFOLD_CHROMIUM", "/bin/sh").with("WARPFOLD_FIREFOX", "/bin/sh");
        let [_, named, other] = helpers(&machine);
        assert!(named.is_found() && other.is_found());
    }
}
