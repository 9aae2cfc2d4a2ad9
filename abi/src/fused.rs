//! The parts of fused kernels: reductions of the same elements in one launch. The host chooses which of
//! them are compiled.

use crate::custom::MOST_OUTPUT_BYTES;

/// Maximum number of parts in a launch, and of operations in a tuple.
pub const MOST_PARTS: u32 = 6;

/// Returns the distance in bytes from the first of `count` results of a part to those of the next part.
pub const fn results_bytes(count: u64, bytes: u64) -> u64 {
    (count * bytes).next_multiple_of(MOST_OUTPUT_BYTES)
}

macro_rules! parts {
    ($($(#[$attr:meta])* $NAME:ident)*) => {
        parts!(@ 0; $($(#[$attr])* $NAME)*);
    };
    (@ $bit:expr; $(#[$attr:meta])* $NAME:ident $($rest:tt)*) => {
        $(#[$attr])*
        pub const $NAME: u32 = 1 << ($bit);
        parts!(@ $bit + 1; $($rest)*);
    };
    (@ $bit:expr;) => {
        const PARTS: u32 = $bit;
        const _: () = assert!(PARTS <= u32::BITS);
    };
}

parts! {
    /// The sum.
    SUM
    /// The sum of the squares.
    SUM_OF_SQUARES
    /// The sum of the magnitudes.
    SUM_OF_MAGNITUDES
    /// The product.
    PRODUCT
    /// The smallest element and the largest one.
    MIN_MAX
    /// The first of the smallest elements.
    ARG_MIN
    /// The first of the largest elements.
    ARG_MAX
    /// The number of elements that are not zero.
    COUNT_NON_ZERO
    /// The mean.
    MEAN
    /// The mean and the variance.
    MEAN_AND_VARIANCE
    /// The Euclidean norm.
    L2_NORM
    /// The number of NaN.
    COUNT_NAN
    /// [`SUM`] without NaN.
    NAN_SUM
    /// [`SUM_OF_SQUARES`] without NaN.
    NAN_SUM_OF_SQUARES
    /// [`SUM_OF_MAGNITUDES`] without NaN.
    NAN_SUM_OF_MAGNITUDES
    /// [`PRODUCT`] without NaN.
    NAN_PRODUCT
    /// [`MIN_MAX`] without NaN.
    NAN_MIN_MAX
    /// [`ARG_MIN`] without NaN.
    NAN_ARG_MIN
    /// [`ARG_MAX`] without NaN.
    NAN_ARG_MAX
    /// [`MEAN_AND_VARIANCE`] without NaN.
    NAN_MEAN_AND_VARIANCE
    /// [`L2_NORM`] without NaN.
    NAN_L2_NORM
}
