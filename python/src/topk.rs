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
    error::raise,
    kernels::{self, Place},
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
    // SAFETY: the Python caller keeps the stream alive during its call, as `kernels::idle_stream`
    // requires.
    let given = stream.map(|handle| unsafe { kernels::idle_stream(open, handle) }).transpose()?;
    let stream = given.as_ref().unwrap_or(&open.stream);
    let found = by_type!(
        *dtype,
        T => py.detach(|| enqueue::<T>(open, stream, bytes, row_len, (k, is_largest), place)),
        unreachable!("every array is of one of the types")
    );
    let bytes = found.map_err(raise)?;
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
    let len = rows.count() * k;
    let mut outputs: Outputs<Located<T>> = match place {
        None => open.device.outputs(len)?,
        // SAFETY: as in `Launch::outputs`; the package's Python files have allocated 16 bytes for each
        // result.
        Some((address, owner)) => unsafe { Outputs::from_raw_parts(&open.device, address, len, owner) }?,
    };
    let on = open.reducer.on(stream);
    match is_largest {
        true => on.reduce_into(Largest(k), rows, &mut outputs)?,
        false => on.reduce_into(Smallest(k), rows, &mut outputs)?,
    }
    Ok(outputs.into_bytes())
}
