//! The forms in which kernels write results: values of the parameter `form`.
//!
//! The float type of an element is `f32` for floats of up to 32 bits, and `f64` for `f64` and integers.

/// The operation's own result. All kernels write it. Each other form is for the operation that it names,
/// in kernels with a parameter `form`.
pub const OUTPUT: u64 = 0;

/// A mean, norm or moment in the float type.
pub const FLOAT: u64 = 1;

/// The index without the element, in 8 bytes.
pub const INDEX: u64 = 2;

/// One byte: 1 if a count is not 0, else 0.
pub const ANY: u64 = 3;

/// One byte: 1 if a count is the number of elements, else 0.
pub const ALL: u64 = 4;

/// The larger magnitude of a minimum and a maximum, in the float type; 0 if no element counts.
pub const MAGNITUDE: u64 = 5;

/// The mean alone, of a mean and a variance, in the float type.
pub const MEAN: u64 = 6;

/// The variance, in the float type: the sum of squared distances from the mean, divided by n - `ddof`.
pub const VARIANCE: u64 = 7;

/// The square root of the [`VARIANCE`], in the float type.
pub const DEVIATION: u64 = 8;

/// The [`VARIANCE`] and the [`MEAN`], in the float type. All variances are followed by all means.
pub const VARIANCE_AND_MEAN: u64 = 9;

/// The minimum and the maximum. All minima are followed by all maxima.
pub const MIN_AND_MAX: u64 = 10;

/// Returns the number of values of a result that are written apart from each other.
pub const fn values(form: u64) -> u64 {
    if matches!(form, VARIANCE_AND_MEAN | MIN_AND_MAX) { 2 } else { 1 }
}
