//! Sums in an explicit type, and checked sums, in every destination; they are exact where the default
//! sums are not.

use std::fmt::Debug;

use warpfold::{
    Element, bf16, cpu, f16,
    op::{Operation, Reproducible, RowsOperation, Sum, SumIn},
};

use crate::{
    common::{device, no_findings, reducer},
    operations::check_by,
};

fn check<T: Element, A: Copy + Debug + PartialEq>(element: impl Fn(u64) -> T, sum: impl Fn(&[T]) -> A)
where
    SumIn<A>: RowsOperation<T> + Operation<T, Output = A, Left = A>,
{
    check_op(Sum.accumulate_in::<A>(), element, sum, |left| left);
}

fn check_op<T: Element, O: RowsOperation<T>>(
    op: O,
    element: impl Fn(u64) -> T,
    sum: impl Fn(&[T]) -> O::Output,
    of_left: impl Fn(O::Left) -> O::Output + Copy,
) where
    O::Output: Debug + PartialEq,
{
    let values = |n: usize| -> Vec<T> { (0..n as u64).map(&element).collect() };
    let each = |found: Vec<O::Left>| found.into_iter().map(of_left).collect::<Vec<_>>();
    for n in [0, 1, 2, 31, 33, 1000, 4099, 65_537] {
        for start in [0, 1] {
            let all = values(n + start);
            let buffer = device().upload(&all).unwrap().slice(start..).unwrap();
            let right = |found, what: &str| assert_eq!(found, sum(&all[start..]), "{what}");
            check_by(op, &buffer, right, of_left);
            right(cpu::reduce(op, &all[start..]).unwrap(), "on the CPU");
        }
    }
    for (rows, len) in [(1000, 3), (33, 16), (20, 129), (7, 500), (3, 4096), (2, 20_000)] {
        let values = values(rows * len);
        let buffer = device().upload(&values).unwrap();
        let expected: Vec<O::Output> = values.chunks_exact(len).map(&sum).collect();
        let found = reducer().reduce(op, buffer.rows(len).unwrap()).unwrap();
        assert_eq!(each(found), expected, "{rows} rows of {len}");
        let found = cpu::reduce_rows(op, &values, len).unwrap();
        assert_eq!(each(found), expected, "{rows} rows of {len}");
        let column = |at: usize| values.iter().skip(at).step_by(rows).copied().collect::<Vec<T>>();
        let expected: Vec<O::Output> = (0..rows).map(|at| sum(&column(at))).collect();
        let found = reducer().reduce(op, buffer.columns(rows).unwrap()).unwrap();
        assert_eq!(each(found), expected, "{rows} columns of {len}");
    }
    let (values, offsets) = (values(3000), [0_u32, 1, 1, 50, 2999, 3000]);
    let buffer = device().upload(&values).unwrap();
    let segments = reducer().segments(&buffer, &device().upload(&offsets).unwrap()).unwrap();
    let segment = |ends: &[u32]| sum(&values[ends[0] as usize..ends[1] as usize]);
    let expected: Vec<O::Output> = offsets.windows(2).map(segment).collect();
    assert_eq!(each(reducer().reduce(op, &segments).unwrap()), expected);
}

/// Returns numbers of magnitudes so far apart that sums in `f32` lose the small ones.
fn part(index: u64) -> f64 {
    let sign = if index.is_multiple_of(3) { -1.0 } else { 1.0 };
    sign * [1.0, 4096.0, 8_388_608.0, 1.0 / 1024.0][index as usize % 4] * (1 + index % 7) as f64
}

#[test]
fn floats_are_added_in_double_precision() {
    let _checked = no_findings();
    check(
        |index| part(index) as f32,
        |values| values.iter().map(|&value| f64::from(value)).sum::<f64>(),
    );
    let half = |index| f16::from_f64(part(index).clamp(-60_000.0, 60_000.0));
    check(half, |values| values.iter().map(|&value| f64::from(value)).sum::<f64>());
    let bfloat = |index| bf16::from_f64(part(index));
    check(bfloat, |values| values.iter().map(|&value| f64::from(value)).sum::<f64>());
    check(part, |values| values.iter().sum::<f64>());
}

#[test]
fn integers_are_added_in_128_bits() {
    let _checked = no_findings();
    let bits = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::MAX << (index % 64);
    check(bits, |values| values.iter().map(|&value| u128::from(value)).sum::<u128>());
    let signed = |index| bits(index).cast_signed();
    check(signed, |values| values.iter().map(|&value| i128::from(value)).sum::<i128>());
    check(|_| i64::MIN, |values| values.iter().map(|&value| i128::from(value)).sum::<i128>());
    check(|index| index as u8, |values| values.iter().map(|&value| u64::from(value)).sum::<u64>());
}

#[test]
fn checked_sums_are_none_if_they_overflow() {
    let _checked = no_findings();
    // Some intermediate sums overflow although the whole sum fits.
    let signed = |index: u64| [i64::MAX, 1, -1, i64::MIN, i64::MIN, i64::MAX][index as usize % 6];
    let of_all = |values: &[i64]| values.iter().map(|&value| i128::from(value)).sum::<i128>();
    check_op(
        Sum.checked(),
        signed,
        |values| of_all(values).try_into().ok(),
        |left| left.try_into().ok(),
    );
    let unsigned = |index: u64| if index.is_multiple_of(50) { u64::MAX / 4 } else { index };
    let of_all = |values: &[u64]| values.iter().map(|&value| u128::from(value)).sum::<u128>();
    check_op(
        Sum.checked(),
        unsigned,
        |values| of_all(values).try_into().ok(),
        |left| left.try_into().ok(),
    );
}

#[test]
fn reproducible_integer_sums_are_exact() {
    let buffer = device().upload(&[i64::MAX, i64::MAX, -3]).unwrap();
    let op = Reproducible(Sum.accumulate_in::<i128>());
    assert_eq!(reducer().reduce(op, &buffer).unwrap(), 2 * i128::from(i64::MAX) - 3);
    assert_eq!(reducer().reduce(Sum.checked().reproducible(), &buffer).unwrap(), None);
}
