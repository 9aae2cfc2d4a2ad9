//! Operations that leave out NaN, against those of the numbers that are left: wherever they go, of
//! buffers, rows, axes and segments, of no number at all, and of infinities.

use warpfold::{
    Float, Located, Spread, bf16, cpu, f16,
    op::{ArgMax, ArgMin, CountNan, Max, MeanAndVariance, Min, Operation, SkipNan, Sum},
};

use crate::{
    common::{Sample, device, extreme, no_findings, reducer, small},
    operations::{Number, check_by, close, spread},
};

/// What the tests need of an element's type besides.
trait WithNan: Number + Float {
    const NAN: Self;
}

impl WithNan for f16 {
    const NAN: Self = Self::NAN;
}
impl WithNan for bf16 {
    const NAN: Self = Self::NAN;
}
impl WithNan for f32 {
    const NAN: Self = Self::NAN;
}
impl WithNan for f64 {
    const NAN: Self = Self::NAN;
}

/// Which elements are NaN: none, some here and there, whole stretches, all but one, and all.
const HOLES: [fn(usize) -> bool; 5] =
    [|_| false, |at| at % 3 != 1, |at| at / 50 % 2 == 0, |at| at != 17, |_| true];

fn with_holes<T: WithNan>(n: usize, is_hole: fn(usize) -> bool) -> Vec<T> {
    let of = |(at, value)| if is_hole(at) { T::NAN } else { value };
    small::<T>(n, 21).into_iter().enumerate().map(of).collect()
}

fn numbers<T: WithNan>(values: &[T]) -> Vec<T> {
    values.iter().copied().filter(|value| !value.is_nan()).collect()
}

/// The first extreme number at its place among all.
fn place<T: WithNan>(values: &[T], largest: bool) -> Option<Located<T>> {
    let found = extreme(&numbers(values), largest)?;
    let is_it = |value: &T| *value == found.value;
    let index = values.iter().position(is_it).expect("it is one of them") as u64;
    Some(Located { index, ..found })
}

/// An operation of some elements, on the device and on the CPU.
#[track_caller]
fn check<T: WithNan, O: Operation<T>>(
    op: O,
    values: &[T],
    left: fn(O::Left) -> O::Output,
    right: impl Fn(O::Output) -> bool,
) {
    let right = |found, what: &str| assert!(right(found), "{what}, of {} elements", values.len());
    for start in [0, 1] {
        // What lies in front is no part of it.
        let all: Vec<T> = std::iter::repeat_n(T::of(-9), start).chain(values.iter().copied()).collect();
        let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
        check_by(op, &buffer, right, left);
    }
    right(cpu::reduce(op, values).unwrap(), "on the CPU");
}

fn of_buffers<T: WithNan>() {
    // Large ones, which take long, with holes of one kind.
    let holes = |n: usize| if n > 5000 { &HOLES[1..2] } else { &HOLES };
    for n in [0, 1, 2, 31, 33, 1000, 4099, 65_537] {
        for &is_hole in holes(n) {
            let values = with_holes::<T>(n, is_hole);
            let left = numbers(&values);
            check(SkipNan(Sum), &values, |sum| sum, |sum| sum == T::total(&left, false));
            check(CountNan, &values, |count| count, |count| count == (n - left.len()) as u64);
            let (least, greatest) = (place(&values, false), place(&values, true));
            let number = |value: T| Some(value).filter(|value| !value.is_nan());
            let of = |found: Option<Located<T>>| found.map(|found| found.value);
            check(SkipNan(Min), &values, number, |found| found == of(least));
            check(SkipNan(Max), &values, number, |found| found == of(greatest));
            let number = |found: Located<T>| Some(found).filter(|found| !found.value.is_nan());
            check(SkipNan(ArgMin), &values, number, |found| found == least);
            check(SkipNan(ArgMax), &values, number, |found| found == greatest);
            let number = |spread: Spread| Some(spread).filter(|spread| !spread.mean.is_nan());
            check(SkipNan(MeanAndVariance), &values, number, |found| {
                close(found, spread(&left), T::roundoff(), &format!("{n}"));
                true
            });
        }
    }
}

#[test]
fn what_is_no_number_is_left_out_wherever_the_result_goes() {
    let _checked = no_findings();
    of_buffers::<f16>();
    of_buffers::<bf16>();
    of_buffers::<f32>();
    of_buffers::<f64>();
}

/// What a row, a column or a segment has.
fn check_piece<T: WithNan>(values: &[T], sum: T::Sum, least: Located<T>, mean: f64, what: &str) {
    let left = numbers(values);
    assert_eq!(sum, T::total(&left, false), "{what}");
    match place(values, false) {
        Some(expected) => assert_eq!(least, expected, "{what}"),
        None => assert!(least.value.is_nan() && least.index == 0, "{what}: {least:?}"),
    }
    match spread(&left) {
        Some(expected) => {
            assert!((mean - expected.mean).abs() <= 8.0 * T::roundoff(), "{what}: {mean}");
        }
        None => assert!(mean.is_nan(), "{what}: {mean}"),
    }
}

fn of_pieces<T: WithNan>() {
    for (rows, len) in [(33, 1), (1000, 3), (100, 32), (20, 129), (7, 500), (3, 4096)] {
        for is_hole in HOLES {
            let values = with_holes::<T>(rows * len, is_hole);
            let buffer = device().upload(&values).unwrap();
            let what = |row: usize| format!("{row} of {rows} of {len} {}", std::any::type_name::<T>());
            let matrix = buffer.rows(len).unwrap();
            let sums = reducer().reduce_rows(SkipNan(Sum), &matrix).unwrap();
            let least = reducer().reduce_rows(SkipNan(ArgMin), &matrix).unwrap();
            let means = reducer().reduce_rows(SkipNan(MeanAndVariance), &matrix).unwrap();
            let counts = reducer().reduce_rows(CountNan, &matrix).unwrap();
            for (row, values) in values.chunks_exact(len).enumerate() {
                check_piece(values, sums[row], least[row], means[row].mean, &what(row));
                assert_eq!(counts[row], (len - numbers(values).len()) as u64, "{}", what(row));
            }
            // As many columns, of as many rows as there were columns.
            let columns = buffer.columns(rows).unwrap();
            let sums = reducer().reduce_axis(SkipNan(Sum), &columns).unwrap();
            let least = reducer().reduce_axis(SkipNan(ArgMin), &columns).unwrap();
            let means = reducer().reduce_axis(SkipNan(MeanAndVariance), &columns).unwrap();
            for column in 0..rows {
                let values: Vec<T> = values.iter().skip(column).step_by(rows).copied().collect();
                check_piece(&values, sums[column], least[column], means[column].mean, &what(column));
            }
        }
    }
}

#[test]
fn what_is_no_number_is_left_out_of_rows_and_columns() {
    let _checked = no_findings();
    of_pieces::<f16>();
    of_pieces::<bf16>();
    of_pieces::<f32>();
    of_pieces::<f64>();
}

#[test]
fn what_is_no_number_is_left_out_of_segments() {
    let values = with_holes::<f32>(5000, HOLES[2]);
    let (buffer, offsets) = (device().upload(&values).unwrap(), [0_u32, 3, 3, 40, 1000, 1001, 5000]);
    let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    let sums = reducer().reduce_segments(SkipNan(Sum), &segments).unwrap();
    let counts = reducer().reduce_segments(CountNan, &segments).unwrap();
    for (at, ends) in offsets.windows(2).enumerate() {
        let values = &values[ends[0] as usize..ends[1] as usize];
        assert_eq!(sums[at], f32::total(&numbers(values), false), "{ends:?}");
        assert_eq!(counts[at], (values.len() - numbers(values).len()) as u64, "{ends:?}");
    }
}

/// Places are counted in the order of a view's axes, not in that of the memory.
#[test]
fn places_in_a_view_are_those_of_its_axes() {
    const SHAPE: [usize; 2] = [30, 70];
    // The same number everywhere but for NaN, so that the first of all is wanted.
    let value = |at: usize| if at % SHAPE[1] < 5 { f32::NAN } else { 1.0 };
    let values: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(value).collect();
    let buffer = device().upload(&values).unwrap();
    let turned = buffer.view(&SHAPE).unwrap().transposed();
    let found = reducer().reduce_view(SkipNan(ArgMax), &turned, &[0, 1]).unwrap();
    assert_eq!(found, [Located { value: 1.0, index: 5 * SHAPE[0] as u64 }]);
    let sums = reducer().reduce_view(SkipNan(Sum), &turned, &[1]).unwrap();
    assert_eq!((sums[4], sums[5]), (0.0, SHAPE[0] as f32));
}

#[test]
fn infinities_are_numbers() {
    let values = [f32::NAN, 1.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY];
    let of = |values: &[f32]| device().upload(values).unwrap();
    let reducer = reducer();
    assert!(reducer.reduce(SkipNan(Sum), &of(&values)).unwrap().is_nan());
    assert_eq!(reducer.reduce(SkipNan(Sum), &of(&values[..4])).unwrap(), f32::INFINITY);
    assert_eq!(reducer.reduce(SkipNan(Min), &of(&values)).unwrap(), Some(f32::NEG_INFINITY));
    let greatest = reducer.reduce(SkipNan(ArgMax), &of(&values)).unwrap();
    assert_eq!(greatest, Some(Located { value: f32::INFINITY, index: 2 }));
    let mean = |values: &[f32]| reducer.reduce(SkipNan(MeanAndVariance), &of(values)).unwrap();
    assert_eq!(mean(&values), None);
    assert!(mean(&values[..4]).is_none_or(|spread| !spread.variance.is_finite()));
    assert_eq!(cpu::reduce(SkipNan(MeanAndVariance), &values).unwrap(), None);
}

/// Where there is no NaN, the result is that of the operation itself, bit for bit but for sums' zeros.
#[test]
fn integers_and_numbers_have_the_usual_results() {
    let (reducer, values) = (reducer(), device().upload(&small::<i32>(1000, 3)).unwrap());
    let (found, usual) = (reducer.reduce(SkipNan(Sum), &values), reducer.reduce(Sum, &values));
    assert_eq!(found.unwrap(), usual.unwrap());
    let (found, usual) = (reducer.reduce(SkipNan(ArgMax), &values), reducer.reduce(ArgMax, &values));
    assert_eq!(found.unwrap(), usual.unwrap());
    let values = device().upload(&[-0.0_f32, 0.0, -0.0]).unwrap();
    let least = reducer.reduce(SkipNan(Min), &values).unwrap().expect("there are numbers");
    assert_eq!(least.to_bits(), (-0.0_f32).to_bits());
}
