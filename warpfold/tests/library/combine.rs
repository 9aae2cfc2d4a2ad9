//! Combining results on the host.

use warpfold::{
    Element, bf16, f16,
    op::{self, Combine},
};

use crate::common::{Sample, device, reducer, small};

fn of_all<T: Sample<Sum: Sample>>() {
    let values = small::<T>(60, 4);
    let buffer = device().upload(&values).unwrap();
    let parts = [buffer.slice(..23).unwrap(), buffer.slice(23..).unwrap()];
    macro_rules! agree {
        ($op:expr) => {{
            let [a, b] = parts.each_ref().map(|part| reducer().reduce($op, part).unwrap());
            assert_eq!($op.combine(a, b), reducer().reduce($op, &buffer).unwrap());
        }};
    }
    agree!(op::Sum);
    agree!(op::SumOfSquares);
    agree!(op::SumOfMagnitudes);
    agree!(op::CountNonZero);
    agree!(op::Sum.reproducible());
    let [a, b] = parts.each_ref().map(|part| reducer().min(part).unwrap().unwrap());
    assert_eq!(Some(op::Min.combine(a, b)), reducer().min(&buffer).unwrap());
    let [a, b] = parts.each_ref().map(|part| reducer().max(part).unwrap().unwrap());
    assert_eq!(Some(op::Max.combine(a, b)), reducer().max(&buffer).unwrap());
    let product = reducer().reduce(op::Product, &device().upload(&[T::of(2), T::of(3)]).unwrap());
    assert_eq!(op::Product.combine(T::Sum::of(7), product.unwrap()), T::Sum::of(42));
    let mut rows = reducer().reduce(op::Max, buffer.rows(20).unwrap()).unwrap();
    rows.iter_mut().for_each(|row| *row = op::Max.combine(T::of(3), *row));
    let greatest =
        |values: &[T]| values.iter().copied().fold(T::of(3), |a, b| if b > a { b } else { a });
    assert_eq!(rows, values.chunks(20).map(greatest).collect::<Vec<_>>());
}

#[test]
fn combined_partial_results_equal_the_whole() {
    for_every_type!(of_all());
}

#[test]
fn integers_wrap_around_in_the_type_of_the_result() {
    assert_eq!(op::Sum.combine(i64::MAX, 2), i64::MIN + 1);
    assert_eq!(op::Sum.combine(u64::MAX, 2), 1);
    assert_eq!(op::Product.combine(1_u64 << 63, 2), 0);
    assert_eq!(op::WrappingSum.combine(1_i8, 127), i8::MIN);
    assert_eq!(op::SumOfMagnitudes.combine(-128_i64, 127), -1);
    assert_eq!(op::Sum.accumulate_in::<i128>().combine(i128::MAX, 2), i128::MIN + 1);
    assert_eq!(op::Sum.accumulate_in::<u128>().combine(u64::MAX.into(), 2), (1 << 64) + 1);
    assert_eq!(op::Min.combine(i64::MIN, 1), i64::MIN);
    assert_eq!(op::Max.combine(i64::MIN, 1), 1);
    assert_eq!(op::BitAnd.combine(0b1011_u8, 0b1000), 0b1000);
    assert_eq!(op::BitOr.combine(0b0001_u8, 0b1110), 0b1111);
    assert_eq!(op::BitXor.combine(1, i64::MIN | 1), i64::MIN);
    assert_eq!(op::CountNan.combine(2, 1), 3);
}

/// NaN prevails on either side and −0 is below +0, as in the kernels.
fn of_special<T: Sample>(of: fn(f32) -> T, to: fn(T) -> f32) {
    let extremes =
        |a: f32, b: f32| [to(op::Min.combine(of(a), of(b))), to(op::Max.combine(of(a), of(b)))];
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for (a, b) in [(nan, 1.0), (1.0, nan), (nan, nan), (nan, inf)] {
        assert!(extremes(a, b).into_iter().all(f32::is_nan));
    }
    assert_eq!(extremes(inf, 1.0), [1.0, inf]);
    assert_eq!(extremes(-inf, 2.0), [-inf, 2.0]);
    let signs = |a, b| extremes(a, b).map(f32::is_sign_negative);
    assert_eq!(
        [signs(0.0, -0.0), signs(-0.0, 0.0), signs(-0.0, -0.0)],
        [[true, false], [true, false], [true; 2]]
    );
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
fn floats_are_rounded_once() {
    assert_eq!(op::Sum.combine(1.0, 16_777_216.0_f32), 16_777_216.0);
    assert_eq!(op::Sum.accumulate_in::<f64>().combine(1.0, 16_777_216.0), 16_777_217.0);
    assert_eq!(op::Sum.reproducible().combine(2.0, 16_777_216.0_f32), 16_777_218.0);
    assert_eq!(op::Product.combine(0.5, 16_777_216.0_f32), 8_388_608.0);
    assert!(op::Sum.combine(f32::NAN, 1.0).is_nan());
}

#[test]
fn a_generic_program_combines_results() {
    fn sum<T: Element>(values: &[T], initial: T::Sum) -> T::Sum {
        op::Sum.combine(initial, reducer().sum(&device().upload(values).unwrap()).unwrap())
    }
    assert_eq!(sum(&[1_u8, 2], 3), 6);
}
