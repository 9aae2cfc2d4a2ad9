//! `cuda_toolkit::ensure` with a script in place of python3: pip's arguments, and the handling of
//! downloads that work, fail, or contain the wrong files.

use std::{fs, os::unix::fs::PermissionsExt};

use warpfold_suite_build::machine::Machine;
use warpfold_suite_build::workspace::Workspace;
use xtask::cuda_toolkit;

use crate::fake;

const PYTHON: &str = r#"[ -e "$ROOT/no-pip" ] && { echo 'No module named pip' >&2; exit 1; }
[ "$3" = --version ] && exit
echo "$*" >>"$ROOT/pip.log"
for argument; do [ "$before" = --target ] && target=$argument; before=$argument; done
mkdir -p "$target/nvidia/cu13/bin/crt" "$target/nvidia/cu13/nvvm/bin"
printf '#!/bin/sh\necho release 13.0, V13.0.88\n' >"$target/nvidia/cu13/bin/nvcc"
touch "$target/nvidia/cu13/nvvm/bin/cicc" "$target/nvidia/cu13/bin/nvcc.profile"
[ -e "$ROOT/wrong-hash" ] || exit 0
printf 'WARNING: old\nERROR: THESE PACKAGES DO NOT MATCH\n    Expected sha256 0\n         Got 1\n' >&2
exit 1"#;

const WANTED: &str = "a==1 --hash=sha256:0\nb==2 --hash=sha256:0\n";

struct Fixture {
    folder: tempfile::TempDir,
    workspace: Workspace,
    machine: Machine,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("cuda toolkit ").tempdir().unwrap();
        let root = folder.path();
        let workspace = fake::workspace(root, "", "");
        fake::program(root, "python3", PYTHON);
        fake::write(root, "work/cuda/requirements.txt", WANTED);
        let machine = Machine::empty(root).with("PATH", root.join("bin").display().to_string());
        Self { folder, workspace, machine }
    }

    fn fetched(&self) -> bool {
        cuda_toolkit::ensure(&self.workspace, &self.machine).unwrap().fetched
    }

    fn refused(&self) -> String {
        format!("{:#}", cuda_toolkit::ensure(&self.workspace, &self.machine).unwrap_err())
    }

    fn installations(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("pip.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.workspace.target).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name != ".cuda.lock").collect()
    }
}

#[test]
fn packages_are_installed_once_and_can_be_run() {
    let fixture = Fixture::new();
    let toolkit = cuda_toolkit::ensure(&fixture.workspace, &fixture.machine).unwrap();
    assert!(toolkit.fetched);
    assert_eq!(toolkit.version, "13.0.88");
    assert_eq!(toolkit.root, fixture.workspace.target.join("cuda/nvidia/cu13"));
    for program in ["bin/nvcc", "nvvm/bin/cicc"] {
        let mode = toolkit.root.join(program).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{program}");
    }
    assert_eq!(fixture.left(), ["cuda"]);
    let call = &fixture.installations()[0];
    for flag in ["--require-hashes", "--no-deps", "--only-binary=:all:"] {
        assert!(call.contains(flag), "{call}");
    }

    assert!(!fixture.fetched());
    assert_eq!(fixture.installations().len(), 1);
    let machine = Machine::empty(&fixture.workspace.root);
    assert_eq!(machine.cuda_program("nvcc"), Some(toolkit.root.join("bin/nvcc")));
}

#[test]
fn changed_requirements_replace_the_installation() {
    let fixture = Fixture::new();
    fake::write(&fixture.workspace.target, "cuda/by-hand", "");
    assert!(fixture.fetched());
    fake::write(&fixture.workspace.root, "cuda/requirements.txt", "a==2 --hash=sha256:0\n");
    assert!(fixture.fetched());
    assert!(!fixture.fetched());
    assert!(!fixture.workspace.target.join("cuda/by-hand").exists());
    assert_eq!(fixture.left(), ["cuda"]);
}

#[test]
fn failed_download_keeps_old_files_and_shows_pip_errors() {
    let fixture = Fixture::new();
    fake::write(fixture.folder.path(), "wrong-hash", "");
    let said = fixture.refused();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "pip could not install the packages of cuda/requirements.txt (exit status: 1)",
            "ERROR: THESE PACKAGES DO NOT MATCH",
            "Expected sha256 0",
            "Got 1",
        ]
    );
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());

    fake::write(&fixture.workspace.target, "cuda/by-hand", "");
    fixture.refused();
    assert!(fixture.workspace.target.join("cuda/by-hand").exists());
    fs::remove_file(fixture.folder.path().join("wrong-hash")).unwrap();
    assert!(fixture.fetched());
}

#[test]
fn a_missing_pip_or_python_is_one_line() {
    let fixture = Fixture::new();
    fake::write(fixture.folder.path(), "no-pip", "");
    let said = fixture.refused();
    assert!(said.contains("/python3 has no pip: install python3-pip"), "{said}");
    let nothing = Machine::empty(fixture.folder.path());
    let error = cuda_toolkit::ensure(&fixture.workspace, &nothing).unwrap_err().to_string();
    assert!(error.starts_with("no python3 on the PATH: install"), "{error}");
    assert_eq!((said.lines().count(), error.lines().count()), (1, 1));
}
