//! Operations that skip NaN on buffers, rows, axes, views, segments and runs of keys, compared with the
//! same operations on the other elements; some inputs have infinities, or only NaN.

use std::fmt::Debug;

use warpfold::{
    Element, Ends, Float, Located, Spread, bf16, cpu, f16,
    op::{
        ArgMax, ArgMin, CountNan, Max, MeanAndVariance, Min, MinMax, Operation, Product, RowsOperation,
        SkipNan, Sum, SumOfMagnitudes, SumOfSquares,
    },
};

use crate::{
    common::{device, extreme, no_findings, reducer, small},
    operations::{Number, check_by, close, ends, spread},
};

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

/// Patterns of NaN: none, scattered ones, long stretches, all but one, and all.
const HOLES: [fn(usize) -> bool; 5] =
    [|_| false, |at| at % 3 != 1, |at| at / 50 % 2 == 0, |at| at != 17, |_| true];

fn holed<T: WithNan>(values: Vec<T>, is_hole: fn(usize) -> bool) -> Vec<T> {
    let of = |(at, value)| if is_hole(at) { T::NAN } else { value };
    values.into_iter().enumerate().map(of).collect()
}

fn with_holes<T: WithNan>(n: usize, is_hole: fn(usize) -> bool) -> Vec<T> {
    holed(small(n, 21), is_hole)
}

fn numbers<T: WithNan>(values: &[T]) -> Vec<T> {
    values.iter().copied().filter(|value| !value.is_nan()).collect()
}

/// Returns the first extreme number with its index among all elements.
fn place<T: WithNan>(values: &[T], largest: bool) -> Option<Located<T>> {
    let found = extreme(&numbers(values), largest)?;
    let is_it = |value: &T| *value == found.value;
    let index = values.iter().position(is_it).expect("it is one of them") as u64;
    Some(Located { index, ..found })
}

#[track_caller]
fn check<T: WithNan, O: Operation<T>>(
    op: O,
    values: &[T],
    left: fn(O::Left) -> O::Output,
    right: impl Fn(O::Output) -> bool,
) {
    let right = |found, what: &str| assert!(right(found), "{what}, of {} elements", values.len());
    for start in [0, 1] {
        // The element before the slice is no part of it.
        let all: Vec<T> = std::iter::repeat_n(T::of(-9), start).chain(values.iter().copied()).collect();
        let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
        check_by(op, &buffer, right, left);
    }
    right(cpu::reduce(op, values).unwrap(), "on the CPU");
}

fn of_buffers<T: WithNan>() {
    // Large buffers take long, so they get one pattern of NaN.
    let holes = |n: usize| if n > 5000 { &HOLES[1..2] } else { &HOLES };
    for n in [0, 1, 2, 31, 33, 1000, 4099, 65_537] {
        for &is_hole in holes(n) {
            let values = with_holes::<T>(n, is_hole);
            let left = numbers(&values);
            check(SkipNan(Sum), &values, |sum| sum, |sum| sum == T::total(&left, false));
            check(SkipNan(SumOfSquares), &values, |sum| sum, |sum| sum == T::total(&left, true));
            check(SkipNan(SumOfMagnitudes), &values, |sum| sum, |sum| sum == T::magnitudes(&left));
            let factors = holed(T::factors(n), is_hole);
            let product = T::product(&numbers(&factors));
            check(SkipNan(Product), &factors, |left| left, |found| found == product);
            check(CountNan, &values, |count| count, |count| count == (n - left.len()) as u64);
            let number = |ends: Ends<T>| Some(ends).filter(|ends| !ends.min.is_nan());
            check(SkipNan(MinMax), &values, number, |found| found == ends(&left));
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
fn skip_nan_ignores_nan_for_every_destination() {
    let _checked = no_findings();
    of_buffers::<f16>();
    of_buffers::<bf16>();
    of_buffers::<f32>();
    of_buffers::<f64>();
}

/// Checks the results of rows, columns, axes of a view, segments and runs of keys. A piece without
/// elements has the result of one that is all NaN.
#[track_caller]
fn check_pieces<T: WithNan, O: RowsOperation<T>>(
    op: O,
    values: &[T],
    width: usize,
    is_right: impl Fn(&[T], O::Left) -> bool,
) {
    let rows = values.len() / width;
    let what = |of: &str, at: usize| {
        let (op, ty) = (std::any::type_name::<O>(), std::any::type_name::<T>());
        format!("{op} of {of} {at} of {rows} × {width} {ty}")
    };
    let check = |of: &str, pieces: &[Vec<T>], found: &[O::Left]| {
        assert_eq!(found.len(), pieces.len(), "{}", what(of, 0));
        for (at, (piece, &found)) in pieces.iter().zip(found).enumerate() {
            assert!(is_right(piece, found), "{}: {found:?}", what(of, at));
        }
    };
    let buffer = device().upload(values).unwrap();
    let in_rows: Vec<Vec<T>> = values.chunks_exact(width).map(<[T]>::to_vec).collect();
    let found = reducer().reduce(op, buffer.rows(width).unwrap()).unwrap();
    check("row", &in_rows, &found);
    let column = |at: usize| values.iter().skip(at).step_by(width).copied().collect();
    let in_columns: Vec<Vec<T>> = (0..width).map(column).collect();
    let found = reducer().reduce(op, buffer.columns(width).unwrap()).unwrap();
    check("column", &in_columns, &found);
    let turned = buffer.view(&[rows, width]).unwrap().transposed();
    check("axis", &in_rows, &reducer().reduce(op, turned.along(&[0]).unwrap()).unwrap());
    check("other axis", &in_columns, &reducer().reduce(op, turned.along(&[1]).unwrap()).unwrap());
    let n = values.len() as u64;
    let offsets = [0, 3, 3, 40, 70, 71, 500, 1100, n].map(|offset| n.min(offset));
    let in_segments: Vec<Vec<T>> =
        offsets.windows(2).map(|ends| values[ends[0] as usize..ends[1] as usize].to_vec()).collect();
    let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    check("segment", &in_segments, &reducer().reduce(op, &segments).unwrap());
    let (lens, keys) = (in_segments.iter().map(Vec::len), 0_u32..);
    let keys: Vec<u32> = keys.zip(lens).flat_map(|(key, len)| std::iter::repeat_n(key, len)).collect();
    let keys = device().upload(&keys).unwrap();
    let of_keys = reducer().reduce(op, buffer.by_key(&keys)).unwrap();
    let runs: Vec<Vec<T>> = in_segments.into_iter().filter(|run| !run.is_empty()).collect();
    check("run", &runs, &of_keys.results.read().unwrap());
}

/// Returns whether an extreme is the expected one, or NaN if none is expected.
fn is_extreme<T: WithNan>(found: T, expected: Option<T>) -> bool {
    expected.map_or(found.is_nan(), |expected| found == expected)
}

fn of_pieces<T: WithNan>() {
    for (rows, width) in [(33, 1), (1000, 3), (100, 32), (20, 129), (7, 500), (3, 4096)] {
        for is_hole in HOLES {
            let n = rows * width;
            let values = with_holes::<T>(n, is_hole);
            let total = |squares: bool| move |of: &[T], found| found == T::total(&numbers(of), squares);
            check_pieces(SkipNan(Sum), &values, width, total(false));
            check_pieces(SkipNan(SumOfSquares), &values, width, total(true));
            check_pieces(SkipNan(SumOfMagnitudes), &values, width, |of, found| {
                found == T::magnitudes(&numbers(of))
            });
            let factors = holed(T::factors(n), is_hole);
            check_pieces(SkipNan(Product), &factors, width, |of, found| {
                found == T::product(&numbers(of))
            });
            check_pieces(CountNan, &values, width, |of, found| {
                found == (of.len() - numbers(of).len()) as u64
            });
            check_pieces(SkipNan(Min), &values, width, |of, found| {
                is_extreme(found, place(of, false).map(|least| least.value))
            });
            check_pieces(SkipNan(MinMax), &values, width, |of, found| {
                let expected = ends(&numbers(of));
                is_extreme(found.min, expected.map(|ends| ends.min))
                    && is_extreme(found.max, expected.map(|ends| ends.max))
            });
            check_pieces(SkipNan(ArgMin), &values, width, |of, found| match place(of, false) {
                Some(expected) => found == expected,
                None => of.is_empty() || found.value.is_nan() && found.index == 0,
            });
            check_pieces(SkipNan(MeanAndVariance), &values, width, |of, found| {
                match spread(&numbers(of)) {
                    Some(expected) => (found.mean - expected.mean).abs() <= 8.0 * T::roundoff(),
                    None => found.mean.is_nan(),
                }
            });
        }
    }
}

#[test]
fn skip_nan_ignores_nan_in_rows_axes_segments_and_runs() {
    let _checked = no_findings();
    of_pieces::<f16>();
    of_pieces::<bf16>();
    of_pieces::<f32>();
    of_pieces::<f64>();
}

#[test]
fn indices_in_a_view_follow_its_axes() {
    const SHAPE: [usize; 2] = [30, 70];
    // All numbers are equal, so the first one is expected.
    let value = |at: usize| if at % SHAPE[1] < 5 { f32::NAN } else { 1.0 };
    let values: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(value).collect();
    let buffer = device().upload(&values).unwrap();
    let turned = buffer.view(&SHAPE).unwrap().transposed();
    let found = reducer().reduce(SkipNan(ArgMax), turned.along(&[0, 1]).unwrap()).unwrap();
    assert_eq!(found, [Located { value: 1.0, index: 5 * SHAPE[0] as u64 }]);
    let sums = reducer().reduce(SkipNan(Sum), turned.along(&[1]).unwrap()).unwrap();
    assert_eq!((sums[4], sums[5]), (0.0, SHAPE[0] as f32));
}

#[test]
fn infinities_are_not_skipped() {
    let values = [f32::NAN, 1.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY];
    let of = |values: &[f32]| device().upload(values).unwrap();
    let reducer = reducer();
    assert!(reducer.reduce(SkipNan(Sum), &of(&values)).unwrap().is_nan());
    assert_eq!(reducer.reduce(SkipNan(Sum), &of(&values[..4])).unwrap(), f32::INFINITY);
    assert_eq!(reducer.reduce(SkipNan(Min), &of(&values)).unwrap(), Some(f32::NEG_INFINITY));
    let greatest = reducer.reduce(SkipNan(ArgMax), &of(&values)).unwrap();
    assert_eq!(greatest, Some(Located { value: f32::INFINITY, index: 2 }));
    let both = Ends { min: f32::NEG_INFINITY, max: f32::INFINITY };
    assert_eq!(reducer.reduce(SkipNan(MinMax), &of(&values)).unwrap(), Some(both));
    assert_eq!(reducer.reduce(SkipNan(SumOfSquares), &of(&values)).unwrap(), f32::INFINITY);
    assert_eq!(reducer.reduce(SkipNan(SumOfMagnitudes), &of(&values)).unwrap(), f32::INFINITY);
    assert_eq!(reducer.reduce(SkipNan(Product), &of(&values)).unwrap(), f32::NEG_INFINITY);
    assert!(reducer.reduce(SkipNan(Product), &of(&[f32::INFINITY, f32::NAN, 0.0])).unwrap().is_nan());
    let mean = |values: &[f32]| reducer.reduce(SkipNan(MeanAndVariance), &of(values)).unwrap();
    assert_eq!(mean(&values), None);
    assert!(mean(&values[..4]).is_none_or(|spread| !spread.variance.is_finite()));
    assert_eq!(cpu::reduce(SkipNan(MeanAndVariance), &values).unwrap(), None);
}

fn of_any_nan<T: WithNan<Sum: Into<f64>>>(nan: [T; 2]) {
    for n in [1, 2, 40, 1000] {
        let nothing: Vec<T> = (0..n).map(|at| nan[at % 2]).collect();
        let of = |buffer| {
            let reducer = reducer();
            assert_eq!(reducer.reduce(SkipNan(MinMax), buffer).unwrap(), None);
            let sums: [T::Sum; 3] = [
                reducer.reduce(SkipNan(SumOfSquares), buffer).unwrap(),
                reducer.reduce(SkipNan(SumOfMagnitudes), buffer).unwrap(),
                reducer.reduce(SkipNan(Product), buffer).unwrap(),
            ];
            assert_eq!(sums.map(|sum| sum.into().to_bits()), [0.0_f64, 0.0, 1.0].map(f64::to_bits));
        };
        of(&device().upload(&nothing).unwrap());
        let mut some = nothing;
        some[n / 2] = T::of(-3);
        let buffer = device().upload(&some).unwrap();
        let product: f64 = reducer().reduce(SkipNan(Product), &buffer).unwrap().into();
        let ends = reducer().reduce(SkipNan(MinMax), &buffer).unwrap();
        assert_eq!((product, ends), (-3.0, Some(Ends { min: T::of(-3), max: T::of(-3) })));
    }
}

#[test]
fn nan_of_either_sign_and_any_payload_is_left_out() {
    of_any_nan([0x7e34, 0xfc01].map(f16::from_bits));
    of_any_nan([0x7fc1, 0xff81].map(bf16::from_bits));
    of_any_nan([0x7fc0_1234, 0xff80_0001].map(f32::from_bits));
    of_any_nan([0x7ff8_0000_0000_1234, 0xfff0_0000_0000_0001].map(f64::from_bits));
}

/// Without NaN the result has the bits of the plain operation, even if it is rounded.
#[test]
fn skip_nan_without_nan_matches_the_plain_operation() {
    fn check<T, O>(op: O, values: &[T])
    where
        T: Element,
        O: Operation<T, Output: Debug + PartialEq>,
        SkipNan<O>: Operation<T, Output = O::Output>,
    {
        let values = device().upload(values).unwrap();
        let (found, usual) = (reducer().reduce(SkipNan(op), &values), reducer().reduce(op, &values));
        assert_eq!(found.unwrap(), usual.unwrap(), "{}", std::any::type_name::<O>());
    }
    let integers = small::<i32>(1000, 3);
    check(Sum, &integers);
    check(SumOfSquares, &integers);
    check(SumOfMagnitudes, &integers);
    check(Product, &integers);
    check(MinMax, &integers);
    check(ArgMax, &integers);
    let rounded: Vec<f32> = integers.iter().map(|&value| 1.0 + value as f32 / 777.0).collect();
    check(Sum, &rounded);
    check(SumOfSquares, &rounded);
    check(SumOfMagnitudes, &rounded);
    check(Product, &rounded);
    check(MinMax, &rounded);
}

/// −0 is below +0, and an odd number of negative factors makes a zero negative.
#[test]
fn zeros_among_numbers_keep_their_signs() {
    let values = [f64::NAN, -0.0, 0.0, -0.0, f64::NAN];
    for (values, product) in [(&values[..], 0.0_f64), (&values[..3], -0.0), (&values[2..4], -0.0)] {
        let buffer = device().upload(values).unwrap();
        for (found, product) in [
            (reducer().reduce(SkipNan(Product), &buffer).unwrap(), product),
            (cpu::reduce(SkipNan(Product), values).unwrap(), product),
        ] {
            assert_eq!(found.to_bits(), product.to_bits(), "{values:?}");
        }
        let least = reducer().reduce(SkipNan(Min), &buffer).unwrap().expect("there are numbers");
        assert_eq!(least.to_bits(), (-0.0_f64).to_bits(), "{values:?}");
        for ends in [
            reducer().reduce(SkipNan(MinMax), &buffer).unwrap(),
            cpu::reduce(SkipNan(MinMax), values).unwrap(),
        ] {
            let ends = ends.expect("there are numbers");
            assert_eq!([ends.min, ends.max].map(f64::to_bits), [-0.0, 0.0].map(f64::to_bits));
        }
    }
}
