//! Tests a comparison of rows without a GPU: everything except the times.

use std::{fs, path::Path, process::ExitCode, sync::LazyLock};

use tempfile::TempDir;

use super::*;
use crate::compare::timed::{
    Comparison, Outputs, finish, machine, matrix::table, peers::Peers, record::Line,
};
use crate::contest::Options;
use warpfold_suite::{Arch, Codegen, Device, PtxStore, Selection, catalogue::reducer_ptx};

const OPTIONS: Options = Options { rounds: 5, warm_up: 1, slices: 2, budget: 1e5 };

fn simulated() -> Device {
    Device::open(Selection::Sim).unwrap()
}

/// Returns the kernels for rows and for a single row, as embedded in the library.
fn llvm() -> PtxStore {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        for op in Matrix::OPS {
            for file in [format!("{ROWS}_{op}_f32"), reducer_ptx(op, Dtype::F32)] {
                write(folder.path(), Codegen::Llvm, &file, embedded(&file));
            }
        }
        folder
    });
    PtxStore::at(FOLDER.path(), Some(Codegen::Llvm)).unwrap()
}

fn embedded(file: &str) -> &'static str {
    &warpfold_suite_build::suite::embedded()[file]
}

fn write(folder: &Path, codegen: Codegen, file: &str, text: impl AsRef<[u8]>) {
    let place = folder.join(codegen.name()).join(Arch::SIMULATED.to_string());
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join(file).with_extension("ptx"), text).unwrap();
}

fn by(llvm: PtxStore, nvvm: PtxStore) -> Peers {
    Peers { kernels: vec![(Peer::RustLlvm, llvm), (Peer::RustNvvm, nvvm)], ..Peers::default() }
}

fn run(peers: &mut Peers, shapes: &[Shape], strict: bool) -> Result<(Vec<Time>, Vec<String>)> {
    let device = simulated();
    let mut session = Session::new(&device, peers, OPTIONS, Contest::rehearsal);
    session.strict = strict;
    session.require_memory_of_rows(shapes)?;
    let times = session.run_rows(shapes, &Matrix::OPS, None, &ProgressBar::hidden())?;
    Ok((times, session.notes.into_iter().collect()))
}

fn shape(rows: u64, len: u64) -> Shape {
    Shape { rows, len }
}

/// Returns a store in which the kernels named as sums return the largest element of each row.
fn broken(folder: &Path) -> PtxStore {
    let wrong = embedded("reducer_rows_max_f32").replace("reducer_rows_max_f32", "reducer_rows_sum_f32");
    write(folder, Codegen::Nvvm, "reducer_rows_sum_f32", wrong);
    let right = "reducer_rows_argmax_f32";
    write(folder, Codegen::Nvvm, right, embedded(right));
    PtxStore::at(folder, Some(Codegen::Nvvm)).unwrap()
}

/// Covers every kernel for rows, in streams and in graphs, and the kernel for a single row.
#[test]
fn a_rehearsal_of_rows_has_every_contender_right() {
    // With the simulated device's number of multiprocessors, each of these shapes selects another
    // kernel.
    let few = [shape(500, 16), shape(700, 3)];
    let many = [shape(2100, 32), shape(8500, 4), shape(8500, 2)];
    let shapes = [&[shape(3, 20_000), shape(300, 301)][..], &few, &many, &[shape(1, 5000)]].concat();
    let (times, notes) = run(&mut by(llvm(), llvm()), &shapes, true).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    // An empty launch and two compilers, for two operations, in streams and in graphs.
    assert_eq!(times.len(), shapes.len() * 2 * 3 * 2);
    for time in &times {
        assert!(time.ok && time.runs == 5, "{time:?}");
        let own = time.variant == ROWS;
        assert_eq!(time.bandwidth_gbps.is_some(), own, "{time:?}");
        assert_eq!(time.ratio_to_empty, own.then_some(1.0), "{time:?}");
        assert_eq!(time.ratio_to_llvm.is_some(), time.peer == "rust-nvvm", "{time:?}");
        assert!(time.ratio_to_cub.is_none() && time.ratio_to_cuda_c.is_none(), "{time:?}");
        assert_eq!(time.height.zip(time.width).map(|(rows, len)| rows * len), Some(time.n));
    }
    let kernels: Vec<Option<&str>> = shapes
        .iter()
        .map(|shape| {
            let of = |time: &&Time| time.variant == ROWS && time.width == Some(shape.len);
            times.iter().find(of).unwrap().kernel.as_deref()
        })
        .collect();
    let few = [Some("few_groups"), Some("few_elements")];
    let many = [Some("groups"), Some("many_groups"), Some("elements")];
    assert_eq!(kernels, [&[Some("grid"), Some("warp")][..], &few, &many, &[None]].concat());
}

/// The bandwidth counts the bytes of elements and results. An index with its element has 16 bytes.
#[test]
fn bytes_are_those_of_elements_and_results() {
    let (times, _) = run(&mut by(llvm(), llvm()), &[shape(500, 4)], false).unwrap();
    for (op, result) in [("sum", 4), ("argmax", 16)] {
        let of =
            |time: &&Time| time.op.as_deref() == Some(op) && time.peer == "rust-llvm" && !time.graph;
        let time = times.iter().find(of).unwrap();
        // Each run takes a microsecond in a rehearsal.
        assert_eq!(time.bandwidth_gbps, Some(f64::from(500 * (4 * 4 + result)) / 1e3), "{op}");
    }
}

/// Kernels that return each row's largest element instead of its sum are wrong and have no time. All
/// other contenders continue.
#[test]
fn a_wrong_contender_is_seen_before_it_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    let mut peers = by(llvm(), broken(folder.path()));
    let (times, _) = run(&mut peers, &[shape(40, 20), shape(3000, 5)], false).unwrap();
    for time in &times {
        let wrong = time.peer == "rust-nvvm" && time.op.as_deref() == Some("sum");
        assert_eq!(time.ok, !wrong, "{time:?}");
        assert_eq!(time.time_us.is_none(), wrong, "{time:?}");
        assert_eq!(time.runs, if wrong { 0 } else { 5 }, "{time:?}");
    }
    // One time per shape is wrong: graphs of a wrong contender are not recorded.
    assert_eq!(times.iter().filter(|time| !time.ok).count(), 2);
}

#[test]
fn missing_row_kernels_are_noted_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = || PtxStore::at(folder.path(), Some(Codegen::Nvvm)).unwrap();
    let (times, notes) = run(&mut by(llvm(), nothing()), &[shape(4, 100)], false).unwrap();
    assert!(times.iter().all(|time| time.peer != "rust-nvvm"));
    assert!(notes[0].starts_with("skipped: rust-nvvm has no reducer_rows_argmax_f32"), "{notes:?}");
    let error = format!("{:#}", run(&mut by(llvm(), nothing()), &[shape(4, 100)], true).unwrap_err());
    assert!(error.starts_with("4x100: sum: rust-nvvm: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn pytorch_reduces_the_same_shapes() {
    let folder = tempfile::tempdir().unwrap();
    for (wrong, right) in [("", true), ("WRONG = 1\n", false)] {
        let torch = torch::tests::fake(folder.path(), wrong);
        let mut peers = Peers { torch: Some(torch), ..by(llvm(), llvm()) };
        let (times, notes) = run(&mut peers, &[shape(40, 20)], false).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let theirs: Vec<&Time> = times.iter().filter(|time| time.peer == "torch").collect();
        assert_eq!(theirs.len(), 2);
        for time in theirs {
            assert_eq!((time.ok, time.time_us.is_some()), (right, right), "{time:?}");
            assert_eq!((time.height, time.width, time.graph), (Some(40), Some(20), false));
        }
        assert!(times.iter().filter(|time| time.peer != "torch").all(|time| time.ok));
    }
}

#[test]
fn shapes_skipped_by_the_time_limit_are_named() {
    let device = simulated();
    let mut peers = by(llvm(), llvm());
    let mut session = Session::new(&device, &mut peers, OPTIONS, Contest::rehearsal);
    let shapes = [shape(4, 10), shape(2, 2048)];
    let up = Some(Instant::now());
    let times = session.run_rows(&shapes, &Matrix::OPS, up, &ProgressBar::hidden()).unwrap();
    assert!(times.is_empty());
    let notes: Vec<&String> = session.notes.iter().collect();
    assert_eq!(notes, ["left out after the limit of --seconds: 4x10, 2x2^11"]);
}

#[test]
fn a_matrix_that_does_not_fit_is_refused_before_anything_runs() {
    let device = simulated();
    let mut peers = by(llvm(), llvm());
    let session = Session::new(&device, &mut peers, OPTIONS, Contest::rehearsal);
    assert!(session.require_memory_of_rows(&[shape(4, 10)]).is_ok());
    let error = session.require_memory_of_rows(&[shape(4, 10), shape(1 << 20, 1 << 20)]);
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.starts_with("--shape 2^20x2^20 is too large: "), "{error}");
    let on_device = format!("are free on {}", device.info().name);
    assert!(error.contains(&on_device) && error.lines().count() == 1, "{error}");
}

/// The report can read the file. A wrong result leaves the earlier file unchanged.
#[test]
fn times_are_written_unless_one_is_wrong() {
    let (device, folder) = (simulated(), tempfile::tempdir().unwrap());
    let path = folder.path().join("times.jsonl");
    let write = |mut peers: Peers| {
        let machine = machine::describe(device.info(), &peers, OPTIONS);
        let (times, _) = run(&mut peers, &[shape(40, 20)], false).unwrap();
        let comparison = Comparison { out: Some(&path), ..Comparison::default() };
        let outputs = Outputs::new(&comparison).unwrap();
        let code = finish(outputs, machine, times.clone(), table::text, None, (&device, Instant::now()));
        (format!("{:?}", code.unwrap()), times)
    };
    let (code, times) = write(by(llvm(), llvm()));
    assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [Line::Machine(machine), written @ ..] = &lines[..] else { panic!("{text}") };
    assert_eq!(machine.gpu, device.info().name);
    assert_eq!(written, times.into_iter().map(Line::Time).collect::<Vec<_>>());

    let (code, _) = write(by(llvm(), broken(&folder.path().join("ptx"))));
    assert_eq!(code, format!("{:?}", ExitCode::FAILURE));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}
