//! Reductions with an initial value.

use std::ops::{Add, Mul};

use crate::{
    Buffer, Element, Float, Integer, Plain, Reducer, Result, Rows,
    element::{element_of, word_of},
    names::Dtype,
    op::{
        BitAnd, BitOr, BitXor, CountNan, CountNonZero, Everywhere, Max, Min, Operation, Product,
        RowsOperation, Sum, SumIn, SumOfMagnitudes, SumOfSquares, WrappingSum, sealed,
    },
};

/// An operation that an initial value has a meaning for, which has the type of the result: what
/// [`Reducer::reduce_from`] takes. Sums of all kinds, products, minima and maxima, counts and bitwise
/// operations are, and [`Everywhere`] around one of them. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no initial value",
    note = "sums do, products, minima, maxima, counts and bitwise operations"
)]
pub trait InitialOperation<T: Plain>: Operation<T, Output: Into<Option<Self::Left>>> {
    /// The result with an initial value, and that of some elements.
    #[doc(hidden)]
    fn with(initial: Self::Left, reduced: Self::Left) -> Self::Left;
}

/// # Initial values
impl Reducer {
    /// The result of any [operation](crate::op) that takes one with an initial value, of which that is
    /// a part as the elements are; so there is a minimum and a maximum of no elements, too.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[3_u8, 200, 7])?;
    /// assert_eq!(reducer.reduce_from(1000, op::Sum, &values)?, 1210);
    /// assert_eq!(reducer.reduce_from(5, op::Min, &values)?, 3);
    /// assert_eq!(reducer.reduce_from(5, op::Min, &values.slice(..0)?)?, 5);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// It goes with the result of the elements once, on the host, in the type of the result: integers
    /// wrap around, floats are rounded once more, and NaN is the minimum and the maximum of NaN and
    /// anything. Of no elements it is the result, bit for bit.
    ///
    /// Where there is more than one result, there is no such value:
    ///
    /// ```compile_fail,E0277
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let initial = warpfold::Spread { mean: 0.0, variance: 0.0 };
    /// reducer.reduce_from(initial, op::MeanAndVariance, &device.upload(&[1.0_f32])?)?;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn reduce_from<T: Plain, O: InitialOperation<T>>(
        &self,
        initial: O::Left,
        op: O,
        values: &Buffer<T>,
    ) -> Result<O::Left> {
        let reduced = self.reduce(op, values)?.into().filter(|_| !values.is_empty());
        Ok(reduced.map_or(initial, |reduced| O::with(initial, reduced)))
    }

    /// The same of every row of a matrix, each with the same initial value.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[2.0_f32, 1.0, 5.0, 3.0])?;
    /// assert_eq!(reducer.reduce_rows_from(4.0, op::Max, &matrix.rows(2)?)?, [4.0, 5.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_rows_from<T: Plain, O: InitialOperation<T> + RowsOperation<T>>(
        &self,
        initial: O::Left,
        op: O,
        rows: &Rows<'_, T>,
    ) -> Result<Vec<O::Left>> {
        let mut results = self.reduce(op, rows)?;
        results.iter_mut().for_each(|result| *result = O::with(initial, *result));
        Ok(results)
    }
}

macro_rules! initial {
    ($($Name:ident<$T:ident: $Bound:ident>: $with:expr;)*) => {$(
        impl<$T: $Bound> InitialOperation<$T> for $Name {
            fn with(initial: Self::Left, reduced: Self::Left) -> Self::Left {
                $with(initial, reduced)
            }
        }
    )*};
}

initial! {
    Sum<T: Element>: plus;
    WrappingSum<T: Integer>: plus;
    SumOfSquares<T: Element>: plus;
    SumOfMagnitudes<T: Element>: plus;
    Product<T: Element>: times;
    Min<T: Element>: |a, b| extreme(a, b, true);
    Max<T: Element>: |a, b| extreme(a, b, false);
    CountNonZero<T: Element>: u64::wrapping_add;
    CountNan<T: Float>: u64::wrapping_add;
    BitAnd<T: Integer>: |a, b| in_words(a, b, |a, b| a & b);
    BitOr<T: Integer>: |a, b| in_words(a, b, |a, b| a | b);
    BitXor<T: Integer>: |a, b| in_words(a, b, |a, b| a ^ b);
}

impl<T: Element, A: sealed::Accumulates<T>> InitialOperation<T> for SumIn<A> {
    fn with(initial: A, reduced: A) -> A {
        A::ADD(initial, reduced)
    }
}

impl<T: Element, O: InitialOperation<T> + sealed::Everywhere<T>> InitialOperation<T> for Everywhere<O> {
    fn with(initial: O::Left, reduced: O::Left) -> O::Left {
        O::with(initial, reduced)
    }
}

/// The smaller one if so, else the larger one, in the order of the kernels: NaN if either is NaN, and −0
/// is below +0.
fn extreme<T: Element>(a: T, b: T, smaller: bool) -> T {
    let is_nan = |value: T| value.partial_cmp(&value).is_none();
    // Two equal numbers that differ are zeros.
    let below = |a: T, b: T| a < b || a == b && T::TO_F64(a).is_sign_negative();
    if is_nan(a) || !is_nan(b) && below(a, b) == smaller { a } else { b }
}

/// Two integers by an operation whose lower bits depend on their lower bits alone.
fn in_words<T: Element>(a: T, b: T, of: fn(u64, u64) -> u64) -> T {
    element_of(of(word_of(a), word_of(b)))
}

/// Two numbers by an operation on integers, or that on floats. No halves are given.
fn in_numbers<T: Element>(
    a: T,
    b: T,
    of_integers: fn(u64, u64) -> u64,
    of_singles: fn(f32, f32) -> f32,
    of_doubles: fn(f64, f64) -> f64,
) -> T {
    let (x, y) = (word_of(a), word_of(b));
    match T::DTYPE {
        Dtype::F32 => element_of(word_of(of_singles(element_of(x), element_of(y)))),
        Dtype::F64 => element_of(word_of(of_doubles(element_of(x), element_of(y)))),
        Dtype::F16 | Dtype::Bf16 => unreachable!("sums and products of halves are made in `f32`"),
        _ => in_words(a, b, of_integers),
    }
}

fn plus<T: Element>(a: T, b: T) -> T {
    in_numbers(a, b, u64::wrapping_add, Add::add, Add::add)
}

fn times<T: Element>(a: T, b: T) -> T {
    in_numbers(a, b, u64::wrapping_mul, Mul::mul, Mul::mul)
}
