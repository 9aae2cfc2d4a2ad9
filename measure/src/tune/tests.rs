//! Tests a tuning without a GPU: everything except the times.

use std::fs;

use super::{candidates::sizes, *};
use crate::elements::assert_tells;
use warpfold_suite::{
    Data, Kind, Selection,
    reducer::{
        Choice, Measured, depth_on,
        tuning::{Blocks, KernelKind},
    },
    reference::Expected,
};

fn reducer() -> Reducer {
    let store = warpfold_suite_build::suite::built_by_llvm();
    Reducer::with(&Device::open(Selection::Sim).unwrap(), &store, Tuning::generic()).unwrap()
}

fn rehearsal(reducer: &Reducer) -> Session<'_> {
    let options = Options { rounds: 5, warm_up: 1, slices: 1, ..Options::default() };
    Session { reducer, options, contest: Contest::rehearsal, wrong: Vec::new() }
}

#[test]
fn a_rehearsal_is_right_everywhere_and_the_library_reads_its_file() {
    let reducer = reducer();
    let mut session = rehearsal(&reducer);
    let sizes = [4 << 10, 8 << 10, 32 << 10];
    let mut tuned = session.run(&[Op::Sum, Op::ArgMin], Dtype::F16, &sizes).unwrap();
    tuned.extend(session.run(&[Op::Max], Dtype::I64, &sizes[..1]).unwrap());
    assert!(session.wrong.is_empty(), "{:?}", session.wrong);
    let info = reducer.device().info();
    for point in tuned.iter().flat_map(|tuned| &tuned.points) {
        // Candidates with the same launch share one trial, and every candidate has one.
        assert!(point.trials.len() <= point.choices.len(), "{point:?}");
        for (choice, trial) in &point.choices {
            assert_eq!(point.trials[*trial].launch.block, choice.block, "{point:?}");
        }
        assert_eq!(point.choices.len(), candidates::candidates(point.bytes, info).len());
    }
    // All times are equal in a rehearsal, so that each table has one bracket.
    let file = file::file(&tuned, None, info, "cargo xtask tune".to_owned());
    let shown = |file: &warpfold_suite::reducer::tuning::TuningFile| -> Vec<(Op, Dtype, usize)> {
        file.tables.iter().map(|table| (table.op, table.dtype, table.brackets.len())).collect()
    };
    assert_eq!(
        shown(&file),
        [(Op::Sum, Dtype::F16, 1), (Op::Max, Dtype::I64, 1), (Op::ArgMin, Dtype::F16, 1)]
    );
    assert_eq!((file.gpu.as_str(), file.driver.as_str()), (info.name.as_str(), "none"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning.json");
    let destination = Destination::new(&path).unwrap();
    file::write(&file, info, &destination).unwrap();
    let read = file::earlier(&path).unwrap();
    assert_eq!(read, file);
    let tuning = Tuning::read(&path, info).unwrap();
    let choice = file.tables[0].brackets[0].choice();
    assert_eq!(tuning.choice(Op::Sum, Dtype::F16, 1 << 30, info), choice);

    // New measurements replace earlier ones. Other tables stay, unless they are of another device.
    let again = session.run(&[Op::Max], Dtype::I64, &sizes).unwrap();
    let merged = file::file(&again, Some(read.clone()), info, String::new());
    assert_eq!(shown(&merged), shown(&file));
    let other = warpfold_suite::DeviceInfo { name: "another".to_owned(), ..info.clone() };
    assert_eq!(file::file(&again, Some(read), &other, String::new()).tables.len(), 1);

    let table = table::table(&tuned, info);
    assert_eq!(table.len(), 3);
    let text = table.to_string();
    assert!(text.contains("4 KiB to 32 KiB") && text.contains("1.000"), "{text}");
}

/// `Measured` rejects every result that differs from the given expectation, not only leftover poison.
#[test]
fn a_wrong_result_of_the_reducer_is_seen() {
    let reducer = reducer();
    let data = Data::random(Dtype::I32, 10_000, 1);
    let input = reducer.device().upload(&data).unwrap();
    let options = Options { rounds: 5, warm_up: 1, slices: 1, ..Options::default() };
    let choice = Choice { kernel: KernelKind::Grid, block: 256, blocks: Blocks::Total(3) };
    for (op, wanted) in [(Op::Sum, true), (Op::ArgMax, true), (Op::Sum, false), (Op::ArgMax, false)] {
        let n = if wanted { data.len() } else { data.len() / 2 };
        let mut expected = Expected::of_first(op, &data, n).unwrap();
        if !wanted && op == Op::ArgMax {
            expected = Expected::of(Op::ArgMin, &data).unwrap();
        }
        let mut contest = Contest::rehearsal(&input, 0).unwrap();
        let case = (op, Dtype::I32, data.len() as u64);
        let contender = Measured::new(&reducer, case, Some(choice), expected).unwrap();
        let launch = contender.plan().unwrap();
        assert_eq!((launch.block, launch.blocks), (256, 3));
        contest.enter(contender, 0).unwrap();
        let scores = contest.run(options, |_| ()).unwrap();
        assert_eq!(scores[0].right, wanted, "{op}");
    }
}

#[test]
fn refused_tuning_keeps_the_old_file() {
    let device = Device::open(Selection::Sim).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning.json");
    fs::write(&path, "earlier").unwrap();
    let made = file::file(&[], None, device.info(), String::new());
    let other =
        warpfold_suite::DeviceInfo { kind: Kind::Cuda, multiprocessors: 1, ..device.info().clone() };
    let destination = Destination::new(&path).unwrap();
    let error = format!("{:#}", file::write(&made, &other, &destination).unwrap_err());
    assert!(error.starts_with("the library refuses the measured tuning: "), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
    // An invalid file is ignored.
    assert_eq!(file::earlier(&path), None);
}

#[test]
fn sizes_that_do_not_fit_are_left_out_and_named() {
    let reducer = reducer();
    let session = rehearsal(&reducer);
    let mut sizes = vec![4 << 10, 1 << 50];
    let line = session.fit(&mut sizes).unwrap().unwrap();
    assert_eq!((sizes.as_slice(), line.lines().count()), (&[4 << 10][..], 1));
    assert!(line.contains("1048576 GiB"), "{line}");
    assert_eq!(session.fit(&mut sizes).unwrap(), None);
}

#[test]
fn choices_and_sizes_are_shown_in_short() {
    let choice = |blocks| Choice { kernel: KernelKind::Bulk, block: 256, blocks };
    assert_eq!(table::named(choice(Blocks::PerMultiprocessor(2))), "bulk 2/SM x 256");
    assert_eq!(table::named(choice(Blocks::Total(16))), "bulk 16 x 256");
    assert_eq!(
        [0, 1000, 4 << 10, 64 << 20, 3 << 30].map(show),
        ["0 B", "1000 B", "4 KiB", "64 MiB", "3 GiB"]
    );
    assert_eq!(suite::unique(&[Op::Sum, Op::Max, Op::Sum], Op::eq), [Op::Sum, Op::Max]);
}

/// Four wrong kernels would be detected at every tuned size, for every launch that is tried.
#[test]
fn wrong_kernels_show_at_every_size_that_is_tuned() {
    let device = Device::open(Selection::Sim).unwrap();
    let info = warpfold_suite::DeviceInfo {
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        ..device.info().clone()
    };
    for (bytes, &dtype) in sizes().into_iter().flat_map(|s| Dtype::ALL.iter().map(move |d| (s, d))) {
        let n = bytes / dtype.size() as u64;
        let choices = candidates::candidates(bytes, &info);
        let depths: Vec<u64> = choices.iter().map(|&one| depth_on(one, n, dtype, &info)).collect();
        for &op in Op::ALL {
            assert_tells(op, dtype, n, &depths, "tune");
        }
    }
}
