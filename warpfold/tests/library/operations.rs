//! Operations that are passed by value, against plain references: alone, counted, recorded, left in
//! device memory, and of rows.

use std::fmt::Debug;

use warpfold::{
    Buffer, Element, Ends, Integer, Spread, bf16, f16,
    op::{self, Operation, RowsOperation},
};

use crate::{
    common::{Sample, device, extreme, no_findings, reducer, small},
    counted::count_of,
    group, world,
};

pub(crate) trait Number: Sample {
    fn to_f64(self) -> f64;

    /// Returns the product, which is exact in any order for [`Self::factors`].
    fn product(values: &[Self]) -> Self::Sum;

    fn magnitudes(values: &[Self]) -> Self::Sum;

    /// Returns elements whose product is exact in any order; for floats, powers of two.
    fn factors(n: usize) -> Vec<Self>;

    /// Returns the approximate error of a mean relative to its elements.
    fn roundoff() -> f64 {
        if size_of::<Self>() == 1 || size_of::<Self::Sum>() == 4 { 1e-6 } else { 1e-15 }
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn product(values: &[Self]) -> Self::Sum {
                values.iter().fold(1, |product, &value| product.wrapping_mul(value.into()))
            }

            fn magnitudes(values: &[Self]) -> Self::Sum {
                values.iter().map(|&value| (value as i128).unsigned_abs() as Self::Sum).sum()
            }

            /// The factors are odd, so that none shifts bits out.
            fn factors(n: usize) -> Vec<Self> {
                small::<Self>(n, 9).into_iter().map(|value| value | 1).collect()
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty: $of:expr;)*) => {$(
        impl Number for $ty {
            fn to_f64(self) -> f64 {
                self.into()
            }

            fn product(values: &[Self]) -> Self::Sum {
                values.iter().map(|&value| f64::from(value)).product::<f64>() as Self::Sum
            }

            fn magnitudes(values: &[Self]) -> Self::Sum {
                values.iter().map(|&value| f64::from(value).abs()).sum::<f64>() as Self::Sum
            }

            fn factors(n: usize) -> Vec<Self> {
                let factor = |(at, value): (usize, i64)| match (at % 64, value) {
                    // There are as many 2s as 0.5s, alternating, so that products stay in range.
                    (7, _) => $of(2.0),
                    (40, _) => $of(0.5),
                    (_, 1) => $of(-1.0),
                    _ => $of(1.0),
                };
                small::<i64>(n, 9).into_iter().enumerate().map(factor).collect()
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }
floats! { f16: f16::from_f32; bf16: bf16::from_f32; f32: f32::from; f64: f64::from; }

pub(crate) fn ends<T: Sample>(values: &[T]) -> Option<Ends<T>> {
    let (min, max) = (extreme(values, false)?, extreme(values, true)?);
    Some(Ends { min: min.value, max: max.value })
}

pub(crate) fn non_zero<T: Number>(values: &[T]) -> u64 {
    values.iter().filter(|value| value.to_f64() != 0.0).count() as u64
}

/// Computes the mean and the variance in integers, exactly up to the final divisions.
pub(crate) fn spread<T: Number>(values: &[T]) -> Option<Spread> {
    let integers = || values.iter().map(|value| value.to_f64() as i128);
    let (n, sum) = (values.len() as i128, integers().sum::<i128>());
    let squares: i128 = integers().map(|value| value * value).sum();
    let variance = (n * squares - sum * sum) as f64 / (n as f64 * n as f64);
    (n > 0).then_some(Spread { mean: sum as f64 / n as f64, variance })
}

pub(crate) fn with_zeros<T: Sample>(mut values: Vec<T>) -> Vec<T> {
    values.iter_mut().skip(1).step_by(3).for_each(|value| *value = T::of(0));
    values
}

#[track_caller]
pub(crate) fn check<T: Element, O: Operation<T, Output: Debug + PartialEq>>(
    op: O,
    values: &Buffer<T>,
    expected: O::Output,
    left: impl Fn(O::Left) -> O::Output,
) {
    check_by(op, values, |found, what| assert_eq!(found, expected, "{what}"), left);
}

#[track_caller]
pub(crate) fn check_by<T: Element, O: Operation<T>>(
    op: O,
    values: &Buffer<T>,
    check: impl Fn(O::Output, &str),
    left: impl Fn(O::Left) -> O::Output,
) {
    let what = format!("{} of {values:?}", std::any::type_name::<O>());
    check(reducer().reduce(op, values).unwrap(), &what);
    group::on_all(op, values, &check, &left);
    world::on_all(op, values, &check);
    let stream = device().stream().unwrap();
    check(reducer().on(&stream).reduce(op, values).unwrap().wait().unwrap(), &what);
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(op, values).unwrap();
    check(recorder.finish().unwrap().run().unwrap().get(&recorded), &format!("{what}, recorded"));
    if values.is_empty() {
        return;
    }
    let mut running = reducer().running(op).unwrap();
    let (third, half) = (values.len() / 3, values.len().div_ceil(2));
    for piece in [0..third, third..half, half..values.len()] {
        running.push(&stream, &values.slice(piece).unwrap()).unwrap();
    }
    check(running.result().unwrap(), &format!("{what}, in pieces"));
    check(left(running.output().unwrap().read().unwrap()), &format!("{what}, in pieces, left"));
    let mut output = device().output::<O::Left>().unwrap();
    reducer().on(&stream).reduce_into(op, values, &mut output).unwrap();
    check(left(output.read().unwrap()), &format!("{what}, left in device memory"));
    let count = count_of(values.len() as u64);
    let counted = reducer().on(&stream).reduce(op, values.counted(&count)).unwrap();
    check(counted.wait().unwrap(), &format!("{what}, counted"));
}

pub(crate) fn close(found: Option<Spread>, expected: Option<Spread>, roundoff: f64, what: &str) {
    let (Some(found), Some(expected)) = (found, expected) else {
        assert_eq!(found, expected, "{what}");
        return;
    };
    let size = expected.mean.abs() + expected.standard_deviation();
    let off = (found.mean - expected.mean).abs();
    assert!(off <= roundoff * size, "mean of {what}: {found:?}, not {expected:?}");
    let off = (found.variance - expected.variance).abs();
    assert!(off <= 4.0 * roundoff * size * size, "variance of {what}: {found:?}, not {expected:?}");
}

const SIZES: [usize; 8] = [0, 1, 2, 31, 33, 1000, 4099, 65_537];

fn alone<T: Number>(start: usize) {
    for n in SIZES {
        let upload = |values: &[T]| device().upload(values).unwrap().slice(start..).unwrap();
        let all = small::<T>(n + start, 5);
        let (values, buffer) = (&all[start..], upload(&all));
        check(op::SumOfMagnitudes, &buffer, T::magnitudes(values), |left| left);
        check(op::MinMax, &buffer, ends(values), Some);
        let found = reducer().reduce(op::MeanAndVariance, &buffer).unwrap();
        close(found, spread(values), T::roundoff(), &format!("{n} from {start}"));
        let factors = T::factors(n + start);
        check(op::Product, &upload(&factors), T::product(&factors[start..]), |left| left);
        let zeros = with_zeros(all.clone());
        check(op::CountNonZero, &upload(&zeros), non_zero(&zeros[start..]), |left| left);
    }
}

#[test]
fn every_operation_and_type_is_correct_for_every_destination() {
    let _checked = no_findings();
    for_every_type!(alone(0));
}

#[test]
fn inputs_may_begin_anywhere() {
    for_every_type!(alone(1));
}

trait Bits: Number + Integer + std::ops::BitAnd<Output = Self> + std::ops::BitOr<Output = Self> {
    fn all() -> Self;
    fn xor(self, other: Self) -> Self;
    /// Returns different values, most of whose bits are common to all.
    fn pattern(at: usize) -> Self;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            fn all() -> Self {
                !0
            }

            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            fn pattern(at: usize) -> Self {
                let bit = at.wrapping_mul(0x9e37_79b9) >> 7;
                !((1 as Self) << (bit % (Self::BITS as usize / 2) + 1))
            }
        }
    )*};
}

bits! { i8 u8 i16 u16 i32 u32 i64 u64 }

fn bitwise<T: Bits>() {
    for n in SIZES {
        for start in [0, 1] {
            let few: Vec<T> = (0..n + start).map(T::pattern).collect();
            let none: Vec<T> = few.iter().map(|&value| value.xor(T::all())).collect();
            let of = |values: &[T], with: fn(T, T) -> T, first| {
                values[start..].iter().copied().fold(first, with)
            };
            let upload = |values: &[T]| device().upload(values).unwrap().slice(start..).unwrap();
            check(op::BitAnd, &upload(&few), of(&few, |a, b| a & b, T::all()), |left| left);
            check(op::BitOr, &upload(&none), of(&none, |a, b| a | b, T::of(0)), |left| left);
            check(op::BitXor, &upload(&few), of(&few, T::xor, T::of(0)), |left| left);
        }
    }
}

#[test]
fn bitwise_operations_are_correct() {
    for_every_integer!(bitwise());
}

/// Number and length of rows: a few shapes for each kernel.
const SHAPES: [(usize, usize); 14] = [
    (1, 17),
    (33, 1),
    (1000, 3),
    (257, 4),
    (129, 5),
    (33, 15),
    (90, 20),
    (100, 32),
    (20, 128),
    (9, 257),
    (7, 500),
    (5, 1000),
    (3, 4096),
    (2, 20_000),
];

#[track_caller]
fn check_rows<T: Element, O: RowsOperation<T, Left: Debug + PartialEq>>(
    op: O,
    values: &[T],
    (start, len): (usize, usize),
    of: impl Fn(&[T]) -> O::Left,
) {
    let buffer = device().upload(values).unwrap().slice(start..).unwrap();
    let rows = buffer.rows(len).unwrap();
    let expected: Vec<O::Left> = values[start..].chunks_exact(len).map(of).collect();
    let what = format!("{} of {rows:?} from {start}", std::any::type_name::<O>());
    assert_eq!(reducer().reduce(op, &rows).unwrap(), expected, "{what}");
    let (stream, mut outputs) = (device().stream().unwrap(), device().outputs(rows.count()).unwrap());
    reducer().on(&stream).reduce_into(op, &rows, &mut outputs).unwrap();
    assert_eq!(outputs.read().unwrap(), expected, "{what}, left in device memory");
}

fn of_rows<T: Number>() {
    for (rows, len) in SHAPES {
        for start in [0, 1] {
            let (n, at) = (rows * len + start, (start, len));
            let values = small::<T>(n, 5);
            check_rows(op::SumOfMagnitudes, &values, at, T::magnitudes);
            check_rows(op::MinMax, &values, at, |row| ends(row).unwrap());
            check_rows(op::Product, &T::factors(n), at, T::product);
            check_rows(op::CountNonZero, &with_zeros(values.clone()), at, non_zero);
            let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
            let found = reducer().reduce(op::MeanAndVariance, buffer.rows(len).unwrap()).unwrap();
            assert_eq!(found.len(), rows);
            for (row, found) in values[start..].chunks_exact(len).zip(found) {
                close(Some(found), spread(row), T::roundoff(), &format!("{rows} rows of {len}"));
            }
        }
    }
}

#[test]
fn every_operation_has_a_result_for_every_row() {
    let _checked = no_findings();
    for_every_type!(of_rows());
}

fn bits_of_rows<T: Bits>() {
    for (rows, len) in SHAPES {
        for start in [0, 1] {
            let values: Vec<T> = (0..rows * len + start).map(T::pattern).collect();
            let of = |with: fn(T, T) -> T, first| move |row: &[T]| row.iter().copied().fold(first, with);
            check_rows(op::BitAnd, &values, (start, len), of(|a, b| a & b, T::all()));
            check_rows(op::BitOr, &values, (start, len), of(|a, b| a | b, T::of(0)));
            check_rows(op::BitXor, &values, (start, len), of(T::xor, T::of(0)));
        }
    }
}

#[test]
fn bitwise_operations_on_rows_are_correct() {
    for_every_integer!(bits_of_rows());
}

/// Sums and products of the extremes exceed 32 bits.
#[test]
fn narrow_integers_have_room_in_64_bits() {
    fn of<T: Number>(value: T, other: T) {
        let values: Vec<T> = (0..65_538).map(|at| if at == 4000 { other } else { value }).collect();
        let buffer = device().upload(&values).unwrap();
        for values in [&values[..], &values[1..]] {
            let buffer = buffer.slice(buffer.len() - values.len()..).unwrap();
            check(op::Sum, &buffer, T::total(values, false), |left| left);
            check(op::SumOfSquares, &buffer, T::total(values, true), |left| left);
            check(op::SumOfMagnitudes, &buffer, T::magnitudes(values), |left| left);
            check(op::MinMax, &buffer, ends(values), Some);
            check(op::CountNonZero, &buffer, non_zero(values), |left| left);
            let found = reducer().reduce(op::MeanAndVariance, &buffer).unwrap();
            close(found, spread(values), T::roundoff(), std::any::type_name::<T>());
        }
        // One vector in which every element counts; the product of more elements would exceed 64 bits.
        let few = device().upload(&values[..8]).unwrap();
        check(op::Product, &few, T::product(&values[..8]), |left| left);
    }
    of(i8::MIN, i8::MAX);
    of(u8::MAX, 0);
    of(i16::MIN, i16::MAX);
    of(i16::MAX, i16::MIN);
    of(-1_i16, 0);
    of(u16::MAX, 0);
    of(1 << 15, u16::MAX);
}

/// With such a large mean, E[x²] − E[x]² has no correct digit.
#[test]
fn variance_is_accurate_with_a_large_mean() {
    let noise: Vec<f64> = small::<i64>(50_001, 3).iter().map(|&value| value as f64).collect();
    let singles: Vec<f32> = noise.iter().map(|noise| 1e5 + *noise as f32).collect();
    let doubles: Vec<f64> = noise.iter().map(|noise| 1e9 + noise).collect();
    let integers: Vec<i64> = noise.iter().map(|noise| (1 << 40) + *noise as i64).collect();
    let naive = |values: &[f32]| {
        let (sum, squares) =
            values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let n = values.len() as f32;
        squares / n - (sum / n) * (sum / n)
    };
    let expected = spread(&noise).unwrap().variance;
    let within = |found: f64, relative: f64| (found - expected).abs() <= relative * expected;
    assert!(!within(naive(&singles).into(), 0.5), "what the test is about");
    let variance = |spread: Option<Spread>| spread.unwrap().variance;
    let of = |values: &[f32]| {
        reducer().reduce(op::MeanAndVariance, &device().upload(values).unwrap()).unwrap()
    };
    assert!(within(variance(of(&singles)), 2e-2), "{:?}, not {expected}", of(&singles));
    let of = |values: &[f64]| {
        reducer().reduce(op::MeanAndVariance, &device().upload(values).unwrap()).unwrap()
    };
    assert!(within(variance(of(&doubles)), 1e-6), "{:?}, not {expected}", of(&doubles));
    let of = |values: &[i64]| {
        reducer().reduce(op::MeanAndVariance, &device().upload(values).unwrap()).unwrap()
    };
    assert!(within(variance(of(&integers)), 1e-3), "{:?}, not {expected}", of(&integers));
}

#[test]
fn derived_statistics_are_correct() {
    let upload = |values: &[f32]| device().upload(values).unwrap();
    let (values, none) = (upload(&[3.0, -4.0, 0.0]), upload(&[]));
    let on = reducer();
    assert_eq!(
        (on.reduce(op::L1Norm, &values).unwrap(), on.reduce(op::L2Norm, &values).unwrap()),
        (7.0, 5.0)
    );
    assert_eq!(
        (on.reduce(op::MaxNorm, &values).unwrap(), on.reduce(op::MaxNorm, &none).unwrap()),
        (4.0, 0.0)
    );
    assert!(on.reduce(op::MaxNorm, &upload(&[1.0, f32::NAN])).unwrap().is_nan());
    assert_eq!(
        on.reduce(op::MaxNorm, &device().upload(&[i64::MIN, 1]).unwrap()).unwrap(),
        2_f64.powi(63)
    );
    assert_eq!(
        (on.reduce(op::Mean, &values).unwrap(), on.reduce(op::Mean, &none).unwrap()),
        (Some(-1.0 / 3.0), None)
    );
    let non_zero = |values: &Buffer<f32>| on.reduce(op::CountNonZero, values).unwrap();
    assert_eq!((non_zero(&values), non_zero(&none)), (2, 0));
    assert_eq!(
        (on.reduce(op::Product, &none).unwrap(), on.reduce(op::MinMax, &none).unwrap()),
        (1.0, None)
    );
    assert_eq!((non_zero(&upload(&[f32::NAN, -1.0])), non_zero(&upload(&[0.0, -0.0]))), (2, 0));
    let spread = on.reduce(op::MeanAndVariance, &upload(&[1.0, 2.0, 3.0, 4.0])).unwrap().unwrap();
    assert_eq!(spread, Spread { mean: 2.5, variance: 1.25 });
    assert!((spread.sample_variance(4) - 5.0 / 3.0).abs() < 1e-15);
    assert_eq!(spread.standard_deviation(), 1.25_f64.sqrt());
    let some = upload(&[3.0, f32::NAN, -4.0]);
    assert_eq!(on.reduce(op::L1Norm.skip_nan(), &some).unwrap(), 7.0);
    assert_eq!(on.reduce(op::L1Norm.reproducible(), &values).unwrap(), 7.0);
    assert_eq!(on.reduce(op::MaxNorm.skip_nan(), &some).unwrap(), 4.0);
    assert_eq!(on.reduce(op::MaxNorm.skip_nan(), &upload(&[f32::NAN])).unwrap(), 0.0);
    assert_eq!(on.reduce(op::Sum.reproducible().skip_nan(), &some).unwrap(), -1.0);
    let norms = on.reduce((op::SumOfMagnitudes, op::L1Norm, op::MaxNorm), &values).unwrap();
    assert_eq!(norms, (7.0, 7.0, 4.0));
}

/// A NaN propagates to both extremes, and infinities compare as numbers.
#[test]
fn min_max_handles_nan_and_infinities() {
    for spread in [1, 40, 3001] {
        let mut values = vec![1.0_f64; 2 * spread + 1];
        (values[0], values[2 * spread]) = (f64::NEG_INFINITY, f64::INFINITY);
        let ends = |values: &[f64]| {
            reducer().reduce(op::MinMax, &device().upload(values).unwrap()).unwrap().unwrap()
        };
        assert_eq!(ends(&values), Ends { min: f64::NEG_INFINITY, max: f64::INFINITY });
        values[spread] = f64::NAN;
        let Ends { min, max } = ends(&values);
        assert!(min.is_nan() && max.is_nan());
    }
}

/// Left in device memory, an empty result is zero where zero is the identity, and an error otherwise.
#[test]
fn empty_result_in_device_memory_is_zero_or_an_error() {
    let (stream, none) = (device().stream().unwrap(), device().upload::<i32>(&[]).unwrap());
    let on = reducer().on(&stream);
    let mut count = device().output::<u64>().unwrap();
    on.reduce_into(op::CountNonZero, &none, &mut count).unwrap();
    assert_eq!(count.read().unwrap(), 0);
    let mut product = device().output::<i64>().unwrap();
    let error = on.reduce_into(op::Product, &none, &mut product).unwrap_err();
    crate::common::says(&error, &["product"]);
    // With a count of zero in device memory the result is the identity.
    let zero = count_of(0);
    let two = device().upload(&[7_i32, 9]).unwrap();
    on.reduce_into(op::Product, two.counted(&zero), &mut product).unwrap();
    assert_eq!(product.read().unwrap(), 1);
    let mut spread = device().output::<Spread>().unwrap();
    on.reduce_into(op::MeanAndVariance, two.counted(&zero), &mut spread).unwrap();
    assert!(spread.read().unwrap().mean.is_nan() && spread.read().unwrap().variance.is_nan());
    assert_eq!(on.reduce(op::MeanAndVariance, two.counted(&zero)).unwrap().wait().unwrap(), None);
}
