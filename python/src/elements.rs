//! The element types, by their Python names and as Rust types.

use pyo3::{PyErr, PyResult, exceptions::PyTypeError, pyfunction};
use warpfold::{bf16, dlpack::DataType, f16};

/// Evaluates an expression with `$T` as the element type of a `DataType`, or `$other` for unsupported
/// types. Booleans are bytes.
macro_rules! by_type {
    ($dtype:expr, $T:ident => $value:expr, $other:expr) => {
        $crate::elements::by_type!(
            @ $dtype, $T => $value, $other;
            i8 u8 i16 u16 i32 u32 i64 u64 warpfold::f16 warpfold::bf16 f32 f64
        )
    };
    (@ $dtype:expr, $T:ident => $value:expr, $other:expr; $($type:ty)*) => {{
        let dtype = $crate::elements::in_memory($dtype);
        match dtype {
            $(dtype if dtype == warpfold::dlpack::DataType::of::<$type>() => {
                type $T = $type;
                $value
            })*
            _ => $other,
        }
    }};
}
pub(crate) use by_type;

/// Returns the type of the elements in memory: bytes for booleans.
pub(crate) fn in_memory(dtype: DataType) -> DataType {
    if dtype == DataType::BOOL { DataType::of::<u8>() } else { dtype }
}

fn all() -> [DataType; 13] {
    [
        DataType::BOOL,
        DataType::of::<i8>(),
        DataType::of::<u8>(),
        DataType::of::<i16>(),
        DataType::of::<u16>(),
        DataType::of::<i32>(),
        DataType::of::<u32>(),
        DataType::of::<i64>(),
        DataType::of::<u64>(),
        DataType::of::<f16>(),
        DataType::of::<bf16>(),
        DataType::of::<f32>(),
        DataType::of::<f64>(),
    ]
}

#[pyfunction]
pub(crate) fn types() -> Vec<String> {
    all().map(name).to_vec()
}

pub(crate) fn name(dtype: DataType) -> String {
    if dtype == DataType::BOOL { "bool".to_owned() } else { dtype.to_string() }
}

pub(crate) fn size(dtype: DataType) -> usize {
    usize::from(dtype.bits) / 8
}

pub(crate) fn tuple<T: ToString>(numbers: &[T]) -> String {
    match numbers {
        [one] => format!("({},)", one.to_string()),
        _ => format!("({})", numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")),
    }
}

pub(crate) fn named(given: &str) -> PyResult<DataType> {
    all().into_iter().find(|dtype| name(*dtype) == given).ok_or_else(|| unknown(given))
}

/// Parses the type string of an array interface, such as `<f4`.
pub(crate) fn of_interface(given: &str) -> PyResult<DataType> {
    let parsed = || {
        let (order, rest) = given.split_at_checked(1)?;
        let (kind, bytes) = rest.split_at_checked(1)?;
        let code = match kind {
            "i" => 0,
            "u" => 1,
            "f" => 2,
            "b" => 6,
            _ => return None,
        };
        let bits = bytes.parse::<u8>().ok()?.checked_mul(8)?;
        // A single byte has no byte order.
        let native = order == "|" || order == "=" || (order == "<") == cfg!(target_endian = "little");
        let dtype = DataType { code, bits, lanes: 1 };
        (native || bits == 8).then_some(dtype).filter(|dtype| all().contains(dtype))
    };
    parsed().ok_or_else(|| unknown(given))
}

pub(crate) fn require(dtype: DataType) -> PyResult<()> {
    if all().contains(&dtype) { Ok(()) } else { Err(unknown(&dtype.to_string())) }
}

fn unknown(given: &str) -> PyErr {
    let known = all().map(name).join(", ");
    PyTypeError::new_err(format!(
        "elements of type {given} are not supported; there are {known}, in this machine's byte order; \
         convert them first, for example by `astype` or `to`"
    ))
}
