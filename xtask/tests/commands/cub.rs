//! `cub::ensure` with a script in place of nvcc: its arguments, when it runs again, and the handling of
//! failures. The fake compiler concatenates the sources.

use std::{fs, path::PathBuf};

use crate::nvcc::Nvcc;
use warpfold_suite_build::{
    cub::{self, Built, LIBRARY},
    machine::Machine,
};

const SCRIPT: &str = r#"sources=
output=
for argument; do
    [ "$before" = -o ] && output=$argument
    case "$argument" in *.cu) cat "$argument" >>"$ROOT/joined";; esac
    before=$argument
done
grep -q broken "$ROOT/joined" && { rm "$ROOT/joined"; printf 'In file:\nsum.cu(7): error: no\nmore\nerror: again\n' >&2; exit 2; }
mv "$ROOT/joined" "$output""#;

struct Fixture {
    nvcc: Nvcc,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { nvcc: Nvcc::new(SCRIPT) };
        fixture.nvcc.write("lib/libcudart_static.a", "");
        fixture.source("library.cuh", "header");
        fixture.source("library.cu", "library ");
        fixture.source("sum.cu", "sum ");
        fixture
    }

    fn source(&self, name: &str, text: &str) {
        self.nvcc.write(&format!("work/cuda/cub/{name}"), text);
    }

    fn ensure(&self, arch: &str) -> anyhow::Result<Built> {
        cub::ensure(&self.nvcc.workspace, &self.nvcc.machine, Some(arch.parse()?))
    }

    fn rebuilt(&self) -> bool {
        self.ensure("sm_90").unwrap().rebuilt
    }

    fn library(&self) -> PathBuf {
        self.nvcc.workspace.target.join("cub/sm_90").join(LIBRARY)
    }
}

#[test]
fn all_parts_make_one_library() {
    let fixture = Fixture::new();
    let built = fixture.ensure("sm_90").unwrap();
    assert_eq!((built.compiler.as_str(), built.rebuilt), ("nvcc 13.0.88", true));
    assert_eq!(built.path, fixture.library());
    assert_eq!(fs::read_to_string(&built.path).unwrap(), "library sum ");
    let log = fixture.nvcc.log();
    assert!(log.starts_with("-arch=sm_90 -O3 -std=c++17 "), "{log}");
    for flag in ["-shared", "-cudart static", "/lib -o "] {
        assert!(log.contains(flag), "{log}");
    }
    assert!(log.ends_with(" flags=\n"), "{log}");
    let left = |folder: PathBuf| fs::read_dir(folder).unwrap().count();
    assert_eq!(left(fixture.nvcc.workspace.target.join("cub/sm_90")), 2);
}

#[test]
fn library_is_rebuilt_after_a_change() {
    let fixture = Fixture::new();
    assert!(fixture.rebuilt());
    assert!(!fixture.rebuilt());
    fixture.source("library.cuh", "other");
    assert!(fixture.rebuilt());
    fixture.source("sum.cu", "other ");
    assert!(fixture.rebuilt());
    assert_eq!(fs::read_to_string(fixture.library()).unwrap(), "library other ");
    fs::write(fixture.library(), "edited").unwrap();
    assert!(fixture.rebuilt());
    fs::remove_file(fixture.library()).unwrap();
    assert!(fixture.rebuilt());
    fixture.nvcc.set_version("13.0.99");
    assert!(fixture.rebuilt());
    assert!(!fixture.rebuilt());
    fixture.nvcc.write("include/cccl/cub/version.cuh", "#define CUB_VERSION 300500");
    assert!(fixture.rebuilt());
    assert!(!fixture.rebuilt());
    assert!(fixture.ensure("sm_80").unwrap().rebuilt);
    assert!(!fixture.rebuilt());
}

#[test]
fn failed_compilation_is_one_line_and_keeps_the_library() {
    let fixture = Fixture::new();
    fixture.ensure("sm_90").unwrap();
    fixture.source("sum.cu", "broken");
    let error = format!("{:#}", fixture.ensure("sm_90").unwrap_err());
    assert_eq!(
        error,
        "cuda/cub does not compile for sm_90: sum.cu(7): error: no (all in target/cub/sm_90/nvcc.log)"
    );
    let log = fixture.nvcc.workspace.target.join("cub/sm_90/nvcc.log");
    assert!(fs::read_to_string(&log).unwrap().contains("error: again"));
    assert_eq!(fs::read_to_string(fixture.library()).unwrap(), "library sum ");
    fixture.source("sum.cu", "sum again");
    assert!(fixture.rebuilt());
    assert!(!log.exists());
}

#[test]
fn a_check_compiles_and_keeps_nothing() {
    let fixture = Fixture::new();
    let check = || {
        let Nvcc { workspace, machine, .. } = &fixture.nvcc;
        cub::check(workspace, machine, Some("sm_90".parse().unwrap()))
    };
    check().unwrap();
    let log = fixture.nvcc.log();
    let flags = "-gencode=arch=compute_90,code=compute_90 -fdevice-syntax-only -std=c++17 ";
    assert!(log.starts_with(flags), "{log}");
    let folder = fixture.nvcc.workspace.target.join("cub/sm_90");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    // A check replaces nothing, but reports sources that do not compile.
    assert!(fixture.rebuilt());
    fixture.source("sum.cu", "broken");
    let error = check().unwrap_err().to_string();
    assert!(error.starts_with("cuda/cub does not compile for sm_90: sum.cu(7): error: no"), "{error}");
    assert_eq!(fs::read_to_string(fixture.library()).unwrap(), "library sum ");
}

#[test]
fn a_missing_or_old_compiler_is_one_line() {
    let fixture = Fixture::new();
    let error = fixture.ensure("sm_100").unwrap_err().to_string();
    assert!(error.starts_with("arch sm_100 is unknown to this compiler"), "{error}");
    let machine = Machine::empty(fixture.nvcc.folder.path());
    let error = cub::ensure(&fixture.nvcc.workspace, &machine, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "no nvcc on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches it"
    );
}
