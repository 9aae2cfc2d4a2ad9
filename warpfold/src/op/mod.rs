//! The operations, as values for [`Reducer::reduce`](crate::Reducer::reduce) and similar methods.
//!
//! ```
//! use warpfold::{Device, Reducer, Selection, op};
//!
//! let device = Device::open(Selection::Sim)?;
//! let reducer = Reducer::new(&device)?;
//! let values = device.upload(&[3_i32, 0, -7, 2])?;
//! assert_eq!(reducer.reduce(op::CountNonZero, &values)?, 3);
//! let ends = reducer.reduce(op::MinMax, &values)?.expect("there are elements");
//! assert_eq!((ends.min, ends.max), (-7, 3));
//! // A result for each row of a matrix.
//! assert_eq!(reducer.reduce(op::SumOfMagnitudes, &values.rows(2)?)?, [3, 9]);
//! # Ok::<(), warpfold::Error>(())
//! ```
//!
//! | operation | result | in device memory | of no elements |
//! |---|---|---|---|
//! | [`Sum`], [`SumOfSquares`], [`SumOfMagnitudes`] | [`Element::Sum`] | the same | 0 |
//! | [`WrappingSum`] | the integer's type | the same | 0 |
//! | [`Product`] | [`Element::Sum`] | the same | 1 |
//! | [`Min`], [`Max`] | the element | the same | `None` |
//! | [`MinMax`] | [`Ends`] | the same | `None` |
//! | [`ArgMin`], [`ArgMax`] | [`Located`] | the same | `None` |
//! | [`CountNonZero`] | `u64` | the same | 0 |
//! | [`MeanAndVariance`] | [`Spread`] | the same | `None` |
//! | [`Mean`] | `f64` | the same | `None` |
//! | [`L1Norm`] | `f64` | [`Element::Sum`], `f64` for integers of 64 bits | 0 |
//! | [`L2Norm`] | `f64` | the same | 0 |
//! | [`HarmonicMean`], [`ThirdCentralMoment`] | `f64` | the same | `None` |
//! | [`MaxNorm`] | `f64` | [`Ends`] | 0 |
//! | [`CountNan`] of floats | `u64` | the same | 0 |
//! | [`SumIn`] | the type that [`Sum::accumulate_in`] names | the same | 0 |
//! | [`CheckedSum`] of integers of 64 bits | `Option` of the element | `i128` or `u128` | 0 |
//! | [`ExprReduction`] | [`Element::Sum`] | the same | 0; of [`Expr::min`] the greatest value, of [`Expr::max`] the least |
//! | [`LogSumExp`] | [`Element::Sum`] of floats | the same | −∞ |
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | the integer's type, or [`Bool`](crate::Bool) | the same | all bits set, 0, 0 |
//! | [`Reproducible`] | that of the operation | the same | the same |
//! | [`SkipNan`] | that of the operation | the same | the same |
//! | [`Dot`], [`SquaredDistance`] of pairs | [`Element::Sum`] | the same | 0 |
//! | [`Largest`], [`Smallest`] | [`Located`], k of them | the same | an empty list |
//! | [`Describe`] | [`Description`] | | counts of 0 |
//!
//! # The same bits
//! Operations give one of two guarantees about the bits of their results:
//!
//! - *Everywhere*: sums, products, dot products, squared distances, means, variances and norms of
//!   integers; minima, maxima and the k largest or smallest elements, with their indices; counts; and
//!   bitwise operations. They do not depend on the order: they have the same bits on any device, for any
//!   alignment and launch, for a buffer or a row, and on the CPU.
//! - *From call to call*: sums, products, dot products, squared distances, means, variances, L1 and L2
//!   norms, third central moments and logarithms of sums of floats, with or without NaN; and harmonic
//!   means. The same call on the same device, with the same number of elements at the same alignment, in
//!   both buffers if there are two, gives the same bits each time. Another device, alignment or version
//!   of this library may add in another order, and round differently.
//!
//! The first level includes *batch invariance*: the result of a row has the bits of that of the row
//! alone, whatever is reduced beside it, wherever it is in memory, and whether it is a buffer, a row, a
//! column, part of a view, a segment, a run of keys, or split into several buffers or pieces.
//!
//! `reproducible` raises sums, L1 norms, [`MeanAndVariance`] and harmonic means of floats from the
//! second level to the first, and also dot products, squared distances and sums of
//! [filtered](crate::Filtered) elements, at the cost of more arithmetic. It does not change an operation
//! that is at the first level anyway, and it does not exist, or does not compile, for an operation that
//! cannot reach it: its presence in a program is a guarantee.
//!
//! There is no faster level at which results may differ from call to call: a kernel whose blocks add to
//! the result in order of arrival needs the result cleared first, and was at most half a percent faster
//! on an H200.
//!
//! Programs can define their own operations: as text ([`expr`](fn@expr)), which needs no compiler, or
//! [in Rust](crate::custom). A tuple reduces the same elements by
//! several operations: see [`Operations`]. [`Combine`] combines the results of parts on the host.

pub(crate) mod builtin;
mod combine;
pub(crate) mod describe;
pub(crate) mod expression;
pub(crate) mod fused;
mod modifiers;
mod table;

pub use combine::Combine;
pub use describe::{Describe, Description};
pub use expression::{Expr, ExprReduction, expr};
pub use modifiers::{CheckedSum, Reproducible, SkipNan, SumIn};
pub use table::types::*;

use modifiers::modifiers;

pub use crate::input::filtered::Interval;

use crate::{
    Element, Ends, Integer, Outcome, Plain,
    element::{
        Words,
        sealed::{Element as _, Outcome as _},
    },
    input::buffer::MOST_TOGETHER,
    names::{self, OpKind},
    reducer::{Code, Codes, HostResults, RowResults},
};
#[cfg(doc)]
use crate::{Located, Spread};

/// An operation on elements of type `T`: one of this module, or a reference to a program's own
/// ([`ExprReduction`], [`Custom`](crate::custom::Custom)). The trait is sealed.
pub trait Operation<T: Plain>: sealed::Sealed<Kind = kind::Single> + Copy {
    /// The result on the host: an `Option` if there may be none, as for [`Min`] of an empty input or for
    /// [`CheckedSum`].
    type Output: Copy;
    /// The result in device memory.
    type Left: Outcome;

    #[doc(hidden)]
    fn code(self) -> Code;

    /// Returns the result of an empty input, if it needs no kernel.
    #[doc(hidden)]
    fn of_none() -> Option<Self::Output>;

    #[doc(hidden)]
    fn decode(words: Words) -> Self::Output;
}

/// An operation that can have several results, one for each row of a matrix, position of an axis,
/// segment or run of keys: all except [`WrappingSum`]. The trait is sealed.
pub trait RowsOperation<T: Plain>: Operation<T> {}

/// A sum for which [`Reducer::error_bound`](crate::Reducer::error_bound) returns a bound of the rounding
/// error: [`Sum`], [`SumOfSquares`] or [`SumOfMagnitudes`]. The trait is sealed.
pub trait BoundedSum<T: Element>: Operation<T> {}

impl<T: Element> BoundedSum<T> for Sum {}
impl<T: Element> BoundedSum<T> for SumOfSquares {}
impl<T: Element> BoundedSum<T> for SumOfMagnitudes {}

/// A tuple of two to six operations on the same elements, or [`Describe`].
/// [`Reducer::reduce`](crate::Reducer::reduce) accepts it in place of a single operation, for a buffer
/// and for [`Rows`](crate::Rows). The trait is sealed.
///
/// The host waits once for all results. One launch, which reads the elements once, computes all of:
///
/// - [`Sum`], [`WrappingSum`], [`SumOfSquares`], [`SumOfMagnitudes`] and [`Product`],
/// - [`Min`], [`Max`], [`MinMax`], [`MaxNorm`], [`ArgMin`] and [`ArgMax`],
/// - [`Mean`], [`MeanAndVariance`] and [`L2Norm`], and [`L1Norm`] except of integers of 64 bits,
/// - [`CountNonZero`] and [`CountNan`],
/// - those of them that skip NaN ([`SkipNan`]), and those that [`Reproducible`] does not change.
///
/// The others take a launch each, and so do all operations on elements whose
/// [number](crate::Counted) is in device memory, or that are on several devices; but operations whose
/// kernel is the same, as of [`Min`], [`Max`] and [`MinMax`], share a launch. Launches follow each other
/// on the same stream, and each reads all elements, from the L2 cache if it holds them. If there are no
/// elements, only custom operations and expressions are launched: their kernels compute the result of an
/// empty input.
///
/// A kernel for several operations is compiled by the driver at the first use of a combination by a
/// [`Reducer`](crate::Reducer). Results that have the same bits [everywhere](self#the-same-bits) have
/// them in a tuple, too. Others may round differently from the operation alone, but have the same bits
/// from call to call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of two to six operations on elements of type `{T}`",
    note = "each must be an operation on them, of `warpfold::op` or a reference to a program's own"
)]
pub trait Operations<T: Plain>: sealed::Sealed<Kind = kind::Together> + Copy {
    /// The results on the host, as a tuple or a [`Description`].
    type Output;
    /// The results of [`Rows`](crate::Rows) on the host: a tuple with a vector for each operation, of
    /// its [results](Operation::Left) of all rows; or the [`Description`] of each row.
    type Rows;

    #[doc(hidden)]
    fn codes(self) -> [Option<Code>; MOST_TOGETHER];

    /// Returns the results of an empty input, if none of them needs a kernel.
    #[doc(hidden)]
    fn of_none() -> Option<Self::Output>;

    #[doc(hidden)]
    fn decode(results: HostResults<'_>) -> Self::Output;

    #[doc(hidden)]
    fn decode_rows(results: &RowResults) -> Self::Rows;
}

macro_rules! together {
    ($(($($O:ident $at:tt),*);)*) => {$(
        impl<$($O: sealed::Sealed),*> sealed::Sealed for ($($O,)*) {
            type Kind = kind::Together;
        }

        impl<T: Plain, $($O: Operation<T>),*> Operations<T> for ($($O,)*) {
            type Output = ($($O::Output,)*);
            type Rows = ($(Vec<$O::Left>,)*);

            fn codes(self) -> Codes {
                let mut codes = Codes::default();
                $(codes[$at] = Some(self.$at.code());)*
                codes
            }

            fn of_none() -> Option<Self::Output> {
                Some(($($O::of_none()?,)*))
            }

            fn decode(results: HostResults<'_>) -> Self::Output {
                ($(results.result::<T, $O>($at),)*)
            }

            fn decode_rows(results: &RowResults) -> Self::Rows {
                ($(results.each($at),)*)
            }
        }
    )*};
}

together! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

/// An operation on pairs of elements with the same index in two buffers. Its result has the type
/// [`Element::Sum`], and is 0 for no pairs. The trait is sealed.
///
/// The buffers have the same length; both may be the same one. If their addresses are equal modulo 16
/// bytes, as those of uploaded buffers are, they are read with the fewest loads.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let (a, b) = (device.upload(&[1.5_f64, 2.0])?, device.upload(&[2.0_f64, 8.0])?);
/// assert_eq!(reducer.reduce(op::Dot, (&a, &b))?, 19.0);
/// assert_eq!(reducer.reduce(op::SquaredDistance, (&a, &b))?, 36.25);
/// # Ok::<(), warpfold::Error>(())
/// ```
pub trait PairOperation: sealed::Sealed<Kind = kind::Pairs> + Copy {
    #[doc(hidden)]
    fn op(dtype: names::Dtype) -> names::PairOp;
}

/// The dot product: the sum of the products of pairs, in the type [`Element::Sum`]. For integers it
/// wraps around: with 32 bits possibly from the second pair on, with 64 bits from the first. Products of
/// floats are rounded to that type. Products of 16-bit floats are exact in it, unless they overflow or
/// underflow. Products are added in the order of the launch, like the elements of a [`Sum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dot;

/// The squared Euclidean distance: the sum of the squares of the pairs' differences, in the type
/// [`Element::Sum`]. Differences of integers are exact, except those of 64 bits, which wrap around in
/// their own type; squares and their sum wrap around like those of [`SumOfSquares`]. Differences of
/// floats and their squares are rounded to that type, and added like those of a [`Dot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SquaredDistance;

modifiers!(Dot<T: Element> reproducible<>);
modifiers!(SquaredDistance<T: Element> reproducible<>);

impl sealed::Sealed for Dot {
    type Kind = kind::Pairs;
}

impl sealed::Sealed for SquaredDistance {
    type Kind = kind::Pairs;
}

impl PairOperation for Dot {
    fn op(_: names::Dtype) -> names::PairOp {
        names::PairOp::Dot
    }
}

impl PairOperation for SquaredDistance {
    fn op(_: names::Dtype) -> names::PairOp {
        names::PairOp::SquaredDistance
    }
}

/// A search for the k [`Largest`] or [`Smallest`] elements of a buffer, or of every row, with their
/// indices, for any k from 1 on. The trait is sealed.
///
/// For a buffer of fewer than k elements, the result has all of them; rows must have k elements or more.
/// For many elements in random order the search takes little longer than that for the minimum or the
/// maximum. Up to a k of 32 it is slowest if the elements are sorted so that each precedes all earlier
/// ones in the result. For larger k it is slowest if most elements are nearly equal, because then they
/// are read several times.
///
/// The result is in a total order: of two equal elements, such as zeros of both signs, the one with the
/// smaller index is first, and NaN precedes all numbers in both searches. So the first element is that
/// of [`ArgMax`] or [`ArgMin`].
pub trait TopK: sealed::Sealed<Kind = kind::Top> + Copy {
    #[doc(hidden)]
    const OP: names::TopOp;

    #[doc(hidden)]
    fn k(self) -> usize;
}

/// The largest elements in descending order; the field is their number, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Largest(pub usize);

/// The smallest elements in ascending order; the field is their number, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Smallest(pub usize);

impl sealed::Sealed for Largest {
    type Kind = kind::Top;
}

impl sealed::Sealed for Smallest {
    type Kind = kind::Top;
}

impl TopK for Largest {
    const OP: names::TopOp = names::TopOp::Largest;

    fn k(self) -> usize {
        self.0
    }
}

impl TopK for Smallest {
    const OP: names::TopOp = names::TopOp::Smallest;

    fn k(self) -> usize {
        self.0
    }
}

/// The kinds of operations, which select how an [`Input`](crate::Input) reduces its elements.
pub(crate) mod kind {
    /// One result, or one for each row or segment.
    pub struct Single;
    /// A tuple of operations.
    pub struct Together;
    pub struct Pairs;
    pub struct Top;
    /// An interval of [`cpu::reduce_within`](crate::cpu::reduce_within), which is no operation.
    pub struct Interval;
}

pub(crate) mod sealed {
    use super::{Element, Operation, Plain, names};

    pub trait Sealed {
        type Kind;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` of `{T}` has no result with the same bits everywhere",
        note = "sums and `MeanAndVariance` have one, and operations whose result no order changes"
    )]
    pub trait Reproducible<T: Element>: Operation<T> {}

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot leave out NaN",
        note = "sums, products, norms, extremes and their places, harmonic means, third central moments, \
                and means with variances can"
    )]
    pub trait SkipsNan<T: Element>: Operation<T> {
        /// Replaces the result of an input that is all NaN by the result of an empty input.
        fn number(output: Self::Output) -> Self::Output;
    }

    /// A type in which elements can be added.
    #[diagnostic::on_unimplemented(
        message = "elements of type `{T}` cannot be added in `{Self}`",
        note = "they can in their type `Element::Sum`, those of 64 bits in 128 bits, and floats in `f64`"
    )]
    pub trait Accumulates<T: Element>: Plain {
        const OP: names::Op;
    }
}

impl<T: Element> Operation<T> for L1Norm {
    type Output = f64;
    type Left = T::Magnitudes;

    fn code(self) -> Code {
        Code::BuiltIn(OpKind::L1Norm.plain().for_elements(T::DTYPE), T::DTYPE)
    }

    fn of_none() -> Option<f64> {
        Some(0.0)
    }

    fn decode(words: Words) -> f64 {
        T::Magnitudes::TO_F64(T::Magnitudes::from_words(words))
    }
}

impl<T: Element> RowsOperation<T> for L1Norm {}

modifiers!(L1Norm<T: Element> skip_nan(|norm| norm));
modifiers!(L1Norm<T: Element> reproducible<Element>);

/// The maximum norm, as `f64`: the largest magnitude, or NaN if any element is NaN. In an
/// [`Output`](crate::Output) and for rows, the result is the [`Ends`] of the elements instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxNorm;

impl sealed::Sealed for MaxNorm {
    type Kind = kind::Single;
}

impl<T: Element> Operation<T> for MaxNorm {
    type Output = f64;
    type Left = Ends<T>;

    fn code(self) -> Code {
        Operation::<T>::code(MinMax)
    }

    fn of_none() -> Option<f64> {
        Some(0.0)
    }

    fn decode(words: Words) -> f64 {
        let Ends { min, max } = Ends::<T>::from_words(words);
        let (min, max) = (T::TO_F64(min).abs(), T::TO_F64(max).abs());
        // Either both `min` and `max` are NaN, or neither is.
        if min > max { min } else { max }
    }
}

impl<T: Element> RowsOperation<T> for MaxNorm {}

modifiers!(MaxNorm<T: Element> skip_nan(|norm| if norm.is_nan() { 0.0 } else { norm }));
modifiers!(MaxNorm<T: Element> reproducible<Element>);

/// The sum of integers in their own type, which wraps around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrappingSum;

impl sealed::Sealed for WrappingSum {
    type Kind = kind::Single;
}

impl<T: Integer> Operation<T> for WrappingSum {
    type Output = T;
    type Left = T;

    fn code(self) -> Code {
        Operation::<T>::code(Sum)
    }

    fn of_none() -> Option<T> {
        Some(T::zeroed())
    }

    fn decode(words: Words) -> T {
        T::from_words(words)
    }
}

modifiers!(WrappingSum<T: Integer> reproducible<Integer>);
