//! The functions of the package: one for each operation of the library's table, and those computed from
//! an operation's results. The Python functions, their documentation, type stubs and tests are generated
//! from these rows.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use pyo3::prelude::*;

use warpfold::{
    dlpack::DataType,
    internal::{Dtype, ExpressionText, Form, MapOp, Nan, Op, OpKind, StaticExpression, Written},
};

use crate::{
    elements,
    error::raise,
    kernels::{Kernel, sum_type},
};

#[pyclass(frozen, module = "warpfold")]
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// The name: NumPy's, or PyTorch's if NumPy has none.
    #[pyo3(get)]
    name: &'static str,
    /// A one-sentence description of the result.
    #[pyo3(get)]
    summary: String,
    kernel: Kernel,
    /// The type of the results: that of a sum, of an element, of an index, a truth value or a float.
    #[pyo3(get)]
    result: &'static str,
    /// The result of no elements, if there is one.
    #[pyo3(get)]
    of_none: Option<f64>,
    /// True if it takes `ddof`.
    #[pyo3(get)]
    ddof: bool,
    /// True if it returns two results.
    #[pyo3(get)]
    pair: bool,
    /// True if it takes an initial value.
    #[pyo3(get)]
    initial: bool,
}

impl Function {
    /// Returns the function of an operation; `None` if each of the operation's values has a function of
    /// its own.
    fn of_operation(op: Op) -> Option<Self> {
        let name = op.function()?;
        let (form, result, of_nothing) = match op.written() {
            Written::Sum => (Form::OUTPUT, "sum", None),
            Written::Element => (Form::OUTPUT, "same", None),
            Written::Ends => (Form::MIN_AND_MAX, "same", None),
            Written::Place => (Form::INDEX, "index", None),
            Written::Count => (Form::OUTPUT, "index", None),
            Written::Double => (Form::FLOAT, "float", Some(f64::NAN)),
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
            summary += " For floats only.";
        }
        Some(Self {
            name,
            summary,
            kernel: Kernel { name, kind: op.kind, nan: op.nan, wide: false, form, expression: None },
            result,
            of_none,
            ddof: false,
            pair: op.written() == Written::Ends,
            initial: matches!(op.kind, OpKind::Sum | OpKind::Product | OpKind::Min | OpKind::Max),
        })
    }
}

impl Function {
    /// Returns the kernel, with `ddof` if the function takes it.
    pub(crate) fn kernel(&self, ddof: f64) -> Kernel {
        let form = self.kernel.form;
        Kernel { form: if self.ddof { form.with_ddof(ddof) } else { form }, ..self.kernel }
    }

    /// Returns the type of the values that the kernel writes, and the type of the results, which is
    /// another for norms of integers that are sums. `unsigned_sums` says whether sums of unsigned
    /// integers are unsigned.
    pub(crate) fn types(
        &self,
        elements: DataType,
        unsigned_sums: bool,
        everywhere: bool,
    ) -> PyResult<(DataType, DataType)> {
        let op = self.kernel.op(elements, everywhere)?;
        let float = match (elements.code, elements.bits) {
            (2 | 4, 16) | (2, 32) => DataType::of::<f32>(),
            _ => DataType::of::<f64>(),
        };
        // A sum below 2^63 has the same bits.
        let is_signed = self.kernel.expression.is_none()
            && (elements == DataType::BOOL || !unsigned_sums && elements != DataType::of::<u64>());
        let sum = match sum_type(elements) {
            sum if sum == DataType::of::<u64>() && is_signed => DataType::of::<i64>(),
            sum => sum,
        };
        let result = match self.result {
            "double" => DataType::of::<f64>(),
            "sum" | "words" => sum,
            "same" => elements,
            "index" => DataType::of::<i64>(),
            "bool" => DataType::BOOL,
            _ => float,
        };
        Ok((if op.written() == Written::Sum && !op.wide { sum } else { result }, result))
    }

    /// Returns the type of the results, if the kernel writes it.
    pub(crate) fn direct(&self, elements: DataType) -> Option<DataType> {
        let (written, result) = self.types(elements, false, false).ok()?;
        (written == result).then_some(result)
    }

    pub(crate) fn is_pair(&self) -> bool {
        self.pair
    }
}

#[pymethods]
impl Function {
    /// Returns the function whose result is float64 for floats of up to 32 bits; `None` if no kernel
    /// writes it.
    #[getter]
    fn wide(&self) -> Option<Self> {
        let Kernel { kind, nan, form, .. } = self.kernel;
        let kernel = match kind {
            _ if self.result == "double" => return None,
            OpKind::Sum if nan == Nan::Propagate => Kernel { wide: true, ..self.kernel },
            // An L1 norm of these floats is a sum in float32.
            _ if form == Form::FLOAT && kind != OpKind::L1Norm => {
                Kernel { form: Form::OUTPUT, ..self.kernel }
            }
            _ => return None,
        };
        Some(Self { kernel, result: "double", ..self.clone() })
    }

    /// Returns the sum whose results have 128 bits, in two words, the lower one first; `None` for other
    /// functions.
    #[getter]
    fn words(&self) -> Option<Self> {
        let is_sum = self.kernel.kind == OpKind::Sum && self.kernel.nan == Nan::Propagate;
        let kernel = Kernel { wide: true, ..self.kernel };
        (is_sum && kernel.expression.is_none()).then(|| Self { kernel, result: "words", ..self.clone() })
    }
}

/// Returns the type of the values that a function's kernel writes, and the type of the results.
#[pyfunction]
pub(crate) fn outcome(
    function: &Function,
    dtype: &str,
    unsigned_sums: bool,
    everywhere: bool,
) -> PyResult<(String, String)> {
    let (written, result) = function.types(elements::named(dtype)?, unsigned_sums, everywhere)?;
    Ok((elements::name(written), elements::name(result)))
}

macro_rules! functions {
    ($(
        $name:ident: $kind:ident $nan:ident, $form:ident, $result:ident, $of_none:expr, $ddof:literal, $pair:literal;
        $summary:literal;
    )*) => {
        fn others() -> impl Iterator<Item = Function> {
            [$(Function {
                name: stringify!($name),
                summary: $summary.to_owned(),
                kernel: Kernel {
                    name: stringify!($name),
                    kind: OpKind::$kind,
                    nan: Nan::$nan,
                    wide: false,
                    form: Form::$form,
                    expression: None,
                },
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
    // name: kind, NaN, form, result, of no elements, takes `ddof`, returns two results
    var: MeanAndVariance Propagate, VARIANCE, float, f64::NAN, true, false;
        "The variance: the sum of the squared distances from the mean, over n - ddof.";
    std: MeanAndVariance Propagate, DEVIATION, float, f64::NAN, true, false;
        "The standard deviation: the root of the variance.";
    var_mean: MeanAndVariance Propagate, VARIANCE_AND_MEAN, float, f64::NAN, true, true;
        "The variance and the mean, in one pass: a tuple.";
    any: CountNonZero Propagate, ANY, bool, 0.0, false, false;
        "True if any element is not zero. NaN is not zero.";
    all: CountNonZero Propagate, ALL, bool, 1.0, false, false;
        "True if no element is zero. NaN is not zero.";
    max_norm: MinMax Propagate, MAGNITUDE, float, 0.0, false, false;
        "The maximum norm: the largest magnitude, or NaN if any element is NaN.";
    nanmean: MeanAndVariance Skip, MEAN, float, f64::NAN, false, false;
        "`mean` of the elements that are not NaN; NaN if all are.";
    nanvar: MeanAndVariance Skip, VARIANCE, float, f64::NAN, true, false;
        "`var` of the elements that are not NaN; NaN if all are.";
    nanstd: MeanAndVariance Skip, DEVIATION, float, f64::NAN, true, false;
        "`std` of the elements that are not NaN; NaN if all are.";
    nanl1_norm: L1Norm Skip, FLOAT, float, 0.0, false, false;
        "`l1_norm` of the elements that are not NaN; 0 if all are.";
    nanmax_norm: MinMax Skip, MAGNITUDE, float, 0.0, false, false;
        "`max_norm` of the elements that are not NaN; 0 if all are.";
}

/// The rows of expressions by text, condition and name. Like the rows of functions they live as long as
/// the package, because calls are cached by the address of a row.
static EXPRESSIONS: Mutex<BTreeMap<ExpressionKey, Py<Function>>> = Mutex::new(BTreeMap::new());

type ExpressionKey = (String, Option<String>, MapOp);

/// Returns the row of the sum, the minimum or the maximum of the values of an expression, over the
/// elements that meet a condition.
#[pyfunction]
#[pyo3(signature = (map, filter, op))]
pub(crate) fn expression(
    py: Python<'_>,
    map: String,
    filter: Option<String>,
    op: &str,
) -> PyResult<Py<Function>> {
    let (name, op, of_none) = match op {
        "sum" => ("sum", MapOp::Sum, Some(0.0)),
        "min" => ("min", MapOp::Min, None),
        "max" => ("max", MapOp::Max, None),
        other => unreachable!("an expression has no {other}"),
    };
    StaticExpression::check(&map, filter.as_deref()).map_err(raise)?;
    let key = (map, filter, op);
    let rows = || EXPRESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = rows().get(&key).map(|row| row.clone_ref(py));
    if let Some(row) = known {
        return Ok(row);
    }
    let (map, filter, _) = key.clone();
    let text: &'static _ = Box::leak(Box::new(ExpressionText::new(map, filter)));
    let kernel = Kernel {
        name,
        kind: OpKind::Sum,
        nan: Nan::Propagate,
        wide: false,
        form: Form::OUTPUT,
        expression: Some((op, text)),
    };
    let (summary, result) = (String::new(), "sum");
    let (ddof, pair, initial) = (false, false, false);
    let row = Function { name, summary, kernel, result, of_none, ddof, pair, initial };
    // Without the lock, because Python may run other threads while an object is made.
    let row = Py::new(py, row)?;
    Ok(rows().entry(key).or_insert(row).clone_ref(py))
}

/// Returns a row for every function.
#[pyfunction]
pub(crate) fn functions() -> Vec<Function> {
    Op::all().filter_map(Function::of_operation).chain(others()).collect()
}
