//! The largest or smallest elements of every row of an array.

use pyo3::prelude::*;
use warpfold::{
    Buffer, Element, Located, Outputs, Stream,
    dlpack::{DataType, Layout},
    op::{Largest, Smallest},
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::by_type,
    kernels::{Place, enqueue_on, outputs},
};

/// Enqueues the search for the `k` largest or smallest elements of every row of `row_len` elements.
/// Returns two 8-byte values for each of them, in order: its index in the row, and the element. They
/// are written to `place`, if given, as in [`reduce`](crate::kernels::reduce). Does not wait for them.
#[pyfunction]
#[pyo3(signature = (array, row_len, k, is_largest, stream=None, place=None))]
pub(crate) fn reduce_topk(
    py: Python<'_>,
    array: &Array,
    row_len: usize,
    k: usize,
    is_largest: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    require_compact(&array.layout)?;
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    let bytes = by_type!(
        *dtype,
        T => enqueue_on(py, open, stream, |stream| {
            enqueue::<T>(open, stream, bytes, row_len, (k, is_largest), place)
        }),
        unreachable!("every array is of one of the types")
    )?;
    let len = bytes.len() / size_of::<i64>();
    Ok(Array::new(open, bytes, DataType::of::<i64>(), vec![len]))
}

fn enqueue<T: Element>(
    open: &Open,
    stream: &Stream,
    bytes: &Buffer<u8>,
    row_len: usize,
    (k, is_largest): (usize, bool),
    place: Option<Place>,
) -> warpfold::Result<Buffer<u8>> {
    let buffer = bytes.cast::<T>()?;
    let rows = buffer.rows(row_len)?;
    let mut outputs: Outputs<Located<T>> = outputs(open, place, rows.count() * k)?;
    let on = open.reducer.on(stream);
    match is_largest {
        true => on.reduce_into(Largest(k), rows, &mut outputs)?,
        false => on.reduce_into(Smallest(k), rows, &mut outputs)?,
    }
    Ok(outputs.into_bytes())
}
