//! Runs the binaries with hostile input. Each run ends within a time limit, with a result or with one
//! line and status 2, and input reaches the terminal only as plain text.
#![cfg(unix)]

mod built;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use built::ptx_root;

/// A faked second line, escape sequences that start with ESC and with CSI, a right-to-left override.
const EVIL: &str = "x\nerror: all is well\r\u{1b}[2J\u{9b}31m\u{202e}";

/// Time limit of each run, on a slow machine.
const SOON: Duration = Duration::from_secs(60);

fn program(binary: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name(binary)
}

/// Runs a command with the kernels' PTX and without a driver, on any machine.
fn on_the_simulator(mut command: Command) -> Command {
    command.env("WARPFOLD_PTX_DIR", ptx_root()).env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1");
    command
}

fn command(binary: &str) -> Command {
    on_the_simulator(Command::new(program(binary)))
}

/// Checks that each line of a run's errors has a known prefix and is plain text, and returns the lines.
fn complaints(what: &str, command: &mut Command) -> (Output, Vec<String>) {
    let start = Instant::now();
    let output = command.output().unwrap();
    assert!(start.elapsed() < SOON, "{what}: {:?}", start.elapsed());
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    for text in [&stderr, std::str::from_utf8(&output.stdout).unwrap()] {
        let hidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(hidden), "{what}: {text:?}");
    }
    let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
    for line in &lines {
        let known = ["error: ", "note: ", "warning: ", "warpfold-sim-driver: "]
            .iter()
            .any(|start| line.starts_with(start));
        assert!(known, "{what}: {stderr}");
    }
    (output, lines)
}

fn assert_refused(what: &str, command: &mut Command, says: &str) {
    let (output, lines) = complaints(what, command);
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!((output.status.code(), errors.len()), (Some(2), 1), "{what}: {lines:?}");
    assert!(errors[0].contains(says), "{what}: no `{says}` in: {}", errors[0]);
    assert_eq!(output.stdout, b"", "{what}");
}

#[test]
fn names_and_variables_reach_the_terminal_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join(format!("{EVIL}.npy"));
    let header = "{'descr': '\u{1b}[2J\n', }";
    fs::write(&bad, [&b"\x93NUMPY\x01\x00"[..], &[header.len() as u8, 0], header.as_bytes()].concat())
        .unwrap();
    let run = || {
        let mut command = command("sequential");
        command.args(["--device", "sim", "--n", "64"]);
        command
    };
    let missing = folder.path().join(EVIL);
    for (option, value, says) in [
        ("--input", missing.as_os_str(), "No such file"),
        ("--dtype", OsStr::new(EVIL), "unknown type"),
        ("--op", OsStr::new(EVIL), "unknown operation"),
        ("--codegen", OsStr::new(EVIL), "unknown code generator"),
        ("--preset", OsStr::new(EVIL), "no preset"),
        ("--block", OsStr::new(EVIL), "invalid value"),
        ("--block", OsStr::from_bytes(b"\xff\xfe\x1b"), "invalid"),
        (EVIL, OsStr::new(""), "unexpected argument"),
    ] {
        let mut command = command("sequential");
        command.args(["--device", "sim"]).arg(option).arg(value);
        assert_refused(option, &mut command, says);
    }
    let mut reads = command("sequential");
    assert_refused(
        "a header",
        reads.args(["--device", "sim", "--input"]).arg(&bad),
        "holds `\\x1b[2J\\n`",
    );
    for (variable, says) in [
        ("WARPFOLD_CODEGEN", "unknown WARPFOLD_CODEGEN"),
        ("WARPFOLD_PTX_DIR", "no PTX"),
        ("WARPFOLD_SIM_DEVICES", "CUDA_ERROR_NO_DEVICE"),
        ("WARPFOLD_SIM_FAIL", "CUDA_ERROR_NO_DEVICE"),
    ] {
        assert_refused(variable, run().env(variable, EVIL), says);
    }
    let mut wants = command("sequential");
    let wants = wants.args(["--device", "cuda"]).env("WARPFOLD_LIBCUDA", EVIL);
    assert_refused("WARPFOLD_LIBCUDA", wants, "no CUDA device");
    let mut tuned = command("reducer");
    tuned.args(["--device", "sim", "--n", "64"]).env("WARPFOLD_TUNING", &missing);
    let (output, lines) = complaints("WARPFOLD_TUNING", &mut tuned);
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("the built-in choices are used")), "{lines:?}");
}

#[test]
fn ptx_reaches_the_terminal_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("llvm/sm_90");
    fs::create_dir_all(&place).unwrap();
    fs::write(
        place.join("sequential.ptx"),
        format!(".version 7.8\n.file 1 \"{EVIL}\"\n\u{1b}]0;{EVIL}"),
    )
    .unwrap();
    let mut run = command("sequential");
    run.args(["--device", "sim", "--n", "64"]).env("WARPFOLD_PTX_DIR", folder.path());
    assert_refused("PTX", &mut run, "sequential.ptx");
}

#[test]
fn numbers_of_any_size_end_in_a_result_or_in_one_line() {
    let numbers =
        ["0", "4294967295", "4294967296", "9223372036854775807", "18446744073709551615", "2^63", "-1"];
    let more = ["NaN", "1e9", "99999999999999999999999999", "1.5", ""];
    for (binary, options) in [
        ("sequential", &["--n", "--block", "--grid", "--iters", "--below", "--seed"][..]),
        ("grid_stride", &["--grid"]),
        ("reducer", &["--n", "--block", "--grid", "--iters"]),
        ("copy_strided", &["--n", "--stride", "--block", "--iters"]),
        ("copy_random", &["--n"]),
        ("transfer_overlapped", &["--n", "--chunk"]),
        ("cpu_parallel", &["--n", "--threads", "--iters"]),
    ] {
        for (option, number) in options
            .iter()
            .flat_map(|option| numbers.iter().chain(&more).map(move |number| (option, number)))
        {
            // These elements may fit in memory, but take minutes.
            if *option == "--n" && number.starts_with("429") {
                continue;
            }
            let what = format!("{binary} {option} {number}");
            let mut run = command(binary);
            if !binary.starts_with("cpu") {
                run.args(["--device", "sim"]);
            }
            if *option != "--n" {
                run.args(["--n", "1000"]);
            }
            let (output, lines) = complaints(&what, run.arg(format!("{option}={number}")));
            let errors = lines.iter().filter(|line| line.starts_with("error: ")).count();
            let expected = match output.status.code() {
                Some(0) => 0,
                Some(2) => 1,
                other => panic!("{what}: {other:?}: {lines:?}"),
            };
            assert_eq!(errors, expected, "{what}: {lines:?}");
        }
    }
    let mut run = command("transpose_naive");
    run.args(["--device", "sim", "--width", "2^32", "--height", "2^32"]);
    assert_refused("a transpose", &mut run, "18446744073709551615 bytes are needed");
    let mut run = command("sequential");
    assert_refused("iterations", run.args(["--iters", "4294967295"]), "1000000");
}

/// A failed allocation would end the process.
#[test]
fn out_of_memory_is_one_error_line() {
    for (binary, arguments) in [
        ("reducer", "--device sim --n 2^30 --dtype f32"),
        ("sequential", "--device sim --n 2^28 --dtype f64"),
        ("copy_random", "--device sim --n 2^29"),
        ("cpu_parallel", "--n 2^30 --dtype f32"),
        ("transfer_pageable", "--device sim --n 2^30"),
    ] {
        let mut shell = on_the_simulator(Command::new("sh"));
        let script = format!("ulimit -v 3000000 && exec \"$0\" {arguments}");
        shell.args(["-c", &script]).arg(program(binary));
        assert_refused(binary, &mut shell, "bytes are needed");
    }
}

#[test]
fn pipes_devices_and_folders_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, says) in [
        (pipe.as_os_str(), "is a pipe or a device"),
        (OsStr::new("/dev/zero"), "is a pipe or a device"),
        (OsStr::new("/"), "is a folder"),
    ] {
        let mut run = command("sequential");
        run.args(["--device", "sim", "--dtype", "f32", "--input"]).arg(path);
        assert_refused("--input", &mut run, says);
        let mut tuned = command("reducer");
        tuned.args(["--device", "sim", "--n", "64"]).env("WARPFOLD_TUNING", OsString::from(path));
        let (output, lines) = complaints("WARPFOLD_TUNING", &mut tuned);
        assert_eq!(output.status.code(), Some(0), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(says)), "{lines:?}");
    }
}
