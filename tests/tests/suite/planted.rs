//! Wrong kernels, planted in every catalogue row that is tested or run by a binary. The checks must
//! detect a kernel that does nothing, one that returns the previous contents of its output, one that
//! drops the last element and one that returns infinity.
//!
//! This is proved for the elements and checks of the other tests, with the values that such kernels
//! would give; and for every reduction with kernels that do nothing and launches that leave the last
//! element out. The elements of `run`, `compare` and `tune` are tested in their crates, with the same
//! check. Other kinds of wrong kernels are not covered.

use std::{fs, path::PathBuf};

use warpfold_measure::contest::{Contest, Options};
use warpfold_suite::{
    Data, Dtype, Op, Plan, PtxStore, Record, Reducer, Reduction, Request, Tuning, Value,
    catalogue::{self, VARIANTS, Variant, Work},
    cli::DEFAULT_N,
    cpu::CpuReduction,
    reducer::Measured,
    reference::{Expected, POISONS},
    transfer::{self, Transfer, TransferRequest},
};
use warpfold_tests::{
    BLOCKS, REDUCER_SIZES, SIZES, Sample, TRANSFER_SIZES, TWIN_SIZES, device, exact, ptx, samples, store,
};

fn rows() -> impl Iterator<Item = (&'static Variant, Op, Dtype)> {
    let of = |row: &'static Variant| row.cases().filter_map(move |(op, dtype)| Some((row, op?, dtype)));
    VARIANTS.iter().flat_map(of)
}

fn require(expected: &Expected, depth: u64, what: &str) {
    for planted in expected.planted() {
        let check = expected.check(planted.value, depth);
        assert!(!check.ok, "{what}: a kernel that {} passes at depth {depth}: {check:?}", planted.what);
    }
    // Requires detection even if a kernel's rounding error hides part of a dropped element.
    assert_eq!(expected.blind_to(depth), None, "{what}, depth {depth}");
}

/// Returns a row's tested depths: those of every block size, or those of every chunk of a transfer.
fn depths(variant: &'static Variant, op: Op, data: &Data, reducer: &Reducer) -> Vec<u64> {
    let (dtype, n, info) = (data.dtype(), data.len() as u64, device().info());
    match variant.work {
        Work::Reduction(_) => BLOCKS
            .iter()
            .map(|&block| Request { block, ..Request::new(variant, op, data) })
            .map(|request| Plan::new(&request, info).unwrap().depth)
            .collect(),
        Work::Reducer => vec![reducer.depth(op, &device().upload(data).unwrap()).unwrap()],
        Work::Transfer { path } => [None, Some(1000), Some(33)]
            .iter()
            .map(|chunk| chunk.filter(|&chunk| chunk <= n))
            .map(|chunk| TransferRequest { variant, path, op, dtype, n, chunk })
            .map(|request| transfer::depth(&request, info).unwrap())
            .collect(),
        Work::Cpu { parallel } => vec![CpuReduction::new(variant, op, parallel, None).unwrap().depth(n)],
        Work::Copy { .. } | Work::Transpose => unreachable!("they make no value"),
    }
}

#[test]
fn four_wrong_kernels_are_caught_at_every_tested_size() {
    let reducer = Reducer::with(device(), store(), Tuning::of(device().info())).unwrap();
    let mut caught = 0;
    for &dtype in Dtype::ALL {
        for &op in Op::ALL {
            let mut sizes = [&SIZES[..], &TWIN_SIZES, &TRANSFER_SIZES, &REDUCER_SIZES].concat();
            sizes.sort_unstable();
            sizes.dedup();
            for n in sizes.into_iter().filter(|&n| n > 0 || op.has_empty_value()) {
                for Sample { kind, data, expected } in samples(op, dtype, n) {
                    for (variant, ..) in rows().filter(|row| (row.1, row.2) == (op, dtype)) {
                        for depth in depths(variant, op, &data, &reducer) {
                            let what = format!("{} {op} of {n} {dtype}, {kind}", variant.id);
                            require(&expected, depth, &what);
                            caught += expected.planted().len();
                        }
                    }
                    let exact = expected.check(expected.value, 1 << 20).allowed == 0.0;
                    assert!(exact || kind == "random", "{op} of {n} {dtype}");
                }
            }
        }
    }
    assert!(caught > 50_000, "{caught}");
}

#[test]
fn four_wrong_kernels_are_caught_in_every_binary_by_default() {
    let n = DEFAULT_N as usize;
    for &dtype in Dtype::ALL {
        for &op in Op::ALL {
            let mut data = Data::drawn(op, dtype, n, 1);
            let expected = Expected::mark(op, &mut data, n).unwrap();
            for (variant, ..) in rows().filter(|row| (row.1, row.2) == (op, dtype)) {
                let depth = match variant.work {
                    // An upper bound for every launch of the reducer: the smallest one has 128 threads.
                    Work::Reducer => DEFAULT_N / 128,
                    Work::Reduction(_) => {
                        Plan::new(&Request::new(variant, op, &data), device().info()).unwrap().depth
                    }
                    Work::Cpu { parallel } => {
                        CpuReduction::new(variant, op, parallel, None).unwrap().depth(DEFAULT_N)
                    }
                    Work::Transfer { path } => {
                        let request =
                            TransferRequest { variant, path, op, dtype, n: DEFAULT_N, chunk: None };
                        transfer::depth(&request, device().info()).unwrap()
                    }
                    Work::Copy { .. } | Work::Transpose => unreachable!("they make no value"),
                };
                require(&expected, depth, &format!("{} {op} {dtype}", variant.id));
            }
        }
    }
    for preset in VARIANTS.iter().flat_map(|variant| variant.presets) {
        let data = Data::random_below(preset.dtype, preset.n as usize, 1, preset.below);
        require(&Expected::of(Op::Sum, &data).unwrap(), 1 << 20, preset.name);
    }
}

fn emptied(text: &str) -> String {
    let (mut left, mut depth, mut in_entry) = (String::new(), 0, false);
    for line in text.lines() {
        in_entry |= line.contains(".entry");
        let (opens, closes) = (line.matches('{').count(), line.matches('}').count());
        if in_entry && depth == 0 && opens > 0 {
            left += "{\nret;\n";
        } else if depth == 0 || !in_entry {
            left += line;
            left += "\n";
        }
        depth = depth + opens - closes;
        if in_entry && depth == 0 && closes > 0 {
            left += "}\n";
            in_entry = false;
        }
    }
    left
}

struct Empty {
    folder: PathBuf,
    store: PtxStore,
}

impl Empty {
    fn of(name: &str, ids: &[&str]) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("planted-{name}-{}", std::process::id()));
        for id in ids {
            let file = ptx(id);
            let place = folder.join(file.codegen.name()).join(file.arch.to_string());
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(format!("{id}.ptx")), emptied(&file.text)).unwrap();
        }
        let store = PtxStore::at(&folder, None).unwrap();
        Self { folder, store }
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn run(reduction: &Reduction, input: &warpfold_suite::Buffer, poison: u8) -> Value {
    let mut workspace = reduction.workspace().unwrap();
    workspace.poison(poison).unwrap();
    reduction.run(input, &mut workspace).unwrap().value
}

#[test]
fn empty_and_truncated_launches_are_caught() {
    let ids: Vec<&str> = catalogue::reductions().map(|variant| variant.id).collect();
    let empty = Empty::of("reductions", &ids);
    let n = 1000;
    for (variant, op, dtype) in rows().filter(|(variant, ..)| variant.shape().is_some()) {
        for Sample { kind, data, expected } in samples(op, dtype, n) {
            let what = format!("{} {op} of {dtype}, {kind}", variant.id);
            let request = Request { block: 128, ..Request::new(variant, op, &data) };
            let input = device().upload(&data).unwrap();
            let nothing = Reduction::new(device(), &empty.store, &request).unwrap();
            for poison in POISONS {
                let check = expected.judge(run(&nothing, &input, poison), nothing.plan().depth).unwrap();
                assert!(!check.ok, "{what}: nothing is done: {check:?}");
            }
            let fewer = Request { n: n as u64 - 1, ..request };
            let dropping = Reduction::new(device(), store(), &fewer).unwrap();
            let input = input.slice(0..n as u64 - 1).unwrap();
            let check =
                expected.judge(run(&dropping, &input, POISONS[0]), dropping.plan().depth).unwrap();
            assert!(!check.ok, "{what}: the last element is left out: {check:?}");
        }
    }
}

#[test]
fn empty_and_truncated_reducers_are_caught() {
    let n = 20_000_u64;
    let options = Options { rounds: 5, warm_up: 1, ..Options::default() };
    for (op, dtype) in [
        (Op::Sum, Dtype::F32),
        (Op::SumOfSquares, Dtype::Bf16),
        (Op::ArgMin, Dtype::I8),
        (Op::Max, Dtype::U64),
    ] {
        let id = catalogue::reducer_ptx(op, dtype);
        let empty = Empty::of(&id, &[&id]);
        let Sample { data, expected, .. } = warpfold_tests::random(op, dtype, n as usize, 4);
        let input = device().upload(&data).unwrap();
        let tuning = || Tuning::of(device().info());
        let right = Reducer::with(device(), store(), tuning()).unwrap();
        let nothing = Reducer::with(device(), &empty.store, tuning()).unwrap();
        let mut contest = Contest::rehearsal(&input, 0).unwrap();
        for reducer in [&right, &nothing] {
            contest.enter(Measured::new(reducer, (op, dtype, n), None, expected).unwrap(), 0).unwrap();
        }
        let scores = contest.run(options, |_| ()).unwrap();
        assert_eq!(
            scores.iter().map(|score| score.right).collect::<Vec<_>>(),
            [true, false],
            "{op} {dtype}"
        );

        let fewer = input.slice(0..n - 1).unwrap();
        let answer = right.reduce(op, &fewer).unwrap().unwrap();
        let value = answer.index.map_or(answer.value, Value::U64);
        let check = expected.judge(value, right.depth(op, &fewer).unwrap()).unwrap();
        assert!(!check.ok, "{op} {dtype}: {check:?}");
    }
}

#[test]
fn dropped_tail_is_caught_at_every_size_with_a_tail() {
    // SAFETY: only `testing_drops_tail` is run, which accesses no memory out of bounds.
    let testing = unsafe { catalogue::testing() };
    let broken = testing.iter().find(|variant| variant.id == "testing_drops_tail").unwrap();
    for n in SIZES.into_iter().filter(|n| n % 32 != 0) {
        let Sample { data, expected, .. } = exact(Op::Sum, Dtype::I32, n, 1);
        let request = Request { block: 32, ..Request::new(broken, Op::Sum, &data) };
        let reduction = Reduction::new(device(), store(), &request).unwrap();
        let value = run(&reduction, &device().upload(&data).unwrap(), POISONS[0]);
        assert!(!expected.judge(value, reduction.plan().depth).unwrap().ok, "{n}");
    }
}

/// Covers the records of the binaries and of `run`, including transfers.
#[test]
fn records_of_empty_kernels_are_wrong() {
    let empty = Empty::of("records", &["sequential", transfer::KERNEL]);
    let options = warpfold_suite::measure::Options { iterations: 0, warm_up: 0 };
    let Sample { data, expected, .. } = exact(Op::Sum, Dtype::I32, 1000, 1);
    let request = Request::new(catalogue::find("sequential").unwrap(), Op::Sum, &data);
    let reduction = Reduction::new(device(), &empty.store, &request).unwrap();
    let record = Record::of(&reduction, &data, &expected, options).unwrap();
    assert!(!record.ok, "{record:?}");
    for (variant, op, dtype) in rows() {
        let Work::Transfer { path } = variant.work else { continue };
        let Sample { data, expected, .. } = exact(op, dtype, 1000, 1);
        let request = TransferRequest { variant, path, op, dtype, n: 1000, chunk: None };
        let mut transfer = Transfer::new(device(), &empty.store, &request, &data).unwrap();
        let record = Record::of_transfer(&mut transfer, device(), &data, &expected, options).unwrap();
        assert!(!record.ok, "{record:?}");
        // The result is the poison, not the contents of memory that was just freed.
        let poison = Value::from_bytes(dtype, &[POISONS[0]; 8]);
        assert_eq!(record.result.to_bytes(), poison.to_bytes(), "{record:?}");
    }
}
