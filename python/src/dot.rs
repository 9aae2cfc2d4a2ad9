//! The dot product of two arrays.

use pyo3::prelude::*;
use warpfold::{Buffer, Element, Output, Stream, dlpack::Layout, op};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    kernels::{Place, enqueue_on, output, sum_type},
};

/// Enqueues the dot product of two arrays of one type and of as many elements. The result is written to
/// `place`, if given, as in [`reduce`](crate::kernels::reduce): 16 bytes that begin with the product.
/// Does not wait for the result.
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
    let bytes = by_type!(
        *dtype,
        T => enqueue_on(py, open, stream, |stream| {
            enqueue::<T>(open, stream, [bytes, &second.bytes], everywhere, place)
        }),
        unreachable!("every array is of one of the types")
    )?;
    let sum = sum_type(*dtype);
    let len = bytes.len() / elements::size(sum);
    Ok(Array::new(open, bytes, sum, vec![len]))
}

fn enqueue<T: Element>(
    open: &Open,
    stream: &Stream,
    bytes: [&Buffer<u8>; 2],
    everywhere: bool,
    place: Option<Place>,
) -> warpfold::Result<Buffer<u8>> {
    let (first, second) = (bytes[0].cast::<T>()?, bytes[1].cast::<T>()?);
    let mut output: Output<T::Sum> = output(open, place)?;
    let on = open.reducer.on(stream);
    match everywhere {
        true => on.reduce_into(op::Dot.reproducible(), (&first, &second), &mut output)?,
        false => on.reduce_into(op::Dot, (&first, &second), &mut output)?,
    }
    Ok(output.into_bytes())
}
