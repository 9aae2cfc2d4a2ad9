//! The binaries as a user meets them: right results, and one line with exit code 2 for everything
//! that a user can get wrong.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Output},
    sync::OnceLock,
};

use serde_json::Value;

fn ptx_root() -> &'static Path {
    static STORE: OnceLock<warpfold::PtxStore> = OnceLock::new();
    STORE.get_or_init(|| xtask::suite::ptx_store().unwrap_or_else(|error| panic!("{error:#}"))).root()
}

fn command(binary: impl AsRef<OsStr>, arguments: &str) -> Command {
    let mut command = Command::new(binary);
    command
        .args(arguments.split_whitespace())
        .env("WARPFOLD_PTX_DIR", ptx_root())
        // No driver, wherever the tests run.
        .env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1");
    command
}

fn sequential(arguments: &str) -> Output {
    command(env!("CARGO_BIN_EXE_sequential"), arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Fails unless the run ended with 2, nothing on stdout and one line on stderr that says all this.
fn assert_refused(output: &Output, says: &[&str]) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{stdout}{stderr}");
    assert_eq!(stdout, "");
    let lines: Vec<_> = stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].starts_with("error: "), "{stderr}");
    for expected in says {
        assert!(stderr.contains(expected), "no `{expected}` in: {stderr}");
    }
}

#[test]
fn json_is_one_line_with_every_field() {
    let output = sequential("--n 1000 --dtype i32 --op sum --device sim --json");
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", text(&output.stderr));
    assert_eq!(stdout.lines().count(), 1);
    let record: Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<_> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "variant",
        "op",
        "dtype",
        "n",
        "block",
        "grid",
        "device",
        "device_name",
        "codegen",
        "arch",
        "result",
        "expected",
        "ok",
        "error",
        "time_us",
        "bandwidth_gbps",
        "percent_of_peak",
        "counters",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(record["ok"], true);
    assert_eq!(record["device"], "sim");
    assert_eq!(record["time_us"], Value::Null);
    assert!(record["counters"]["warp_instructions"].as_u64().unwrap() > 0);
}

#[test]
fn auto_says_that_it_took_the_simulator() {
    let output = sequential("--n 100");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("note: no CUDA device; running on the simulator"));
}

#[test]
fn the_sum_of_nothing_is_zero() {
    let output = sequential("--n 0 --device sim --json");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&record["result"], &record["ok"]), (&Value::from(0), &Value::from(true)));
}

#[test]
fn what_cannot_be_computed_is_refused() {
    let cases: [(&str, &[&str]); 16] = [
        ("--n 0 --op min", &["min of 0 elements has no value"]),
        ("--n 0 --op max --dtype f32", &["max of 0 elements has no value"]),
        ("--block 0", &["block is 0", "32 to 1024"]),
        ("--block 100", &["block is 100", "powers of two"]),
        ("--block 2048", &["block is 2048"]),
        ("--grid 0", &["grid is 0", "allowed are 1 to 2147483647"]),
        ("--n 1000 --grid 9", &["grid is 9", "make 4 blocks"]),
        ("--dtype f16", &["sequential has no f16", "it has i32, u32"]),
        ("--dtype f23", &["unknown type `f23`"]),
        ("--op sun", &["unknown operation `sun`", "did you mean `sum`?"]),
        ("--device gpu", &["unknown device `gpu`", "auto, cuda and sim"]),
        ("--device cuda", &["no CUDA device", "/nowhere/libcuda.so.1"]),
        ("--n 2^36", &["bytes are needed", "bytes are free", "smaller --n"]),
        ("--n 2^40", &["at most 2147483647", "larger block"]),
        ("--n many", &["4Mi"]),
        ("--blocks 32", &["unexpected argument '--blocks'", "--block"]),
    ];
    for (arguments, says) in cases {
        let device = if arguments.contains("--device") { "" } else { " --device sim" };
        assert_refused(&sequential(&format!("{arguments}{device}")), says);
    }
}

#[test]
fn files_are_read_and_bad_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("three.bin");
    fs::write(&path, [1_i32, 2, 3].map(i32::to_le_bytes).concat()).unwrap();
    let run = |path: &Path, rest: &str| {
        sequential(&format!("--device sim --json --input {} {rest}", path.display()))
    };
    let record: Value = serde_json::from_slice(&run(&path, "--dtype i32").stdout).unwrap();
    assert_eq!((&record["result"], &record["n"]), (&Value::from(6), &Value::from(3)));
    assert_refused(&run(&path, ""), &["three.bin", "need --dtype"]);
    fs::write(&path, [0; 7]).unwrap();
    assert_refused(&run(&path, "--dtype i32"), &["three.bin: 7 bytes"]);
    assert_refused(&run(&folder.path().join("no.npy"), ""), &["no.npy: No such file"]);
    assert_refused(&run(&path, "--n 3"), &["--n", "cannot be used with", "--input"]);
}

#[test]
fn ptx_that_is_not_there_or_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = |folder: &Path| {
        command(env!("CARGO_BIN_EXE_warp_shuffle"), "--n 10 --device sim")
            .env("WARPFOLD_PTX_DIR", folder)
            .output()
            .unwrap()
    };
    assert_refused(&run(&folder.path().join("none")), &["no PTX", "cargo xtask build-ptx"]);
    assert_refused(&run(folder.path()), &["no PTX for warp_shuffle", "cargo xtask build-ptx"]);
    let files = folder.path().join("llvm/sm_80");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("warp_shuffle.ptx"), ".version 7.8\n.target sm_80\nnonsense").unwrap();
    assert_refused(&run(folder.path()), &["warp_shuffle.ptx", "line 3"]);
}

#[test]
fn every_binary_runs_its_own_variant() {
    for id in warpfold::catalogue::ids() {
        let binary = Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name(id);
        let output = command(binary, "--n 999 --device sim --op max --json").output().unwrap();
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&record["variant"], &record["ok"]), (&Value::from(id), &Value::from(true)));
    }
}
