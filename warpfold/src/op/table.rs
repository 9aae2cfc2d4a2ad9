//! The table of operations. A row has everything about an operation that the library, its programs and
//! the Python package need, except its kernels and its arithmetic on the CPU.

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

/// Declares the kinds of operations, and a type for each.
///
/// A row has the kind's name in PTX symbols and files, the name of the Python function and a summary;
/// then the trait of its elements, the result that its kernels write, the result of no elements, whether
/// kernels that skip NaN exist, the elements with reproducible results, and the kind whose tuning it
/// uses.
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
    // Skips `L1Norm`, whose result type depends on the element type: mod.rs implements its traits.
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
    /// The sum of the squares, in the type [`Element::Sum`]. Sums of squares of integers can wrap
    /// around: with 32 bits from the second element on, with 64 bits from the first.
    SumOfSquares = "sumsq", "sum_of_squares", "The sum of the squares. Of integers it wraps around.";
        Element: Sum, Zero, true, Binned, SumOfSquares;
    /// The first of the smallest elements, or the first NaN if there is one.
    ArgMin = "argmin", "argmin", "The index of the first of the smallest elements, or of the first NaN.";
        Element: Place, Nothing, true, Anyway, ArgMin;
    /// The first of the largest elements, or the first NaN if there is one.
    ArgMax = "argmax", "argmax", "The index of the first of the largest elements, or of the first NaN.";
        Element: Place, Nothing, true, Anyway, ArgMax;
    /// The sum of the magnitudes, in the type [`Element::Sum`]: the L1 norm. The magnitude of `i64::MIN`
    /// wraps to `i64::MIN`. For floats, the relative error is at most [`Reducer::error_bound`].
    ///
    /// [`Reducer::error_bound`]: crate::Reducer::error_bound
    SumOfMagnitudes = "sumabs", "sum_of_magnitudes", "The sum of the magnitudes.";
        Element: Sum, Zero, true, Binned, Sum;
    /// The product, in the type [`Element::Sum`]; for integers it wraps around. For n floats, the
    /// relative error is at most (n − 1)u / (1 − (n − 1)u), where u is half a unit in the last place of
    /// 1 in that type, unless an intermediate product overflows or underflows.
    Product = "product", "prod", "The product. Of integers it wraps around.";
        Element: Sum, One, true, Integers, Sum;
    /// The smallest element and the largest one, or NaN for both if any element is NaN.
    MinMax = "minmax", "aminmax", "The smallest element and the largest one, in one pass.";
        Element: Ends, Nothing, true, Anyway, Min;
    /// The number of elements that are not zero. NaN is not zero, −0 is.
    CountNonZero = "nonzero", "count_nonzero", "How many elements are not zero. NaN is not zero.";
        Element: Count, Zero, false, Anyway, Sum;
    /// The mean, and the mean of the squared distances from it, both in one pass.
    ///
    /// For integers, the sum A of n elements, the sum B of their squares, and n·B − A² are exact. The
    /// mean is A, rounded to `f64`, divided by n; the variance is n·B − A², rounded to `f64`, divided by
    /// n twice. Each division rounds once more.
    ///
    /// For floats, each thread adds, in `f64`, the distances of its elements from one of its first
    /// elements, and their squares. The sums of threads are then combined: those of `f64` as means and
    /// squared distances from the means, all others as distances from one of those elements. So a large
    /// mean costs no digits of the variance, and no distance or square overflows on the way. For n
    /// elements and u = 2^−53, the relative error of the variance is at most n·(n + 64)·u, and about
    /// 64·u if the first elements of each thread are no outliers.
    ///
    /// If an element is NaN or infinite, the variance is NaN, and the mean equals the sum.
    MeanAndVariance = "spread", "var_mean", "The mean and the variance, in one pass.";
        Element: Moments, Nothing, true, Binned, Sum;
    /// The bitwise AND of all elements.
    BitAnd = "and", "bitwise_and", "The bits that all elements have.";
        Bits: Element, AllBits, false, Anyway, Sum;
    /// The bitwise OR of all elements.
    BitOr = "or", "bitwise_or", "The bits that any element has.";
        Bits: Element, Zero, false, Anyway, Sum;
    /// The bitwise XOR of all elements.
    BitXor = "xor", "bitwise_xor", "The bits that an odd number of elements have.";
        Bits: Element, Zero, false, Anyway, Sum;
    /// The natural logarithm of the sum of e to the power of each element, in the type [`Element::Sum`].
    /// Intermediate results neither overflow nor underflow. The result is NaN if any element is NaN,
    /// else ∞ if any is ∞, and −∞ if all are −∞.
    ///
    /// The kernel finds the largest element in the same pass, and adds exponentials of the distances
    /// from it. If the type is `f32`, a GPU uses its own instructions for exponentials, whose last bits
    /// may differ between GPU generations. No error bound is stated.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// // Two equal elements: the result is larger than each by the logarithm of 2.
    /// let logits = device.upload(&[-1000.0_f32, -1000.0])?;
    /// let sum = reducer.reduce(op::LogSumExp, &logits)?;
    /// assert!((sum - (-1000.0 + 2.0_f32.ln())).abs() < 1e-3);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// Integers do not have this operation:
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
    /// The number of floats that are NaN.
    CountNan = "nancount", "count_nan", "How many elements are NaN.";
        Float: Count, Zero, false, Anyway, Sum;
    /// The arithmetic mean, as `f64`. It is in the range of the elements: no sum overflows or wraps
    /// around on the way.
    ///
    /// For integers, the sum is exact, rounded to `f64` once, and rounded once more by the division.
    /// Floats are added in `f64`; elements of type `f64` are added at two scales. The error is at
    /// most the [`Reducer::error_bound`] of additions in `f64`, relative to the mean of the magnitudes,
    /// plus the rounding of the division. NaN and infinities propagate as in a sum.
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
    /// value; floats are added as in [`SumOfMagnitudes`]. In an [`Output`](crate::Output) and for rows,
    /// the result is `f64` for integers of 64 bits, otherwise [`Element::Sum`].
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
    /// The L2 norm, as `f64`: the root of the sum of the squares. If the norm neither overflows nor
    /// underflows, no square does on the way.
    ///
    /// For integers, the sum of the squares is exact, rounded to `f64` once, and rounded once more by
    /// the root. The squares of floats of up to 32 bits are exact in `f64`, in which they are added;
    /// those of `f64` are added at three scales. The relative error of the norm is half that of a sum in
    /// `f64`.
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
    /// The harmonic mean, as `f64`: the number of elements divided by the sum of their reciprocals. A
    /// zero of either sign has the reciprocal ∞, and makes the mean 0. If the sum is 0, because elements
    /// have both signs or are infinite, the mean is ∞.
    ///
    /// Elements are rounded to `f64`, and so are reciprocals; none of them overflows or underflows. For
    /// n elements of one sign, the relative error is at most (n + 4)·2^−53.
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
    /// It is computed like [`MeanAndVariance`]. For n elements, the error is at most 32·n·(n + 64)·2^−53
    /// of the mean of the cubed distances' magnitudes. Cubes are not scaled: with distances of 2^320 and
    /// more the result may be infinite or NaN. If an element is NaN or infinite, the result is NaN.
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
