//! A summary of all elements of an array.

use pyo3::prelude::*;
use warpfold::{
    Element, bf16,
    cpu::describe as describe_slice,
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

/// An element type whose values become Python numbers.
trait Number: Element {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

macro_rules! numbers {
    ($($ty:ty as $wide:ty)*) => {$(
        impl Number for $ty {
            fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(<$wide>::from(self).into_pyobject(py)?.into_any().unbind())
            }
        }
    )*};
}

numbers! {
    i8 as i64 u8 as u64 i16 as i64 u16 as u64 i32 as i64 u32 as u64 i64 as i64 u64 as u64
    f16 as f64 bf16 as f64 f32 as f64 f64 as f64
}

type Described = (u64, u64, f64, f64, Option<Py<PyAny>>, Option<Py<PyAny>>);

fn to_python<T: Number>(py: Python<'_>, description: Description<T>) -> PyResult<Described> {
    let Description { count, nan_count, mean, variance, min, max } = description;
    let number = |element: Option<T>| element.map(|element| element.to_python(py)).transpose();
    Ok((count, nan_count, mean, variance, number(min)?, number(max)?))
}

/// Returns the number of elements without NaN, the number of NaN, and the mean, variance, minimum and
/// maximum of the elements that are not NaN. Waits for the result.
#[pyfunction]
#[pyo3(signature = (array, stream=None))]
pub(crate) fn describe(py: Python<'_>, array: &Array, stream: Option<usize>) -> PyResult<Described> {
    require_compact(&array.layout)?;
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    by_type!(
        *dtype,
        T => {
            let description = enqueue_on(py, open, stream, |stream| {
                open.reducer.on(stream).reduce(Describe, &bytes.cast::<T>()?)?.wait()
            })?;
            to_python(py, description)
        },
        unreachable!("every array is of one of the types")
    )
}

/// Describes a C-contiguous array of the type `dtype` on the CPU, as [`describe`] does.
#[pyfunction]
pub(crate) fn describe_on_cpu(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Described> {
    let py = array.py();
    let array = HostArray::read(array, Some(dtype))?;
    // SAFETY: no thread writes the elements during this call, as the package requires of callers.
    let bytes = unsafe { array.elements() };
    by_type!(
        array.layout.dtype,
        T => {
            let described = py.detach(|| describe_slice::<T>(elements_of(bytes)));
            to_python(py, described.map_err(raise)?)
        },
        unreachable!("every array is of one of the types")
    )
}
