//! The functions of the package: one for each operation of the library's table, and those computed from
//! an operation's results. The Python functions, their documentation, type stubs and tests are generated
//! from these rows.

use pyo3::prelude::*;

use warpfold::internal::{Dtype, Nan, Op, OpKind, Written};

use crate::kernels::Kernel;

#[pyclass(frozen, get_all, module = "warpfold")]
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// The name: NumPy's, or PyTorch's if NumPy has none.
    name: &'static str,
    /// A one-sentence description of the result.
    summary: String,
    kernel: Kernel,
    /// The post-processing of the operation's values: a name of `_finish.py`.
    finish: &'static str,
    /// The type of the results: a name of `_finish.py`.
    result: &'static str,
    /// The result of no elements, if there is one.
    of_none: Option<f64>,
    /// True if it takes `ddof`.
    ddof: bool,
    /// True if it returns two results.
    pair: bool,
    /// True if it takes an initial value.
    initial: bool,
}

impl Function {
    /// Returns the function of an operation; `None` if Python has a separate function for each of its
    /// values.
    fn of_operation(op: Op) -> Option<Self> {
        let name = op.function()?;
        let (finish, result, of_nothing) = match op.written() {
            Written::Sum => ("as_it_is", "sum", None),
            Written::Element | Written::Ends => ("as_it_is", "same", None),
            Written::Place => ("index", "index", None),
            Written::Count => ("as_it_is", "index", None),
            Written::Double => ("as_it_is", "float", Some(f64::NAN)),
            Written::Moments => return None,
        };
        let value = |word: u64| match op.written() {
            Written::Sum | Written::Double => f64::from_bits(word),
            _ => word.cast_signed() as f64,
        };
        let of_none = op.of_none(Dtype::F64).map(value).or(of_nothing);
        let mut summary = match op.nan {
            Nan::Propagate => op.kind.summary().to_owned(),
            Nan::Skip => {
                let all = op.kind.plain().function().expect("it has the operation itself");
                let of_none = match (op.written(), of_none) {
                    (Written::Place, _) => "the index of the first element".to_owned(),
                    (_, value) => value.map_or("NaN".to_owned(), |value| value.to_string()),
                };
                format!("`{all}` of the elements that are not NaN; {of_none} if all are.")
            }
        };
        if !op.kind.plain().takes(Dtype::I64) {
            summary += " Of floats alone.";
        }
        Some(Self {
            name,
            summary,
            kernel: Kernel { name, kind: op.kind, nan: op.nan },
            finish,
            result,
            of_none,
            ddof: false,
            pair: op.written() == Written::Ends,
            initial: matches!(name, "sum" | "prod" | "min" | "max"),
        })
    }
}

macro_rules! functions {
    ($(
        $name:ident: $kind:ident $nan:ident, $finish:ident, $result:ident, $of_none:expr, $ddof:literal, $pair:literal;
        $summary:literal;
    )*) => {
        /// Returns the functions computed from operations' results.
        fn others() -> impl Iterator<Item = Function> {
            [$(Function {
                name: stringify!($name),
                summary: $summary.to_owned(),
                kernel: Kernel { name: stringify!($name), kind: OpKind::$kind, nan: Nan::$nan },
                finish: stringify!($finish),
                result: stringify!($result),
                of_none: Some($of_none),
                ddof: $ddof,
                pair: $pair,
                initial: false,
            }),*]
            .into_iter()
        }
    };
}

functions! {
    // name: kind, NaN, finish, result, of no elements, takes `ddof`, returns two results
    var: MeanAndVariance Propagate, variance, float, f64::NAN, true, false;
        "The variance: the sum of the squared distances from the mean, over n - ddof.";
    std: MeanAndVariance Propagate, deviation, float, f64::NAN, true, false;
        "The standard deviation: the root of the variance.";
    var_mean: MeanAndVariance Propagate, variance_and_mean, float, f64::NAN, true, true;
        "The variance and the mean, in one pass: a tuple.";
    any: CountNonZero Propagate, any, bool, 0.0, false, false;
        "Whether any element is not zero. NaN is not zero.";
    all: CountNonZero Propagate, all, bool, 1.0, false, false;
        "Whether all elements are not zero. NaN is not zero.";
    max_norm: MinMax Propagate, magnitude, float, 0.0, false, false;
        "The maximum norm: the largest magnitude, or NaN if any element is NaN.";
    nanmean: MeanAndVariance Skip, mean_of_spread, float, f64::NAN, false, false;
        "`mean` of the elements that are not NaN; NaN if all are.";
    nanvar: MeanAndVariance Skip, variance, float, f64::NAN, false, false;
        "The variance of the elements that are not NaN, as that of a whole population; NaN if all are.";
    nanstd: MeanAndVariance Skip, deviation, float, f64::NAN, false, false;
        "The standard deviation of the elements that are not NaN, as that of a whole population; NaN if all are.";
    nanl1_norm: L1Norm Skip, as_it_is, float, 0.0, false, false;
        "`l1_norm` of the elements that are not NaN; 0 if all are.";
    nanmax_norm: MinMax Skip, magnitude_of_numbers, float, 0.0, false, false;
        "`max_norm` of the elements that are not NaN; 0 if all are.";
}

/// Returns the row of every function.
#[pyfunction]
pub(crate) fn functions() -> Vec<Function> {
    Op::all().filter_map(Function::of_operation).chain(others()).collect()
}
