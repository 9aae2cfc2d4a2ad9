//! The operations, as values: what [`Reducer::reduce`](crate::Reducer::reduce) and its like take.
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
//! // Of every row of a matrix.
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
//! | [`SumIn`] | the type that is given | the same | 0 |
//! | [`LogSumExp`] | [`Element::Sum`] of floats | the same | −∞ |
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | the integer's type, or [`Bool`](crate::Bool) | the same | all bits, none, none |
//! | [`Reproducible`] | that of the operation | the same | the same |
//! | [`SkipNan`] | that of the operation | the same | the same |
//! | [`Dot`], [`SquaredDistance`] of pairs | [`Element::Sum`] | the same | 0 |
//! | [`Largest`], [`Smallest`] | [`Located`] each | the same | none |
//!
//! # The same bits
//! How far two results may be compared bit by bit depends on the operation:
//!
//! - *Wherever they are made*: sums, products, dot products, squared distances, means and variances of
//!   integers, minima, maxima and their places, the k largest or smallest elements and theirs, counts,
//!   and bitwise operations. No order changes them: they have the same bits on any device, for any
//!   alignment and launch, of a buffer or of a row, and on the CPU.
//! - *From call to call*: sums, products, dot products, squared distances, means, variances, third
//!   central moments and logarithms of sums of floats, with NaN or without; and harmonic means. The same
//!   call on the same device, with as many elements at the same alignment, of both buffers where there
//!   are two, gives the same bits each time. Another device, alignment or version of this library may
//!   add in another order, and round otherwise.
//!
//! `reproducible` brings sums, means, variances and harmonic means of floats from the second level to
//! the first, dot products, squared distances and sums of [filtered](crate::Filtered) elements too, at
//! the cost of more arithmetic. An operation that is at the first anyway it leaves as it is, and one
//! that cannot be there does not have it, or does not compile: so the word in a program says what holds.
//!
//! There is no level below these, of results that may differ from call to call: a kernel whose blocks
//! add to the result in the order in which they arrive needs it cleared before, and with that was
//! nowhere faster by more than half a percent on an H200.
//!
//! A program's own operation is taken as well: see [`custom`](crate::custom). Several operations on
//! the same elements are reduced together in a tuple: see [`Operations`]. Results
//! of parts are combined on the host by [`Combine`].

pub(crate) mod builtin;
mod combine;
mod modifiers;
mod table;

pub use combine::Combine;
pub use modifiers::{Reproducible, SkipNan, SumIn};
pub use table::{
    ArgMax, ArgMin, BitAnd, BitOr, BitXor, CountNan, CountNonZero, HarmonicMean, L1Norm, L2Norm,
    LogSumExp, Max, Mean, MeanAndVariance, Min, MinMax, Product, Sum, SumOfMagnitudes, SumOfSquares,
    ThirdCentralMoment,
};

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
    reducer::{Code, Codes, HostResults},
};

/// An operation on elements of type `T`: one of this module, or a reference to a program's own
/// ([`Custom`](crate::custom::Custom)). The trait is sealed.
pub trait Operation<T: Plain>: sealed::Sealed<Kind = kind::Single> + Copy {
    /// What the host gets: an `Option` where no elements have no result.
    type Output: Copy;
    /// What is left in device memory.
    type Left: Outcome;

    /// Whose kernels it takes.
    #[doc(hidden)]
    fn code(self) -> Code;

    /// The result of no elements, where no kernel is asked for it.
    #[doc(hidden)]
    fn of_none() -> Option<Self::Output>;

    /// The result in what a kernel has written.
    #[doc(hidden)]
    fn decode(words: Words) -> Self::Output;
}

/// An operation of which every row of a matrix, or segment, can have a result of its own: all but
/// [`WrappingSum`].
pub trait RowsOperation<T: Plain>: Operation<T> {}

/// A sum whose rounding error [`Reducer::error_bound`](crate::Reducer::error_bound) bounds: [`Sum`],
/// [`SumOfSquares`] or [`SumOfMagnitudes`]. The trait is sealed.
pub trait BoundedSum<T: Element>: Operation<T> {}

impl<T: Element> BoundedSum<T> for Sum {}
impl<T: Element> BoundedSum<T> for SumOfSquares {}
impl<T: Element> BoundedSum<T> for SumOfMagnitudes {}

/// Two to six operations on the same elements, in a tuple, which
/// [`Reducer::reduce`](crate::Reducer::reduce) takes in place of one. The trait is sealed.
///
/// Each operation has the result, bit for bit, that it has alone. The host waits once for all, and a
/// launch gives the results of several operations where its kernel has them:
///
/// | operations among those of a tuple | launches |
/// |---|---|
/// | the same one twice or more | 1 |
/// | [`Sum`] and [`WrappingSum`] | 1 |
/// | [`Reproducible`] around an operation that it does not change, and that operation | 1 |
/// | [`Min`] and [`Max`], with or without [`MinMax`] or [`MaxNorm`] | 1 |
/// | [`L1Norm`] and [`SumOfMagnitudes`], but of integers of 64 bits | 1 |
/// | [`MinMax`], and [`Min`] or [`Max`] | 1 |
/// | the same of numbers, each in [`SkipNan`] | 1 |
/// | of integers, [`ArgMin`] and [`Min`] | 1 |
/// | of integers, [`ArgMax`] and [`Max`] | 1 |
/// | any other | 1 each |
///
/// Launches come one behind the other on the same stream, and each reads all elements: those that the
/// L2 cache holds it need not read from memory again. A program's own operation, of which no elements
/// have a result too, is launched even where the others are not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tuple of two to six operations on elements of type `{T}`",
    note = "each must be an operation on them, of `warpfold::op` or a reference to a program's own"
)]
pub trait Operations<T: Plain>: sealed::Sealed<Kind = kind::Together> + Copy {
    /// A tuple of what the host gets of each.
    type Output;

    /// Whose kernels they take.
    #[doc(hidden)]
    fn codes(self) -> [Option<Code>; MOST_TOGETHER];

    /// The results of no elements, where no kernel is asked for any.
    #[doc(hidden)]
    fn of_none() -> Option<Self::Output>;

    /// The results in what kernels have written.
    #[doc(hidden)]
    fn decode(results: HostResults<'_>) -> Self::Output;
}

macro_rules! together {
    ($(($($O:ident $at:tt),*);)*) => {$(
        impl<$($O: sealed::Sealed),*> sealed::Sealed for ($($O,)*) {
            type Kind = kind::Together;
        }

        impl<T: Plain, $($O: Operation<T>),*> Operations<T> for ($($O,)*) {
            type Output = ($($O::Output,)*);

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

/// An operation on pairs, the elements of two buffers that have the same index. Its result is of the
/// type [`Element::Sum`], and 0 of no pairs. The trait is sealed.
///
/// The buffers have the same length; both may be the same one. Where they begin equally far from a
/// multiple of 16 bytes, as uploaded buffers do, they are read in the fewest loads.
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
    /// Whose kernels it takes of elements of a type.
    #[doc(hidden)]
    fn op(dtype: names::Dtype) -> names::PairOp;
}

/// The dot product: the sum of the pairs' products, in the type [`Element::Sum`]. Of integers it wraps
/// around, which products of 32 bits and more can do from the second pair on. Products of floats are
/// rounded to that type, where those of 16 bits have room, unless they overflow or underflow; and added
/// in the order of the launch, as those of a [`Sum`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dot;

/// The sum of the squares of the pairs' differences, in the type [`Element::Sum`]: the square of the
/// Euclidean distance. Differences of integers are exact, but for those of 64 bits, which wrap around in
/// their own type; squares and their sum wrap around as those of a [`SumOfSquares`] do. Differences of
/// floats and their squares are rounded to that type, and added as those of a [`Dot`] are.
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

/// The search for the k elements of a buffer, or of every row, that come first: [`Largest`] or
/// [`Smallest`], of 1 to 32 elements, with their indices. The trait is sealed.
///
/// Of a buffer with fewer elements all are found. Many elements in no order take little longer than
/// their extreme does; it takes longest where each of them comes before those at smaller indices.
///
/// The elements come in a total order: of two that are equal, as zeros of both signs are, the one with
/// the smaller index comes first, and a NaN comes before all that are none, whichever is asked for. So
/// the first one is that of [`ArgMax`] or [`ArgMin`].
pub trait TopK: sealed::Sealed<Kind = kind::Top> + Copy {
    /// Whose kernels it takes.
    #[doc(hidden)]
    const OP: names::TopOp;

    /// Returns how many elements come first.
    #[doc(hidden)]
    fn k(self) -> usize;
}

/// The largest elements, from the largest one on; the field says how many of them, 1 to 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Largest(pub usize);

/// The smallest elements, from the smallest one on; the field says how many of them, 1 to 32.
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

/// The kinds of operations, by which an [`Input`](crate::Input) chooses how to reduce its elements.
pub(crate) mod kind {
    /// One result of each element or piece.
    pub struct Single;
    /// A tuple of operations.
    pub struct Together;
    /// One result of two buffers.
    pub struct Pairs;
    /// The first elements in an order.
    pub struct Top;
    /// An interval, which is no operation by itself.
    pub struct Interval;
}

pub(crate) mod sealed {
    use super::{Element, Operation, Plain, names};

    /// The operations of this module and those of programs.
    pub trait Sealed {
        /// One of the types of [`kind`](super::kind).
        type Kind;
    }

    /// Those that have a result with the same bits everywhere.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` of `{T}` has no result with the same bits everywhere",
        note = "sums, means and variances have one, and operations whose result no order changes"
    )]
    pub trait Reproducible<T: Element>: Operation<T> {}

    /// Those that have a result of numbers alone.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot leave out NaN",
        note = "sums, products, norms, extremes and their places, harmonic means, third central moments, \
                and means with variances can"
    )]
    pub trait SkipsNan<T: Element>: Operation<T> {
        /// The result, unless it is that of no number.
        fn number(output: Self::Output) -> Self::Output;
    }

    /// What elements can be added in.
    #[diagnostic::on_unimplemented(
        message = "elements of type `{T}` cannot be added in `{Self}`",
        note = "they can in their type `Element::Sum`, those of 64 bits in 128 bits, and floats in `f64`"
    )]
    pub trait Accumulates<T: Element>: Plain {
        /// Whose kernels do it.
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

/// The maximum norm, as `f64`: the largest magnitude, or NaN if any element is NaN. Results of rows and
/// in an [`Output`](crate::Output) are the [`Ends`] of the elements instead.
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
        // Both are NaN or neither is.
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
