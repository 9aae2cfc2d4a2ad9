//! The dot product of two arrays.

use pyo3::{exceptions::PyTypeError, prelude::*};
use warpfold::{
    Buffer, Element, Output, Stream,
    dlpack::{DataType, Layout},
    op,
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    error::raise,
    kernels::{self, Place, sum_type},
};

/// Enqueues the dot product of two arrays of as many elements. The result is written to `place`, if
/// given, as in [`reduce`](crate::kernels::reduce): 16 bytes that begin with the product. Does not wait
/// for the result.
#[pyfunction]
#[pyo3(signature = (first, second, everywhere, stream=None, place=None))]
pub(crate) fn reduce_dot(
    py: Python<'_>,
    first: &Array,
    second: &Array,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    let Array { open, bytes, layout: Layout { dtype, .. } } = first;
    for array in [first, second] {
        require_compact(&array.layout)?;
    }
    require_one_type(*dtype, second.layout.dtype)?;
    // SAFETY: the Python caller keeps the stream alive during its call, as `kernels::idle_stream`
    // requires.
    let given = stream.map(|handle| unsafe { kernels::idle_stream(open, handle) }).transpose()?;
    let stream = given.as_ref().unwrap_or(&open.stream);
    let left = by_type!(
        *dtype,
        T => py.detach(|| enqueue::<T>(open, stream, [bytes, &second.bytes], everywhere, place)),
        unreachable!("every array is of one of the types")
    );
    let bytes = left.map_err(raise)?;
    let sum = sum_type(*dtype);
    let len = bytes.len() / elements::size(sum);
    Ok(Array::new(open, bytes, sum, vec![len]))
}

/// Returns an error for two arrays of different types.
pub(crate) fn require_one_type(first: DataType, second: DataType) -> PyResult<()> {
    if first == second {
        return Ok(());
    }
    let [first, second] = [first, second].map(elements::name);
    Err(PyTypeError::new_err(format!(
        "dot product of elements of {first} and {second}; both arrays must have one type; convert one \
         of them"
    )))
}

fn enqueue<T: Element>(
    open: &Open,
    stream: &Stream,
    bytes: [&Buffer<u8>; 2],
    everywhere: bool,
    place: Option<Place>,
) -> warpfold::Result<Buffer<u8>> {
    let (first, second) = (bytes[0].cast::<T>()?, bytes[1].cast::<T>()?);
    let mut output: Output<T::Sum> = match place {
        None => open.device.output()?,
        // SAFETY: as in `Launch::outputs`; the package's Python files have allocated 16 bytes.
        Some((address, owner)) => unsafe { Output::from_raw_parts(&open.device, address, owner) }?,
    };
    let on = open.reducer.on(stream);
    match everywhere {
        true => on.reduce_into(op::Dot.reproducible(), (&first, &second), &mut output)?,
        false => on.reduce_into(op::Dot, (&first, &second), &mut output)?,
    }
    Ok(output.into_bytes())
}
