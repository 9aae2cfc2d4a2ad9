//! `twins::ensure` with a script in place of nvcc: what is compiled, when it is compiled again, and the
//! handling of failures. The twins of these tests are PTX already; the fake compiler copies them.

use std::{fs, path::PathBuf};

use crate::nvcc::Nvcc;
use warpfold_suite_build::{
    machine::Machine,
    twins::{self, Twins},
};

const SCRIPT: &str = r#"for argument; do case "$argument" in *.cu) source=$argument;; *.ptx) output=$argument;; esac; done
grep -q broken "$source" && { echo "$source: error" >&2; exit 2; }
cp "$source" "$output""#;

fn ptx(id: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry {id}_sum_f32()\n{{\n{body}\nret;\n}}\n"
    )
}

struct Fixture {
    nvcc: Nvcc,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { nvcc: Nvcc::new(SCRIPT) };
        fixture.source("common.cuh", "");
        fixture.source("tree.cu", &ptx("tree", ""));
        fixture.source("wide.cu", &format!("// The idea\n// needs sm_90\n{}", ptx("wide", "")));
        fixture
    }

    fn source(&self, name: &str, text: &str) {
        self.nvcc.write(&format!("work/cuda/{name}"), text);
    }

    fn ensure(&self, arch: &str) -> anyhow::Result<Twins> {
        twins::ensure(&self.nvcc.workspace, &self.nvcc.machine, Some(arch.parse()?))
    }

    fn rebuilt(&self) -> Vec<String> {
        self.ensure("sm_90").unwrap().rebuilt
    }

    fn refused(&self) -> Vec<String> {
        format!("{:#}", self.ensure("sm_90").unwrap_err()).lines().map(str::to_owned).collect()
    }

    fn output(&self) -> PathBuf {
        self.nvcc.workspace.target.join("ptx/cuda-c/sm_90")
    }
}

#[test]
fn ptx_header_names_compiler_and_twin() {
    let fixture = Fixture::new();
    let twins = fixture.ensure("sm_90").unwrap();
    assert_eq!(twins.compiler, "nvcc 13.0.88");
    assert_eq!(twins.rebuilt, ["tree", "wide"]);
    assert_eq!(twins.files, ["tree.ptx", "wide.ptx"].map(|name| fixture.output().join(name)));
    let text = fs::read_to_string(&twins.files[0]).unwrap();
    assert_eq!(
        text,
        format!(
            "// warpfold ptx 2\n// compiler: nvcc 13.0.88\n// codegen: cuda-c\n// arch: sm_90\n// variant: tree\n{}",
            ptx("tree", "")
        )
    );
    let log = fixture.nvcc.log();
    assert!(log.lines().all(|line| line.starts_with("-arch=sm_90 -std=c++17 -O3 ")), "{log}");
    assert!(log.lines().all(|line| line.ends_with(" flags=")), "{log}");
    let left: Vec<_> = fs::read_dir(&fixture.nvcc.workspace.target).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn only_what_changed_is_compiled_again() {
    let fixture = Fixture::new();
    assert_eq!(fixture.rebuilt(), ["tree", "wide"]);
    assert!(fixture.rebuilt().is_empty());
    fixture.source("tree.cu", &ptx("tree", "// other"));
    assert_eq!(fixture.rebuilt(), ["tree"]);
    fixture.source("common.cuh", "// other");
    assert_eq!(fixture.rebuilt(), ["tree", "wide"]);
    fs::write(fixture.output().join("wide.ptx"), "edited").unwrap();
    assert_eq!(fixture.rebuilt(), ["wide"]);
    fs::remove_file(fixture.output().join("wide.ptx")).unwrap();
    assert_eq!(fixture.rebuilt(), ["wide"]);
    fixture.nvcc.set_version("13.0.99");
    assert_eq!(fixture.rebuilt(), ["tree", "wide"]);

    // The file of a removed twin is deleted; nothing else is rebuilt.
    fs::remove_file(fixture.nvcc.workspace.root.join("cuda/wide.cu")).unwrap();
    let twins = fixture.ensure("sm_90").unwrap();
    assert!(twins.rebuilt.is_empty());
    assert_eq!(twins.files, [fixture.output().join("tree.ptx")]);
}

#[test]
fn an_older_gpu_gets_the_twins_that_it_can_run() {
    let fixture = Fixture::new();
    let twins = fixture.ensure("sm_80").unwrap();
    assert_eq!((twins.files.len(), twins.rebuilt), (1, vec!["tree".to_owned()]));
    assert_eq!(twins.skipped, [("wide".to_owned(), "sm_90".parse().unwrap())]);
    assert!(fixture.ensure("sm_80").unwrap().rebuilt.is_empty());
    assert_eq!(fixture.rebuilt(), ["tree", "wide"]);
    assert_eq!(fixture.ensure("sm_90a").unwrap().files.len(), 2);
    let error = fixture.ensure("sm_75").unwrap_err().to_string();
    assert!(error.starts_with("arch sm_75 is older than the kernels need: "), "{error}");
}

#[test]
fn failures_are_reported_together_and_keep_old_files() {
    let fixture = Fixture::new();
    fixture.ensure("sm_90").unwrap();
    let before = fs::read_to_string(fixture.output().join("tree.ptx")).unwrap();
    fixture.source("tree.cu", "broken");
    fixture.source("wide.cu", &ptx("other", "ld.f32 %f1, [%rd1];"));
    assert_eq!(
        fixture.refused()[0],
        "cuda/tree.cu does not compile for sm_90 (nvcc's messages are above)"
    );
    let lines = fixture.refused()[1..].join("\n");
    assert!(lines.contains("cuda/wide.cu for sm_90:6: other_sum_f32: "), "{lines}");
    assert!(lines.ends_with("cuda/wide.cu for sm_90: no entry wide_<op>_<dtype>"), "{lines}");
    assert_eq!(fs::read_to_string(fixture.output().join("tree.ptx")).unwrap(), before);
}

#[test]
fn a_missing_compiler_is_one_line() {
    let fixture = Fixture::new();
    let machine = Machine::empty(fixture.nvcc.folder.path());
    let error = twins::ensure(&fixture.nvcc.workspace, &machine, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "no nvcc on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches it"
    );
}
