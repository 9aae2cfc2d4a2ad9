//! The reducer with the compiled kernels of either compiler: every operation and type against the
//! reference, at every alignment, with every kernel and on grids that leave blocks little to do; special
//! values; the caller's choices; and incomplete stores.
//!
//! The library's own tests (`warpfold/tests`) cover its use by programs.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use warpfold_measure::contest::{Contest, Options};
use warpfold_suite::abi::{Arguments, Parameter, arguments::ReduceCut};
use warpfold_suite::{
    Answer, Buffer, Codegen, Data, Dtype, Error, Op, PtxStore, Reducer, Tuning, Value,
    reducer::{
        Choice, Measured,
        tuning::{Blocks, KernelKind},
    },
    reference::Expected,
};
use warpfold_tests::{
    REDUCER_SIZES, Sample, device, exact, isolated, on_gpu, part, samples, show_last, small_integers,
    store,
};

fn reducer() -> &'static Reducer {
    static REDUCER: OnceLock<Reducer> = OnceLock::new();
    REDUCER.get_or_init(|| Reducer::with(device(), store(), Tuning::generic()).unwrap())
}

fn value(reducer: &Reducer, op: Op, buffer: &Buffer) -> Value {
    reducer.reduce(op, buffer).unwrap().expect("there are elements").value
}

fn with_choice(choice: Choice) -> Reducer {
    Reducer::with(device(), store(), Tuning::fixed(choice).unwrap()).unwrap()
}

fn pairs() -> impl Iterator<Item = (Op, Dtype)> {
    Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)))
}

fn verify(expected: &Expected, op: Op, data: &Data, answer: Answer, depth: u64, what: &str) {
    let dtype = data.dtype();
    match answer.index {
        Some(index) => {
            let check = expected.judge(Value::U64(index), depth);
            assert!(check.unwrap().ok, "{what}: index {index} instead of {}", expected.value);
            let size = dtype.size();
            let element = &data.as_bytes()[index as usize * size..];
            let element = Value::from_bytes(dtype, element);
            let same =
                answer.value == element || answer.value.to_f64().is_nan() && element.to_f64().is_nan();
            assert!(same && answer.value.dtype() == dtype, "{what}: {} at {index}", answer.value);
        }
        None => {
            assert_eq!(answer.value.dtype(), op.result(dtype), "{what}");
            let check =
                expected.judge(answer.value, depth).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(check.ok, "{what}: {} instead of {}, {check:?}", answer.value, expected.value);
        }
    }
}

fn check(reducer: &Reducer, op: Op, data: &Data, buffer: &Buffer, what: &str) {
    check_for(&Expected::of(op, data).unwrap(), reducer, op, data, buffer, what);
}

fn check_for(expected: &Expected, reducer: &Reducer, op: Op, data: &Data, buffer: &Buffer, what: &str) {
    let what = format!("{op} of {} {}, {what}", data.len(), data.dtype());
    let answer = reducer.reduce(op, buffer).unwrap_or_else(|error| panic!("{what}: {error}"));
    let answer = answer.unwrap_or_else(|| panic!("{what}: no answer"));
    let depth = reducer.depth(op, buffer).unwrap();
    assert_eq!(answer.index.is_some(), matches!(op, Op::ArgMin | Op::ArgMax), "{what}");
    verify(expected, op, data, answer, depth, &what);
}

fn check_all(reducer: &Reducer, data: &Data, what: &str) {
    let buffer = device().upload(data).unwrap();
    for &op in Op::ALL {
        check(reducer, op, data, &buffer, what);
    }
}

#[test]
fn every_operation_of_every_type_is_right() {
    let reducer = reducer();
    for &dtype in Dtype::ALL {
        for (n, &op) in REDUCER_SIZES.into_iter().flat_map(|n| Op::ALL.iter().map(move |op| (n, op))) {
            for Sample { kind, data, expected } in samples(op, dtype, n) {
                let buffer = device().upload(&data).unwrap();
                check_for(&expected, reducer, op, &data, &buffer, kind);
            }
        }
        check_all(reducer, &Data::random_below(dtype, 20_011, 6, 3), "ties");
    }
}

#[test]
fn inputs_may_start_and_end_anywhere() {
    let reducer = reducer();
    for &dtype in Dtype::ALL {
        for start in 0..=16 / dtype.size() {
            for len in [1, 2, 7, 15, 16, 17, 33, 1021, 2900] {
                for &op in Op::ALL {
                    let mut data = small_integers(op, dtype, 3000, 3);
                    show_last(op, &mut data, start + len - 1);
                    let buffer = device().upload(&data).unwrap();
                    let slice = buffer.slice(start as u64..(start + len) as u64).unwrap();
                    let elements = part(&data, start..start + len);
                    let expected = Expected::of(op, &elements).unwrap().drawn();
                    let what = format!("from {start}");
                    check_for(&expected, reducer, op, &elements, &slice, &what);
                }
            }
        }
    }
}

#[test]
fn any_grid_and_kernel_gives_the_right_result() {
    let grid = [(128, 1), (1024, 1), (256, 2), (128, 7), (512, 7), (1024, 5), (128, 100)];
    let bulk = [(256, 1), (512, 1), (256, 2), (512, 7)];
    let choices = grid
        .map(|(block, blocks)| (KernelKind::Grid, block, blocks))
        .into_iter()
        .chain(bulk.map(|(block, blocks)| (KernelKind::Bulk, block, blocks)));
    for (kernel, block, blocks) in choices {
        let choice = Choice { kernel, block, blocks: Blocks::Total(blocks) };
        let reducer = with_choice(choice);
        for &dtype in Dtype::ALL {
            let bytes = if kernel == KernelKind::Bulk { 5 * 32_768 + 1001 } else { 33_333 };
            let n = bytes / dtype.size();
            let buffer = device().upload(&Data::random(dtype, n, 1)).unwrap();
            let launch = reducer.plan(Op::Sum, &buffer).unwrap().unwrap();
            assert_eq!((launch.kernel, launch.block), (kernel, block));
            let enough = if kernel == KernelKind::Bulk { 6 } else { u32::MAX };
            assert!(launch.blocks == blocks.min(enough) || blocks == 100, "{launch:?}");
            for &op in Op::ALL {
                let Sample { data, .. } =
                    warpfold_tests::random(op, dtype, n, u64::from(block + blocks));
                let buffer = device().upload(&data).unwrap();
                for start in [0, 1, 3] {
                    let slice = buffer.slice(start as u64..n as u64).unwrap();
                    let elements = part(&data, start..n);
                    let expected = Expected::of(op, &elements).unwrap().drawn();
                    let what = format!("{choice:?} from {start}");
                    check_for(&expected, &reducer, op, &elements, &slice, &what);
                }
            }
        }
    }
}

#[test]
fn grids_are_limited_to_resident_blocks_with_work() {
    let info = device().info();
    let many =
        |block| Choice { kernel: KernelKind::Grid, block, blocks: Blocks::PerMultiprocessor(1000) };
    let small = device().upload_slice(&[1_i32; 10]).unwrap();
    let large = device().upload_slice(&vec![1_i32; 1 << 20]).unwrap();
    for block in [128, 256, 512, 1024] {
        let reducer = with_choice(many(block));
        assert_eq!(reducer.plan(Op::Sum, &small).unwrap().unwrap().blocks, 1);
        let launch = reducer.plan(Op::Sum, &large).unwrap().unwrap();
        assert!(launch.blocks > 1 && launch.blocks <= info.resident_blocks(block), "{launch:?}");
        assert_eq!(value(&reducer, Op::Sum, &large), Value::I64(1 << 20));
    }
}

fn floats(dtype: Dtype, values: &[f32]) -> Data {
    let half = |value: f32| {
        let bits = value.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        sign | match value.abs() {
            x if x.is_nan() => 0x7e00,
            x if x.is_infinite() => 0x7c00,
            0.0 => 0,
            x => ((x.to_bits() >> 13) - ((127 - 15) << 10)) as u16,
        }
    };
    match dtype {
        Dtype::F32 => Data::F32(values.to_vec()),
        Dtype::F64 => Data::F64(values.iter().copied().map(f64::from).collect()),
        Dtype::F16 => {
            let bits: Vec<u16> = values.iter().copied().map(half).collect();
            Data::from_bytes(dtype, bytemuck::cast_slice(&bits))
        }
        Dtype::Bf16 => {
            let bits: Vec<u16> = values.iter().map(|value| (value.to_bits() >> 16) as u16).collect();
            Data::from_bytes(dtype, bytemuck::cast_slice(&bits))
        }
        integer => panic!("{integer} is no floating-point type"),
    }
}

/// NaN takes precedence wherever it is, the first of equals is found, and infinities are numbers.
#[test]
fn special_floats_are_found_wherever_they_stand() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let cases: [&[f32]; 11] = [
        &[1.0, NAN, -1.0],
        &[NAN],
        &[NAN, NAN, 1.0],
        &[-INF, NAN],
        &[0.0, -0.0],
        &[-0.0, 0.0],
        &[INF, -INF, 0.0],
        &[INF, INF],
        &[-INF, -INF],
        &[2.0, 1.0, 1.0, 2.0],
        &[INF, 1.0],
    ];
    let choices = [(KernelKind::Grid, 128, 7), (KernelKind::Bulk, 256, 2)];
    let reducers = choices.map(|(kernel, block, blocks)| {
        with_choice(Choice { kernel, block, blocks: Blocks::Total(blocks) })
    });
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        for values in cases {
            for spread in [1, 40, 3001] {
                let mut elements = vec![values[0]; (values.len() - 1) * spread + 1];
                for (i, &value) in values.iter().enumerate() {
                    elements[i * spread] = value;
                }
                let data = floats(dtype, &elements);
                let buffer = device().upload(&data).unwrap();
                for (reducer, &op) in
                    reducers.iter().flat_map(|one| Op::ALL.iter().map(move |op| (one, op)))
                {
                    check(reducer, op, &data, &buffer, &format!("{values:?} {spread} apart"));
                }
            }
        }
    }
}

#[test]
fn integers_have_their_extremes_and_wrap_around() {
    let reducer = reducer();
    macro_rules! extremes {
        ($($variant:ident: $ty:ty;)*) => {$(
            check_all(reducer, &Data::$variant(vec![<$ty>::MIN; 5001]), "all smallest");
            check_all(reducer, &Data::$variant(vec![<$ty>::MAX; 5001]), "all largest");
            let mut mixed = vec![0; 5001];
            (mixed[77], mixed[3000]) = (<$ty>::MAX, <$ty>::MAX);
            (mixed[78], mixed[4000]) = (<$ty>::MIN, <$ty>::MIN);
            check_all(reducer, &Data::$variant(mixed), "extremes among zeros");
        )*};
    }
    extremes! { I8: i8; U8: u8; I32: i32; U32: u32; I64: i64; U64: u64; }
}

#[test]
fn the_same_input_gives_the_same_bits() {
    let bits = |answer: Answer| (answer.value.to_bytes(), answer.index);
    for (op, dtype) in pairs().filter(|(op, dtype)| *op == Op::Sum || dtype.is_float()) {
        let data = Data::random(dtype, 40_003, 9);
        let one = reducer();
        let buffer = device().upload(&data).unwrap();
        let first = bits(one.reduce(op, &buffer).unwrap().unwrap());
        for _ in 0..3 {
            assert_eq!(bits(one.reduce(op, &buffer).unwrap().unwrap()), first, "{op} {dtype}");
        }
    }
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    let there = isolated().upload_slice(&[1.0_f32]).unwrap();
    let error = reducer().reduce(Op::Sum, &there).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: "buffer", .. }), "{error}");
}

#[test]
fn no_elements_need_no_kernel() {
    let folder = Folder::new("none");
    let store = PtxStore::at(&folder.0, Some(Codegen::Llvm)).unwrap();
    let reducer = Reducer::with(device(), &store, Tuning::generic()).unwrap();
    let nothing = device().upload(&Data::Bf16(Vec::new())).unwrap();
    for &op in Op::ALL {
        let answer = reducer.reduce(op, &nothing).unwrap();
        assert_eq!(answer.is_some(), op.has_empty_value(), "{op}");
        assert!(answer.is_none_or(|answer| answer.value == Value::F32(0.0)), "{op}");
        assert_eq!(
            (reducer.plan(op, &nothing).unwrap(), reducer.depth(op, &nothing).unwrap()),
            (None, 0)
        );
    }
    let one = device().upload_slice(&[1_u8]).unwrap();
    let errors = [
        reducer.reduce(Op::Sum, &one).map(drop).unwrap_err(),
        reducer.prepare(Op::Sum, Dtype::U8).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("reducer_sum_u8") && error.contains("cargo xtask build-ptx"), "{error}");
    }
}

#[test]
fn invalid_tuning_file_is_ignored_with_a_warning() {
    let folder = Folder::new("tuning");
    let elsewhere = r#"{"format": 1, "gpu": "Some other", "arch": "sm_90", "multiprocessors": 7, "driver": "12.0",
        "command": "none", "tables": []}"#;
    for (name, text, reason) in
        [("damaged.json", "{\"format\": 1", "EOF"), ("other.json", elsewhere, "Some other")]
    {
        let path = folder.write(name, text);
        let tuning = Tuning::with_file(Some(&path), device().info());
        let warning = tuning.warning().unwrap_or_else(|| panic!("{name} was taken"));
        assert!(warning.contains(name) && warning.contains(reason), "{warning}");
        let reducer = Reducer::with(device(), store(), tuning).unwrap();
        assert!(reducer.tuning().warning().is_some());
        let buffer = device().upload_slice(&[1_i64, 2]).unwrap();
        assert_eq!(value(&reducer, Op::Sum, &buffer), Value::I64(3));
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("reducer-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kernel(attributes: &str, body: &str) -> String {
    let declared = |parameter: &Parameter| format!(".param .b{} {}", 8 * parameter.size, parameter.name);
    let parameters: Vec<_> = ReduceCut::<i32>::PARAMETERS.iter().map(declared).collect();
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry reducer_sum_i32_grid({})\n{attributes}\n\
         {{\n.reg .b64 %a<4>;\n.reg .pred %p<2>;\n{body}\nret;\n}}\n",
        parameters.join(", ")
    )
}

/// Returns a store with `ptx` for sums of i32, and intact PTX for maxima of i32. `ptx` is stored as
/// llvm's, whichever compiler's PTX is under test.
fn broken(folder: &Folder, ptx: &str) -> PtxStore {
    folder.write("llvm/sm_80/reducer_sum_i32.ptx", ptx);
    let right = store().find("reducer_max_i32", device().info()).unwrap();
    folder.write("llvm/sm_80/reducer_max_i32.ptx", &right.text);
    PtxStore::at(&folder.0, Some(Codegen::Llvm)).unwrap()
}

/// A kernel that ends with an error invalidates its context: all later calls there fail with the same
/// error, and other contexts still work. A GPU would invalidate the contexts of all other tests too.
#[test]
fn failed_kernel_invalidates_only_its_context() {
    if on_gpu() {
        return;
    }
    let folder = Folder::new("trap");
    let store = broken(&folder, &kernel("", "trap;"));
    let choice = Choice { kernel: KernelKind::Bulk, block: 256, blocks: Blocks::Total(7) };
    let data = Data::random(Dtype::I32, 50_000, 3);
    let max = Expected::of(Op::Max, &data).unwrap().value;
    let lost = isolated();
    let reducer = Reducer::with(&lost, &store, Tuning::fixed(choice).unwrap()).unwrap();
    let buffer = lost.upload(&data).unwrap();
    assert_eq!(value(&reducer, Op::Max, &buffer), max);
    // The store's PTX for sums has no bulk kernel: the grid kernel is used.
    assert_eq!(reducer.plan(Op::Sum, &buffer).unwrap().unwrap().kernel, KernelKind::Grid);
    for error in [
        reducer.reduce(Op::Sum, &buffer).map(drop).unwrap_err(),
        reducer.reduce(Op::Max, &buffer).map(drop).unwrap_err(),
        lost.upload(&data).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Driver { .. }), "{error}");
        assert!(error.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    let other = isolated();
    let reducer = Reducer::with(&other, &store, Tuning::fixed(choice).unwrap()).unwrap();
    assert_eq!(value(&reducer, Op::Max, &other.upload(&data).unwrap()), max);
}

/// A launch that the driver refuses: the kernel does not support blocks of 512 threads.
#[test]
fn refused_launch_leaves_the_reducer_usable() {
    let folder = Folder::new("refused");
    let store = broken(&folder, &kernel(".maxntid 32, 1, 1", ""));
    let choice = Choice { kernel: KernelKind::Grid, block: 512, blocks: Blocks::Total(3) };
    let reducer = Reducer::with(device(), &store, Tuning::fixed(choice).unwrap()).unwrap();
    let data = Data::random(Dtype::I32, 50_000, 3);
    let buffer = device().upload(&data).unwrap();
    for _ in 0..2 {
        let error = reducer.reduce(Op::Sum, &buffer).unwrap_err();
        assert!(matches!(error, Error::Driver { .. }), "{error}");
        let max = Expected::of(Op::Max, &data).unwrap().value;
        assert_eq!(value(&reducer, Op::Max, &buffer), max);
    }
}

#[test]
fn a_choice_that_is_tried_runs_or_is_refused() {
    let Sample { data, expected, .. } = exact(Op::Sum, Dtype::F32, 50_000, 2);
    let buffer = device().upload(&data).unwrap();
    let case = (Op::Sum, Dtype::F32, 50_000);
    let measured = |reducer: &Reducer, choice| Measured::new(reducer, case, choice, expected);
    let choice = |kernel, block| Choice { kernel, block, blocks: Blocks::Total(3) };
    let mut contest = Contest::rehearsal(&buffer, 0).unwrap();
    for one in [None, Some(choice(KernelKind::Grid, 128)), Some(choice(KernelKind::Bulk, 256))] {
        let contender = measured(reducer(), one).unwrap();
        if let Some(Choice { kernel, block, .. }) = one {
            let launch = contender.plan().unwrap();
            assert_eq!((launch.kernel, launch.block, launch.blocks), (kernel, block, 3));
        }
        contest.enter(contender, 0).unwrap();
    }
    let wrong = Expected::of(Op::Sum, &part(&data, 0..49_999)).unwrap();
    contest.enter(Measured::new(reducer(), case, None, wrong).unwrap(), 1).unwrap();
    let options = Options { rounds: 5, warm_up: 1, ..Options::default() };
    let scores = contest.run(options, |_| ()).unwrap();
    assert_eq!(scores.iter().map(|score| score.right).collect::<Vec<_>>(), [true, true, true, false]);

    let refused = measured(reducer(), Some(choice(KernelKind::Grid, 64))).err().unwrap();
    assert!(matches!(refused, Error::Mismatch { what: "choice", .. }), "{refused}");
    let folder = Folder::new("old");
    let text = store().find("reducer_sum_f32", device().info()).unwrap().text;
    // Only a file for sm_80, whose bulk kernel has another name.
    folder.write("llvm/sm_80/reducer_sum_f32.ptx", &text.replace("reducer_sum_f32_bulk", "other"));
    let old = Reducer::with(
        device(),
        &PtxStore::at(&folder.0, Some(Codegen::Llvm)).unwrap(),
        Tuning::generic(),
    )
    .unwrap();
    let refused = measured(&old, Some(choice(KernelKind::Bulk, 256))).err().unwrap();
    assert!(refused.to_string().contains("no bulk kernel"), "{refused}");
}
