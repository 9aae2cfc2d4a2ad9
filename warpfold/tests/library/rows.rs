//! Reductions of every row of a matrix.

use std::{collections::BTreeSet, mem};

use warpfold::{
    Buffer, Error, Located, Outputs, Reducer, bf16, f16,
    internal::{RowsKernel, rows_launch},
    op,
};

use crate::common::{Sample, device, extreme, no_findings, on_gpu, reducer, says, small};

/// Number and length of rows, on both sides of every boundary between kernels and inside each range.
const SHAPES: [(usize, usize); 50] = [
    (0, 5),
    (1, 1),
    (1, 17),
    (1, 5000),
    (2, 1),
    (31, 1),
    (33, 1),
    (1000, 1),
    (1000, 2),
    (1000, 3),
    (257, 4),
    (129, 5),
    (513, 8),
    (33, 15),
    (1000, 16),
    (31, 17),
    (90, 20),
    (70, 24),
    (2, 31),
    (100, 31),
    (100, 32),
    (33, 33),
    (65, 64),
    (40, 100),
    (33, 127),
    (20, 128),
    (31, 160),
    (18, 255),
    (17, 256),
    (9, 257),
    (4, 384),
    (7, 500),
    (12, 512),
    (11, 544),
    (5, 1000),
    (300, 1000),
    (6, 1024),
    (3, 1025),
    (3, 2048),
    (40, 2048),
    (2200, 257),
    (3, 4096),
    (2, 4097),
    (33, 4100),
    (2, 8192),
    (5, 8191),
    (9, 12_345),
    (2, 20_000),
    (2, 70_001),
    (150, 2049),
];

/// Short rows for every number of lanes; in the simulator, each warp has several batches of them.
const MANY: [(usize, usize); 13] = [
    (8500, 3),
    (8500, 4),
    (8200, 8),
    (4200, 5),
    (4200, 16),
    (2100, 9),
    (2100, 32),
    (1100, 17),
    (1100, 64),
    (530, 31),
    (530, 128),
    (270, 100),
    (270, 240),
];

/// Returns a matrix in a buffer that begins `start` elements past an aligned address.
fn matrix<T: Sample>(rows: usize, len: usize, start: usize) -> (Vec<T>, Buffer<T>) {
    let values = small::<T>(rows * len + start, (rows + len) as u64);
    let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
    (values[start..].to_vec(), buffer)
}

fn of_rows<T, R>(values: &[T], len: usize, of: impl Fn(&[T]) -> R) -> Vec<R> {
    values.chunks_exact(len).map(of).collect()
}

fn places<T: Sample>(values: &[T], len: usize, largest: bool) -> Vec<Located<T>> {
    of_rows(values, len, |row| extreme(row, largest).expect("rows have elements"))
}

fn elements<T: Sample>(places: &[Located<T>]) -> Vec<T> {
    places.iter().map(|place| place.value).collect()
}

fn check_shapes<T: Sample>(start: usize) {
    for (rows, len) in SHAPES {
        let what = format!("{rows} rows of {len} {} from {start}", std::any::type_name::<T>());
        let (values, buffer) = matrix::<T>(rows, len, start);
        let rows = buffer.rows(len).unwrap();
        let totals = |squares| of_rows(&values, len, |row| T::total(row, squares));
        assert_eq!(reducer().reduce(op::Sum, &rows).unwrap(), totals(false), "sums of {what}");
        assert_eq!(
            reducer().reduce(op::SumOfSquares, &rows).unwrap(),
            totals(true),
            "squares of {what}"
        );
        let (least, largest) = (places(&values, len, false), places(&values, len, true));
        assert_eq!(reducer().reduce(op::Min, &rows).unwrap(), elements(&least), "min of {what}");
        assert_eq!(reducer().reduce(op::Max, &rows).unwrap(), elements(&largest), "max of {what}");
        assert_eq!(reducer().reduce(op::ArgMin, &rows).unwrap(), least, "argmin of {what}");
        assert_eq!(reducer().reduce(op::ArgMax, &rows).unwrap(), largest, "argmax of {what}");
    }
}

fn check_many<T: Sample>(start: usize) {
    for (rows, len) in MANY {
        let what = format!("{rows} rows of {len} {} from {start}", std::any::type_name::<T>());
        let (values, buffer) = matrix::<T>(rows, len, start);
        let rows = buffer.rows(len).unwrap();
        let totals = of_rows(&values, len, |row| T::total(row, false));
        assert_eq!(reducer().reduce(op::Sum, &rows).unwrap(), totals, "sums of {what}");
        let largest = places(&values, len, true);
        assert_eq!(reducer().reduce(op::ArgMax, &rows).unwrap(), largest, "argmax of {what}");
    }
}

#[test]
fn every_one_of_many_rows_has_its_result() {
    let _checked = no_findings();
    for_every_type!(check_many(0));
    for_every_type!(check_many(1));
}

#[test]
fn every_row_of_aligned_matrices_has_its_result() {
    let _checked = no_findings();
    for_every_type!(check_shapes(0));
}

#[test]
fn every_row_of_matrices_that_begin_anywhere_has_its_result() {
    let _checked = no_findings();
    for_every_type!(check_shapes(1));
    check_shapes::<u8>(15);
    check_shapes::<bf16>(6);
    check_shapes::<f32>(3);
}

/// Skipped on a GPU, because launches depend on the size of the device.
#[test]
fn shapes_cover_every_kernel_and_lane_count() {
    if on_gpu() {
        return;
    }
    let (mut kernels, mut lanes) = (BTreeSet::new(), BTreeSet::new());
    let mut take = |launch: warpfold::internal::RowsLaunch| {
        let several = launch.kernel == RowsKernel::Grid && launch.share > 1;
        kernels.insert((launch.kernel, several));
        let kernel = launch.kernel;
        if ![RowsKernel::Grid, RowsKernel::Warp].contains(&kernel) {
            // Both vectorized kernels for many rows share one loop.
            let many = kernel == RowsKernel::ManyGroups;
            lanes.insert((if many { RowsKernel::Groups } else { kernel }, launch.share));
        }
    };
    fn launches<T: Sample>(start: usize, take: &mut impl FnMut(warpfold::internal::RowsLaunch)) {
        for (rows, len) in SHAPES.into_iter().chain(MANY).filter(|(rows, _)| *rows > 1) {
            take(rows_launch(&matrix::<T>(rows, len, start).1.rows(len).unwrap()).unwrap());
        }
    }
    for_every_type!(launches(0, &mut take));
    for_every_type!(launches(1, &mut take));
    let (grid, warp) = (RowsKernel::Grid, RowsKernel::Warp);
    let (groups, elements) = (RowsKernel::Groups, RowsKernel::Elements);
    let few = [RowsKernel::FewGroups, RowsKernel::FewElements];
    let mut all = BTreeSet::from([(grid, false), (grid, true), (warp, false)]);
    all.extend([groups, RowsKernel::ManyGroups, elements, few[0], few[1]].map(|kernel| (kernel, false)));
    assert_eq!(kernels, all);
    let of = |kernel| [1, 2, 4, 8, 16, 32].map(|share| (kernel, share));
    assert_eq!(lanes, BTreeSet::from_iter([groups, elements, few[0], few[1]].map(of).concat()));
}

/// Constants that equality does not distinguish from others, and the bits that do.
trait Special: Sample {
    const NAN: Self;
    const INFINITY: Self;
    const NEGATIVE_ZERO: Self;
    fn bits(self) -> u64;
}

macro_rules! special {
    ($($ty:ty: $zero:expr;)*) => {$(
        impl Special for $ty {
            const NAN: Self = <$ty>::NAN;
            const INFINITY: Self = <$ty>::INFINITY;
            const NEGATIVE_ZERO: Self = $zero;
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}

special! {
    f16: f16::NEG_ZERO;
    bf16: bf16::NEG_ZERO;
    f32: -0.0;
    f64: -0.0;
}

/// Returns rows of zeros with NaN, infinity, -0 or nothing else at a different position in each.
fn special_matrix<T: Special>(rows: usize, len: usize) -> Vec<T> {
    let mut values = vec![T::of(0); rows * len];
    for (number, row) in values.chunks_exact_mut(len).enumerate() {
        let place = number * 7 % len;
        match number % 5 {
            0 => row[place] = T::NAN,
            1 => row[place] = T::INFINITY,
            2 => row[..=place].fill(T::NEGATIVE_ZERO),
            3 => (row[place], row[len - 1]) = (T::of(-1), T::NAN),
            _ => {}
        }
    }
    values
}

fn specials<T: Special>() {
    for (rows, len) in
        [(40, 1), (40, 3), (1000, 4), (40, 8), (100, 32), (40, 100), (40, 700), (12, 4099)]
    {
        let what = format!("{rows} rows of {len} {}", std::any::type_name::<T>());
        let values = special_matrix::<T>(rows, len);
        let buffer = device().upload(&values).unwrap();
        let rows = buffer.rows(len).unwrap();
        let same = |found: T, expected: T| found == expected || found.is_nan() && expected.is_nan();
        let places_of = |found: Vec<Located<T>>, largest| {
            let expected = places(&values, len, largest);
            for (number, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                let expected = (expected.index, expected.value.bits());
                assert_eq!((found.index, found.value.bits()), expected, "row {number} of {what}");
            }
        };
        places_of(reducer().reduce(op::ArgMin, &rows).unwrap(), false);
        places_of(reducer().reduce(op::ArgMax, &rows).unwrap(), true);
        for (found, largest) in [
            (reducer().reduce(op::Min, &rows).unwrap(), false),
            (reducer().reduce(op::Max, &rows).unwrap(), true),
        ] {
            let expected = elements(&places(&values, len, largest));
            assert!(found.iter().zip(&expected).all(|(&a, &b)| same(a, b)), "{what}: {largest}");
        }
        for (number, sum) in reducer().reduce(op::Sum, &rows).unwrap().into_iter().enumerate() {
            let expected = T::total(&values[number * len..(number + 1) * len], false);
            let nan = |sum: T::Sum| sum.partial_cmp(&sum).is_none();
            assert!(sum == expected || nan(sum) && nan(expected), "row {number} of {what}: {sum:?}");
        }
    }
}

#[test]
fn special_values_affect_only_their_own_row() {
    let _checked = no_findings();
    specials::<f16>();
    specials::<bf16>();
    specials::<f32>();
    specials::<f64>();
}

fn refused<R: std::fmt::Debug>(result: Result<R, Error>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Rows { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    says(&error, words);
}

#[test]
fn invalid_row_lengths_are_rejected_before_launch() {
    let buffer = device().upload(&small::<i32>(100, 1)).unwrap();
    refused(buffer.rows(0), &["0 elements", "1 or more"]);
    refused(buffer.rows(7), &["rows of 7", "100 elements", "a slice of 98"]);
    refused(buffer.rows(101), &["rows of 101", "100 elements", "slice of 0"]);
    refused(device().upload::<i32>(&[]).unwrap().rows(0), &["0 elements"]);
    let (rows, stream) = (buffer.rows(10).unwrap(), device().stream().unwrap());
    assert_eq!((rows.count(), rows.row_len()), (10, 10));
    for len in [0, 9, 11] {
        let mut outputs = device().outputs::<i64>(len).unwrap();
        let words = [&format!("{len} results"), "10 rows", "outputs for 10"];
        refused(reducer().on(&stream).reduce_into(op::Sum, &rows, &mut outputs), &words);
        assert_eq!(outputs.read().unwrap(), vec![0; len]);
    }
}

#[test]
fn too_many_elements_are_refused() {
    // SAFETY: the call is refused before it reads anything.
    let buffer = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, (1 << 35) + 2, ()) }.unwrap();
    let error = reducer().reduce(op::Sum, buffer.rows(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
}

#[test]
fn no_rows_have_no_results_and_no_launch() {
    let buffer = device().upload::<f32>(&[]).unwrap();
    let rows = buffer.rows(3).unwrap();
    assert_eq!(reducer().reduce(op::ArgMin, &rows).unwrap(), []);
    let mut outputs = device().outputs::<f32>(0).unwrap();
    assert!(outputs.is_empty());
    let stream = device().stream().unwrap();
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    reducer().on(&stream).reduce_into(op::Max, &rows, &mut outputs).unwrap();
    #[cfg(feature = "simulator")]
    assert_eq!(log.count("cuLaunchKernel"), 0);
    assert_eq!(outputs.read().unwrap(), []);
}

fn results_in_memory<T: Sample>() {
    let (len, stream) = (50, device().stream().unwrap());
    let (values, buffer) = matrix::<T>(70, len, 0);
    let (rows, on) = (buffer.rows(len).unwrap(), reducer().on(&stream));
    let (least, largest) = (places(&values, len, false), places(&values, len, true));
    let mut totals = device().outputs::<T::Sum>(70).unwrap();
    on.reduce_into(op::Sum, &rows, &mut totals).unwrap();
    assert_eq!(totals.read().unwrap(), of_rows(&values, len, |row| T::total(row, false)));
    on.reduce_into(op::SumOfSquares, &rows, &mut totals).unwrap();
    assert_eq!(totals.read().unwrap(), of_rows(&values, len, |row| T::total(row, true)));
    let mut extremes = device().outputs::<T>(70).unwrap();
    on.reduce_into(op::Min, &rows, &mut extremes).unwrap();
    assert_eq!(extremes.read().unwrap(), elements(&least));
    on.reduce_into(op::Max, &rows, &mut extremes).unwrap();
    assert_eq!(extremes.read().unwrap(), elements(&largest));
    let mut located = device().outputs::<Located<T>>(70).unwrap();
    on.reduce_into(op::ArgMin, &rows, &mut located).unwrap();
    assert_eq!(located.read().unwrap(), least);
    on.reduce_into(op::ArgMax, &rows, &mut located).unwrap();
    assert_eq!(located.read().unwrap(), largest);
    // SAFETY: each result has 16 bytes, alive as long as the outputs.
    let words =
        unsafe { Buffer::<u64>::from_raw_parts(device(), located.as_device_ptr(), 140, ()).unwrap() };
    let behind = 8 * size_of::<T>() as u32;
    let padding = words.download().unwrap().into_iter().skip(1).step_by(2);
    assert!(padding.into_iter().all(|word| word.checked_shr(behind).unwrap_or(0) == 0));
}

#[test]
fn every_operation_leaves_its_results_in_device_memory() {
    let _checked = no_findings();
    for_every_type!(results_in_memory());
}

/// Returns a matrix of ones with a separate reducer, because querying pending work would run it.
fn ones(rows: usize, len: usize) -> (Reducer, Buffer<i32>, Outputs<i64>) {
    let reducer = Reducer::new(device()).unwrap();
    let buffer = device().upload(&vec![1_i32; rows * len]).unwrap();
    let outputs = device().outputs(rows).unwrap();
    (reducer, buffer, outputs)
}

#[test]
fn pending_row_results_are_valid_inputs_on_any_stream() {
    let _checked = no_findings();
    let streams = [(); 2].map(|()| device().stream().unwrap());
    let other = Reducer::new(device()).unwrap();
    other.on(&streams[1]).reduce(op::Sum, &device().upload(&[1_i64]).unwrap()).unwrap().wait().unwrap();
    let sums = || {
        let (reducer, buffer, mut outputs) = ones(300, 40);
        reducer.on(&streams[0]).reduce_into(op::Sum, buffer.rows(40).unwrap(), &mut outputs).unwrap();
        // Leaked, as by a caller that never waits.
        mem::forget(reducer);
        outputs.into_buffer()
    };
    assert_eq!(other.on(&streams[1]).reduce(op::Sum, &sums()).unwrap().wait().unwrap(), 12_000);
    let mut output = device().output::<i64>().unwrap();
    other.on(&streams[1]).reduce_into(op::Sum, &sums().slice(1..).unwrap(), &mut output).unwrap();
    assert_eq!(output.read().unwrap(), 11_960);
    let mut pairs = device().outputs::<i64>(150).unwrap();
    other.on(&streams[1]).reduce_into(op::Sum, sums().rows(2).unwrap(), &mut pairs).unwrap();
    assert_eq!(pairs.read().unwrap(), [80; 150]);
    assert_eq!(other.max(&sums().clone()).unwrap(), Some(40));
    assert_eq!(other.reduce(op::Max, sums().rows(300).unwrap()).unwrap(), [40]);
    assert_eq!(sums().download().unwrap(), [40; 300]);
    let tensor = sums().into_dlpack::<warpfold::dlpack::ManagedTensorVersioned>();
    // SAFETY: the tensor was made just now and has no other owner.
    let imported = unsafe { Buffer::<i64>::from_dlpack(device(), tensor) }.unwrap();
    assert_eq!(other.sum(&imported).unwrap(), 12_000);
    let mut recorder = other.record();
    let sum = recorder.reduce(op::Sum, &sums()).unwrap();
    assert_eq!(recorder.finish().unwrap().run().unwrap().get(&sum), 12_000);
}

#[test]
fn outputs_hold_the_last_enqueued_results() {
    let _checked = no_findings();
    let streams = [(); 2].map(|()| device().stream().unwrap());
    let (reducer, buffer, mut outputs) = ones(64, 100);
    let twos = device().upload(&[2_i32; 6400]).unwrap();
    let other = Reducer::new(device()).unwrap();
    other.reduce(op::Sum, twos.rows(100).unwrap()).unwrap();
    reducer.on(&streams[0]).reduce_into(op::Sum, buffer.rows(100).unwrap(), &mut outputs).unwrap();
    other.on(&streams[1]).reduce_into(op::Sum, twos.rows(100).unwrap(), &mut outputs).unwrap();
    // Without the dependency this stream would finish before the other one.
    streams[1].synchronize().unwrap();
    streams[0].synchronize().unwrap();
    assert_eq!(outputs.read().unwrap(), [200; 64]);
}

#[test]
fn buffers_and_outputs_live_until_pending_work_finishes() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let (reducer, buffer, mut outputs) = ones(64, 100);
    reducer.on(&stream).reduce_into(op::Sum, buffer.rows(100).unwrap(), &mut outputs).unwrap();
    drop(buffer);
    // The outputs are dropped before they are written.
    drop(outputs);
    stream.synchronize().unwrap();
    let (_, buffer, mut outputs) = ones(3, 7000);
    reducer.on(&stream).reduce_into(op::Sum, buffer.rows(7000).unwrap(), &mut outputs).unwrap();
    mem::forget((buffer, outputs));
    drop(stream);
    drop(reducer);
}

#[test]
fn outputs_are_zero_at_first() {
    assert_eq!(device().outputs::<f32>(5).unwrap().read().unwrap(), [0.0; 5]);
    let located = device().outputs::<Located<u8>>(3).unwrap();
    assert_eq!((located.len(), located.device().info().simulated), (3, !on_gpu()));
    assert_eq!(located.read().unwrap(), [Located { value: 0, index: 0 }; 3]);
    assert_eq!(located.as_device_ptr() % 8, 0);
}

#[test]
fn the_same_rows_give_the_same_bits() {
    for (rows, len, start) in [(40, 5000, 1), (3, 100_000, 0), (2200, 300, 0), (500, 37, 2)] {
        let values: Vec<f32> = (0..rows * len + start).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
        let rows = buffer.rows(len).unwrap();
        let bits = || -> Vec<u32> {
            reducer().reduce(op::Sum, &rows).unwrap().into_iter().map(f32::to_bits).collect()
        };
        let first = bits();
        assert!((0..3).all(|_| bits() == first), "{rows:?}");
    }
}

#[test]
fn kernels_for_rows_are_loaded_ahead() {
    let reducer = Reducer::new(device()).unwrap();
    let buffer = device().upload(&[3_u8; 8]).unwrap();
    reducer.prepare(op::Sum, buffer.rows(4).unwrap()).unwrap();
    #[cfg(feature = "simulator")]
    {
        let log = warpfold_sim_driver::record_calls();
        assert_eq!(reducer.reduce(op::Sum, buffer.rows(4).unwrap()).unwrap(), [12, 12]);
        assert_eq!(log.count("cuModuleLoadDataEx"), 0);
    }
}

#[test]
#[cfg(feature = "simulator")]
fn arguments_of_another_device_are_refused() {
    let other = crate::devices::in_own_context(warpfold_sim_driver::driver());
    let stream_of = |device: &warpfold::Device| device.stream().unwrap();
    let (here, there) = ([device(), &other]).map(|device| device.upload(&[1, 2, 3, 4]).unwrap()).into();
    let error = reducer().reduce(op::Sum, there.rows(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "buffer", .. }), "{error:?}");
    let mut outputs = device().outputs::<i64>(2).unwrap();
    let on = stream_of(&other);
    let error = reducer().on(&on).reduce_into(op::Sum, here.rows(2).unwrap(), &mut outputs).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "stream", .. }), "{error:?}");
    let mut outputs = other.outputs::<i64>(2).unwrap();
    let on = stream_of(device());
    let error = reducer().on(&on).reduce_into(op::Sum, here.rows(2).unwrap(), &mut outputs).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "outputs", .. }), "{error:?}");
}
