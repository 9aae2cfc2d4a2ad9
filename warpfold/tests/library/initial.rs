//! Reductions with an initial value.

use warpfold::{Element, Error, bf16, f16, op};

use crate::{
    common::{Sample, device, reducer, says, small},
    devices::own_context,
};

/// Each operation of every type, of a buffer, of none and of rows.
fn of_all<T: Sample<Sum: Sample>>() {
    let (values, initial) = (small::<T>(60, 4), T::of(3));
    let buffer = device().upload(&values).unwrap();
    let none = buffer.slice(..0).unwrap();
    let (reducer, rows) = (reducer(), buffer.rows(20).unwrap());
    let sum = |n: i64, values: &[T], squares| {
        T::Sum::total(&[T::Sum::of(n), T::total(values, squares)], false)
    };
    // A sum of a sum's type is itself.
    let same = |found: T::Sum, n: i64, values: &[T], squares| {
        assert_eq!(T::Sum::total(&[found], false), sum(n, values, squares));
    };
    same(reducer.reduce_from(T::Sum::of(100), op::Sum, &buffer).unwrap(), 100, &values, false);
    same(reducer.reduce_from(T::Sum::of(9), op::SumOfSquares, &buffer).unwrap(), 9, &values, true);
    assert_eq!(reducer.reduce_from(T::Sum::of(9), op::Sum, &none).unwrap(), T::Sum::of(9));
    assert_eq!(reducer.reduce_from(T::Sum::of(9), op::Product, &none).unwrap(), T::Sum::of(9));
    let sums = reducer.reduce_rows_from(T::Sum::of(5), op::Sum, &rows).unwrap();
    assert_eq!(sums.len(), 3);
    sums.iter().zip(values.chunks(20)).for_each(|(&found, row)| same(found, 5, row, false));

    let least = |values: &[T]| values.iter().copied().fold(initial, |a, b| if b < a { b } else { a });
    let greatest = |values: &[T]| values.iter().copied().fold(initial, |a, b| if b > a { b } else { a });
    assert_eq!(reducer.reduce_from(initial, op::Min, &buffer).unwrap(), least(&values));
    assert_eq!(reducer.reduce_from(initial, op::Max, &buffer).unwrap(), greatest(&values));
    assert_eq!(reducer.reduce_from(initial, op::Min, &none).unwrap(), initial);
    assert_eq!(reducer.reduce_from(initial, op::Max, &none).unwrap(), initial);
    let expected: Vec<T> = values.chunks(20).map(greatest).collect();
    assert_eq!(reducer.reduce_rows_from(initial, op::Max, &rows).unwrap(), expected);
    assert_eq!(reducer.reduce_from(1, op::CountNonZero, &buffer).unwrap(), 61);
    let two = device().upload(&[T::of(2), T::of(3)]).unwrap();
    assert_eq!(reducer.reduce_from(T::Sum::of(7), op::Product, &two).unwrap(), T::Sum::of(42));
    assert_eq!(reducer.reduce_from(T::of(1), op::Min, &two).unwrap(), T::of(1));
    assert_eq!(reducer.reduce_from(T::of(7), op::Max, &two).unwrap(), T::of(7));
}

#[test]
fn every_type_takes_an_initial_value() {
    for_every_type!(of_all());
}

#[test]
fn integers_wrap_around_in_the_type_of_the_result() {
    let ones = device().upload(&[1_i64, 1]).unwrap();
    assert_eq!(reducer().reduce_from(i64::MAX, op::Sum, &ones).unwrap(), i64::MIN + 1);
    assert_eq!(reducer().reduce_from(i64::MIN, op::Min, &ones).unwrap(), i64::MIN);
    assert_eq!(reducer().reduce_from(i64::MIN, op::Max, &ones).unwrap(), 1);
    assert_eq!(reducer().reduce_from(i64::MAX, op::Max, &ones).unwrap(), i64::MAX);
    let wide = op::Sum.accumulate_in::<i128>();
    assert_eq!(reducer().reduce_from(i128::from(i64::MAX), wide, &ones).unwrap(), (1 << 63) + 1);
    assert_eq!(reducer().reduce_from(i128::MAX, wide, &ones).unwrap(), i128::MIN + 1);
    let twos = device().upload(&[2_u64]).unwrap();
    assert_eq!(reducer().reduce_from(1 << 63, op::Product, &twos).unwrap(), 0);
    assert_eq!(reducer().reduce_from(u64::MAX, op::Sum, &twos).unwrap(), 1);
    let wide = op::Sum.accumulate_in::<u128>();
    assert_eq!(reducer().reduce_from(u64::MAX.into(), wide, &twos).unwrap(), (1 << 64) + 1);
    // In the elements' own type, and not in that.
    let bytes = device().upload(&[100_i8, 27]).unwrap();
    assert_eq!(reducer().reduce_from(1, op::WrappingSum, &bytes).unwrap(), i8::MIN);
    assert_eq!(reducer().reduce_from(1, op::Sum, &bytes).unwrap(), 128);
    assert_eq!(reducer().reduce_from(-128, op::SumOfMagnitudes, &bytes).unwrap(), -1);
}

#[test]
fn bits_go_together() {
    let values = device().upload(&[0b1100_u8, 0b1010]).unwrap();
    let rows = values.rows(1).unwrap();
    assert_eq!(reducer().reduce_from(0b1011, op::BitAnd, &values).unwrap(), 0b1000);
    assert_eq!(reducer().reduce_from(0b0001, op::BitOr, &values).unwrap(), 0b1111);
    assert_eq!(reducer().reduce_from(0b0111, op::BitXor, &values).unwrap(), 0b0001);
    assert_eq!(reducer().reduce_rows_from(0b0100, op::BitAnd, &rows).unwrap(), [0b0100, 0]);
    assert_eq!(reducer().reduce_from(0b101, op::BitAnd, &values.slice(..0).unwrap()).unwrap(), 0b101);
    let wide = device().upload(&[i64::MIN | 1]).unwrap();
    assert_eq!(reducer().reduce_from(1, op::BitXor, &wide).unwrap(), i64::MIN);
}

/// NaN prevails, on either side; zeros are in the order of their signs.
fn of_special<T: Sample>(of: fn(f32) -> T, to: fn(T) -> f32) {
    let extremes = |initial: f32, values: &[f32]| {
        let values: Vec<T> = values.iter().copied().map(of).collect();
        let buffer = device().upload(&values).unwrap();
        let min = reducer().reduce_from(of(initial), op::Min, &buffer).unwrap();
        let max = reducer().reduce_from(of(initial), op::Max, &buffer).unwrap();
        if !values.is_empty() {
            let rows = buffer.rows(values.len()).unwrap();
            let [of_row] = reducer().reduce_rows_from(of(initial), op::Min, &rows).unwrap()[..] else {
                panic!("one row")
            };
            assert!(of_row == min || of_row.is_nan() && min.is_nan());
        }
        [to(min), to(max)]
    };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert!(extremes(nan, &[1.0, 2.0]).into_iter().all(f32::is_nan));
    assert!(extremes(1.0, &[nan, 2.0]).into_iter().all(f32::is_nan));
    assert!(extremes(nan, &[nan]).into_iter().all(f32::is_nan));
    assert!(extremes(nan, &[]).into_iter().all(f32::is_nan));
    assert_eq!(extremes(inf, &[1.0, 2.0]), [1.0, inf]);
    assert_eq!(extremes(-inf, &[1.0, 2.0]), [-inf, 2.0]);
    let signs = |initial, values: &[f32]| extremes(initial, values).map(f32::is_sign_negative);
    assert_eq!(signs(0.0, &[-0.0]), [true, false]);
    assert_eq!(signs(-0.0, &[0.0]), [true, false]);
    assert_eq!(signs(-0.0, &[-0.0]), [true, true]);
    assert_eq!(signs(-0.0, &[]), [true, true]);
    // As the kernels have it of two elements.
    let zeros = device().upload(&[of(0.0), of(-0.0)]).unwrap();
    let found = [reducer().min(&zeros).unwrap(), reducer().max(&zeros).unwrap()];
    assert_eq!(found.map(|zero| to(zero.unwrap()).is_sign_negative()), [true, false]);
}

#[test]
fn extremes_follow_the_rules_of_the_kernels() {
    of_special::<f16>(f16::from_f32, f16::to_f32);
    of_special::<bf16>(bf16::from_f32, bf16::to_f32);
    of_special::<f32>(|value| value, |value| value);
    of_special::<f64>(f64::from, |value| value as f32);
}

#[test]
fn floats_are_rounded_once_more() {
    let values = device().upload(&[16_777_216.0_f32]).unwrap();
    assert_eq!(reducer().reduce_from(1.0, op::Sum, &values).unwrap(), 16_777_216.0);
    let wide = op::Sum.accumulate_in::<f64>();
    assert_eq!(reducer().reduce_from(1.0, wide, &values).unwrap(), 16_777_217.0);
    assert_eq!(reducer().reduce_from(2.0, op::Everywhere(op::Sum), &values).unwrap(), 16_777_218.0);
    assert_eq!(reducer().reduce_from(0.5, op::Product, &values).unwrap(), 8_388_608.0);
    assert!(reducer().reduce_from(f32::NAN, op::Sum, &values).unwrap().is_nan());
    assert_eq!(reducer().reduce_from(2, op::CountNan, &values).unwrap(), 2);
    let none = values.slice(..0).unwrap();
    assert!(reducer().reduce_from(-0.0, op::Sum, &none).unwrap().is_sign_negative());
}

/// Whoever reduces elements of any type asks nothing else of it.
#[test]
fn a_generic_program_takes_initial_values() {
    fn sum<T: Element>(values: &[T], initial: T::Sum) -> T::Sum {
        reducer().reduce_from(initial, op::Sum, &device().upload(values).unwrap()).unwrap()
    }
    assert_eq!(sum(&[1_u8, 2], 3), 6);
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    let there = own_context().upload(&[1_u8]).unwrap();
    let error = reducer().reduce_from(1, op::Sum, &there).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
    says(&error, &["buffer"]);
}
