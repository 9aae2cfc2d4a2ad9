//! Modifiers of operations: reproducible results, skipped NaN, and sums in a wider type.

use std::marker::PhantomData;

use half::{bf16, f16};

#[cfg(doc)]
use super::{
    ArgMax, ArgMin, Dot, HarmonicMean, L1Norm, L2Norm, Max, MaxNorm, MeanAndVariance, Min, MinMax,
    Product, SquaredDistance, SumOfMagnitudes, SumOfSquares, ThirdCentralMoment,
};
use super::{Operation, PairOperation, RowsOperation, Sum, kind, sealed};
use crate::{
    Bool, Element, Ends, Integer, Located, Spread,
    element::{Words, sealed::Outcome as _},
    names::{self, Op, OpKind},
    reducer::Code,
};

/// An operation whose result has the same bits everywhere: on any GPU, in any launch, at any alignment,
/// for a buffer or a row, in the simulator, and on the CPU. The `reproducible` method of an operation
/// returns it; generic code writes `Reproducible(op)`.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[1e30_f32, 1.0, -1e30, 0.1, -0.1])?;
/// let sum = reducer.reduce(op::Sum.reproducible(), &values)?;
/// // The same in another order.
/// let values = device.upload(&[0.1_f32, -1e30, -0.1, 1e30, 1.0])?;
/// assert_eq!(reducer.reduce(op::Sum.reproducible(), &values)?.to_bits(), sum.to_bits());
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// For floats, it applies to [`Sum`], [`SumOfSquares`] and [`SumOfMagnitudes`], whose terms are the
/// elements, their squares or their magnitudes, each rounded once to [`Element::Sum`]. The sum is
/// defined by the terms alone, whatever their order:
///
/// - Let t be the least integer, −5 or more in `f32` and −36 or more in `f64`, such that all finite
///   terms are below 2^((t + 1)W − 1) in magnitude, where W is 23 in `f32` and 28 in `f64`.
/// - Round every term to a multiple of 2^((t − 2)W) in `f32`, of 2^((t − 3)W) in `f64`, ties to even.
/// - Add these multiples exactly, and round the sum once to the type, ties to even; a sum that is too
///   large is an infinity, and a sum of 0 is +0.
/// - If there is a NaN, or infinities of both signs, the sum is NaN; otherwise it is the infinity, if
///   there is one.
///
/// So the error of n terms, besides the rounding of the result, is at most n·2^−46 of the largest
/// magnitude in `f32`, and n·2^−84 of it in `f64`. Only the result is rounded for sums of
/// [`f16`](struct@f16), of `f32` that are integers below 2^68, and of `f64` that are integers below
/// 2^111. The definition does not change between versions of this library.
///
/// It applies to [`Dot`] and [`SquaredDistance`] as well, whose terms are the products, or the squares
/// of the differences: the elements are converted to [`Element::Sum`], and each product, difference and
/// square is rounded once. It also applies to these sums in [`SkipNan`], whose terms are only those of
/// the numbers:
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let (a, b) = (device.upload(&[1e20_f32, 3.0, -1e20])?, device.upload(&[1e10_f32, 0.5, 1e10])?);
/// assert_eq!(reducer.reduce(op::Dot.reproducible(), (&a, &b))?, 0.0);
/// let values = device.upload(&[1e8_f32, f32::NAN, 0.25, -1e8])?;
/// assert_eq!(reducer.reduce(op::Sum.skip_nan().reproducible(), &values)?, 0.25);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// The reproducible [`Sum`] also reduces [`Filtered`](crate::Filtered) elements; on the CPU,
/// `Reproducible` is written around the [interval](super::Interval) instead.
///
/// # Means and variances
/// It applies to [`MeanAndVariance`], also in [`SkipNan`]. The elements are rounded like the terms of a
/// sum: to multiples of 2^((t − 2)W) in `f32` and narrower types, of 2^((t − 3)W) in `f64`. Let A be the
/// sum of n such numbers and B the sum of their squares, both exact:
///
/// - The mean is A, rounded to `f64`, divided by n.
/// - The variance is n·B − A², which is exact and never below 0, rounded to `f64`, divided by n, and
///   divided by n again.
/// - If there is an element that is not finite, the variance is NaN, and the mean equals the sum.
///
/// So the variance of a constant is 0, and elements whose deviation is small compared with their
/// magnitude lose no further precision:
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[1e9_f64, 1e9 + 1.0, 1e9 + 2.0])?;
/// let spread = reducer.reduce(op::MeanAndVariance.reproducible(), &values)?;
/// let spread = spread.expect("there are elements");
/// assert_eq!((spread.mean, spread.variance), (1e9 + 1.0, 2.0 / 3.0));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Harmonic means
/// It applies to [`HarmonicMean`] of floats. Its terms are 4 divided by each element, rounded once to
/// [`Element::Sum`], or ∞ for a zero of either sign. Let A be the exact sum of the n terms, rounded like
/// those of a sum: the mean is 4 divided by the quotient of A, rounded to `f64`, and n. So elements of
/// magnitude 2^−126 and less in `f32` or [`bf16`], or 2^−1022 and less in `f64`, count as zeros.
///
/// # Other operations
/// For integers, `Reproducible` applies to all operations above except [`HarmonicMean`], and to
/// [`Product`], [`Mean`](super::Mean) and [`L2Norm`]. Operations whose result does not depend on the
/// order are unchanged. [`LogSumExp`](super::LogSumExp), [`ThirdCentralMoment`], and products, L2 norms
/// and [`Mean`](super::Mean) of floats have no reproducible result; the reproducible [`MeanAndVariance`]
/// includes the mean:
///
/// ```compile_fail,E0277
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[1.0_f32, 2.0])?;
/// reducer.reduce(op::Product.reproducible(), &values)?;
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// ```compile_fail,E0599
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[1.0_f32, 2.0])?;
/// reducer.reduce(op::LogSumExp.reproducible(), &values)?;
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reproducible<O>(pub O);

impl<O> Reproducible<O> {
    /// Skips NaN.
    pub const fn skip_nan(self) -> SkipNan<Self> {
        SkipNan(self)
    }
}

impl<O: sealed::Sealed> sealed::Sealed for Reproducible<O> {
    type Kind = O::Kind;
}

impl<T: Element, O: sealed::Reproducible<T>> Operation<T> for Reproducible<O> {
    type Output = O::Output;
    type Left = O::Left;

    fn code(self) -> Code {
        match self.0.code() {
            Code::BuiltIn(op, dtype) => Code::BuiltIn(op.reproducible(dtype), dtype),
            other => other,
        }
    }

    fn of_none() -> Option<O::Output> {
        O::of_none()
    }

    fn decode(words: Words) -> O::Output {
        O::decode(words)
    }
}

impl<T: Element, O: sealed::Reproducible<T> + RowsOperation<T>> RowsOperation<T> for Reproducible<O> {}

impl<O: PairOperation> PairOperation for Reproducible<O> {
    fn op(dtype: names::Dtype) -> names::PairOp {
        O::op(dtype).reproducible(dtype)
    }
}

impl<T: Element, O: sealed::SkipsNan<T> + sealed::Reproducible<T>> sealed::SkipsNan<T>
    for Reproducible<O>
{
    fn number(output: O::Output) -> O::Output {
        O::number(output)
    }
}

/// An operation that skips NaN. The `skip_nan` method of an operation returns it; generic code writes
/// `SkipNan(op)`.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[3.0_f32, f32::NAN, -1.0, 4.0])?;
/// assert!(reducer.reduce(op::Sum, &values)?.is_nan());
/// assert_eq!(reducer.reduce(op::Sum.skip_nan(), &values)?, 6.0);
/// let least = reducer.reduce(op::ArgMin.skip_nan(), &values)?.expect("there are numbers");
/// assert_eq!((least.index, least.value), (2, -1.0));
/// let spread = reducer.reduce(op::MeanAndVariance.skip_nan(), &values)?.expect("there are numbers");
/// let numbers = 4 - reducer.reduce(op::CountNan, &values)?;
/// assert_eq!((spread.mean, numbers), (2.0, 3));
/// assert!((spread.sample_variance(numbers) - 7.0).abs() < 1e-5);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// It applies to [`Sum`], [`SumOfSquares`], [`SumOfMagnitudes`], [`L1Norm`], [`L2Norm`], [`MaxNorm`],
/// [`Product`], [`Min`], [`Max`], [`MinMax`], [`ArgMin`], [`ArgMax`], [`MeanAndVariance`],
/// [`HarmonicMean`] and [`ThirdCentralMoment`]. If no element is a number, sums and norms are 0 and the
/// product is 1. The other operations then have no result: `None` on the host, and NaN in device memory,
/// with the index of the first element. [`MeanAndVariance`] is also `None` on the host if infinities of
/// both signs make the mean NaN, and [`ThirdCentralMoment`] if an infinity makes it NaN. A result is as
/// reproducible as that of the operation itself. For integers, the operation is unchanged.
///
/// A sum or a product of numbers can still be NaN: with infinities of both signs, or an infinity and a
/// zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipNan<O>(pub O);

impl<O> SkipNan<O> {
    /// Makes the result have the same bits everywhere.
    pub const fn reproducible(self) -> Reproducible<Self> {
        Reproducible(self)
    }
}

impl<O: sealed::Sealed> sealed::Sealed for SkipNan<O> {
    type Kind = O::Kind;
}

impl<T: Element, O: sealed::SkipsNan<T>> Operation<T> for SkipNan<O> {
    type Output = O::Output;
    type Left = O::Left;

    fn code(self) -> Code {
        match self.0.code() {
            Code::BuiltIn(op, dtype) => Code::BuiltIn(op.skipping_nan(dtype), dtype),
            other => other,
        }
    }

    fn of_none() -> Option<O::Output> {
        O::of_none()
    }

    fn decode(words: Words) -> O::Output {
        O::number(O::decode(words))
    }
}

impl<T: Element, O: sealed::SkipsNan<T> + RowsOperation<T>> RowsOperation<T> for SkipNan<O> {}

impl<T: Element, O: sealed::SkipsNan<T> + sealed::Reproducible<T>> sealed::Reproducible<T>
    for SkipNan<O>
{
}

macro_rules! modifiers {
    ($Name:ident<$T:ident: $Elements:ident> skip_nan(|$output:ident| $number:expr)) => {
        impl $Name {
            /// Skips NaN.
            pub const fn skip_nan(self) -> $crate::op::SkipNan<Self> {
                $crate::op::SkipNan(self)
            }
        }

        impl<$T: $Elements> sealed::SkipsNan<$T> for $Name {
            fn number($output: Self::Output) -> Self::Output {
                $number
            }
        }
    };
    ($Name:ident<$T:ident: $Elements:ident> reproducible<$($Bound:ident)?>) => {
        impl $Name {
            /// Makes the result have the same bits everywhere.
            pub const fn reproducible(self) -> $crate::op::Reproducible<Self> {
                $crate::op::Reproducible(self)
            }
        }

        $(impl<$T: $Bound> sealed::Reproducible<$T> for $Name {})?
    };
}
pub(super) use modifiers;

/// A result that is NaN if no element is a number.
pub(super) trait MaybeNan {
    fn is_number(&self) -> bool;
}

impl<T: Element> MaybeNan for T {
    fn is_number(&self) -> bool {
        self.partial_cmp(self).is_some()
    }
}

impl<T: Element> MaybeNan for Ends<T> {
    fn is_number(&self) -> bool {
        self.min.is_number()
    }
}

impl<T: Element> MaybeNan for Located<T> {
    fn is_number(&self) -> bool {
        self.value.is_number()
    }
}

impl MaybeNan for Spread {
    fn is_number(&self) -> bool {
        self.mean.is_number()
    }
}

/// A sum in the type `A`, from [`Sum::accumulate_in`].
#[derive(Debug)]
pub struct SumIn<A>(PhantomData<A>);

impl<A> Clone for SumIn<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for SumIn<A> {}

impl Sum {
    /// Returns a sum that is accumulated in `A` and has that type.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[16_777_216.0_f32, 1.0])?;
    /// assert_eq!(reducer.reduce(op::Sum.accumulate_in::<f64>(), &values)?, 16_777_217.0);
    /// let values = device.upload(&[u64::MAX, 2])?;
    /// assert_eq!(reducer.reduce(op::Sum.accumulate_in::<u128>(), &values)?, (1 << 64) + 1);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// `A` may be [`Element::Sum`], `f64` for [`f16`](struct@f16), [`bf16`] and `f32`, `i128` for `i64`,
    /// or `u128` for `u64`; no sum of a buffer overflows in 128 bits.
    ///
    /// ```compile_fail,E0277
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// reducer.reduce(op::Sum.accumulate_in::<f32>(), &device.upload(&[1.0_f64, 2.0])?)?;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub const fn accumulate_in<A>(self) -> SumIn<A> {
        SumIn(PhantomData)
    }

    /// Returns a sum of `i64` or `u64` whose single result on the host is `None` if it overflows,
    /// instead of wrapping around.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[i64::MAX, 1, -1, 1])?;
    /// assert_eq!(reducer.reduce(op::Sum.checked(), &values)?, None);
    /// // Intermediate sums may exceed the type.
    /// assert_eq!(reducer.reduce(op::Sum.checked(), &values.slice(..3)?)?, Some(i64::MAX));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// Elements are added in 128 bits; in device memory and for rows, results are `i128` or `u128`. Sums
    /// of shorter integers have 64 bits, and do not overflow with 2^32 elements or fewer.
    pub const fn checked(self) -> CheckedSum {
        CheckedSum
    }
}

/// A sum of `i64` or `u64` that is `None` if it overflows, from [`Sum::checked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedSum;

impl CheckedSum {
    /// Makes the result have the same bits everywhere, which it has anyway.
    pub const fn reproducible(self) -> Reproducible<Self> {
        Reproducible(self)
    }
}

impl sealed::Sealed for CheckedSum {
    type Kind = kind::Single;
}

macro_rules! checked {
    ($($T:ident in $A:ident;)*) => {$(
        impl Operation<$T> for CheckedSum {
            type Output = Option<$T>;
            type Left = $A;

            fn code(self) -> Code {
                Sum.accumulate_in::<$A>().code()
            }

            fn of_none() -> Option<Option<$T>> {
                Some(Some(0))
            }

            fn decode(words: Words) -> Option<$T> {
                $A::from_words(words).try_into().ok()
            }
        }

        impl RowsOperation<$T> for CheckedSum {}

        impl sealed::Reproducible<$T> for CheckedSum {}
    )*};
}

checked! {
    i64 in i128;
    u64 in u128;
}

impl<A> SumIn<A> {
    /// Makes the result have the same bits everywhere.
    pub const fn reproducible(self) -> Reproducible<Self> {
        Reproducible(self)
    }
}

impl<A> sealed::Sealed for SumIn<A> {
    type Kind = kind::Single;
}

impl<T: Element, A: sealed::Accumulates<T>> Operation<T> for SumIn<A> {
    type Output = A;
    type Left = A;

    fn code(self) -> Code {
        Code::BuiltIn(A::OP, T::DTYPE)
    }

    fn of_none() -> Option<A> {
        Some(A::zeroed())
    }

    fn decode(words: Words) -> A {
        A::from_words(words)
    }
}

impl<T: Element, A: sealed::Accumulates<T>> RowsOperation<T> for SumIn<A> {}

impl<T: Integer, A: sealed::Accumulates<T>> sealed::Reproducible<T> for SumIn<A> {}

macro_rules! accumulates {
    ($($A:ident, wide: $wide:literal, of $($T:ident)*;)*) => {
        $($(impl sealed::Accumulates<$T> for $A {
            const OP: Op = Op { wide: $wide, ..OpKind::Sum.plain() };
        })*)*
    };
}

accumulates! {
    i64, wide: false, of i8 i16 i32 i64;
    u64, wide: false, of Bool u8 u16 u32 u64;
    f32, wide: false, of f16 bf16 f32;
    f64, wide: false, of f64;
    i128, wide: true, of i64;
    u128, wide: true, of u64;
    f64, wide: true, of f16 bf16 f32;
}
