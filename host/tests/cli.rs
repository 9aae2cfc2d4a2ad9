//! Runs the binaries as a user does: correct results, and one line with exit code 2 for every user
//! error.

mod built;

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use warpfold_suite::catalogue::{VARIANTS, Work};

use built::ptx_root;

fn command(binary: impl AsRef<OsStr>, arguments: &str) -> Command {
    let mut command = Command::new(binary);
    command
        .args(arguments.split_whitespace())
        .env("WARPFOLD_PTX_DIR", ptx_root())
        // No CUDA driver, on any machine.
        .env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1");
    command
}

fn sequential(arguments: &str) -> Output {
    command(env!("CARGO_BIN_EXE_sequential"), arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

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
        "determinism",
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
        "allowed",
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
fn auto_reports_the_fallback_to_the_simulator() {
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
fn invalid_arguments_are_refused() {
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
    // A user's elements are not chosen to detect errors: a note says if a wrong result might pass.
    let tells = "cannot detect a wrong result";
    for (last, told) in [(1e-6, true), (100.5, false)] {
        let elements = [vec![1.0_f32; 1000], vec![last]].concat();
        fs::write(&path, elements.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let output = run(&path, "--dtype f32");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines: Vec<String> = text(&output.stderr)
            .lines()
            .filter(|line| line.contains(tells))
            .map(str::to_owned)
            .collect();
        assert_eq!(lines.len(), usize::from(told), "{last}: {lines:?}");
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record.get("blind_to").is_some(), told, "{record}");
    }
    fs::write(&path, [0; 7]).unwrap();
    assert_refused(&run(&path, "--dtype i32"), &["three.bin: 7 bytes"]);
    assert_refused(&run(&folder.path().join("no.npy"), ""), &["no.npy: No such file"]);
    assert_refused(&run(&path, "--n 3"), &["--n", "cannot be used with", "--input"]);
}

#[test]
fn missing_or_invalid_ptx_is_named() {
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

fn records(id: &str, arguments: &str) -> Vec<Value> {
    let binary = Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name(id);
    let output = command(binary, &format!("{arguments} --json")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{id} {arguments}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_binary_runs_its_own_variant() {
    for variant in VARIANTS {
        let arguments = match variant.work {
            Work::Reduction(_) | Work::Reducer | Work::Transfer { .. } => {
                "--n 999 --op max --device sim"
            }
            Work::Cpu { .. } => "--n 999 --op max --iters 1",
            Work::Copy { .. } | Work::Transpose => "--n 999 --device sim",
        };
        for record in records(variant.id, arguments) {
            let (id, ok) = (&record["variant"], &record["ok"]);
            assert_eq!((id, ok), (&Value::from(variant.id), &Value::from(true)));
        }
    }
}

#[test]
fn means_norms_and_presets_are_on_the_command_line() {
    let one = |id: &str, arguments: &str| records(id, arguments)[0].clone();
    let mean = one("warp_shuffle", "--n 1000 --below 10 --dtype i32 --op mean --device sim");
    let sum = one("warp_shuffle", "--n 1000 --below 10 --dtype i32 --op sum --device sim");
    assert_eq!(mean["op"], "mean");
    assert_eq!(mean["result"].as_f64().unwrap(), sum["result"].as_f64().unwrap() / 1000.0);
    let norm = one("cpu_serial", "--n 1000 --dtype f64 --op norm --iters 0");
    let squares = one("cpu_serial", "--n 1000 --dtype f64 --op sumsq --iters 0");
    assert_eq!(norm["result"].as_f64().unwrap(), squares["result"].as_f64().unwrap().sqrt());

    let preset = records("atomic_blocks", "--preset seed-d --device sim --n 100000 --iters 1");
    let shape = ["block", "grid", "dtype", "n"].map(|key| preset[0][key].clone());
    assert_eq!(shape, [256.into(), 32.into(), "i32".into(), Value::from(100_000)]);
    let variants: Vec<_> = preset.iter().map(|record| record["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["atomic_blocks", "cpu_serial", "cpu_parallel"]);
    // For integers below 10, the mean is near 4.5.
    assert!((400_000..500_000).contains(&preset[0]["result"].as_i64().unwrap()));
}

#[test]
fn each_family_accepts_only_its_own_options() {
    let strides: Vec<_> = records("copy_strided", "--n 100 --device sim")
        .iter()
        .map(|record| record["stride"].as_u64().unwrap())
        .collect();
    assert_eq!(strides, [1, 2, 4, 8, 16, 32, 64]);
    let transpose = &records("transpose_padded", "--width 33 --height 65 --device sim")[0];
    assert_eq!((&transpose["width"], &transpose["n"]), (&33.into(), &(33 * 65).into()));
    assert_eq!(records("cpu_parallel", "--n 100 --threads 3")[0]["threads"], 3);
    assert_eq!(records("transfer_overlapped", "--n 100 --chunk 30 --device sim")[0]["chunks"], 4);

    let refused = |id: &str, arguments: &str, says: &[&str]| {
        let binary = Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name(id);
        assert_refused(&command(binary, arguments).output().unwrap(), says);
    };
    refused("copy_random", "--stride 2 --device sim", &["copy_random has no stride"]);
    refused("copy_random", "--width 2 --height 2 --device sim", &["--width", "--n"]);
    refused("transpose_naive", "--width 2 --device sim", &["--height"]);
    refused("transpose_naive", "--width 0 --height 9 --device sim", &["width is 0", "allowed are 1"]);
    refused("copy_strided", "--n 0 --device sim", &["n is 0", "allowed are 1"]);
    refused("cpu_parallel", "--threads 0", &["0 threads for cpu_parallel", "1 to 1024"]);
    refused("cpu_serial", "--threads 2", &["2 threads for cpu_serial", "1 to 1"]);
    refused("transfer_pinned", "--chunk 9 --device sim", &["one piece", "leave --chunk out"]);
    refused("transfer_overlapped", "--n 9 --chunk 10 --device sim", &["chunk is 10", "1 to 9"]);
    refused("cluster", "--n 9999 --grid 12 --device sim", &["grid is 12", "multiple of 8"]);
    refused("sequential", "--preset seed-d --device sim", &["no preset `seed-d`", "it has none"]);
    refused("atomic_blocks", "--preset d --device sim", &["no preset `d`", "it has seed-d"]);
    refused(
        "sequential",
        "--op mean --device sim",
        &["mean of 4194304 i32", "may exceed the type's range"],
    );
    refused("sequential", "--op mean --n 0 --device sim", &["mean of 0 elements has no value"]);
}

#[test]
fn the_reducer_chooses_a_launch_and_takes_another() {
    let one = |arguments: &str| records("reducer", &format!("{arguments} --device sim"))[0].clone();
    let index = one("--n 1000 --below 100 --dtype bf16 --op argmax");
    let ok = (&index["ok"], &index["kernel"], &index["element"]);
    assert_eq!(ok, (&true.into(), &"grid".into(), &99.0.into()), "{index}");
    assert_eq!(index["result"], index["expected"]);
    assert!(index["counters"]["warp_instructions"].as_u64().unwrap() > 0);

    let bulk = one("--n 100000 --kernel bulk --block 256 --grid 2");
    let shape = ["kernel", "block", "grid", "dtype"].map(|key| bulk[key].clone());
    assert_eq!(shape, ["bulk".into(), 256.into(), 2.into(), Value::from("i32")]);
    assert_eq!(one("--n 100000 --block 1024 --grid 3")["grid"], 3);
    assert!(bulk.get("element").is_none());

    let mean = one("--n 1000 --dtype i8 --op mean");
    assert_eq!(mean["result"].as_f64(), mean["expected"].as_f64());
    let nothing = one("--n 0 --dtype f16");
    assert_eq!((&nothing["result"], &nothing["block"]), (&0.0.into(), &Value::Null), "{nothing}");
}

#[test]
fn unsupported_reducer_arguments_are_refused() {
    let binary = Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name("reducer");
    let cases: [(&str, &[&str]); 9] = [
        ("--n 0 --op min", &["min of 0 elements has no value"]),
        ("--n 0 --op argmax", &["argmax of 0 elements has no value"]),
        ("--n 2^36", &["68719476736 elements", "at most 34359738368"]),
        ("--n 2^35 --dtype f64", &["bytes are needed", "smaller --n"]),
        ("--block 64", &["block is 64", "[128, 256, 512, 1024]"]),
        ("--kernel bulk --block 1024", &["block is 1024", "[256, 512]"]),
        ("--grid 0", &["0 blocks", "1 to 65536"]),
        ("--kernel ring", &["there are grid and bulk"]),
        ("--codegen cuda-c", &["no CUDA C twin", "leave --codegen"]),
    ];
    for (arguments, says) in cases {
        let output = command(&binary, &format!("{arguments} --device sim")).output().unwrap();
        assert_refused(&output, says);
    }
}

#[test]
fn ignored_tuning_file_is_a_one_line_warning() {
    let binary = Path::new(env!("CARGO_BIN_EXE_sequential")).with_file_name("reducer");
    let mut command = command(binary, "--n 1000 --device sim --json");
    let output = command.env("WARPFOLD_TUNING", "/nowhere/tuning.json").output().unwrap();
    let stderr = text(&output.stderr);
    let lines: Vec<_> = stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!((output.status.code(), lines.len()), (Some(0), 1), "{stderr}");
    assert!(lines[0].starts_with("warning: /nowhere/tuning.json: "), "{stderr}");
}

#[test]
fn code_generator_is_reported_with_its_reason() {
    let notes = |arguments: &str, environment: Option<&str>| {
        let mut command = command(env!("CARGO_BIN_EXE_sequential"), arguments);
        command.env_remove("WARPFOLD_CODEGEN");
        command.envs(environment.map(|name| ("WARPFOLD_CODEGEN", name)));
        text(&command.output().unwrap().stderr)
    };
    let said = notes("--n 64 --device sim", None);
    let default = "note: codegen llvm: the default; --codegen nvvm takes rust-cuda's\n";
    assert!(said.contains(default), "{said}");
    let said = notes("--n 64 --device sim", Some("nvvm"));
    assert!(said.contains("note: codegen nvvm: named by WARPFOLD_CODEGEN\n"), "{said}");
    let said = notes("--n 64 --device sim --codegen llvm", Some("nvvm"));
    assert!(said.contains("note: codegen llvm: asked for\n"), "{said}");
    let said = notes("--n 64 --device sim", Some("auto"));
    assert!(
        said.contains("error: unknown WARPFOLD_CODEGEN `auto`") && said.contains("llvm or nvvm"),
        "{said}"
    );
}

#[test]
fn missing_kernels_do_not_fall_back_to_another_codegen() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("llvm/sm_80");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("sequential.ptx"), "").unwrap();
    let mut command = command(env!("CARGO_BIN_EXE_sequential"), "--n 64 --device sim --codegen nvvm");
    let output = command.env("WARPFOLD_PTX_DIR", folder.path()).output().unwrap();
    assert_refused(&output, &["sequential by nvvm for sm_90"]);
}

/// Output errors must not panic: a full disk gives one line and status 2, a closed reader nothing.
#[test]
fn binaries_handle_full_and_closed_stdout() {
    let folder = Path::new(env!("CARGO_BIN_EXE_sequential")).parent().unwrap();
    for variant in VARIANTS {
        let device = if matches!(variant.work, Work::Cpu { .. }) { "" } else { " --device sim" };
        for arguments in
            ["--help".to_owned(), format!("--n 1000{device}"), format!("--n 1000{device} --json")]
        {
            let run = || command(folder.join(variant.id), &arguments);
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let output = run().stdout(full).output().unwrap();
            assert_refused(&output, &["standard output cannot be written"]);

            let mut child = run().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            drop(child.stdout.take());
            let output = child.wait_with_output().unwrap();
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{} {arguments}: {stderr}", variant.id);
            assert!(stderr.lines().all(|line| line.starts_with("note: ")), "{stderr}");
        }
    }
}
