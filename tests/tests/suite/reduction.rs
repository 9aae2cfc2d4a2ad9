//! Catalogue guarantees beyond single results: repetition, streams, special values, geometry, and
//! detection of kernels that are broken on purpose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpfold_suite::{
    Buffer, Data, Error, Op, Reduction, Request, Statistic, Stream, Summary, Value,
    catalogue::{self, Completion, Determinism, Geometry, Variant},
    reference::Expected,
};
use warpfold_tests::{device, no_findings, on_gpu, small_integers, store};

fn prepared(variant: &'static Variant, op: Op, data: &Data) -> Reduction {
    prepared_with(Request::new(variant, op, data))
}

fn prepared_with(request: Request) -> Reduction {
    Reduction::new(device(), store(), &request).unwrap_or_else(|error| panic!("{error}"))
}

fn run(reduction: &Reduction, data: &Data) -> Value {
    let input = device().upload(data).unwrap();
    let mut workspace = reduction.workspace().unwrap();
    workspace.poison(0xac).unwrap();
    reduction.run(&input, &mut workspace).unwrap_or_else(|error| panic!("{error}")).value
}

fn expected(data: &Data) -> Expected {
    Expected::of(Op::Sum, data).unwrap().of_type(data.dtype())
}

#[test]
fn single_pass_is_right_a_thousand_times_in_a_row() {
    let variant = catalogue::find("single_pass_last_block").unwrap();
    let data = Data::random(warpfold_suite::Dtype::I32, 10_000, 3);
    let expected = expected(&data);
    let reduction =
        prepared_with(Request { block: 64, grid: Some(37), ..Request::new(variant, Op::Sum, &data) });
    let input = device().upload(&data).unwrap();
    let mut workspace = reduction.workspace().unwrap();
    for launch in 0..1000 {
        workspace.poison(0x5a).unwrap();
        let value = reduction.run(&input, &mut workspace).unwrap().value;
        assert_eq!(value, expected.value, "launch {launch}");
    }
}

/// Two streams at once, each with its own workspace and always one launch in flight.
#[test]
fn single_pass_is_right_on_two_streams_at_once() {
    let variant = catalogue::find("single_pass_last_block").unwrap();
    let inputs = [1, 2].map(|seed| Data::random(warpfold_suite::Dtype::I32, 50_000, seed));
    let reduction = prepared(variant, Op::Sum, &inputs[0]);
    let turns = |data: &Data| {
        let stream = device().stream().unwrap();
        let expected = expected(data).value;
        let input = device().upload(data).unwrap();
        let mut workspace = reduction.workspace().unwrap();
        for turn in 0..100 {
            let pending = reduction.enqueue(&stream, &input, workspace).unwrap();
            let (outcome, returned) = pending.wait().unwrap();
            assert_eq!(outcome.value, expected, "turn {turn}");
            workspace = returned;
        }
    };
    std::thread::scope(|scope| {
        for data in &inputs {
            scope.spawn(|| turns(data));
        }
    });
}

#[test]
fn concurrent_launches_on_several_streams_are_independent() {
    let _checked = no_findings();
    for variant in catalogue::reductions() {
        let inputs: Vec<_> =
            (1..=4).map(|seed| small_integers(Op::Sum, variant.dtypes[0], 100_003, seed)).collect();
        let reduction = prepared(variant, Op::Sum, &inputs[0]);
        let streams: Vec<Stream> = inputs.iter().map(|_| device().stream().unwrap()).collect();
        let pending: Vec<_> = inputs
            .iter()
            .zip(&streams)
            .map(|(data, stream)| {
                let input = device().upload(data).unwrap();
                let workspace = reduction.workspace().unwrap();
                // The buffer is dropped here: the launch keeps it alive.
                reduction.enqueue(stream, &input, workspace).unwrap()
            })
            .collect();
        for (pending, data) in pending.into_iter().zip(&inputs) {
            let expected = expected(data);
            assert_eq!(pending.wait().unwrap().0.value, expected.value, "{}", variant.id);
        }
    }
}

#[test]
fn a_pending_launch_may_be_dropped() {
    let _checked = no_findings();
    let data = Data::random(warpfold_suite::Dtype::I32, 1 << 20, 5);
    let variant = catalogue::find("single_pass_last_block").unwrap();
    let reduction = prepared(variant, Op::Sum, &data);
    let stream = device().stream().unwrap();
    let input = device().upload(&data).unwrap();
    drop(reduction.enqueue(&stream, &input, reduction.workspace().unwrap()).unwrap());
    assert_eq!(run(&reduction, &data), expected(&data).value);
}

#[test]
fn input_or_workspace_of_another_plan_is_refused() {
    let data = Data::random(warpfold_suite::Dtype::I32, 1000, 1);
    let other = Data::random(warpfold_suite::Dtype::I32, 1001, 1);
    let floats = Data::random(warpfold_suite::Dtype::F32, 1000, 1);
    let variant = catalogue::find("sequential").unwrap();
    let reduction = prepared(variant, Op::Sum, &data);
    for wrong in [&other, &floats] {
        let input = device().upload(wrong).unwrap();
        let error = reduction.run(&input, &mut reduction.workspace().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Mismatch { what: "input", .. }), "{error}");
    }
    let larger = prepared(variant, Op::Sum, &Data::random(warpfold_suite::Dtype::I32, 100_000, 1));
    let input = device().upload(&data).unwrap();
    let error = reduction.run(&input, &mut larger.workspace().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: "workspace", .. }), "{error}");

    // The workspace initialises the accumulators of atomics.
    let (fives, as_floats) = (Data::I32(vec![-5; 1000]), Data::F32(vec![-5.0; 1000]));
    let atomic = |variant: &&Variant| variant.shape().unwrap().completion == Completion::Atomic;
    for variant in catalogue::reductions().filter(atomic) {
        let input = device().upload(&fives).unwrap();
        let max = prepared(variant, Op::Max, &fives);
        let others = [prepared(variant, Op::Sum, &fives), prepared(variant, Op::Max, &as_floats)];
        for (other, begins) in others.iter().zip(["the i32 0", "the f32 -inf"]) {
            let error = max.run(&input, &mut other.workspace().unwrap()).unwrap_err();
            assert!(matches!(error, Error::Mismatch { what: "workspace", .. }), "{error}");
            assert!(error.to_string().contains(begins), "{error}");
        }
        assert_eq!(run(&max, &fives), Value::I32(-5));
    }

    let elsewhere = warpfold_tests::isolated();
    let input = elsewhere.upload(&data).unwrap();
    let error = reduction.run(&input, &mut reduction.workspace().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: "input", .. }), "{error}");
}

/// NaN takes precedence wherever it is, -0 is less than +0, and infinities and subnormals are numbers.
#[test]
fn minimum_and_maximum_of_special_floats() {
    let subnormal = f32::from_bits(1);
    let cases: [(&[f32], f32, f32); 7] = [
        (&[1.0, f32::NAN, -1.0], f32::NAN, f32::NAN),
        (&[f32::NAN], f32::NAN, f32::NAN),
        (&[0.0, -0.0], -0.0, 0.0),
        (&[f32::INFINITY, f32::NEG_INFINITY, 0.0], f32::NEG_INFINITY, f32::INFINITY),
        (&[subnormal, -subnormal], -subnormal, subnormal),
        (&[f32::INFINITY; 3], f32::INFINITY, f32::INFINITY),
        (&[f32::NEG_INFINITY; 3], f32::NEG_INFINITY, f32::NEG_INFINITY),
    ];
    for variant in
        catalogue::reductions().filter(|variant| variant.dtypes.contains(&warpfold_suite::Dtype::F32))
    {
        for (values, least, greatest) in cases {
            for spread in [1, 40, 700] {
                let mut elements = vec![values[0]; (values.len() - 1) * spread + 1];
                for (i, &value) in values.iter().enumerate() {
                    elements[i * spread] = value;
                }
                let data = Data::F32(elements);
                for (op, expected) in [(Op::Min, least), (Op::Max, greatest)] {
                    let Value::F32(value) = run(&prepared(variant, op, &data), &data) else {
                        unreachable!("f32 in, f32 out");
                    };
                    let same =
                        value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
                    assert!(same, "{} {op} of {values:?}: {value}", variant.id);
                }
            }
        }
    }
}

/// The identity of an extreme must not exclude any element.
#[test]
fn extremes_of_nothing_but_infinities_are_infinite() {
    let doubles = |variant: &&Variant| variant.dtypes.contains(&warpfold_suite::Dtype::F64);
    for variant in catalogue::reductions().filter(doubles) {
        for (op, value) in [(Op::Min, f64::INFINITY), (Op::Max, f64::NEG_INFINITY)] {
            let data = Data::F64(vec![value; 700]);
            assert_eq!(run(&prepared(variant, op, &data), &data), Value::F64(value), "{}", variant.id);
        }
    }
}

#[test]
fn grid_stride_variants_take_any_grid() {
    for variant in catalogue::reductions().filter(|variant| takes_any_grid(variant)) {
        let shape = variant.shape().unwrap();
        let data = small_integers(Op::Sum, *variant.dtypes.last().unwrap(), 10_007, 1);
        let expected = expected(&data).value;
        for grid in [1_u64, 2, 3, 31, 32, 33, 257, 1025, 5000] {
            let grid = grid.next_multiple_of(shape.cluster.into());
            for block in [32, 64, 256, 512] {
                let request =
                    Request { block, grid: Some(grid), ..Request::new(variant, Op::Sum, &data) };
                let reduction = match Reduction::new(device(), store(), &request) {
                    // Blocks that wait for each other must all be resident.
                    Err(Error::GridNotResident { largest, .. }) => {
                        assert_eq!(shape.completion, Completion::GridBarrier);
                        assert!(grid > largest.into(), "{grid} blocks fit, {largest} do");
                        continue;
                    }
                    other => other.unwrap_or_else(|error| panic!("{error}")),
                };
                let value = run(&reduction, &data);
                assert_eq!(value, expected, "{} grid {grid} block {block}", variant.id);
            }
        }
    }
}

fn takes_any_grid(variant: &Variant) -> bool {
    variant.shape().is_some_and(|shape| shape.geometry == Geometry::GridStride)
}

#[test]
fn deterministic_geometries_repeat_the_same_bits() {
    for variant in catalogue::reductions() {
        // Atomics combine in order of arrival: only sums of integers are the same in each run.
        let float = variant.dtypes.contains(&warpfold_suite::Dtype::F32)
            && variant.determinism != Determinism::Unordered;
        let dtype = if float { warpfold_suite::Dtype::F32 } else { warpfold_suite::Dtype::I32 };
        let data = Data::random(dtype, 20_003, 9);
        let cluster = u64::from(variant.shape().unwrap().cluster);
        let grids = [None, Some(cluster), Some(3 * cluster), Some(16 * cluster)];
        let grids = if takes_any_grid(variant) { &grids[..] } else { &grids[..1] };
        let mut of_input = None;
        for (&grid, block) in grids.iter().flat_map(|grid| [(grid, 64), (grid, 256)]) {
            let request = Request { block, grid, ..Request::new(variant, Op::Sum, &data) };
            let reduction = prepared_with(request);
            let first = run(&reduction, &data);
            for _ in 1..20 {
                assert_eq!(run(&reduction, &data), first, "{} {grid:?} {block}", variant.id);
            }
            if variant.determinism == Determinism::PerInput {
                assert_eq!(*of_input.get_or_insert(first), first, "{} {grid:?} {block}", variant.id);
            }
        }
    }
}

#[test]
fn inputs_may_start_and_end_anywhere() {
    let whole = |dtype| small_integers(Op::Sum, dtype, 40_000, 3);
    for variant in catalogue::reductions() {
        for dtype in [variant.dtypes[0], *variant.dtypes.last().unwrap()] {
            let data = whole(dtype);
            let buffer = device().upload(&data).unwrap();
            for start in 0..5_u64 {
                for len in [0, 1, 2, 3, 5, 63, 1021, 8191, 36_863] {
                    let size = dtype.size() as u64;
                    let range = start..start + len;
                    let bytes = (start * size) as usize..((start + len) * size) as usize;
                    let part = Data::from_bytes(dtype, &data.as_bytes()[bytes]);
                    let request = Request { block: 128, ..Request::new(variant, Op::Sum, &part) };
                    let reduction = prepared_with(request);
                    let input = buffer.slice(range).unwrap();
                    let mut workspace = reduction.workspace().unwrap();
                    workspace.poison(0xac).unwrap();
                    let value = reduction.run(&input, &mut workspace).unwrap().value;
                    let expected = expected(&part).value;
                    assert_eq!(value, expected, "{} {dtype}: {len} from {start}", variant.id);
                }
            }
        }
    }
}

#[test]
fn slices_are_bounds_checked_and_keep_memory_alive() {
    let data = Data::I32((0..100).collect());
    let buffer = device().upload(&data).unwrap();
    for range in [0..101, 101..101, std::ops::Range { start: 100, end: 99 }] {
        let message = buffer.slice(range).unwrap_err().to_string();
        assert!(message.contains("100 elements"), "{message}");
    }
    let slice = buffer.slice(10..20).unwrap().slice(5..10).unwrap();
    drop(buffer);
    let part = Data::I32((15..20).collect());
    let reduction = prepared(catalogue::find("sequential").unwrap(), Op::Sum, &part);
    let outcome = reduction.run(&slice, &mut reduction.workspace().unwrap()).unwrap();
    assert_eq!(outcome.value, Value::I32(15 + 16 + 17 + 18 + 19));
}

#[test]
fn access_past_an_allocation_is_refused() {
    let memory = device().allocate(100).unwrap();
    let refused = |call: &dyn Fn() -> Result<(), Error>| {
        catch_unwind(AssertUnwindSafe(call)).is_err_and(|panic| {
            panic.downcast_ref::<String>().is_some_and(|text| text.contains("past the 100 bytes"))
        })
    };
    for (offset, len) in [(0, 101), (100, 1), (99, 2), (101, 0), (u64::MAX - 1, 1)] {
        assert!(refused(&|| memory.read(offset, &mut vec![0; len])), "{len} from {offset}");
        assert!(refused(&|| memory.write(offset, &vec![0; len])), "{len} from {offset}");
        assert!(refused(&|| memory.fill(offset, 0, len as u64)), "{len} from {offset}");
    }
    for (offset, len) in [(0, 100), (99, 1), (100, 0)] {
        memory.fill(offset, 3, len as u64).unwrap();
        memory.write(offset, &vec![7; len]).unwrap();
        let mut bytes = vec![0; len];
        memory.read(offset, &mut bytes).unwrap();
        assert_eq!(bytes, vec![7; len], "{len} from {offset}");
    }
}

#[test]
fn setting_an_element_requires_exclusive_memory() {
    let data = Data::I32((0..100).collect());
    let mut buffer = device().upload(&data).unwrap();
    let slice = buffer.slice(10..20).unwrap();
    let refused = |buffer: &mut Buffer, index, value| buffer.set(index, value).unwrap_err().to_string();
    assert!(refused(&mut buffer, 5, Value::I32(1)).contains("hold the memory"));
    drop(slice);
    assert!(refused(&mut buffer, 100, Value::I32(1)).contains("100 i32"));
    assert!(refused(&mut buffer, 5, Value::I64(1)).contains("i64"));
    buffer.set(99, Value::I32(1000)).unwrap();
    let reduction = prepared(catalogue::find("sequential").unwrap(), Op::Sum, &data);
    let outcome = reduction.run(&buffer, &mut reduction.workspace().unwrap()).unwrap();
    assert_eq!(outcome.value, Value::I32(99 * 98 / 2 + 1000));
}

#[test]
fn means_and_norms_follow_from_the_reductions() {
    let variant = catalogue::find("warp_shuffle").unwrap();
    let of = |statistic, data: &Data| {
        let request = Request::new(variant, Op::Sum, data);
        Summary::new(device(), store(), &request, statistic)?.run(&device().upload(data)?)
    };
    let value = |statistic, data: &Data| of(statistic, data).unwrap().value;
    let floats = Data::F32(vec![3.0, 4.0, 0.0, 0.0]);
    assert_eq!(value(Statistic::Mean, &floats), Value::F32(1.75));
    assert_eq!(value(Statistic::Norm, &floats), Value::F32(5.0));
    let integers = Data::I32(vec![3, -4, 0, 0]);
    assert_eq!(value(Statistic::Mean, &integers), Value::F64(-0.25));
    assert_eq!(value(Statistic::Norm, &integers), Value::F64(5.0));
    assert_eq!(value(Statistic::Of(Op::Max), &integers), Value::I32(3));
    for (statistic, values) in [(Statistic::Mean, [i32::MAX, 1]), (Statistic::Norm, [1 << 16, 1])] {
        let error = of(statistic, &Data::I32(values.to_vec())).unwrap_err();
        assert!(matches!(error, Error::MayWrap { n: 2, .. }), "{error}");
    }
    assert_eq!(value(Statistic::Norm, &Data::F64(Vec::new())), Value::F64(0.0));
    let error = of(Statistic::Mean, &Data::F64(Vec::new())).unwrap_err();
    assert!(matches!(error, Error::NoValue { statistic: Statistic::Mean }), "{error}");
}

#[test]
fn inputs_above_2_to_the_32_elements_are_reduced() {
    // More than 2^32 elements, on a GPU only. The simulator would take hours, so there the kernels'
    // 64-bit index is covered by the grid alone.
    if !on_gpu() {
        return;
    }
    let n = (1_u64 << 32) + 12_345;
    let data = Data::I32(vec![1; n as usize]);
    let free = device().free_memory().unwrap();
    assert!(free > 5 * n, "needs a GPU with {} bytes free, this one has {free}", 5 * n);
    let alone = |variant: &&Variant| variant.shape().unwrap().geometry == Geometry::SingleThread;
    for variant in catalogue::reductions().filter(|variant| !alone(variant)) {
        let reduction = prepared(variant, Op::Sum, &data);
        assert_eq!(run(&reduction, &data), Value::I32(12_345), "{}", variant.id);
    }
}

#[test]
fn a_kernel_that_drops_the_tail_is_caught() {
    let broken = testing("testing_drops_tail");
    // Blocks of 32 over 1024 elements leave 32 block results: no tail in either launch.
    for (n, right) in [(1024, true), (1000, false)] {
        let data = Data::random(warpfold_suite::Dtype::I32, n, 1);
        let expected = expected(&data);
        let request = Request { block: 32, ..Request::new(broken, Op::Sum, &data) };
        let value = run(&prepared_with(request), &data);
        assert_eq!(expected.check(value, 10).ok, right, "{n} elements");
    }
}

#[test]
fn a_kernel_that_lacks_a_barrier_is_caught() {
    // On a GPU the race may go unnoticed. The simulator shows it, because it runs a warp until it waits.
    if on_gpu() {
        return;
    }
    let broken = testing("testing_missing_barrier");
    let data = Data::random(warpfold_suite::Dtype::I32, 1024, 1);
    let expected = expected(&data);
    let request = Request { block: 1024, ..Request::new(broken, Op::Sum, &data) };
    let value = run(&prepared_with(request), &data);
    assert!(!expected.check(value, 10).ok, "the missing barrier went unseen");
}

fn testing(id: &str) -> &'static Variant {
    // SAFETY: of the kernels that tests here request, none accesses memory out of bounds.
    let testing = unsafe { catalogue::testing() };
    testing.iter().find(|variant| variant.id == id).expect("a test kernel has a row")
}
