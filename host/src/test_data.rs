//! Test elements, chosen so that a wrong result is detected.
//!
//! Ordinary elements are random; the last one, the marker, is chosen so that omitting it changes the
//! result by more than rounding can explain. The ranges of both have closed forms.
//!
//! - Integers cover their whole range except the two values at either end, so that a marker next to the
//!   end is the only extreme, and no correct minimum or maximum equals the end of the type.
//! - Floats are uniform in [0, 1), or in [0, 1/256) for f16; for a sum of squares, the squares are
//!   uniform. All have the same sign, so that their sum far exceeds the rounding error and an omitted
//!   block is detected too. The marker of a sum is between 1/128 and 1/64 of the largest sum of the
//!   others; for a sum of squares, its square is between 1/128 and 1/32 of theirs. The marker of an
//!   extreme is -2 or 2.
//!
//! The summands are uniform for the following reason. Once the last place of a long sum is not small
//! relative to the terms, rounding errors have mean 0 only if terms are equally likely just above and
//! just below a multiple of it. The squares of uniform elements concentrate near 0, where all of them
//! are rounded down: a loop over 2^20 of them has an error of three quarters of the
//! [bound](crate::reference) for terms with unbiased errors.

use half::{bf16, f16};
use rayon::prelude::*;

use crate::{Data, Dtype, Op, Scalar, Value, data::mix};

pub(crate) trait TestElement: Scalar {
    /// The largest magnitude of an ordinary float; NaN for integers.
    const LARGEST_ORDINARY: f64;

    fn ordinary(op: Op, bits: u64) -> Self;

    /// Returns the last of `n` elements, which must be at least 1. A sum of integers may by chance equal
    /// the result of a wrong kernel; another `turn`, below [`TURNS`], gives another sum.
    fn marker(op: Op, n: u64, turn: u64) -> Self;
}

/// The number of markers for integers, greater than the number of wrong results that the sum must not
/// equal.
pub(crate) const TURNS: u64 = 8;

const SHARE: u64 = 128;

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl TestElement for $ty {
            const LARGEST_ORDINARY: f64 = f64::NAN;

            fn ordinary(_op: Op, bits: u64) -> Self {
                Self::random(bits).clamp(Self::MIN + 2, Self::MAX - 2)
            }

            fn marker(op: Op, _n: u64, turn: u64) -> Self {
                match op {
                    Op::Sum | Op::SumOfSquares => Self::of_integer(1 + turn),
                    Op::Min | Op::ArgMin => Self::MIN + 1,
                    Op::Max | Op::ArgMax => Self::MAX - 1,
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty = $largest:expr, $most:expr, $of:expr;)*) => {$(
        impl TestElement for $ty {
            const LARGEST_ORDINARY: f64 = $largest;

            fn ordinary(op: Op, bits: u64) -> Self {
                let of: fn(f64) -> Self = $of;
                let uniform = f64::from(Self::random(bits)).abs();
                // Square roots are correctly rounded, and therefore equal on all machines.
                of(if op == Op::SumOfSquares { uniform.sqrt() } else { uniform } * $largest)
            }

            fn marker(op: Op, n: u64, _turn: u64) -> Self {
                let of: fn(f64) -> Self = $of;
                // A power of two is exact in every type.
                let share = (n - 1).div_ceil(SHARE).max(1).next_power_of_two();
                of(match op {
                    Op::Sum => (share as f64 * $largest).min($most),
                    Op::SumOfSquares => (1_u64 << share.ilog2().div_ceil(2)) as f64 * $largest,
                    Op::Min | Op::ArgMin => -2.0,
                    Op::Max | Op::ArgMax => 2.0,
                })
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }
floats! {
    // 2^15 is the largest power of two in f16. With ordinary elements below 1, a marker of that size
    // would be too small from 2^22 elements on.
    f16 = 1.0 / 256.0, 32_768.0, f16::from_f64;
    bf16 = 1.0, f64::INFINITY, bf16::from_f64;
    f32 = 1.0, f64::INFINITY, |x| x as f32;
    f64 = 1.0, f64::INFINITY, |x| x;
}

impl Data {
    /// Returns `n` ordinary elements for an operation, none of them the least or greatest value of its
    /// type. They depend only on the seed and not on the machine.
    /// [`Expected::mark`](crate::reference::Expected::mark) replaces one of them by the marker.
    pub fn drawn(op: Op, dtype: Dtype, n: usize, seed: u64) -> Self {
        with_dtype!(dtype, T => {
            let element = |i| <T as TestElement>::ordinary(op, mix(seed, i));
            T::data((0..n as u64).into_par_iter().map(element).collect())
        })
    }

    /// Returns whether [`drawn`](Self::drawn) gives the same elements for two operations.
    pub fn drawn_alike(dtype: Dtype, op: Op, other: Op) -> bool {
        !dtype.is_float() || (op == Op::SumOfSquares) == (other == Op::SumOfSquares)
    }

    pub fn get(&self, index: usize) -> Value {
        with_data!(self, values => values[index].value())
    }

    pub fn set(&mut self, index: usize, value: Value) {
        with_value!(self, value, values, value => values[index] = value);
    }
}

pub(crate) fn marker(op: Op, dtype: Dtype, n: u64, turn: u64) -> Value {
    with_dtype!(dtype, T => <T as TestElement>::marker(op, n, turn).value())
}

pub(crate) fn largest_ordinary(dtype: Dtype) -> f64 {
    with_dtype!(dtype, T => <T as TestElement>::LARGEST_ORDINARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_elements_stay_in_their_documented_ranges() {
        for &dtype in Dtype::ALL {
            let data = Data::drawn(Op::Sum, dtype, 100_000, 3);
            let elements: Vec<f64> = (0..data.len()).map(|i| data.get(i).to_f64()).collect();
            for &op in Op::ALL {
                let alike = data == Data::drawn(op, dtype, 100_000, 3);
                assert_eq!(alike, Data::drawn_alike(dtype, Op::Sum, op), "{op} {dtype}");
            }
            let least = elements.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for op in [Op::Min, Op::Max] {
                let marker = marker(op, dtype, 100_000, 0);
                assert!(!(least..=greatest).contains(&marker.to_f64()), "{op} {dtype}: {marker}");
                assert_ne!(marker, Value::identity(Op::Min, dtype));
                assert_ne!(marker, Value::identity(Op::Max, dtype));
            }
            if dtype.is_float() {
                let most = largest_ordinary(dtype);
                assert!(least >= 0.0 && (0.99 * most..=most).contains(&greatest), "{dtype}: {greatest}");
                let mean = elements.iter().sum::<f64>() / 1e5 / most;
                assert!((0.49..0.51).contains(&mean), "{dtype}: {mean}");
                let roots = Data::drawn(Op::SumOfSquares, dtype, 100_000, 3);
                let squares = (0..roots.len()).map(|i| roots.get(i).to_f64().powi(2));
                let mean = squares.sum::<f64>() / 1e5 / most.powi(2);
                assert!((0.49..0.51).contains(&mean), "{dtype}: {mean}");
            }
        }
    }

    #[test]
    fn float_markers_have_the_documented_share() {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
            let most = largest_ordinary(dtype);
            for n in [1, 2, 129, 130, 1000, 1_000_003, 1 << 22, 1 << 28, (1 << 30) - 7] {
                let others = (n - 1) as f64 * most;
                let share = marker(Op::Sum, dtype, n, 0).to_f64() / others.max(128.0 * most);
                assert!((1.0 / 128.0..1.0 / 64.0 + 1e-9).contains(&share), "{dtype} {n}: {share}");
                let squares = (n - 1) as f64 * most * most;
                let share = marker(Op::SumOfSquares, dtype, n, 0).to_f64().powi(2)
                    / squares.max(128.0 * most * most);
                assert!((1.0 / 128.0..1.0 / 32.0 + 1e-9).contains(&share), "{dtype} {n}: {share}");
            }
        }
    }

    #[test]
    fn an_element_is_replaced_by_one_of_its_type() {
        let mut data = Data::I8(vec![1, 2, 3]);
        data.set(2, Value::I8(-7));
        assert_eq!((data.get(2), data.get(1)), (Value::I8(-7), Value::I8(2)));
        let refused = std::panic::catch_unwind(move || data.set(0, Value::I32(1)));
        assert!(refused.is_err());
    }
}
