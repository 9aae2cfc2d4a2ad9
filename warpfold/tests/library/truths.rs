//! Buffers of truth values, which are bytes to the kernels.

use warpfold::{Bool, Buffer, Ends, Located, cpu, op};

use crate::{
    common::{device, no_findings, reducer},
    counted::count_of,
    operations::check,
};

fn every(step: usize, first: usize, n: usize) -> Vec<bool> {
    (0..n).map(|at| at >= first && at.is_multiple_of(step)).collect()
}

fn check_all(values: &[bool], buffer: &Buffer<Bool>) {
    let count = values.iter().filter(|&&value| value).count() as u64;
    let (any, all) = (count > 0, count == values.len() as u64);
    let what = format!("{count} of {}", values.len());
    check(op::CountNonZero, buffer, count, |left| left);
    check(op::Sum, buffer, count, |left| left);
    check(op::BitAnd, buffer, all.into(), |left| left);
    check(op::BitOr, buffer, any.into(), |left| left);
    check(op::BitXor, buffer, Bool::from(count % 2 == 1), |left| left);
    let some = !values.is_empty();
    check(op::Min, buffer, some.then_some(all.into()), Some);
    check(op::Max, buffer, some.then_some(any.into()), Some);
    check(op::MinMax, buffer, some.then_some(Ends { min: all.into(), max: any.into() }), Some);
    let first = |wanted: bool| values.iter().position(|&value| value == wanted).unwrap_or(0) as u64;
    let at = |value: bool| some.then_some(Located { value: value.into(), index: first(value) });
    check(op::ArgMax, buffer, at(any), Some);
    check(op::ArgMin, buffer, at(all), Some);
    let mean = reducer().mean(buffer).unwrap();
    assert_eq!(mean, some.then(|| count as f64 / values.len() as f64), "{what}");
}

#[test]
fn every_operation_of_truth_values_is_right() {
    let _checked = no_findings();
    for n in [0, 1, 2, 33, 1000, 70_001] {
        for values in
            [every(1, 0, n), every(1, n, n), every(7, 0, n), every(1, n / 2, n), every(1, 1, n)]
        {
            let buffer = device().upload(Bool::of(&values)).unwrap();
            check_all(&values, &buffer);
            let found: Vec<bool> = buffer.download().unwrap().into_iter().map(bool::from).collect();
            assert_eq!(found, values);
            if n > 0 {
                check_all(&values[1..], &buffer.slice(1..).unwrap());
            }
        }
    }
}

#[test]
fn rows_of_truth_values_have_their_results() {
    let values = every(5, 12, 40);
    let buffer = device().upload(Bool::of(&values)).unwrap();
    let rows = buffer.rows(4).unwrap();
    let expected =
        |of: fn(&[bool]) -> bool| -> Vec<Bool> { values.chunks(4).map(|row| of(row).into()).collect() };
    let any = expected(|row| row.contains(&true));
    assert_eq!(reducer().reduce(op::BitOr, &rows).unwrap(), any);
    assert_eq!(reducer().reduce(op::Max, &rows).unwrap(), any);
    assert_eq!(cpu::reduce_rows(op::BitOr, Bool::of(&values), 4).unwrap(), any);
    let columns = reducer().reduce(op::Sum, buffer.columns(8).unwrap()).unwrap();
    let column = |at: usize| values.iter().skip(at).step_by(8).filter(|&&value| value).count() as u64;
    assert!(columns.into_iter().enumerate().all(|(at, sum)| sum == column(at)));
}

/// Bytes that other programs wrote: every value is defined, and all but 0 are true.
#[test]
fn any_byte_is_a_truth_value() {
    for bytes in [&[0_u8, 2, 255, 0][..], &[2, 128, 255, 1], &[0, 0]] {
        let buffer = device().upload(bytes).unwrap().cast::<Bool>().unwrap();
        let values: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
        let found = buffer.download().unwrap();
        assert_eq!(found.iter().map(|&value| value.into()).collect::<Vec<bool>>(), values);
        let (any, all) = (values.contains(&true), !values.contains(&false));
        assert_eq!(reducer().max(&buffer).unwrap(), Some(any.into()));
        assert_eq!(reducer().min(&buffer).unwrap(), Some(all.into()));
        assert_eq!(format!("{found:?}"), format!("{values:?}"));
        assert!(found.iter().zip(&values).all(|(&found, &value)| found == value.into()));
        assert!(Bool::FALSE < Bool::TRUE && found.iter().all(|&value| value <= Bool::TRUE));
    }
}

#[test]
fn bit_and_of_no_elements_is_true() {
    let (stream, values) = (device().stream().unwrap(), device().upload(&[Bool::FALSE; 3]).unwrap());
    let none = count_of(0);
    let counted = reducer().on(&stream).reduce(op::BitAnd, values.counted(&none)).unwrap();
    assert_eq!(counted.wait().unwrap(), Bool::TRUE);
    assert_eq!(cpu::reduce(op::BitAnd, Bool::of(&[])).unwrap(), Bool::TRUE);
}

#[test]
fn filter_selects_true_values() {
    let values = [true, false, true, true].map(Bool::from);
    let buffer = device().upload(&values).unwrap();
    let counts = [
        reducer().reduce(op::Sum, buffer.filter(Bool::TRUE..)),
        reducer().reduce(op::Sum, buffer.filter(..Bool::TRUE)),
        reducer().reduce(op::Sum, buffer.filter(..)),
        reducer().reduce(op::Sum, buffer.filter(Bool::TRUE..Bool::TRUE)),
    ];
    assert_eq!(counts.map(|found| found.unwrap().count), [3, 1, 4, 0]);
}
