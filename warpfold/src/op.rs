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
//! assert_eq!(reducer.reduce_rows(op::SumOfMagnitudes, &values.rows(2)?)?, [3, 9]);
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
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | the integer's type | the same | all bits, none, none |
//!
//! A program's own operation is taken as well: see [`custom`](crate::custom).

use bytemuck::Zeroable;

use crate::{
    Element, Ends, Integer, Located, Outcome, Plain, Spread,
    element::{Words, sealed::Outcome as _},
    names,
    reducer::Code,
};

/// An operation on elements of type `T`: one of this module, or a reference to a program's own
/// ([`Custom`](crate::custom::Custom)). The trait is sealed.
pub trait Operation<T: Plain>: sealed::Sealed + Copy {
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

/// An operation of which every row of a matrix can have a result of its own: all but [`WrappingSum`].
pub trait RowsOperation<T: Plain>: Operation<T> {}

pub(crate) mod sealed {
    /// What operations are.
    pub trait Sealed {}
}

macro_rules! operations {
    ($(
        $(#[$attr:meta])*
        $Name:ident<$T:ident: $Bound:ident> = $op:ident: $Left:ty, $kind:ident $(, $of_rows:ident)?;
    )*) => {$(
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $Name;

        impl sealed::Sealed for $Name {}

        impl<$T: $Bound> Operation<$T> for $Name {
            type Left = $Left;

            fn code(self) -> Code {
                Code::BuiltIn(names::Op::$op, <$T as crate::element::sealed::Element>::DTYPE)
            }

            operations!(@ $kind $Left);
        }

        $(impl<$T: $Bound> $of_rows<$T> for $Name {})?
    )*};
    // Those of which no elements have a result, too.
    (@ zero $Left:ty) => {
        operations!(@value $Left, <$Left>::zeroed());
    };
    (@ one $Left:ty) => {
        operations!(@value $Left, <$Left as crate::element::sealed::Element>::ONE);
    };
    (@ bits $Left:ty) => {
        operations!(@value $Left, <$Left as crate::element::sealed::Element>::ALL_BITS);
    };
    (@value $Left:ty, $of_none:expr) => {
        type Output = $Left;

        fn of_none() -> Option<$Left> {
            Some($of_none)
        }

        fn decode(words: Words) -> $Left {
            <$Left>::from_words(words)
        }
    };
    // Those of which they have none.
    (@ none $Left:ty) => {
        type Output = Option<$Left>;

        fn of_none() -> Option<Option<$Left>> {
            Some(None)
        }

        fn decode(words: Words) -> Option<$Left> {
            Some(<$Left>::from_words(words))
        }
    };
}

operations! {
    /// The sum, in the type [`Element::Sum`].
    Sum<T: Element> = Sum: T::Sum, zero, RowsOperation;
    /// The sum of integers in their own type, which wraps around.
    WrappingSum<T: Integer> = Sum: T, zero;
    /// The sum of the squares, in the type [`Element::Sum`]. Squares of 32 bits and more can wrap around
    /// there from the second element on.
    SumOfSquares<T: Element> = SumSq: T::Sum, zero, RowsOperation;
    /// The sum of the magnitudes, in the type [`Element::Sum`]: the L1 norm. The magnitude of the
    /// smallest `i64` is itself. Of floats it is off by [`Reducer::sum_error_bound`] of itself at most.
    ///
    /// [`Reducer::sum_error_bound`]: crate::Reducer::sum_error_bound
    SumOfMagnitudes<T: Element> = SumAbs: T::Sum, zero, RowsOperation;
    /// The product, in the type [`Element::Sum`]; of integers it wraps around. Of n floats it is off by
    /// (n − 1)u / (1 − (n − 1)u) of itself at most, where u is half a unit in the last place of 1 in
    /// that type, unless it overflows or underflows on its way.
    Product<T: Element> = Product: T::Sum, one, RowsOperation;
    /// The smallest element, or NaN if any element is NaN.
    Min<T: Element> = Min: T, none, RowsOperation;
    /// The largest element, or NaN if any element is NaN.
    Max<T: Element> = Max: T, none, RowsOperation;
    /// The smallest element and the largest one, or NaN both if any element is NaN.
    MinMax<T: Element> = MinMax: Ends<T>, none, RowsOperation;
    /// The first of the smallest elements, or the first NaN if there is one.
    ArgMin<T: Element> = ArgMin: Located<T>, none, RowsOperation;
    /// The first of the largest elements, or the first NaN if there is one.
    ArgMax<T: Element> = ArgMax: Located<T>, none, RowsOperation;
    /// How many elements are not zero. NaN is not zero, −0 is.
    CountNonZero<T: Element> = NonZero: u64, zero, RowsOperation;
    /// The mean, and the mean of the squared distances from it, both in one pass.
    ///
    /// A thread keeps a mean and the sum of the squared distances from it, in `f32` for elements of 8
    /// and 16 bits and `f32` itself, else in `f64`; threads meet in `f64`. There is no difference of
    /// large sums: a large mean costs no digits of the variance but those that the elements have lost to
    /// it. Of elements that are not all finite, both may be NaN. A bound of their error is not stated.
    MeanAndVariance<T: Element> = Spread: Spread, none, RowsOperation;
    /// The bits that all elements have.
    BitAnd<T: Integer> = And: T, bits, RowsOperation;
    /// The bits that any element has.
    BitOr<T: Integer> = Or: T, zero, RowsOperation;
    /// The bits that an odd number of elements have.
    BitXor<T: Integer> = Xor: T, zero, RowsOperation;
}
