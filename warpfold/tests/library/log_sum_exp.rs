//! Logarithms of sums of exponentials of buffers, rows, axes and segments, in every destination,
//! compared with double precision on the host; also those of huge and special numbers.

use warpfold::{Float, bf16, cpu, f16, op::LogSumExp};

use crate::{
    common::{Sample, device, no_findings, reducer, small},
    operations::check_by,
};

trait Logit: Sample + Float + Into<f64> {
    fn near(value: f64) -> Self;
    fn of_sum(sum: Self::Sum) -> f64;
    /// Allowed error, relative to the larger one of the result's magnitude and 1.
    const ROUNDOFF: f64;
}

macro_rules! logits {
    ($($ty:ty: $near:expr, $roundoff:expr;)*) => {$(
        impl Logit for $ty {
            const ROUNDOFF: f64 = $roundoff;

            fn near(value: f64) -> Self {
                let near: fn(f64) -> Self = $near;
                near(value)
            }

            fn of_sum(sum: Self::Sum) -> f64 {
                sum.into()
            }
        }
    )*};
}

logits! {
    f16: f16::from_f64, 1e-6;
    bf16: bf16::from_f64, 1e-6;
    f32: |value| value as f32, 1e-6;
    f64: |value| value, 2e-15;
}

/// Returns elements around `middle` that spread over `apart`.
fn logits<T: Logit>(n: usize, middle: f64, apart: f64) -> Vec<T> {
    let noise = small::<i64>(n, 11);
    let at = |(index, noise): (usize, &i64)| *noise as f64 / 14.0 + (index % 5) as f64 / 70.0;
    noise.iter().enumerate().map(at).map(|part| T::near(middle + apart * part)).collect()
}

fn log_sum_exp<T: Logit>(values: &[T]) -> f64 {
    let largest = values.iter().map(|&value| value.into()).fold(f64::NEG_INFINITY, f64::max);
    let term = |value: &T| ((*value).into() - largest).exp();
    // Sums in parts to limit rounding.
    let sum: f64 = values.chunks(256).map(|part| part.iter().map(term).sum::<f64>()).sum();
    largest + sum.ln()
}

#[track_caller]
fn close<T: Logit>(found: T::Sum, expected: f64, what: &str) {
    let found = T::of_sum(found);
    let off = (found - expected).abs() / expected.abs().max(1.0);
    assert!(off <= T::ROUNDOFF, "{what}: {found}, not {expected}; off by {off:e} of it");
}

fn of_buffers<T: Logit>() {
    for (n, start) in [(1, 0), (2, 1), (31, 0), (33, 3), (1000, 1), (4099, 0), (65_537, 0)] {
        for (middle, apart) in [(0.0, 10.0), (-300.0, 600.0), (60_000.0, 0.0), (5e4, 1e4)] {
            let all = logits::<T>(n + start, middle, apart);
            let (values, buffer) = (&all[start..], device().upload(&all).unwrap());
            let expected = log_sum_exp(values);
            let near = |found: T::Sum, what: &str| close::<T>(found, expected, what);
            check_by(LogSumExp, &buffer.slice(start..).unwrap(), near, |left| left);
            close::<T>(cpu::reduce(LogSumExp, values).unwrap(), expected, "on the CPU");
        }
    }
}

#[test]
fn results_are_correct_for_every_destination() {
    let _checked = no_findings();
    of_buffers::<f16>();
    of_buffers::<bf16>();
    of_buffers::<f32>();
    of_buffers::<f64>();
}

fn of_pieces<T: Logit>() {
    let name = std::any::type_name::<T>();
    for (rows, len) in [(33, 1), (1000, 3), (100, 32), (20, 129), (7, 500), (3, 4096), (2, 20_000)] {
        let values = logits::<T>(rows * len, 100.0, 30.0);
        let buffer = device().upload(&values).unwrap();
        let expected: Vec<f64> = values.chunks_exact(len).map(log_sum_exp).collect();
        let check = |found: Vec<T::Sum>, what: &str| {
            assert_eq!(found.len(), rows);
            let near = |(found, &expected)| close::<T>(found, expected, &format!("{what} of {name}"));
            found.into_iter().zip(&expected).for_each(near);
        };
        check(reducer().reduce(LogSumExp, buffer.rows(len).unwrap()).unwrap(), "rows");
        check(cpu::reduce_rows(LogSumExp, &values, len).unwrap(), "rows on the CPU");
        let transposed: Vec<T> =
            (0..values.len()).map(|at| values[at % rows * len + at / rows]).collect();
        let columns = device().upload(&transposed).unwrap();
        check(reducer().reduce(LogSumExp, columns.columns(rows).unwrap()).unwrap(), "columns");
    }
    let offsets = [0_u32, 0, 1, 40, 41, 3000, 3003, 9000];
    let values = logits::<T>(9000, -50.0, 20.0);
    let buffer = device().upload(&values).unwrap();
    let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    let found = reducer().reduce(LogSumExp, &segments).unwrap();
    assert_eq!((found.len(), T::of_sum(found[0])), (7, f64::NEG_INFINITY));
    for (found, ends) in found.into_iter().zip(offsets.windows(2)).skip(1) {
        let expected = log_sum_exp(&values[ends[0] as usize..ends[1] as usize]);
        close::<T>(found, expected, &format!("segment of {name}"));
    }
}

#[test]
fn rows_columns_and_segments_are_correct() {
    of_pieces::<f16>();
    of_pieces::<bf16>();
    of_pieces::<f32>();
    of_pieces::<f64>();
}

fn special<T: Logit>() {
    let (least, most, nan) = (f64::NEG_INFINITY, f64::INFINITY, f64::NAN);
    for n in [1, 3, 40, 5000] {
        // The elements between, the first one and the last one.
        let cases = [
            ([least, least, least], least),
            ([0.0, most, 1.0], most),
            ([least, most, least], most),
            ([0.0, 0.0, nan], nan),
            ([nan, most, least], nan),
            ([least, nan, most], nan),
        ];
        for ([rest, first, last], expected) in cases {
            let mut values = vec![T::near(rest); n + 2];
            (values[0], values[n + 1]) = (T::near(first), T::near(last));
            let same = |found: T::Sum, what: &str| {
                let found = T::of_sum(found);
                let alike = found == expected || found.is_nan() && expected.is_nan();
                assert!(alike, "{what}: {found}, not {expected}");
            };
            check_by(LogSumExp, &device().upload(&values).unwrap(), same, |left| left);
            same(cpu::reduce(LogSumExp, &values).unwrap(), "on the CPU");
        }
    }
    // −∞ adds nothing, before or after the finite element.
    for at in [0, 1, 2000, 4999] {
        let mut values = vec![T::near(least); 5000];
        values[at] = T::near(-3.5);
        let buffer = device().upload(&values).unwrap();
        close::<T>(reducer().reduce(LogSumExp, &buffer).unwrap(), -3.5, "one among −∞");
    }
    let none = device().upload::<T>(&[]).unwrap();
    assert_eq!(T::of_sum(reducer().reduce(LogSumExp, &none).unwrap()), least);
}

#[test]
fn infinities_and_nan_propagate() {
    special::<f16>();
    special::<bf16>();
    special::<f32>();
    special::<f64>();
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let of = |values: &[f32]| reducer().reduce(LogSumExp, &device().upload(values).unwrap()).unwrap();
    assert_eq!(of(&[f32::MAX, f32::MAX, f32::MIN]), f32::MAX);
    assert_eq!(of(&[f32::MIN; 100]), f32::MIN);
    let of = |values: &[f64]| reducer().reduce(LogSumExp, &device().upload(values).unwrap()).unwrap();
    assert_eq!(of(&[f64::MAX, f64::MIN, f64::MAX]), f64::MAX);
}
