//! The functions of the package: one row each. The functions themselves, their documentation, the type
//! stubs and the tests are made from these rows.

use pyo3::prelude::*;

use warpfold::internal::{Nan, OpKind};

use crate::kernels::Kernel;

/// A function for reductions.
#[pyclass(frozen, get_all, module = "warpfold")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its name: NumPy's, or PyTorch's where NumPy has none.
    name: &'static str,
    /// What it computes, in a sentence.
    summary: &'static str,
    /// The operation on the device.
    kernel: Kernel,
    /// What becomes of the values that the operation leaves: a name of `_finish.py`.
    finish: &'static str,
    /// What the elements of the results are: a name of `_finish.py`.
    result: &'static str,
    /// The result of no elements, if there is one.
    of_none: Option<f64>,
    /// Whether it takes `ddof`.
    ddof: bool,
    /// Whether it returns two results.
    pair: bool,
    /// Whether it takes an initial value.
    initial: bool,
    /// Whether it may be asked for the same bits everywhere, if the operation has them.
    everywhere: bool,
}

macro_rules! functions {
    ($(
        $name:ident: $kind:ident $($skip:ident)?, $finish:ident, $result:ident, $of_none:expr $(, $flag:ident)*;
        $summary:literal;
    )*) => {
        /// All functions that there are.
        const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            summary: $summary,
            kernel: Kernel {
                name: stringify!($name),
                kind: OpKind::$kind,
                nan: functions!(@ $($skip)?),
            },
            finish: stringify!($finish),
            result: stringify!($result),
            of_none: $of_none,
            $($flag: true,)*
            ..NEITHER
        }),*];
    };
    (@ skip_nan) => { Nan::Skip };
    (@) => { Nan::Propagate };
}

/// What a row says by its flags alone.
const NEITHER: Function = Function {
    name: "",
    summary: "",
    kernel: Kernel { name: "", kind: OpKind::Sum, nan: Nan::Propagate },
    finish: "",
    result: "",
    of_none: None,
    ddof: false,
    pair: false,
    initial: false,
    everywhere: false,
};

functions! {
    sum: Sum, as_it_is, sum, Some(0.0), everywhere, initial;
        "The sum.";
    prod: Product, as_it_is, sum, Some(1.0), everywhere, initial;
        "The product. Of integers it wraps around.";
    min: Min, as_it_is, same, None, everywhere, initial;
        "The smallest element, or NaN if any element is NaN.";
    max: Max, as_it_is, same, None, everywhere, initial;
        "The largest element, or NaN if any element is NaN.";
    aminmax: MinMax, as_it_is, same, None, everywhere, pair;
        "The smallest element and the largest one, in one pass: a tuple.";
    argmin: ArgMin, index, index, None, everywhere;
        "The index of the first of the smallest elements, or of the first NaN.";
    argmax: ArgMax, index, index, None, everywhere;
        "The index of the first of the largest elements, or of the first NaN.";
    mean: Mean, as_it_is, float, Some(f64::NAN);
        "The arithmetic mean. No sum overflows or wraps around on the way.";
    var: Spread, variance, float, Some(f64::NAN), ddof, everywhere;
        "The variance: the sum of the squared distances from the mean, over n - ddof.";
    std: Spread, deviation, float, Some(f64::NAN), ddof;
        "The standard deviation: the root of the variance.";
    var_mean: Spread, variance_and_mean, float, Some(f64::NAN), ddof, pair, everywhere;
        "The variance and the mean, in one pass: a tuple.";
    any: NonZero, any, bool, Some(0.0), everywhere;
        "Whether any element is not zero. NaN is not zero.";
    all: NonZero, all, bool, Some(1.0), everywhere;
        "Whether all elements are not zero. NaN is not zero.";
    count_nonzero: NonZero, as_it_is, index, Some(0.0), everywhere;
        "How many elements are not zero. NaN is not zero.";
    sum_of_squares: SumSq, as_it_is, sum, Some(0.0), everywhere;
        "The sum of the squares. Of integers it wraps around.";
    sum_of_magnitudes: SumAbs, as_it_is, sum, Some(0.0), everywhere;
        "The sum of the magnitudes.";
    l1_norm: L1, as_it_is, float, Some(0.0), everywhere;
        "The L1 norm: the sum of the magnitudes.";
    l2_norm: L2, as_it_is, float, Some(0.0);
        "The L2 norm: the root of the sum of the squares, of which none overflows or vanishes on the way.";
    hmean: HarmonicMean, as_it_is, float, Some(f64::NAN), everywhere;
        "The harmonic mean: the number of elements over the sum of their reciprocals.";
    third_central_moment: ThirdMoment, as_it_is, float, Some(f64::NAN);
        "The third central moment: the mean of the cubed distances from the mean. Of floats alone.";
    max_norm: MinMax, magnitude, float, Some(0.0), everywhere;
        "The maximum norm: the largest magnitude, or NaN if any element is NaN.";
    logsumexp: LogSumExp, as_it_is, sum, Some(f64::NEG_INFINITY);
        "The logarithm of the sum of e to the power of each element, which does not overflow on its way. Of floats alone.";
    nansum: Sum skip_nan, as_it_is, sum, Some(0.0), everywhere;
        "The sum of the elements that are no NaN; 0 if all are.";
    nanprod: Product skip_nan, as_it_is, sum, Some(1.0), everywhere;
        "The product of the elements that are no NaN; 1 if all are.";
    nanmin: Min skip_nan, as_it_is, same, None, everywhere;
        "The smallest element that is no NaN, or NaN if all are.";
    nanmax: Max skip_nan, as_it_is, same, None, everywhere;
        "The largest element that is no NaN, or NaN if all are.";
    nanaminmax: MinMax skip_nan, as_it_is, same, None, everywhere, pair;
        "The smallest element that is no NaN and the largest one, in one pass: a tuple; NaN both if all are.";
    nanargmin: ArgMin skip_nan, index, index, None, everywhere;
        "The index of the first of the smallest elements that are no NaN, or of the first element if all are.";
    nanargmax: ArgMax skip_nan, index, index, None, everywhere;
        "The index of the first of the largest elements that are no NaN, or of the first element if all are.";
    nanmean: Spread skip_nan, mean_of_spread, float, Some(f64::NAN), everywhere;
        "The arithmetic mean of the elements that are no NaN, or NaN if all are.";
    nanvar: Spread skip_nan, variance, float, Some(f64::NAN), everywhere;
        "The variance of the elements that are no NaN, as that of a whole population, or NaN if all are.";
    nanstd: Spread skip_nan, deviation, float, Some(f64::NAN);
        "The standard deviation of the elements that are no NaN, as that of a whole population.";
    nansum_of_squares: SumSq skip_nan, as_it_is, sum, Some(0.0), everywhere;
        "The sum of the squares of the elements that are no NaN; 0 if all are.";
    nansum_of_magnitudes: SumAbs skip_nan, as_it_is, sum, Some(0.0), everywhere;
        "The sum of the magnitudes of the elements that are no NaN; 0 if all are.";
    nanl1_norm: L1 skip_nan, as_it_is, float, Some(0.0), everywhere;
        "The L1 norm of the elements that are no NaN; 0 if all are.";
    nanl2_norm: L2 skip_nan, as_it_is, float, Some(0.0);
        "The L2 norm of the elements that are no NaN; 0 if all are.";
    nanhmean: HarmonicMean skip_nan, as_it_is, float, Some(f64::NAN), everywhere;
        "The harmonic mean of the elements that are no NaN, or NaN if all are.";
    nanthird_central_moment: ThirdMoment skip_nan, as_it_is, float, Some(f64::NAN);
        "The third central moment of the elements that are no NaN, or NaN if all are. Of floats alone.";
    nanmax_norm: MinMax skip_nan, magnitude_of_numbers, float, Some(0.0), everywhere;
        "The maximum norm of the elements that are no NaN: the largest magnitude; 0 if all are.";
    count_nan: NanCount, as_it_is, index, Some(0.0), everywhere;
        "How many elements are NaN. Of floats alone.";
    bitwise_and: And, as_it_is, same, Some(-1.0), everywhere;
        "The bits that all elements have.";
    bitwise_or: Or, as_it_is, same, Some(0.0), everywhere;
        "The bits that any element has.";
    bitwise_xor: Xor, as_it_is, same, Some(0.0), everywhere;
        "The bits that an odd number of elements have.";
}

/// Returns the row of every function.
#[pyfunction]
pub(crate) fn functions() -> Vec<Function> {
    FUNCTIONS.to_vec()
}
