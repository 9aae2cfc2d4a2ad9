//! Errors of float results on sets with large errors, whose sums cancel.
//!
//! The exact sum is known without an addition: except for a few small integers, every element's opposite
//! is in the set.

use warpfold::{
    Buffer, Element, bf16, f16,
    internal::{Dtype, Job, OpKind, depth, plan},
    op,
};

use crate::common::{Sample, device, reducer};

trait Float: Sample {
    /// Returns `significand · 2^exponent`, exact for significands of 7 bits.
    fn scaled(significand: f64, exponent: i32) -> Self;
    fn exact(self) -> f64;
    /// Exponents at which neither a sum nor a square overflows or underflows.
    const EXPONENTS: std::ops::RangeInclusive<i32>;
}

macro_rules! float {
    ($($ty:ty: $exponents:expr, $of:expr, $exact:expr;)*) => {$(
        impl Float for $ty {
            const EXPONENTS: std::ops::RangeInclusive<i32> = $exponents;

            fn scaled(significand: f64, exponent: i32) -> Self {
                let scaled = significand * 2_f64.powi(exponent);
                let element = $of(scaled);
                assert_eq!($exact(element), scaled);
                element
            }

            fn exact(self) -> f64 {
                $exact(self)
            }
        }
    )*};
}

float! {
    f16: -6..=8, f16::from_f64, f16::to_f64;
    bf16: -40..=40, bf16::from_f64, bf16::to_f64;
    f32: -40..=40, |value| value as f32, f64::from;
    f64: -200..=200, f64::from, f64::from;
}

/// Weyl sequence with a mixing step, good enough for shuffling.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

/// Returns elements of all magnitudes with their opposites, and `ones` ones, shuffled.
fn cancelling<T: Float>(pairs: usize, ones: usize, mut seed: u64) -> Vec<T> {
    let span = T::EXPONENTS.end().abs_diff(*T::EXPONENTS.start()) + 1;
    let mut values = vec![T::of(1); ones];
    for _ in 0..pairs {
        let exponent = T::EXPONENTS.start() + (random(&mut seed) % u64::from(span)) as i32;
        let significand = 1.0 + (random(&mut seed) % 128) as f64 / 128.0;
        values.extend([T::scaled(significand, exponent), T::scaled(-significand, exponent)]);
    }
    for last in (1..values.len()).rev() {
        values.swap(last, (random(&mut seed) % (last as u64 + 1)) as usize);
    }
    values
}

fn sums_that_cancel<T: Float>(to_f64: fn(T::Sum) -> f64) {
    for (pairs, ones) in [(1, 1), (20, 3), (5000, 17), (40_000, 1), (40_000, 3001)] {
        let values = cancelling::<T>(pairs, ones, pairs as u64);
        let buffer = device().upload(&values).unwrap();
        let magnitude: f64 = values.iter().map(|value| value.exact().abs()).sum();
        let bound = reducer().error_bound(op::Sum, &buffer).unwrap() * magnitude;
        let error = |buffer: &Buffer<T>| (to_f64(reducer().sum(buffer).unwrap()) - ones as f64).abs();
        let what = format!("{} pairs and {ones} ones of {}", pairs, std::any::type_name::<T>());
        assert!(error(&buffer) <= bound, "{what}: {} above {bound}", error(&buffer));
        // The bound detects a missing element: without the largest one the sum is far off.
        let largest = (0..values.len()).max_by(|&a, &b| values[a].exact().total_cmp(&values[b].exact()));
        let mut fewer = values.clone();
        fewer.swap_remove(largest.unwrap());
        let without = device().upload(&fewer).unwrap();
        assert!(error(&without) > bound, "{what}: {bound} tells nothing");
    }
}

#[test]
fn sums_that_cancel_are_within_their_bound() {
    sums_that_cancel::<f16>(f64::from);
    sums_that_cancel::<bf16>(f64::from);
    sums_that_cancel::<f32>(f64::from);
    sums_that_cancel::<f64>(f64::from);
}

/// Checks squares of all magnitudes against a double-double sum.
fn squares<T: Float>(to_f64: fn(T::Sum) -> f64) {
    let values = cancelling::<T>(30_000, 5, 8);
    let buffer = device().upload(&values).unwrap();
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in &values {
        let (value, before) = (value.exact(), sum);
        let square = value * value;
        sum = before + square;
        lost += if before >= square { (before - sum) + square } else { (square - sum) + before };
        lost += value.mul_add(value, -square);
    }
    let exact = sum + lost;
    let bound = reducer().error_bound(op::SumOfSquares, &buffer).unwrap() * exact;
    let error = (to_f64(reducer().reduce(op::SumOfSquares, &buffer).unwrap()) - exact).abs();
    assert!(error <= bound, "{}: {error} above {bound}", std::any::type_name::<T>());
    // The bound detects a missing square at the top of the range.
    assert!(2_f64.powi(2 * T::EXPONENTS.end()) > bound);
}

#[test]
fn sums_of_squares_are_within_their_bound() {
    squares::<f16>(f64::from);
    squares::<bf16>(f64::from);
    squares::<f32>(f64::from);
    squares::<f64>(f64::from);
}

/// Checks sums of magnitudes, which use the launch of the sum and have a relative error bound.
fn magnitudes<T: Float>() {
    let values = cancelling::<T>(30_000, 5, 9);
    let buffer = device().upload(&values).unwrap();
    // The sum of positive numbers in `f64`: each addition loses at most 2^-53, which is added to the
    // bound for results in `f64`.
    let exact: f64 = values.iter().map(|value| value.exact().abs()).sum();
    let own = values.len() as f64 * f64::EPSILON / 2.0 * exact;
    let bound = reducer().error_bound(op::Sum, &buffer).unwrap() * exact + own;
    let error = (reducer().reduce(op::L1Norm, &buffer).unwrap() - exact).abs();
    assert!(error <= bound, "{}: {error} above {bound}", std::any::type_name::<T>());
    assert!(2_f64.powi(*T::EXPONENTS.end()) > bound, "{bound} tells nothing");
}

#[test]
fn sums_of_magnitudes_are_within_the_bound_of_sums() {
    magnitudes::<f16>();
    magnitudes::<bf16>();
    magnitudes::<f32>();
    magnitudes::<f64>();
}

/// Checks that a product rounds once per multiplication, n - 1 times, against a double-double product.
fn products<T: Float>(to_f64: fn(T::Sum) -> f64, roundoff: f64) {
    for n in [2, 33, 1000, 20_000] {
        let (mut seed, mut last) = (n as u64, 1.0);
        // Every second factor is about the reciprocal of the one before, so that products stay near 1.
        let mut factor = |at: usize| {
            last = if at.is_multiple_of(2) {
                1.0 + (random(&mut seed) % 128) as f64 / 128.0
            } else {
                (256.0_f64 / last).round() / 256.0
            };
            T::scaled(last, 0)
        };
        let values: Vec<T> = (0..n).map(&mut factor).collect();
        let (mut product, mut lost, mut exponent) = (1.0_f64, 0.0_f64, 0);
        for value in &values {
            let (value, before) = (value.exact(), product);
            product = before * value;
            lost = before.mul_add(value, -product) + lost * value;
            let shift = product.log2().floor() as i32;
            (product, lost) = (product * 2_f64.powi(-shift), lost * 2_f64.powi(-shift));
            exponent += shift;
        }
        let found = to_f64(reducer().reduce(op::Product, &device().upload(&values).unwrap()).unwrap());
        let relative = (n - 1) as f64 * roundoff;
        let bound = relative / (1.0 - relative);
        let off = |found: f64| ((found * 2_f64.powi(-exponent) - product) - lost).abs() / product;
        let what = format!("{n} factors of {}", std::any::type_name::<T>());
        assert!(off(found) <= bound, "{what}: {} above {bound}", off(found));
        assert!(off(found * (1.0 + 3.0 * bound)) > bound, "{what}: {bound} tells nothing");
    }
}

#[test]
fn products_are_within_the_bound_of_their_multiplications() {
    products::<f32>(f64::from, f64::from(f32::EPSILON) / 2.0);
    products::<f64>(f64::from, f64::EPSILON / 2.0);
}

fn exact<T: Element>(values: &[T]) -> [f64; 2] {
    let buffer = device().upload(values).unwrap();
    [reducer().error_bound(op::Sum, &buffer), reducer().error_bound(op::SumOfSquares, &buffer)]
        .map(Result::unwrap)
}

/// The bound of `d` additions with a relative error of at most `u` each is d·u / (1 − d·u).
#[test]
fn bound_follows_the_addition_depth_of_the_launch() {
    let n = 1 << 20;
    let buffer = device().upload(&vec![1.0_f32; n]).unwrap();
    let job =
        Job { op: OpKind::Sum.plain(), dtype: Dtype::F32, n: n as u64, address: buffer.as_device_ptr() };
    let additions = depth(plan(reducer(), &job, None).unwrap(), &job) as f64;
    let bound = reducer().error_bound(op::Sum, &buffer).unwrap();
    // d·u = bound / (1 + bound), up to rounding in f64; without the second term it would be off by
    // `bound`.
    let found = bound / (1.0 + bound) * f64::from(1 << 24);
    assert!((found / additions - 1.0).abs() < 1e-12 && bound > 1e-7, "{found} of {additions}");
}

#[test]
fn integers_and_empty_inputs_are_exact() {
    assert_eq!(exact(&[1_i8, 2]), [0.0; 2]);
    assert_eq!(exact(&[1_u64, 2]), [0.0; 2]);
    assert_eq!(exact::<f32>(&[]), [0.0; 2]);
    // Halves are added in `f32`.
    let [half, single, double] =
        [exact(&[f16::ONE; 2])[0], exact(&[1.0_f32; 2])[0], exact(&[1.0_f64; 2])[0]];
    assert!(half >= single && single > 1e6 * double && double > 0.0);
}
