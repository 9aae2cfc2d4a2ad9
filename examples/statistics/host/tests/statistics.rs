//! Every operation with every way of launching it, on the device that `WARPFOLD_TEST_DEVICE` names, by
//! default the simulator.

use std::{env, process::Command, sync::OnceLock};

use statistics_host::{
    BoundingBox, Complex, ComplexSum, Farthest, Known, Parity, Point, Record1, Record2, Record3,
    Record16, Record64, RunningStatistics, SumOfCubes, load,
};
use warpfold::{
    Buffer, Buffers, Count, Device, Error, Reducer,
    custom::{Custom, Module, Reduction},
    internal::{Blocks, Choice, KernelKind, PtxSource, Tuning, reducer as reducer_with},
    op,
};

fn ptx() -> &'static str {
    statistics_host::ptx(device())
}

fn load_changed<R: Reduction>(ptx: String) -> warpfold::Result<Custom<R>> {
    // SAFETY: a compiler has written the PTX, except for a test's change. Tests launch no kernel whose
    // parameters or memory accesses are changed.
    unsafe { Module::load(device(), ptx)? }.operation()
}

fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(open)
}

fn open() -> Device {
    let name = env::var("WARPFOLD_TEST_DEVICE").unwrap_or_else(|_| "sim".to_owned());
    Device::open(name.parse().unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

fn reducer() -> &'static Reducer {
    static REDUCER: OnceLock<Reducer> = OnceLock::new();
    REDUCER.get_or_init(|| Reducer::new(device()).unwrap())
}

fn reducer_of(kernel: KernelKind, block: u32, blocks: u32) -> Reducer {
    let choice = Choice { kernel, block, blocks: Blocks::Total(blocks) };
    reducer_with(device(), PtxSource::Embedded, Tuning::fixed(choice).unwrap(), 2)
}

fn module() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| load(device()).unwrap())
}

fn operation<R: Reduction>() -> Custom<R> {
    module().operation().unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_close<R: Known>(result: &R::Output, elements: &[R::Element], what: &str) {
    let (name, n, reference) = (R::NAME, elements.len(), R::reference(elements));
    assert!(R::is_close(result, &reference), "{name} of {n}, {what}: {result:?}, not {reference:?}");
}

/// Calls a generic function for every operation. Elements of 1, 2, 4, 8 and 16 bytes are loaded as
/// vectors, those of 3, 12 and 64 bytes one by one.
macro_rules! for_every_operation {
    ($function:ident) => {
        $function::<ComplexSum>();
        $function::<RunningStatistics>();
        $function::<BoundingBox>();
        $function::<Farthest>();
        $function::<SumOfCubes>();
        $function::<Parity>();
        $function::<Record1>();
        $function::<Record2>();
        $function::<Record3>();
        $function::<Record16>();
        $function::<Record64>();
    };
}

/// Every length and offset relative to 16 bytes, and enough elements for several tiles and blocks.
#[test]
fn buffers_of_every_length_and_offset() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(4_000));
        let buffer = device().upload(&elements).unwrap();
        let ranges = [0..0, 0..1, 1..2, 1..4, 3..19, 2..35, 5..300, 0..4_000, 1..3_999];
        let cut = [reducer_of(KernelKind::Grid, 128, 1), reducer_of(KernelKind::Grid, 256, 5)];
        for reducer in [reducer()].into_iter().chain(&cut) {
            for range in ranges.clone() {
                let part = buffer.slice(range.clone()).unwrap();
                let result = reducer.reduce(&operation, &part).unwrap();
                assert_close::<R>(&result, &elements[range.clone()], &format!("{range:?}"));
            }
        }
    }
    for_every_operation!(check);
}

/// Buffers at any distance, which need not be a multiple of the element's size, and none.
#[test]
fn several_buffers() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(3_000));
        let parts = [0..1, 1..700, 700..700, 700..2_999, 2_999..3_000];
        let parts = parts.map(|range| device().upload(&elements[range]).unwrap());
        for count in [0, 1, parts.len()] {
            let buffers = Buffers::new(device(), &parts[..count]).unwrap();
            let result = reducer().reduce(&operation, &buffers).unwrap();
            assert_close::<R>(&result, &elements[..buffers.len() as usize], &format!("{count} buffers"));
        }
    }
    for_every_operation!(check);
}

/// Elements in chunks, and an empty input, whose result the kernels define.
#[test]
fn running_reductions_over_chunks() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(3_000));
        let (stream, buffer) = (device().stream().unwrap(), device().upload(&elements).unwrap());
        let mut running = reducer().running(&operation).unwrap();
        assert_close::<R>(&running.result().unwrap(), &[], "none");
        for (range, end) in [(0..1, 1), (1..1, 1), (1..1500, 1500), (1500..3_000, 3_000)] {
            running.push(&stream, &buffer.slice(range).unwrap()).unwrap();
            assert_close::<R>(&running.result().unwrap(), &elements[..end], "in pieces");
        }
    }
    for_every_operation!(check);
}

/// Whole tiles of the bulk kernel and a remainder; some element types have only the grid kernel.
#[test]
fn the_bulk_kernel() {
    fn check<R: Known>() {
        let tiles = 2 * 32 * 1024 / size_of::<R::Element>();
        let (operation, elements) = (operation::<R>(), R::sample(tiles + 40));
        let buffer = device().upload(&elements).unwrap().slice(1..).unwrap();
        let result = reducer_of(KernelKind::Bulk, 256, 2).reduce(&operation, &buffer).unwrap();
        assert_close::<R>(&result, &elements[1..], "bulk");
    }
    for_every_operation!(check);
}

/// Rows that are reduced by some lanes, a warp, a block or several blocks, at any alignment.
#[test]
fn every_kind_of_rows() {
    fn check<R: Known>() {
        let operation = operation::<R>();
        for (len, count) in [(1, 70), (2, 33), (4, 65), (5, 9), (48, 5), (160, 5), (900, 3), (4_000, 2)]
        {
            let elements = R::sample(len * count + 1);
            let buffer = device().upload(&elements).unwrap();
            for start in [0, 1] {
                let range = start..start + len * count;
                let part = buffer.slice(range.clone()).unwrap();
                let results = reducer().reduce(&operation, &part.rows(len).unwrap()).unwrap();
                assert_eq!(results.len(), count);
                for (row, result) in elements[range].chunks_exact(len).zip(&results) {
                    assert_close::<R>(result, row, &format!("{count} rows from {start}"));
                }
            }
        }
    }
    for_every_operation!(check);
}

fn signed(strides: &[usize]) -> Vec<isize> {
    strides.iter().map(|stride| stride.cast_signed()).collect()
}

/// Non-adjacent rows, their columns, every second element, and two of three axes in an order that
/// differs from that in memory.
#[test]
fn views() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(1_200));
        let buffer = device().upload(&elements).unwrap();
        let of = |start: usize, lens: &[usize], strides: &[usize], axes: &[usize]| {
            let view = buffer.view_strided(start, lens, &signed(strides)).unwrap();
            let results = reducer().reduce(&operation, view.along(axes).unwrap()).unwrap();
            let at = |position: &[usize]| -> usize {
                start + position.iter().zip(strides).map(|(at, stride)| at * stride).sum::<usize>()
            };
            let mut expected: Vec<Vec<R::Element>> = vec![Vec::new(); results.len()];
            for number in 0..lens.iter().product() {
                let (mut rest, mut position) = (number, vec![0; lens.len()]);
                for axis in (0..lens.len()).rev() {
                    position[axis] = rest % lens[axis];
                    rest /= lens[axis];
                }
                let kept = (0..lens.len()).filter(|axis| !axes.contains(axis));
                let result = kept.fold(0, |result, axis| result * lens[axis] + position[axis]);
                expected[result].push(elements[at(&position)]);
            }
            for (result, expected) in results.iter().zip(&expected) {
                assert_close::<R>(result, expected, &format!("{lens:?} by {strides:?} along {axes:?}"));
            }
        };
        of(3, &[9, 20], &[28, 1], &[1]);
        of(3, &[9, 20], &[28, 1], &[0]);
        of(0, &[300], &[4], &[0]);
        of(0, &[2, 300, 2], &[600, 2, 1], &[1]);
        of(1, &[5, 6, 7], &[42, 1, 6], &[0, 2]);
        of(0, &[4, 8, 16], &[256, 32, 1], &[0, 2]);
        of(0, &[70, 3, 2], &[1, 70, 400], &[1, 2]);
    }
    for_every_operation!(check);
}

/// Columns that are reduced by a thread, a part of a block, a block, or several blocks.
#[test]
fn every_kind_of_axis() {
    fn check<R: Known>() {
        let operation = operation::<R>();
        for [outer, len, inner] in
            [[1, 5, 3], [70, 2, 3], [3, 40, 2], [1, 9, 130], [2, 100, 64], [1, 3_000, 2], [1, 1_500, 4]]
        {
            let elements = R::sample(outer * len * inner + 1);
            let buffer = device().upload(&elements).unwrap();
            for start in [0, 1] {
                let part = buffer.slice(start..start + outer * len * inner).unwrap();
                let results = match outer {
                    1 => reducer().reduce(&operation, &part.columns(inner).unwrap()),
                    _ => reducer().reduce(&operation, &part.axis(&[outer, len, inner], 1).unwrap()),
                };
                let results = results.unwrap();
                assert_eq!(results.len(), outer * inner);
                for (number, result) in results.iter().enumerate() {
                    let first = start + number / inner * len * inner + number % inner;
                    let column: Vec<_> = (0..len).map(|row| elements[first + row * inner]).collect();
                    let what = format!("column {number} of {outer} × {len} × {inner} from {start}");
                    assert_close::<R>(result, &column, &what);
                }
            }
        }
    }
    for_every_operation!(check);
}

#[test]
fn segments_of_every_length() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(9_000));
        let (buffer, stream) = (device().upload(&elements).unwrap(), device().stream().unwrap());
        let lens = [0, 1, 0, 0, 3, 1, 2, 700, 5, 0, 31, 4_500, 1, 1, 64, 2_000, 0];
        for first in [0_u32, 3] {
            let mut offsets = vec![first];
            for len in lens {
                offsets.push(offsets[offsets.len() - 1] + len);
            }
            let assert = |results: &[R::Output], what: &str| {
                assert_eq!(results.len(), lens.len());
                for (segment, result) in results.iter().enumerate() {
                    let part = offsets[segment] as usize..offsets[segment + 1] as usize;
                    assert_close::<R>(result, &elements[part], &format!("segment {segment}, {what}"));
                }
            };
            let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
            assert(&reducer().reduce(&operation, &segments).unwrap(), "waited for");
            let mut outputs = device().outputs(lens.len()).unwrap();
            let on = reducer().on(&stream);
            on.reduce_into(&operation, &segments, &mut outputs).unwrap();
            assert(&outputs.into_buffer().download().unwrap(), "on a stream");
            let mut recorder = reducer().record();
            let recorded = recorder.reduce(&operation, &segments).unwrap();
            let mut recording = recorder.finish().unwrap();
            assert(&recording.run().unwrap().get(&recorded), "recorded");
        }
        for (offsets, len) in [(vec![0_u64, 40, 80, 120], 40), (vec![7, 7, 7], 0), (vec![9], 0)] {
            let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
            let results = reducer().reduce(&operation, &segments).unwrap();
            assert_eq!(results.len(), offsets.len() - 1);
            for (result, &start) in results.iter().zip(&offsets) {
                assert_close::<R>(result, &elements[start as usize..][..len], "of one length");
            }
        }
    }
    for_every_operation!(check);
}

#[test]
fn by_key() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(3_000));
        let keys: Vec<u16> = (0..3_000_u32).map(|at| (at * at / 5_000) as u16).collect();
        let (buffer, of) = (device().upload(&elements).unwrap(), device().upload(&keys).unwrap());
        let by_key = reducer().reduce(&operation, buffer.by_key(&of)).unwrap();
        let heads = by_key.keys.download().unwrap();
        let results = by_key.results.into_buffer().download().unwrap();
        let mut start = 0;
        for ((run, key), result) in keys.chunk_by(|a, b| a == b).zip(&heads).zip(&results) {
            assert_eq!(run[0], *key);
            assert_close::<R>(result, &elements[start..][..run.len()], &format!("key {key}"));
            start += run.len();
        }
        assert_eq!((start, results.len()), (3_000, heads.len()));
    }
    for_every_operation!(check);
}

#[test]
fn every_launch_method() {
    fn check<R: Known>() {
        let (operation, elements) = (operation::<R>(), R::sample(600));
        let buffer = device().upload(&elements).unwrap();
        let stream = device().stream().unwrap();
        let on = reducer().on(&stream);
        let assert =
            |result: &R::Output, n: usize, what| assert_close::<R>(result, &elements[..n], what);

        let pending = on.reduce(&operation, &buffer).unwrap();
        assert(&pending.wait().unwrap(), 600, "on a stream");
        let none = on.reduce(&operation, &buffer.slice(..0).unwrap()).unwrap();
        assert(&none.wait().unwrap(), 0, "of none on a stream");

        let mut output = device().output().unwrap();
        for n in [600, 0] {
            on.reduce_into(&operation, &buffer.slice(..n).unwrap(), &mut output).unwrap();
            assert(&output.read().unwrap(), n, "left in device memory");
        }

        let mut outputs = device().outputs(6).unwrap();
        on.reduce_into(&operation, &buffer.rows(100).unwrap(), &mut outputs).unwrap();
        let left = outputs.into_buffer().download().unwrap();
        for (result, row) in left.iter().zip(elements.chunks_exact(100)) {
            assert_close::<R>(result, row, "a row left in device memory");
        }

        for n in [0_u32, 1, 333, 600, 601] {
            let number = device().upload(&[n]).unwrap();
            // SAFETY: the address is that of an element of `number`, which is kept alive and constant.
            let count = unsafe { Count::from_raw_u32(device(), number.as_device_ptr(), number.clone()) }
                .unwrap();
            let counted = on.reduce(&operation, buffer.counted(&count)).unwrap().wait();
            match counted {
                Ok(result) => assert(&result, n as usize, "counted"),
                Err(error) => {
                    assert!(n > 600 && matches!(error, Error::CountTooLarge { .. }), "{error}")
                }
            }
        }

        let mut recorder = reducer().record();
        let recorded = [600, 100, 0]
            .map(|n| (n, recorder.reduce(&operation, &buffer.slice(..n).unwrap()).unwrap()));
        let rows = buffer.rows(100).unwrap();
        let of_rows = recorder.reduce(&operation, &rows).unwrap();
        let outputs = device().outputs(6).unwrap();
        let left = recorder.reduce_into(&operation, &rows, outputs).unwrap();
        let mut recording = recorder.finish().unwrap();
        for _ in 0..2 {
            let results = recording.run().unwrap();
            for (n, recorded) in &recorded {
                assert(&results.get(recorded), *n, "recorded");
            }
            for found in [results.get(&of_rows), results.outputs(&left).read().unwrap()] {
                assert_eq!(found.len(), 6);
                for (result, row) in found.iter().zip(elements.chunks_exact(100)) {
                    assert_close::<R>(result, row, "a recorded row");
                }
            }
        }
    }
    for_every_operation!(check);
}

#[test]
fn operations_in_one_tuple() {
    let (operation, other) = (operation::<RunningStatistics>(), operation::<RunningStatistics>());
    let elements = RunningStatistics::sample(600);
    let buffer = device().upload(&elements).unwrap();
    let stream = device().stream().unwrap();
    for n in [600, 1, 0] {
        let part = buffer.slice(..n).unwrap();
        let alone = reducer().reduce(op::CountNonZero, &part).unwrap();
        let ops = (op::CountNonZero, &operation, op::Max, &operation, &other);
        let assert = |(count, one, max, again, another): (_, _, Option<f32>, _, _), what| {
            for result in [one, again, another] {
                assert_close::<RunningStatistics>(&result, &elements[..n], what);
            }
            assert_eq!((count, max), (alone, (n > 0).then_some(one.max)), "{n}, {what}");
        };
        let log = warpfold_sim_driver::record_calls();
        assert(reducer().reduce(ops, &part).unwrap(), "together");
        // `operation` occurs twice and is launched once; `other` was loaded separately, and is launched.
        // The built-in operations share a launch.
        let launches = log.count("cuLaunchKernel");
        assert!(!device().info().simulated || launches == if n > 0 { 3 } else { 2 }, "{launches}");
        assert(reducer().on(&stream).reduce(ops, &part).unwrap().wait().unwrap(), "on a stream");
        let mut recorder = reducer().record();
        let recorded = recorder.reduce(ops, &part).unwrap();
        assert(recorder.finish().unwrap().run().unwrap().get(&recorded), "recorded");
        let number = device().upload(&[n as u64]).unwrap();
        // SAFETY: the address is that of an element of `number`, which is kept alive and constant.
        let count = unsafe { Count::from_raw_u64(device(), number.as_device_ptr(), number.clone()) };
        let counted = reducer().on(&stream).reduce(ops, buffer.counted(count.as_ref().unwrap()));
        assert(counted.unwrap().wait().unwrap(), "counted");
    }
}

/// Kernels stay loaded while launches of them are pending, and as long as a recording contains them.
#[test]
fn kernels_stay_loaded_while_in_use() {
    let elements = ComplexSum::sample(1_000);
    let buffer = device().upload(&elements).unwrap();
    let assert = |result| assert_close::<ComplexSum>(&result, &elements, "its operation is gone");
    let loaded = || load(device()).unwrap().operation::<ComplexSum>().unwrap();
    let stream = device().stream().unwrap();
    assert(reducer().on(&stream).reduce(&loaded(), &buffer).unwrap().wait().unwrap());
    let mut output = device().output().unwrap();
    reducer().on(&stream).reduce_into(&loaded(), &buffer, &mut output).unwrap();
    assert(output.read().unwrap());
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(&loaded(), &buffer).unwrap();
    let mut recording = recorder.finish().unwrap();
    assert(recording.run().unwrap().get(&recorded));
}

#[test]
fn launches_respect_the_kernels_block_limit() {
    let bound = ptx().replace("\n{\n", "\n.maxntid 128, 1, 1\n{\n");
    assert!(bound.matches(".maxntid").count() >= 9 * 19);
    let operation = load_changed::<BoundingBox>(bound).unwrap();
    let elements = BoundingBox::sample(9_000);
    let buffer = device().upload(&elements).unwrap();
    let result = reducer().reduce(&operation, &buffer).unwrap();
    assert_close::<BoundingBox>(&result, &elements, "in small blocks");
    let rows = reducer().reduce(&operation, &buffer.rows(4_500).unwrap()).unwrap();
    for (row, result) in elements.chunks_exact(4_500).zip(&rows) {
        assert_close::<BoundingBox>(result, row, "rows in small blocks");
    }
    for width in [3, 100, 3_000] {
        let of = reducer().reduce(&operation, &buffer.columns(width).unwrap()).unwrap();
        let view = buffer.view_strided(0, &[4_500 / width, width], &signed(&[2 * width, 1])).unwrap();
        let of_view = reducer().reduce(&operation, view.along(&[0]).unwrap()).unwrap();
        let every = reducer().reduce(&operation, view.along(&[0, 1]).unwrap()).unwrap();
        for (results, step) in [(of, width), (of_view, 2 * width)] {
            for (column, result) in results.iter().enumerate() {
                let column = elements[column..].iter().step_by(step).take(9_000 / step);
                let column: Vec<_> = column.copied().collect();
                assert_close::<BoundingBox>(result, &column, "columns in small blocks");
            }
        }
        let rows = elements.chunks_exact(width).step_by(2).take(4_500 / width);
        let all: Vec<_> = rows.flatten().copied().collect();
        assert_close::<BoundingBox>(&every[0], &all, "a view in small blocks");
    }
}

macro_rules! stranger {
    ($Name:ident = $name:literal: $Element:ty => $Output:ty) => {
        struct $Name;

        impl Reduction for $Name {
            const NAME: &'static str = $name;
            type Element = $Element;
            type Output = $Output;
        }
    };
}

stranger! { LargerElement = "complex_sum": [f64; 2] => Complex }
stranger! { OtherAlignment = "complex_sum": f64 => Complex }
stranger! { SmallerResult = "running_statistics": f32 => [f64; 2] }
stranger! { NotThere = "complex_product": Complex => Complex }

#[test]
fn loading_rejects_mismatched_operations() {
    #[track_caller]
    fn refused<R: Reduction>(words: &[&str]) {
        let error = module().operation::<R>().unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }
    refused::<LargerElement>(&[
        "operation `complex_sum`: its kernels have elements of 8 bytes at multiples of 4, but [f64; 2] \
         has 16 at multiples of 8; make both the same #[repr(C)] type",
    ]);
    refused::<OtherAlignment>(&[
        "elements of 8 bytes at multiples of 4, but f64 has 8 at multiples of 8",
    ]);
    refused::<SmallerResult>(&["results of 24 bytes at multiples of 8, but [f64; 2] has 16"]);
    refused::<NotThere>(&[
        "the program's PTX: it declares no entry `reducer_describe_complex_product_grid`",
    ]);

    let refused = |from: &str, to: &str| {
        assert!(ptx().contains(from), "{from}");
        let error = load_changed::<ComplexSum>(ptx().replace(from, to)).map(drop).unwrap_err();
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        error
    };
    // PTX for GPUs without bulk copies has no bulk kernel.
    let has_bulk = !ptx().contains(".target sm_8");
    for kernel in ["grid", "bulk"].into_iter().take(1 + usize::from(has_bulk)) {
        let error = refused(&format!("reducer_complex_sum_{kernel}("), "another(");
        assert!(matches!(error, Error::PtxRejected { .. }), "{kernel}: {error:?}");
    }
    for (prefix, kernel) in [
        ("counted", "grid"),
        ("rows", "warp"),
        ("rows", "elements"),
        ("axis", "lanes"),
        ("view", "groups"),
        ("segments", "path"),
    ] {
        let error = refused(&format!("reducer_{prefix}_complex_sum_{kernel}("), "another(");
        assert!(matches!(error, Error::PtxRejected { .. }), "{prefix} {kernel}: {error:?}");
    }
    let second = ".param .u64 reducer_complex_sum_grid_param_1,";
    let error = refused(second, &format!("{second} .param .u64 more,"));
    assert!(matches!(error, Error::WrongParameters { .. }), "{error:?}");
    let error = refused(".visible", "no directive;");
    assert!(matches!(error, Error::PtxRejected { source: Some(_), .. }), "{error:?}");
}

#[test]
fn operations_of_another_device_are_rejected() {
    // Another context is another device; the simulator is available beside a GPU.
    let driver = warpfold_sim_driver::driver();
    driver.init().unwrap();
    let context = driver.ctx_create(driver.device_get(0).unwrap(), 0).unwrap();
    driver.ctx_pop_current().unwrap();
    // SAFETY: the context is never destroyed.
    let other = unsafe { warpfold::internal::device(driver, context.raw().cast()) }.unwrap();
    let operation = load(&other).unwrap().operation::<ComplexSum>().unwrap();
    let buffer: Buffer<Complex> = device().upload(&ComplexSum::sample(3)).unwrap();
    let error = reducer().reduce(&operation, &buffer).unwrap_err();
    assert!(error.to_string().starts_with("expected the operation on "), "{error}");
}

/// The laws of [`Reduction`] hold for the operations here, except for the rounding of sums.
#[test]
fn check_tests_the_laws_on_samples() {
    fn check<R: Known>() {
        operation::<R>().check(&R::sample(6), R::is_close).unwrap_or_else(|error| panic!("{error}"));
    }
    for_every_operation!(check);

    let sum = operation::<ComplexSum>();
    let failed = |samples: &[f32], agree: &mut dyn FnMut(&Complex, &Complex) -> bool| {
        let samples: Vec<Complex> = samples.iter().map(|&re| Complex { re, im: 0.0 }).collect();
        let error = sum.check(&samples, agree).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let same = |a: &Complex, b: &Complex| a == b;
    let error = failed(&[1e8, 1.0, -1e8], &mut { same });
    assert!(error.contains("combine must be associative"), "{error}");
    assert!(error.contains("samples 1, 0 and 2 (Complex { re: 1.0, im: 0.0 }, "), "{error}");
    // The sum of three samples of 0.1 has the same bits in both orders; a sum of thousands does not.
    let error = failed(&[0.1], &mut { same });
    assert!(error.contains("one block makes"), "{error}");
    // Launches are checked after the laws, which take four comparisons per pair of samples.
    for (first, part) in [(4 * 4, "several make"), (4 * 4 + 2, "as a segment"), (4 * 4 + 6, "as row 0")]
    {
        let mut before = first;
        let error = failed(&[1.0, 1.0], &mut |_, _| {
            before -= 1;
            before != -1
        });
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = failed(&[f32::NAN], &mut { same });
    assert!(error.contains("sample 0") && error.contains("IDENTITY"), "{error}");
    for wrong in [0, 65] {
        let error = failed(&vec![1.0; wrong], &mut { same });
        assert!(error.ends_with(&format!("{wrong} samples are given; give 1 to 64")), "{error}");
    }
}

/// Elements that are loaded one by one must be at multiples of their alignment.
#[test]
fn foreign_memory_must_be_aligned_for_elements() {
    let points = device().upload(&BoundingBox::sample(3)).unwrap();
    let at = |bytes| {
        // SAFETY: the first two points are located after each of these offsets.
        unsafe {
            let address = points.as_device_ptr() + bytes;
            Buffer::<Point>::from_raw_parts(device(), address, 1, points.clone())
        }
    };
    assert!(at(4).is_ok() && at(12).is_ok());
    let error = at(2).unwrap_err().to_string();
    assert!(error.ends_with("elements of 12 bytes are at multiples of 4"), "{error}");
    // SAFETY: the 8 bytes at this offset are within the first point.
    let complex = unsafe {
        Buffer::<Complex>::from_raw_parts(device(), points.as_device_ptr() + 4, 1, points.clone())
    };
    let error = complex.unwrap_err().to_string();
    assert!(error.ends_with("elements of 8 bytes are at multiples of 8"), "{error}");
}

#[test]
fn the_program_prints_the_results() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_statistics-host"));
    let output = program.arg("1000").env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1").output().unwrap();
    let expected = "1000 elements on PTX simulator\n\
        complex_sum: Complex { re: 972.4852, im: 1.5347843 }\n\
        running_statistics: Statistics { count: 1000, mean: 99.999466, variance: 0.32270962, \
        min: 99.002495, max: 100.999985 }\n\
        bounding_box: [-0.99787116, -0.99641323, -0.9998715, 0.9988086, 0.99479115, 0.99932647]\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
