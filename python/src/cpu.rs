//! Reductions of NumPy's arrays on the CPU. The results have the bytes that the kernels write.
//!
//! The interpreter's lock is released meanwhile. No other thread may write the elements then, which the
//! package's documentation requires of callers, as NumPy does, whose reductions release the lock, too.

use std::ops::{Bound as End, Range};

use pyo3::{exceptions::PyValueError, prelude::*, types::PyByteArray};
use warpfold::{
    Element, Located, cpu,
    internal::{reduce_pieces_on_cpu, result_bytes},
    op,
};

use crate::{
    borrow::HostArray,
    elements::{self, by_type},
    error::raise,
    functions::Function,
    kernels::{element_type, require_segments},
    within::interval,
};

/// A function and its `ddof`.
type Operation<'py> = (PyRef<'py, Function>, f64);

/// Reduces each row of `len` elements of a C-contiguous array of the type `dtype`. The first results of
/// all rows precede the second ones.
#[pyfunction]
pub(crate) fn reduce_rows_on_cpu<'py>(
    operation: Operation<'py>,
    array: &Bound<'py, PyAny>,
    dtype: &str,
    len: usize,
    everywhere: bool,
) -> PyResult<Bound<'py, PyByteArray>> {
    let array = HostArray::read(array, Some(dtype))?;
    let rows = array.layout.shape.iter().product::<usize>() / len;
    reduce_pieces(operation, &array, everywhere, rows, |row| row * len..(row + 1) * len)
}

/// Reduces the segments of an array of one dimension that `offsets` describe, like
/// [`reduce_rows_on_cpu`]. The results of segments without elements are 0.
#[pyfunction]
pub(crate) fn reduce_segments_on_cpu<'py>(
    operation: Operation<'py>,
    array: &Bound<'py, PyAny>,
    dtype: &str,
    offsets: &Bound<'py, PyAny>,
    everywhere: bool,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (array, offsets) = (HostArray::read(array, Some(dtype))?, HostArray::read(offsets, None)?);
    require_segments(&array.layout, &offsets.layout)?;
    let (len, is_signed) = (array.layout.shape[0], offsets.layout.dtype.code == 0);
    // SAFETY: no thread writes the offsets during this call, as stated at the top.
    let bytes = unsafe { offsets.elements() };
    let offset = |at: usize| match (elements::size(offsets.layout.dtype), is_signed) {
        (4, true) => i32::from_ne_bytes(item(bytes, at)).into(),
        (4, false) => u32::from_ne_bytes(item(bytes, at)).into(),
        (_, true) => i64::from_ne_bytes(item(bytes, at)).into(),
        (_, false) => i128::from(u64::from_ne_bytes(item(bytes, at))),
    };
    let refused = |reason| Err(PyValueError::new_err(reason));
    let Some(segments) = offsets.layout.shape[0].checked_sub(1) else {
        return refused("0 offsets; give one more than there are segments".to_owned());
    };
    let mut pieces = Vec::with_capacity(segments);
    for segment in 0..segments {
        let (start, end) = (offset(segment), offset(segment + 1));
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end && end <= len => pieces.push(start..end),
            _ => {
                return refused(format!(
                    "segment {segment} is from {start} to {end} of {len} elements; give offsets that \
                     never descend, from 0 to {len} at most"
                ));
            }
        }
    }
    reduce_pieces(operation, &array, everywhere, segments, |segment| pieces[segment].clone())
}

fn item<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[N * at..][..N].try_into().expect("it has this length")
}

fn reduce_pieces<'py>(
    (function, ddof): Operation<'py>,
    array: &HostArray<'_, 'py>,
    everywhere: bool,
    count: usize,
    piece: impl Fn(usize) -> Range<usize> + Sync + Send,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (py, dtype) = (function.py(), array.layout.dtype);
    let kernel = function.kernel(ddof);
    if kernel.expression.is_some() {
        let reason = "an expression on the CPU; its kernels are for devices; give another device, such as \
                      device=\"sim\"";
        return Err(PyValueError::new_err(reason));
    }
    let (op, elements) = (kernel.op(dtype, everywhere)?, element_type(dtype));
    // SAFETY: no thread writes the elements during this call, as stated at the top.
    let bytes = unsafe { array.elements() };
    let results =
        py.detach(|| reduce_pieces_on_cpu(op, elements, bytes, count, piece)).map_err(raise)?;
    if !function.is_pair() {
        return Ok(PyByteArray::new(py, &results));
    }
    let size = result_bytes(op, elements);
    let half =
        |start: usize| results.chunks_exact(size).flat_map(move |pair| &pair[start..][..size / 2]);
    let halves: Vec<u8> = half(0).chain(half(size / 2)).copied().collect();
    Ok(PyByteArray::new(py, &halves))
}

/// Counts and sums the elements between `low` and `high` of a C-contiguous array, as
/// [`reduce_within`](crate::within::reduce_within) does.
#[pyfunction]
#[pyo3(signature = (array, dtype, low, high, everywhere))]
pub(crate) fn reduce_within_on_cpu<'py>(
    array: &Bound<'py, PyAny>,
    dtype: &str,
    low: Option<Bound<'py, PyAny>>,
    high: Option<Bound<'py, PyAny>>,
    everywhere: bool,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (py, array) = (array.py(), HostArray::read(array, Some(dtype))?);
    // SAFETY: no thread writes the elements during this call, as stated at the top.
    let bytes = unsafe { array.elements() };
    let words = by_type!(
        array.layout.dtype,
        T => {
            let range = interval::<T>(low.as_ref(), high.as_ref(), array.layout.dtype)?;
            py.detach(|| within::<T>(range, bytes, everywhere))
        },
        unreachable!("every array is of one of the types")
    );
    Ok(PyByteArray::new(py, &words.map_err(raise)?))
}

/// Returns the dot product of two C-contiguous arrays of the type `dtype` and of as many elements.
#[pyfunction]
pub(crate) fn reduce_dot_on_cpu<'py>(
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
    dtype: &str,
) -> PyResult<Bound<'py, PyByteArray>> {
    let py = first.py();
    let (first, second) = (HostArray::read(first, Some(dtype))?, HostArray::read(second, Some(dtype))?);
    // SAFETY: no thread writes the elements during this call, as stated at the top.
    let (a, b) = unsafe { (first.elements(), second.elements()) };
    let product = by_type!(
        first.layout.dtype,
        T => py.detach(|| {
            // It has the same bits at each level of determinism.
            let product = cpu::reduce_pair(op::Dot, elements_of::<T>(a), elements_of(b));
            product.map(|product| bytemuck::bytes_of(&product).to_vec())
        }),
        unreachable!("every array is of one of the types")
    );
    Ok(PyByteArray::new(py, &product.map_err(raise)?))
}

/// Returns the k largest or smallest elements of each row of `row_len` elements of a C-contiguous array,
/// as [`reduce_topk`](crate::topk::reduce_topk) does.
#[pyfunction]
pub(crate) fn reduce_topk_on_cpu<'py>(
    array: &Bound<'py, PyAny>,
    dtype: &str,
    row_len: usize,
    k: usize,
    is_largest: bool,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (py, array) = (array.py(), HostArray::read(array, Some(dtype))?);
    // SAFETY: no thread writes the elements during this call, as stated at the top.
    let bytes = unsafe { array.elements() };
    let found = by_type!(
        array.layout.dtype,
        T => py.detach(|| top_of_rows::<T>(bytes, row_len, (k, is_largest))),
        unreachable!("every array is of one of the types")
    );
    Ok(PyByteArray::new(py, &found.map_err(raise)?))
}

fn top_of_rows<T: Element>(
    bytes: &[u8],
    row_len: usize,
    (k, is_largest): (usize, bool),
) -> warpfold::Result<Vec<u8>> {
    let mut found = Vec::new();
    for row in elements_of::<T>(bytes).chunks_exact(row_len) {
        let top = match is_largest {
            true => cpu::top_k(op::Largest(k), row),
            false => cpu::top_k(op::Smallest(k), row),
        }?;
        for Located { value, index } in top {
            let mut element = [0; 8];
            element[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
            found.extend(index.to_ne_bytes());
            found.extend(element);
        }
    }
    Ok(found)
}

pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> &[T] {
    // Bytes of no elements have no aligned address.
    if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
}

/// Returns the words that the kernel writes: the count, the sum in two words, and the mean.
fn within<T: Element>(
    range: (End<T>, End<T>),
    bytes: &[u8],
    everywhere: bool,
) -> warpfold::Result<[u8; 32]> {
    let elements = elements_of::<T>(bytes);
    let within = match everywhere {
        false => cpu::reduce_within(range, elements),
        true => cpu::reduce_within(op::Reproducible(range), elements),
    }?;
    let mut words = [0; 32];
    words[..8].copy_from_slice(&within.count.to_ne_bytes());
    words[8..8 + size_of::<T::Sum>()].copy_from_slice(bytemuck::bytes_of(&within.sum));
    words[24..].copy_from_slice(&within.mean().unwrap_or(f64::NAN).to_ne_bytes());
    Ok(words)
}
