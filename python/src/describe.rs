//! Summaries of arrays and of their rows.

use pyo3::{prelude::*, types::PyBytes};
use warpfold::{
    Element, bf16,
    cpu::{describe as describe_slice, describe_rows},
    dlpack::Layout,
    f16,
    op::{Describe, Description},
};

use crate::{
    array::{Array, require_compact},
    borrow::HostArray,
    cpu::elements_of,
    elements::by_type,
    error::raise,
    kernels::enqueue_on,
};

/// An element type whose values become Python numbers, or NumPy's of a wide type.
trait Number: Element {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
    /// Returns the value's bytes in the wide type. Without a value, returns those of NaN for floats and
    /// of zero for integers, which always have one.
    fn wide_bytes(value: Option<Self>) -> [u8; 8];
}

macro_rules! numbers {
    ($wide:ty, $none:expr, $($ty:ty)*) => {$(
        impl Number for $ty {
            fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(<$wide>::from(self).into_pyobject(py)?.into_any().unbind())
            }

            fn wide_bytes(value: Option<Self>) -> [u8; 8] {
                value.map_or($none, <$wide>::from).to_ne_bytes()
            }
        }
    )*};
}

numbers!(i64, 0, i8 i16 i32 i64);
numbers!(u64, 0, u8 u16 u32 u64);
numbers!(f64, f64::NAN, f16 bf16 f32 f64);

fn to_python<T: Number>(py: Python<'_>, description: Description<T>) -> PyResult<Py<PyAny>> {
    let Description { count, nan_count, mean, variance, min, max } = description;
    let number = |element: Option<T>| element.map(|element| element.to_python(py)).transpose();
    let fields = (count, nan_count, mean, variance, number(min)?, number(max)?);
    Ok(fields.into_pyobject(py)?.into_any().unbind())
}

/// Returns a byte string per field, with 8 bytes per row.
fn to_columns<T: Number>(py: Python<'_>, descriptions: &[Description<T>]) -> PyResult<Py<PyAny>> {
    let column = |field: fn(&Description<T>) -> [u8; 8]| {
        PyBytes::new(py, descriptions.iter().map(field).collect::<Vec<_>>().as_flattened())
    };
    let columns = [
        column(|of| of.count.to_ne_bytes()),
        column(|of| of.nan_count.to_ne_bytes()),
        column(|of| of.mean.to_ne_bytes()),
        column(|of| of.variance.to_ne_bytes()),
        column(|of| T::wide_bytes(of.min)),
        column(|of| T::wide_bytes(of.max)),
    ];
    Ok(columns.into_pyobject(py)?.into_any().unbind())
}

/// Returns the number of elements without NaN, the number of NaN, and the mean, variance, minimum and
/// maximum of the elements that are not NaN; with `row_len`, those of every row, as [`to_columns`] does.
/// Waits for the results.
#[pyfunction]
#[pyo3(signature = (array, row_len, stream=None))]
pub(crate) fn describe(
    py: Python<'_>,
    array: &Array,
    row_len: Option<usize>,
    stream: Option<usize>,
) -> PyResult<Py<PyAny>> {
    require_compact(&array.layout)?;
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    by_type!(
        *dtype,
        T => {
            let Some(row_len) = row_len else {
                let description = enqueue_on(py, open, stream, |stream| {
                    open.reducer.on(stream).reduce(Describe, &bytes.cast::<T>()?)?.wait()
                })?;
                return to_python(py, description);
            };
            let descriptions = enqueue_on(py, open, stream, |stream| {
                open.reducer.on(stream).reduce(Describe, bytes.cast::<T>()?.rows(row_len)?)?.wait()
            })?;
            to_columns(py, &descriptions)
        },
        unreachable!("every array is of one of the types")
    )
}

/// Describes a C-contiguous array of the type `dtype`, or its rows, on the CPU, as [`describe`] does.
#[pyfunction]
pub(crate) fn describe_on_cpu(
    array: &Bound<'_, PyAny>,
    dtype: &str,
    row_len: Option<usize>,
) -> PyResult<Py<PyAny>> {
    let py = array.py();
    let array = HostArray::read(array, Some(dtype))?;
    // SAFETY: no thread writes the elements during this call, as the package requires of callers.
    let bytes = unsafe { array.elements() };
    by_type!(
        array.layout.dtype,
        T => {
            let elements = elements_of::<T>(bytes);
            let Some(row_len) = row_len else {
                return to_python(py, py.detach(|| describe_slice(elements)).map_err(raise)?);
            };
            to_columns(py, &py.detach(|| describe_rows(elements, row_len)).map_err(raise)?)
        },
        unreachable!("every array is of one of the types")
    )
}
