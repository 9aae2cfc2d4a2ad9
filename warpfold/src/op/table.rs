//! The table of operations: a row has all that the library, its programs and Python's package know of an
//! operation, besides its kernels and its arithmetic on the CPU.

use super::{
    Operation, RowsOperation,
    builtin::{Facts, OfNone, Reproducible, Types, Written},
    kind,
    modifiers::{MaybeNan, modifiers},
    sealed,
};
#[cfg(doc)]
use crate::Reducer;
use crate::{
    Bits, Element, Ends, Float, Integer, Located, Spread,
    element::{Words, sealed::Outcome as _},
    reducer::Code,
};

/// Declares the kinds of operations, and a type of each.
///
/// A row has the kind's name in PTX symbols and files, the name of Python's function, a summary; the
/// trait of its elements, what its kernels write, the result of no elements, whether kernels that leave
/// NaN out exist, which elements have reproducible results, and the kind whose tuning it uses.
macro_rules! operations {
    ($(
        $(#[$attr:meta])*
        $Name:ident = $name:literal, $function:literal, $summary:literal;
            $Elements:ident: $written:ident, $of_none:ident, $skips_nan:tt, $reproducible:ident,
            $tuning_proxy:ident;
    )*) => {
        /// The kind of an operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum OpKind {
            $(#[doc = $summary] $Name,)*
        }

        impl OpKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$Name),*];

            pub(super) const fn facts(self) -> Facts {
                match self {
                    $(Self::$Name => Facts {
                        names: [
                            $name,
                            concat!("nan", $name),
                            concat!("bin", $name),
                            concat!("nanbin", $name),
                            concat!("wide", $name),
                        ],
                        functions: [$function, concat!("nan", $function)],
                        summary: $summary,
                        types: Types::$Elements,
                        written: Written::$written,
                        of_none: OfNone::$of_none,
                        skips_nan: $skips_nan,
                        reproducible: Reproducible::$reproducible,
                        tuning_proxy: Self::$tuning_proxy,
                    },)*
                }
            }
        }

        $(
            $(#[$attr])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $Name;

            impl sealed::Sealed for $Name {
                type Kind = kind::Single;
            }

            operations!(@ $Elements $Name $written $of_none $skips_nan $reproducible);
        )*

        pub(super) mod types {
            pub use super::{$($Name),*};
        }
    };
    // `L1Norm`, whose result depends on the type of elements: mod.rs implements its traits.
    (@ LongInteger $($row:tt)*) => {};
    (@ $Elements:ident $Name:ident $written:ident $of_none:ident $skips_nan:tt $reproducible:ident) => {
        impl<T: $Elements> Operation<T> for $Name {
            type Left = operations!(@left $written);

            fn code(self) -> Code {
                Code::BuiltIn(OpKind::$Name.plain(), T::DTYPE)
            }

            operations!(@output $of_none $written $Name);
        }

        impl<T: $Elements> RowsOperation<T> for $Name {}

        operations!(@skips_nan $skips_nan $of_none $Name $Elements);
        operations!(@reproducible $reproducible $Name $Elements);
    };
    (@left Sum) => { T::Sum };
    (@left Element) => { T };
    (@left Ends) => { Ends<T> };
    (@left Place) => { Located<T> };
    (@left Count) => { u64 };
    (@left Double) => { f64 };
    (@left Moments) => { Spread };
    (@output Nothing $written:ident $Name:ident) => {
        type Output = Option<operations!(@left $written)>;

        fn of_none() -> Option<Self::Output> {
            Some(None)
        }

        fn decode(words: Words) -> Self::Output {
            Some(Self::Left::from_words(words))
        }
    };
    (@output $of_none:ident $written:ident $Name:ident) => {
        type Output = operations!(@left $written);

        fn of_none() -> Option<Self::Output> {
            let mut words = Words::default();
            words[0] = OpKind::$Name.plain().of_none(T::DTYPE)?;
            Some(Self::Output::from_words(words))
        }

        fn decode(words: Words) -> Self::Output {
            Self::Left::from_words(words)
        }
    };
    (@skips_nan true Nothing $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> skip_nan(|result| result.filter(MaybeNan::is_number)));
    };
    (@skips_nan true $of_none:ident $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> skip_nan(|result| result));
    };
    (@skips_nan false $($row:tt)*) => {};
    (@reproducible Anyway $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> reproducible<$Elements>);
    };
    (@reproducible Binned $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> reproducible<Element>);
    };
    (@reproducible Floats $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> reproducible<Float>);
    };
    (@reproducible Integers $Name:ident $Elements:ident) => {
        modifiers!($Name<T: $Elements> reproducible<Integer>);
    };
    (@reproducible Never $($row:tt)*) => {};
}

operations! {
    /// The sum, in the type [`Element::Sum`].
    Sum = "sum", "sum", "The sum.";
        Element: Sum, Zero, true, Binned, Sum;
    /// The smallest element, or NaN if any element is NaN.
    Min = "min", "min", "The smallest element, or NaN if any element is NaN.";
        Element: Element, Nothing, true, Anyway, Min;
    /// The largest element, or NaN if any element is NaN.
    Max = "max", "max", "The largest element, or NaN if any element is NaN.";
        Element: Element, Nothing, true, Anyway, Max;
    /// The sum of the squares, in the type [`Element::Sum`]. Squares of 32 bits and more can wrap around
    /// there from the second element on.
    SumOfSquares = "sumsq", "sum_of_squares", "The sum of the squares. Of integers it wraps around.";
        Element: Sum, Zero, true, Binned, SumOfSquares;
    /// The first of the smallest elements, or the first NaN if there is one.
    ArgMin = "argmin", "argmin", "The index of the first of the smallest elements, or of the first NaN.";
        Element: Place, Nothing, true, Anyway, ArgMin;
    /// The first of the largest elements, or the first NaN if there is one.
    ArgMax = "argmax", "argmax", "The index of the first of the largest elements, or of the first NaN.";
        Element: Place, Nothing, true, Anyway, ArgMax;
    /// The sum of the magnitudes, in the type [`Element::Sum`]: the L1 norm. The magnitude of the
    /// smallest `i64` is itself. Of floats it is off by [`Reducer::error_bound`] of itself at most.
    ///
    /// [`Reducer::error_bound`]: crate::Reducer::error_bound
    SumOfMagnitudes = "sumabs", "sum_of_magnitudes", "The sum of the magnitudes.";
        Element: Sum, Zero, true, Binned, Sum;
    /// The product, in the type [`Element::Sum`]; of integers it wraps around. Of n floats it is off by
    /// (n − 1)u / (1 − (n − 1)u) of itself at most, where u is half a unit in the last place of 1 in
    /// that type, unless it overflows or underflows on its way.
    Product = "product", "prod", "The product. Of integers it wraps around.";
        Element: Sum, One, true, Integers, Sum;
    /// The smallest element and the largest one, or NaN both if any element is NaN.
    MinMax = "minmax", "aminmax", "The smallest element and the largest one, in one pass.";
        Element: Ends, Nothing, true, Anyway, Min;
    /// How many elements are not zero. NaN is not zero, −0 is.
    CountNonZero = "nonzero", "count_nonzero", "How many elements are not zero. NaN is not zero.";
        Element: Count, Zero, false, Anyway, Sum;
    /// The mean, and the mean of the squared distances from it, both in one pass.
    ///
    /// Of integers the sum of n elements, that of their squares, and the difference of n times the
    /// latter and the square of the former are exact: both results are rounded to `f64` once, and once
    /// more by each division by n, of which the mean has one and the variance two.
    ///
    /// Of floats a thread adds up, in `f64`, the distances of its elements from the first one, and their
    /// squares; threads merge means and sums of the squared distances from them in `f64`. So a large
    /// mean costs no digits of the variance, and neither a distance nor a square overflows on the way.
    /// Where n is the number of elements and u is 2^−53, the variance is off by n·(n + 64)·u of itself
    /// at most, and by some 64·u of it where the first element that a thread takes is no outlier.
    ///
    /// If an element is NaN or infinite, the variance is NaN, and the mean is what the sum would be.
    MeanAndVariance = "spread", "var_mean", "The mean and the variance, in one pass.";
        Element: Moments, Nothing, true, Binned, Sum;
    /// The bits that all elements have.
    BitAnd = "and", "bitwise_and", "The bits that all elements have.";
        Bits: Element, AllBits, false, Anyway, Sum;
    /// The bits that any element has.
    BitOr = "or", "bitwise_or", "The bits that any element has.";
        Bits: Element, Zero, false, Anyway, Sum;
    /// The bits that an odd number of elements have.
    BitXor = "xor", "bitwise_xor", "The bits that an odd number of elements have.";
        Bits: Element, Zero, false, Anyway, Sum;
    /// The natural logarithm of the sum of e to the power of each element, in the type [`Element::Sum`],
    /// which neither overflows nor underflows on its way. NaN if any element is NaN, else ∞ if any is ∞,
    /// and −∞ if all are −∞.
    ///
    /// The largest element is found along the way, and exponentials are made of the distances from it:
    /// on a GPU by its own instructions, whose last bits its generations may give differently, where
    /// that type is `f32`. A bound of the error is not stated.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// // Half as likely each.
    /// let logits = device.upload(&[-1000.0_f32, -1000.0])?;
    /// let sum = reducer.reduce(op::LogSumExp, &logits)?;
    /// assert!((sum - (-1000.0 + 2.0_f32.ln())).abs() < 1e-3);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// Integers have none:
    ///
    /// ```compile_fail,E0277
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// reducer.reduce(op::LogSumExp, &device.upload(&[1_i32, 2])?)?;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    LogSumExp = "logsumexp", "logsumexp", "The logarithm of the sum of e to the power of each element, which does not overflow on its way.";
        Float: Sum, NegativeInfinity, false, Never, Sum;
    /// How many floats are NaN.
    CountNan = "nancount", "count_nan", "How many elements are NaN.";
        Float: Count, Zero, false, Anyway, Sum;
    /// The arithmetic mean, as `f64`, which is in the range of the elements: no sum overflows or wraps
    /// around on the way.
    ///
    /// Of integers the sum is exact, rounded to `f64` once, and once more by the division. Floats of up
    /// to 32 bits are added in `f64`, and `f64` in `f64` of two scales: a mean is off by
    /// [`Reducer::error_bound`] of the mean of the magnitudes at most, with that of `f64`, besides
    /// the rounding of the division. NaN and infinities give what their sum would.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[i64::MAX, i64::MAX, 1])?;
    /// assert_eq!(reducer.reduce(op::Mean, &values)?, Some(6148914691236517205.0));
    /// let values = device.upload(&[3e38_f32; 3])?;
    /// assert_eq!(reducer.reduce(op::Mean, &values)?, Some(f64::from(3e38_f32)));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// [`Reducer::error_bound`]: crate::Reducer::error_bound
    Mean = "mean", "mean", "The arithmetic mean. No sum overflows or wraps around on the way.";
        Element: Double, Nothing, false, Integers, Sum;
    /// The L1 norm, as `f64`: the sum of the magnitudes. Integers of 64 bits are added exactly and
    /// rounded once. Shorter ones are added in [`Element::Sum`], which has room for 2^31 elements of any
    /// value; floats as in [`SumOfMagnitudes`]. Results of rows and in an [`Output`](crate::Output) are
    /// `f64` for integers of 64 bits, otherwise [`Element::Sum`].
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let norm = reducer.reduce(op::L1Norm, &device.upload(&[i64::MIN, i64::MIN])?)?;
    /// assert_eq!(norm, 2_f64.powi(64));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    L1Norm = "l1", "l1_norm", "The L1 norm: the sum of the magnitudes.";
        LongInteger: Double, Zero, false, Anyway, Sum;
    /// The L2 norm, as `f64`: the root of the sum of the squares. No square overflows or vanishes on the
    /// way to a norm that does not.
    ///
    /// The sum of the squares of integers is exact, rounded to `f64` once, and once more by the root.
    /// The squares of floats of up to 32 bits are exact in `f64`, in which they are added, and those of
    /// `f64` are added in three scales: the norm is off by half of what a sum of `f64` is, relative to
    /// itself.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let large = 2_f64.powi(700);
    /// let values = device.upload(&[3.0 * large, 4.0 * large])?;
    /// assert_eq!(reducer.reduce(op::L2Norm, &values)?, 5.0 * large);
    /// assert_eq!(reducer.reduce(op::L2Norm, &device.upload(&[i32::MIN])?)?, 2_f64.powi(31));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    L2Norm = "l2", "l2_norm", "The L2 norm: the root of the sum of the squares, of which none overflows or vanishes on the way.";
        Element: Double, Zero, true, Integers, Sum;
    /// The harmonic mean, as `f64`: the number of elements over the sum of their reciprocals. A zero of
    /// either sign has the reciprocal ∞, and makes the mean 0. Where the sum is 0, because elements have
    /// both signs or are infinite, the mean is ∞.
    ///
    /// Elements are rounded to `f64`, and so are reciprocals, of which none overflows or vanishes: a
    /// mean of elements of one sign is off by (n + 4)·2^−53 of itself at most.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let speeds = device.upload(&[60.0_f32, 20.0])?;
    /// assert_eq!(reducer.reduce(op::HarmonicMean, &speeds)?, Some(30.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    HarmonicMean = "hmean", "hmean", "The harmonic mean: the number of elements over the sum of their reciprocals.";
        Element: Double, Nothing, true, Floats, Sum;
    /// The third central moment of floats, as `f64`: the mean of the cubed distances from the mean, in
    /// one pass. Divided by the cube of the standard deviation it is the skewness.
    ///
    /// It is made as a [`MeanAndVariance`] is. For n elements it is off by 32·n·(n + 64)·2^−53 of the
    /// mean of the cubed distances' magnitudes at most. Cubes are not scaled: with distances of 2^320
    /// and more it may be infinite or NaN. If an element is NaN or infinite, it is NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[1.0_f32, 1.0, 1.0, 5.0])?;
    /// assert_eq!(reducer.reduce(op::ThirdCentralMoment, &values)?, Some(6.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ThirdCentralMoment = "moment3", "third_central_moment", "The third central moment: the mean of the cubed distances from the mean.";
        Float: Double, Nothing, true, Never, Sum;
}
