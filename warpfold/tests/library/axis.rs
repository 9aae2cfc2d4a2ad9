//! Reductions along an axis of an array.

use std::collections::BTreeSet;

use warpfold::{
    Buffer, Element, Error, Located, Outputs, Reducer, bf16,
    internal::{AxisKernel, AxisLaunch, axis_launch},
    op,
};

use crate::common::{Sample, device, extreme, no_findings, on_gpu, reducer, says, small};

/// Matrices, rows and columns, on both sides of every boundary between kernels and inside each range.
const SHAPES: [(usize, usize, usize); 43] = [
    (0, 3, 4),
    (2, 3, 0),
    (1, 1, 1),
    (1, 1, 300),
    (1, 2, 1000),
    (1, 3, 1000),
    (1, 4, 2),
    (1, 5, 7),
    (1, 1000, 2),
    (1, 1000, 3),
    (1, 2000, 4),
    (1, 5000, 5),
    (1, 3000, 8),
    (1, 300, 16),
    (1, 33, 20),
    (1, 700, 31),
    (1, 100, 32),
    (1, 129, 100),
    (1, 64, 128),
    (1, 17, 512),
    (1, 16, 1024),
    (1, 9, 1025),
    (1, 7, 4100),
    (1, 40, 2048),
    (1, 20_000, 3),
    (1, 30_000, 2),
    (1, 9000, 12),
    (3, 1, 5),
    (200, 3, 5),
    (7, 100, 3),
    (31, 10, 2),
    (5, 300, 4),
    (3, 600, 7),
    (2, 2000, 9),
    (4, 33, 64),
    (9, 8, 256),
    (2, 5, 1000),
    (40, 12, 24),
    (3, 1000, 1),
    (2, 4000, 16),
    (1, 40, 4001),
    (1, 3000, 77),
    (700, 40, 17),
];

/// Returns matrices in a buffer that begins `start` elements past an aligned address.
fn matrices<T: Sample>(
    (matrices, len, width): (usize, usize, usize),
    start: usize,
) -> (Vec<T>, Buffer<T>) {
    let values = small::<T>(matrices * len * width + start, (matrices + 3 * len + 7 * width) as u64);
    let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
    (values[start..].to_vec(), buffer)
}

fn of_columns<T: Sample, R>(
    values: &[T],
    (matrices, len, width): (usize, usize, usize),
    of: impl Fn(&[T]) -> R,
) -> Vec<R> {
    let columns = (0..matrices).flat_map(|matrix| (0..width).map(move |column| (matrix, column)));
    let element =
        |matrix: usize, row: usize, column: usize| values[(matrix * len + row) * width + column];
    let column =
        |(matrix, column)| -> Vec<T> { (0..len).map(|row| element(matrix, row, column)).collect() };
    columns.map(|at| of(&column(at))).collect()
}

fn places<T: Sample>(values: &[T], shape: (usize, usize, usize), largest: bool) -> Vec<Located<T>> {
    of_columns(values, shape, |column| extreme(column, largest).expect("columns have elements"))
}

fn check_shapes<T: Sample>(start: usize) {
    for shape in SHAPES {
        let what = format!("{shape:?} {} from {start}", std::any::type_name::<T>());
        let (values, buffer) = matrices::<T>(shape, start);
        let axis = buffer.axis(&[shape.0, shape.1, shape.2], 1).unwrap();
        let sums = of_columns(&values, shape, |column| T::total(column, false));
        assert_eq!(reducer().reduce(op::Sum, &axis).unwrap(), sums, "sums of {what}");
        let largest = places(&values, shape, true);
        assert_eq!(reducer().reduce(op::ArgMax, &axis).unwrap(), largest, "argmax of {what}");
    }
}

#[test]
fn every_column_of_aligned_matrices_has_its_result() {
    let _checked = no_findings();
    for_every_type!(check_shapes(0));
}

#[test]
fn every_column_of_matrices_that_begin_anywhere_has_its_result() {
    let _checked = no_findings();
    check_shapes::<u8>(3);
    check_shapes::<bf16>(1);
    check_shapes::<f32>(1);
    check_shapes::<u64>(1);
}

/// Skipped on a GPU, because launches depend on the size of the device.
#[test]
fn shapes_cover_every_kernel_and_grid_size() {
    if on_gpu() {
        return;
    }
    let launches = SHAPES.into_iter().filter(|&(count, _, width)| count > 0 && width > 1).map(|shape| {
        let (_, buffer) = matrices::<f32>(shape, 0);
        let AxisLaunch { kernel, share, .. } =
            axis_launch(&buffer.axis(&[shape.0, shape.1, shape.2], 1).unwrap()).unwrap();
        (kernel, share > 1)
    });
    let strips = [AxisKernel::Packs, AxisKernel::Spaced, AxisKernel::Singles];
    let all = strips.into_iter().flat_map(|kernel| [(kernel, false), (kernel, true)]);
    let found: BTreeSet<_> = launches.collect();
    assert_eq!(found, all.chain([(AxisKernel::Lanes, false)]).collect());
}

#[test]
fn column_results_match_buffer_results() {
    let _checked = no_findings();
    macro_rules! check {
        ($T:ty: $($op:ident)*) => {
            for shape in [(1, 600, 8), (2, 600, 3), (60, 3, 4)] {
                let (values, buffer) = matrices::<$T>(shape, 0);
                let axis = buffer.axis(&[shape.0, shape.1, shape.2], 1).unwrap();
                $(
                    let alone = |column: &[$T]| -> Vec<_> {
                        let column = device().upload(column).unwrap();
                        reducer().reduce(op::$op, column.rows(column.len()).unwrap()).unwrap()
                    };
                    let expected = of_columns(&values, shape, alone).concat();
                    let found = reducer().reduce(op::$op, &axis).unwrap();
                    assert_eq!(found, expected, "{} of {shape:?}", stringify!($op));
                )*
            }
        };
    }
    check!(i32: Sum SumOfSquares SumOfMagnitudes Product Min Max MinMax ArgMin ArgMax CountNonZero
        BitAnd BitOr BitXor);
    check!(f32: Sum SumOfSquares SumOfMagnitudes Min Max MinMax ArgMin ArgMax CountNonZero);
}

#[test]
fn means_and_variances_of_columns_are_those_of_their_elements() {
    let _checked = no_findings();
    // On a GPU, the blocks for the last shape have enough registers only if the compiler knows their
    // size.
    for shape in [(1, 900, 8), (1, 901, 3), (70, 3, 4), (1, 900, 67)] {
        let (values, buffer) = matrices::<f64>(shape, 0);
        let axis = buffer.axis(&[shape.0, shape.1, shape.2], 1).unwrap();
        let found = reducer().reduce(op::MeanAndVariance, &axis).unwrap();
        let expected = of_columns(&values, shape, |column| {
            let n = column.len() as f64;
            let mean = column.iter().sum::<f64>() / n;
            (mean, column.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n)
        });
        for (found, (mean, variance)) in found.into_iter().zip(expected) {
            let close = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
            assert!(close(found.mean, mean) && close(found.variance, variance), "{found:?}");
        }
    }
}

/// Puts NaN, infinity and zeros in separate columns; the element itself must be returned.
#[test]
fn special_values_affect_only_their_own_column() {
    let specials = [f32::from_bits(0x7fc1_2345), f32::NEG_INFINITY, -0.0, -1.0];
    for (len, width) in [(700, 4), (700, 5), (2, 4), (3000, 4)] {
        let mut values = vec![0.0_f32; len * width];
        for (column, special) in specials.into_iter().enumerate() {
            values[(len - 1 - column % 2) * width + column] = special;
        }
        values[..2 * width].iter_mut().skip(2).step_by(width).for_each(|value| *value = -0.0);
        let buffer = device().upload(&values).unwrap();
        let axis = buffer.columns(width).unwrap();
        let found = reducer().reduce(op::ArgMin, &axis).unwrap();
        let bits: Vec<_> = found[..4].iter().map(|place| (place.index, place.value.to_bits())).collect();
        let last = len as u64 - 1;
        let expected = [
            (last, 0x7fc1_2345),
            (last - 1, f32::NEG_INFINITY.to_bits()),
            (0, (-0.0_f32).to_bits()),
            (last - 1, (-1.0_f32).to_bits()),
        ];
        assert_eq!(bits, expected, "{len} rows of {width}");
    }
}

#[test]
fn consecutive_axes_of_an_array_are_reduced() {
    let _checked = no_findings();
    let shape = [3, 4, 5, 6];
    let values = small::<i64>(360, 5);
    let buffer = device().upload(&values).unwrap();
    let at = |index: [usize; 4]| values[((index[0] * 4 + index[1]) * 5 + index[2]) * 6 + index[3]];
    for first in 0..4 {
        for end in first + 1..=4 {
            let mut expected = std::collections::BTreeMap::<[usize; 4], i64>::new();
            for flat in 0..360 {
                let index = [flat / 120, flat / 30 % 4, flat / 6 % 5, flat % 6];
                let mut kept = index;
                kept[first..end].fill(0);
                *expected.entry(kept).or_default() += at(index);
            }
            let axes = buffer.axes(&shape, first..end).unwrap();
            let found = reducer().reduce(op::Sum, &axes).unwrap();
            assert_eq!(found, expected.into_values().collect::<Vec<_>>(), "{first}..{end}");
        }
    }
    let axis = buffer.axis(&shape, 2).unwrap();
    assert_eq!((axis.count(), axis.axis_len(), axis.buffer().len()), (72, 5, 360));
}

fn refused<R: std::fmt::Debug>(result: Result<R, Error>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Axis { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    says(&error, words);
}

#[test]
fn invalid_axes_are_rejected_before_launch() {
    let buffer = device().upload(&small::<i32>(24, 1)).unwrap();
    refused(buffer.axis(&[2, 3, 5], 1), &["[2, 3, 5]", "24 elements", "product is 24"]);
    refused(buffer.axis(&[usize::MAX, 2], 1), &["24 elements"]);
    refused(buffer.axis(&[2, 3, 4], 3), &["axis 3", "3 dimensions", "0..3"]);
    refused(buffer.axis(&[2, 3, 4], usize::MAX), &["3 dimensions"]);
    refused(buffer.axis(&[], 0), &["product is 24"]);
    refused(buffer.axes(&[2, 3, 4], 1..1), &["axes 1..1"]);
    #[allow(clippy::reversed_empty_ranges)]
    refused(buffer.axes(&[2, 3, 4], 2..1), &["axes 2..1"]);
    refused(buffer.columns(0), &["24 elements"]);
    refused(buffer.columns(7), &["24 elements"]);
    let none = device().upload::<i32>(&[]).unwrap();
    refused(none.axis(&[3, 0, 2], 1), &["0 elements", "[3, 0, 2]"]);
    refused(none.axis(&[usize::MAX, 0, 2], 1), &["0 elements"]);
    assert_eq!(none.axis(&[usize::MAX, 0, usize::MAX], 0).unwrap().count(), 0);
    let (axis, stream) = (buffer.columns(4).unwrap(), device().stream().unwrap());
    let mut outputs = device().outputs::<i64>(5).unwrap();
    let on = reducer().on(&stream);
    refused(
        on.reduce_into(op::Sum, &axis, &mut outputs),
        &["room for 5 results", "4 results of an axis"],
    );
}

#[test]
fn too_many_elements_are_refused() {
    // SAFETY: the call is refused before it reads anything.
    let buffer = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, (1 << 35) + 2, ()) }.unwrap();
    let error = reducer().reduce(op::Sum, buffer.columns(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
}

#[test]
fn results_of_columns_are_left_in_device_memory_and_read_there() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let shape = (1, 400, 12);
    let (values, buffer) = matrices::<f32>(shape, 0);
    let mut sums: Outputs<f32> = device().outputs(12).unwrap();
    let on = reducer().on(&stream);
    on.reduce_into(op::Sum, buffer.columns(12).unwrap(), &mut sums).unwrap();
    drop(buffer);
    let expected = of_columns(&values, shape, |column| f32::total(column, false));
    assert_eq!(sums.read().unwrap(), expected);
    let total = reducer().on(&stream).reduce(op::Sum, &sums.into_buffer()).unwrap();
    assert_eq!(total.wait().unwrap(), expected.iter().sum::<f32>());
}

#[test]
fn the_same_columns_give_the_same_bits() {
    for (rows, width) in [(20_000, 4), (20_000, 3), (50, 1000), (2, 5000)] {
        let values: Vec<f32> = (0..rows * width).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let buffer = device().upload(&values).unwrap();
        let axis = buffer.columns(width).unwrap();
        let bits = || -> Vec<u32> {
            let sums = reducer().reduce(op::Sum, &axis).unwrap();
            sums.into_iter().map(f32::to_bits).collect()
        };
        let first = bits();
        assert!((0..3).all(|_| bits() == first), "{axis:?}");
    }
}

#[test]
fn prepare_loads_axis_kernels() {
    fn prepared<T: Element>() {
        let buffer = device().upload(&[T::zeroed(); 12]).unwrap();
        let reducer = Reducer::new(device()).unwrap();
        reducer.prepare(op::Sum, buffer.columns(4).unwrap()).unwrap();
    }
    prepared::<u8>();
    prepared::<f64>();
}
