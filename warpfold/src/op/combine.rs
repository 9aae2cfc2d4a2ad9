//! The combination of results on the host.

use crate::{
    Bits, Element, Integer,
    element::{element_of, word_of},
    names::Dtype,
    op::{
        BitAnd, BitOr, BitXor, CountNan, CountNonZero, Max, Min, Product, Reproducible, Sum, SumIn,
        SumOfMagnitudes, SumOfSquares, WrappingSum,
    },
};

/// An operation that combines the results of two inputs into the result of both. Either may be an
/// initial value.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op::{self, Combine}};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[3_u8, 200, 7])?;
/// assert_eq!(op::Sum.combine(1000, reducer.sum(&values)?), 1210);
/// assert_eq!(reducer.min(&values)?.map_or(5, |min| op::Min.combine(5, min)), 3);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// `R` is the type of results on the host: [`Element::Sum`] for sums and products. Integers wrap around,
/// floats are rounded once, and the minimum and maximum of NaN and any value are NaN. The combination of
/// two [`Reproducible`] sums is rounded again, so it depends on where the input was split. Means and
/// variances cannot be combined: their results lack the number of elements.
///
/// ```compile_fail,E0599
/// # use warpfold::op::{self, Combine};
/// op::Mean.combine(1.0, 2.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not combine results of type `{R}`",
    note = "sums, products, minima, maxima, counts and bitwise operations do, in the type of their result"
)]
pub trait Combine<R> {
    /// Combines two results.
    fn combine(self, a: R, b: R) -> R;
}

macro_rules! combine {
    ($([$($generics:tt)*] $Op:ty, $R:ty: $with:expr;)*) => {$(
        impl<$($generics)*> Combine<$R> for $Op {
            fn combine(self, a: $R, b: $R) -> $R {
                $with(a, b)
            }
        }
    )*};
}

combine! {
    [T: Element<Sum = T>] Sum, T: T::ADD;
    [T: Element<Sum = T>] SumOfSquares, T: T::ADD;
    [T: Element<Sum = T>] SumOfMagnitudes, T: T::ADD;
    [T: Integer] WrappingSum, T: T::ADD;
    [T: Element<Sum = T>] SumIn<T>, T: T::ADD;
    [] SumIn<i128>, i128: i128::wrapping_add;
    [] SumIn<u128>, u128: u128::wrapping_add;
    [T: Element<Sum = T>] Product, T: multiply;
    [T: Element] Min, T: |a, b| extreme(a, b, true);
    [T: Element] Max, T: |a, b| extreme(a, b, false);
    [] CountNonZero, u64: u64::wrapping_add;
    [] CountNan, u64: u64::wrapping_add;
    [T: Bits] BitAnd, T: |a, b| in_words(a, b, |a, b| a & b);
    [T: Bits] BitOr, T: |a, b| in_words(a, b, |a, b| a | b);
    [T: Bits] BitXor, T: |a, b| in_words(a, b, |a, b| a ^ b);
}

impl<R, O: Combine<R>> Combine<R> for Reproducible<O> {
    fn combine(self, a: R, b: R) -> R {
        self.0.combine(a, b)
    }
}

/// Returns the smaller or the larger value with the rules of the kernels: NaN if either is NaN, and −0
/// is below +0.
fn extreme<T: Element>(a: T, b: T, smaller: bool) -> T {
    let is_nan = |value: T| value.partial_cmp(&value).is_none();
    // Equal numbers with different bits are zeros.
    let below = |a: T, b: T| a < b || a == b && T::TO_F64(a).is_sign_negative();
    if is_nan(a) || !is_nan(b) && below(a, b) == smaller { a } else { b }
}

/// Combines two integers by an operation for which the lower bits of the result depend only on the lower
/// bits of the operands.
fn in_words<T: Element>(a: T, b: T, op: fn(u64, u64) -> u64) -> T {
    element_of(op(word_of(a), word_of(b)))
}

fn multiply<T: Element>(a: T, b: T) -> T {
    let [x, y] = [a, b].map(word_of);
    match T::DTYPE {
        Dtype::F32 => element_of(word_of(element_of::<f32>(x) * element_of::<f32>(y))),
        Dtype::F64 => element_of(word_of(element_of::<f64>(x) * element_of::<f64>(y))),
        _ => element_of(x.wrapping_mul(y)),
    }
}
