//! Several files as one, and several processes that share them, as a launcher starts them.

use std::{
    env,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Float32Array};
use parquet::basic::Compression;
use warpfold::internal::Dtype;
use warpfold_suite::Data;

use crate::{
    assert_refused, command,
    files::{npy, parquet, put, vector},
    lines, lines_of, text,
};

fn spawn_ranks(folder: &Path, arguments: &[&str]) -> Vec<Child> {
    spawn_ranks_with(folder, arguments, |_| {})
}

fn spawn_ranks_with(folder: &Path, arguments: &[&str], change: impl Fn(&mut Command)) -> Vec<Child> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    // Frees the port, so that nothing listens there.
    drop(listener);
    let start = |(rank, its): (usize, &&str)| {
        let mut command = command(folder, its);
        command
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", arguments.len().to_string())
            .env("WARPFOLD_ADDRESS", &address)
            .env("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string())
            .env("WARPFOLD_TIMEOUT", "60");
        change(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    arguments.iter().enumerate().map(start).collect()
}

fn wait_all(processes: Vec<Child>) -> Vec<Output> {
    processes.into_iter().map(|process| process.wait_with_output().unwrap()).collect()
}

/// Returns the first process's output; the other `count - 1` must print nothing.
fn run_with_ranks(folder: &Path, count: usize, arguments: &str) -> Output {
    let mut outputs = wait_all(spawn_ranks(folder, &vec![arguments; count]));
    for other in outputs.drain(1..) {
        assert_eq!((text(&other.stdout), text(&other.stderr)), ("", ""), "{arguments}");
        assert_eq!(other.status.code(), Some(0), "{arguments}");
    }
    outputs.remove(0)
}

fn parts(folder: &Path, data: &Data) {
    let bytes = data.as_bytes();
    let size = data.dtype().size();
    let cuts = [0, 3, 3, 5_001, 5_001 + data.len() / 3, data.len()];
    for (part, ends) in cuts.windows(2).enumerate() {
        put(folder, &format!("part-{part}.bin"), &bytes[ends[0] * size..ends[1] * size]);
    }
    put(folder, "whole.bin", bytes);
}

const PARTS: &str = "part-0.bin part-1.bin part-2.bin part-3.bin part-4.bin";

#[test]
fn several_files_and_processes_give_the_results_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for &dtype in Dtype::ALL {
        // No sum and no product is rounded.
        let data = Data::of_integers(dtype, 30_000, |place| if place % 10_007 == 7 { 2 } else { 1 });
        parts(folder, &data);
        let any = "sum,product,min,max,minmax,argmin,argmax,nonzero,mean,l2";
        let own =
            if dtype.is_float() { "nansum,nanl2,nanproduct,nanmaxnorm,nanargmax" } else { "and,xor" };
        let how = format!("--dtype {dtype} --op {any},{own}");
        let whole = lines(folder, &format!("whole.bin {how}"));
        let files = format!("{PARTS} {how} --device sim");
        assert_eq!(lines(folder, &files), whole, "{dtype}");
        let many = lines_of(&run_with_ranks(folder, 3, &format!("{files} --json")));
        assert_eq!(many, whole, "{dtype}");
        let mapped = format!("--dtype {dtype} --op sum,min,max --map x*3 --where x==2 --device sim");
        let whole = lines(folder, &format!("whole.bin {mapped}"));
        assert_eq!(whole[0]["value"].as_f64(), Some(18.0), "{dtype}");
        let many = lines_of(&run_with_ranks(folder, 3, &format!("{PARTS} {mapped} --json")));
        assert_eq!(many, whole, "{dtype}");
    }
}

#[test]
fn processes_with_different_expressions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<f4", &[1.5_f32, 2.5]));
    let arguments = ["a.npy --map x+1 --device sim", "a.npy --map x+2 --device sim"];
    for output in wait_all(spawn_ranks(folder.path(), &arguments)) {
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        assert!(text(&output.stderr).contains("sum of f32, expression "), "{}", text(&output.stderr));
    }
}

#[test]
fn everywhere_sums_are_bit_identical_for_any_process_count() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    parts(folder, &Data::random(Dtype::F32, 1_300_003, 11));
    let how = "--dtype f32 --op sum,sumsq,argmax,argmin,minmax --level everywhere";
    let whole = lines(folder, &format!("whole.bin {how}"));
    for count in [2, 5] {
        let many = run_with_ranks(folder, count, &format!("{PARTS} {how} --device sim --json"));
        assert_eq!(lines_of(&many), whole, "{count}");
        let many = run_with_ranks(folder, count, &format!("whole.bin {how} --device sim --json"));
        assert_eq!(lines_of(&many), whole, "{count}");
    }
}

#[test]
fn only_one_process_prints_and_writes_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder, "a.npy", npy("<f4", false, "(2, 3)", &[0; 24]));
    put(folder, "b.npy", vector("<f4", &[1.5_f32, 2.5]));
    let output = run_with_ranks(folder, 2, "a.npy b.npy --op sum,argmax --out out.npz");
    assert_eq!(
        text(&output.stderr),
        "note: no CUDA device; running on the simulator, whose speed is not that of a GPU\n"
    );
    let said = text(&output.stdout);
    let heading = "a.npy and 1 file more, by 2 processes: f32, 8 elements, on PTX simulator\n";
    assert!(said.starts_with(heading), "{said}");
    let rows: Vec<String> = said.lines().map(|line| line.replace(' ', "")).collect();
    for row in ["│sum┆4.0│", "│argmaxindex┆7│", "│argmaxvalue┆2.5│"] {
        assert!(rows.iter().any(|has| has == row), "{said}");
    }
    assert!(folder.join("out.npz").exists());
    let alone = command(folder, "a.npy b.npy --device sim").output().unwrap();
    assert!(text(&alone.stdout).starts_with("a.npy and 1 file more: f32, 8 elements"));
    assert_eq!(lines_of(&run_with_ranks(folder, 1, "a.npy b.npy --json --device sim"))[0]["value"], 4.0);
}

/// Table files are not split. Each process reads whole files, and the counts of nulls are added up.
#[test]
fn tables_are_shared_out_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for part in 0..5_u8 {
        let values = (0..100).map(|at| (at % 7 != 0).then_some(f32::from(part) + at as f32));
        let column: ArrayRef = Arc::new(Float32Array::from(values.collect::<Vec<_>>()));
        let table = parquet(&[("x", column)], Compression::UNCOMPRESSED);
        put(folder, &format!("{part}.parquet"), table);
    }
    let files = "0.parquet 1.parquet 2.parquet 3.parquet 4.parquet";
    let how = "--op sum,max,nonzero --json --device sim";
    let alone = lines_of(&command(folder, &format!("{files} {how}")).output().unwrap());
    let expected: f64 = (0..5)
        .map(|part| (0..100).filter(|at| at % 7 != 0).map(|at| at + part).sum::<i32>())
        .map(f64::from)
        .sum();
    assert_eq!(alone[0]["value"], expected);
    assert_eq!((&alone[0]["count"], &alone[0]["nulls"]), (&425.into(), &75.into()));
    for count in [2, 4] {
        assert_eq!(
            lines_of(&run_with_ranks(folder, count, &format!("{files} {how}"))),
            alone,
            "{count}"
        );
    }
}

#[test]
fn undistributable_inputs_are_refused_by_every_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder, "a.npy", vector("<f4", &[1.5_f32, 2.5]));
    put(folder, "b.npy", vector("<i4", &[1_i32, 2]));
    put(folder, "t.npy", npy("<f4", true, "(2, 3)", &[0; 24]));
    put(folder, "cut.npy", &vector("<f4", &[1.5_f32, 2.5])[..130]);
    let column: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 3]));
    put(folder, "x.parquet", parquet(&[("x", column)], Compression::UNCOMPRESSED));
    let cases: [(&str, &[&str]); 8] = [
        ("a.npy a.npy --axis 0", &["several files cannot be combined with --axis", "leave either out"]),
        ("a.npy a.npy --by a.npy", &["several files cannot be combined with --by"]),
        ("a.npy a.npy --device cpu", &["several files cannot be combined with --device cpu"]),
        ("a.npy -", &["several files cannot be combined with standard input"]),
        ("a.npy b.npy", &["b.npy has elements of type i32, but a.npy has f32", "files of one type"]),
        ("a.npy t.npy --op argmax", &["--op argmax needs C order, but t.npy", "Fortran order"]),
        ("x.parquet x.parquet --op argmax", &["--op argmax needs the length of x.parquet"]),
        ("a.npy cut.npy", &["cut.npy: is cut off"]),
    ];
    for (arguments, says) in cases {
        let arguments = format!("{arguments} --out no.npy");
        let says = [says, &[]].concat();
        let device = if arguments.contains("--device") { "" } else { " --device sim" };
        let output = command(folder, &format!("{arguments}{device}")).output().unwrap();
        assert_refused(&arguments, &output, &says);
        for output in wait_all(spawn_ranks(folder, &[&*format!("{arguments}{device}"); 2])) {
            let said = text(&output.stderr).replacen("several processes", "several files", 1);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.starts_with("error: process ") && said.lines().count() == 1, "{said}");
            says.iter().for_each(|says| assert!(said.contains(says), "{said}"));
        }
    }
    assert!(!folder.join("no.npy").exists());
    let output = command(folder, "a.npy").env("WORLD_SIZE", "2").output().unwrap();
    assert_refused("a.npy", &output, &["WORLD_SIZE is set, and RANK is not"]);
}

/// One process's part is truncated after the header, or of another type: all end without a result.
#[test]
fn a_process_that_fails_ends_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put(folder, "a.npy", vector("<f4", &[1.5_f32; 10_000]));
    put(folder, "b.npy", vector("<f8", &[1.5_f64; 10_000]));
    let how = "--device sim --json";
    let (good, other) = (format!("a.npy {how}"), format!("b.npy {how}"));
    let outputs = wait_all(spawn_ranks(folder, &[&*good, &*good, &*other]));
    for output in &outputs {
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{said}");
        let expected = "rank 0 is at running sum of f32, but rank 2 is at running sum of f64";
        assert!(said.contains(expected), "{said}");
    }
    let most = format!("a.npy --op max {how}");
    for output in wait_all(spawn_ranks(folder, &[&*good, &*most])) {
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{said}");
        assert!(said.contains("rank 1 is at running max of f32"), "{said}");
    }
}

/// Returns Open MPI's launcher with settings for containers; `None` where it is missing.
fn mpirun(count: u32) -> Option<Command> {
    let launcher = Command::new("mpirun").arg("--version").output();
    if !launcher.is_ok_and(|said| text(&said.stdout).contains("Open MPI")) {
        let strict = env::var_os("WARPFOLD_STRICT_TESTS").is_some_and(|value| value != "0");
        assert!(!strict, "there is no mpirun of Open MPI");
        println!("skipped: there is no mpirun of Open MPI");
        return None;
    }
    let mut mpirun = Command::new("mpirun");
    mpirun
        .args(["--allow-run-as-root", "--oversubscribe", "-n", &count.to_string()])
        .arg(env!("CARGO_BIN_EXE_warpfold"))
        .env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1")
        // Containers have no remote shell.
        .env("OMPI_MCA_plm_rsh_agent", "false");
    Some(mpirun)
}

#[test]
fn mpirun_starts_the_processes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    parts(folder, &Data::random(Dtype::F32, 100_003, 5));
    let how = "--dtype f32 --op sum,argmax --level everywhere";
    let run = |count: u32, arguments: &str| {
        Some(mpirun(count)?.args(arguments.split_whitespace()).current_dir(folder).output().unwrap())
    };
    let whole = lines(folder, &format!("whole.bin {how}"));
    let Some(output) = run(4, &format!("{PARTS} {how} --device sim --json")) else { return };
    assert_eq!(lines_of(&output), whole);
    let output = run(2, &format!("{PARTS} none.bin {how} --device sim")).unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("none.bin"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn failed_rank_is_reported_before_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<f4", &[1.5_f32; 10_000]));
    let (good, other) = ("a.npy --device sim", "b.npy --device sim");
    let start = Instant::now();
    let outputs = wait_all(spawn_ranks(folder.path(), &[good, other, good]));
    assert!(start.elapsed() < Duration::from_secs(30), "the timeout is none");
    for (rank, output) in outputs.iter().enumerate() {
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{said}");
        assert!(said.contains(if rank == 1 { "b.npy" } else { "rank 1 has left" }), "{said}");
    }
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::{fs::OpenOptions, thread};

    use super::*;
    use crate::{
        stand_in::with_stand_in,
        streamed::on_linux::{number, sparse},
    };

    /// Starts processes that read a file of 8 GB, which takes longer than the test, and waits until each
    /// has begun.
    fn spawn_reading_ranks(folder: &Path) -> Vec<Child> {
        sparse(&folder.join("a.npy"), 1 << 30);
        let mut processes = spawn_ranks(folder, &["a.npy --device sim --out r.npy"; 3]);
        for process in &mut processes {
            while number(process, "io", "rchar:").unwrap_or(0) < 16 << 20 {
                assert!(process.try_wait().unwrap().is_none(), "it ended before");
                thread::sleep(Duration::from_millis(1));
            }
        }
        processes
    }

    /// Asserts that all processes fail within ten seconds without output: process `of` with
    /// `expected[0]`, the others with `expected[1]`.
    fn assert_all_fail(folder: &Path, processes: Vec<Child>, of: usize, expected: [&str; 2]) {
        let start = Instant::now();
        let outputs = wait_all(processes);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        for (rank, output) in outputs.iter().enumerate() {
            let said = text(&output.stderr);
            assert_eq!(text(&output.stdout), "", "{said}");
            assert_ne!(output.status.code(), Some(0), "{said}");
            let expected = expected[usize::from(rank != of)];
            assert!(said.contains(expected), "no `{expected}` of process {rank} in: {said}");
        }
        assert!(!folder.join("r.npy").exists());
    }

    #[test]
    fn killed_process_ends_the_reading_processes() {
        for which in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            let mut processes = spawn_reading_ranks(folder.path());
            processes[which].kill().unwrap();
            let name = if which == 0 { "rank 0 is gone" } else { "rank 1 is gone" };
            assert_all_fail(folder.path(), processes, which, ["", name]);
        }
    }

    #[test]
    fn a_file_that_shrinks_ends_all_that_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let processes = spawn_reading_ranks(folder.path());
        let file = OpenOptions::new().write(true).open(folder.path().join("a.npy")).unwrap();
        file.set_len(4 << 30).unwrap();
        let other = "rank 2 cannot continue: a.npy: the source failed after";
        assert_all_fail(folder.path(), processes, 2, ["the file has 4294967296 bytes now", other]);
    }

    /// Runs on simulated GPUs with a substitute for NCCL that shares no memory between processes.
    #[test]
    fn processes_on_gpus_pass_values_by_nccl() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        parts(folder, &Data::random(Dtype::F32, 100_003, 5));
        let how = "--dtype f32 --op sum,argmax --level everywhere";
        let whole = lines(folder, &format!("whole.bin {how}"));
        let arguments = format!("{PARTS} {how} --device cuda");
        let json = format!("{arguments} --json");
        let with = |command: &mut Command| {
            with_stand_in(command, "4", "", folder);
        };
        let outputs = wait_all(spawn_ranks_with(folder, &[&*json; 3], with));
        assert_eq!(lines_of(&outputs[0]), whole);
        let outputs = wait_all(spawn_ranks_with(folder, &[&*arguments; 2], with));
        let said = text(&outputs[0].stdout);
        assert!(
            said.starts_with("part-0.bin and 4 files more, by 2 processes over NCCL: f32"),
            "{said}"
        );
        // Launched by mpirun, without the two transports of NCCL that exist only within a host.
        let Some(mut launcher) = mpirun(4) else { return };
        with(launcher.args(json.split_whitespace()).current_dir(folder));
        let output =
            launcher.env("NCCL_P2P_DISABLE", "1").env("NCCL_SHM_DISABLE", "1").output().unwrap();
        assert_eq!(lines_of(&output), whole);
    }
}
