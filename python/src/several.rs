//! Reductions of several tensors of PyTorch together, in one launch.

use std::{
    any::Any,
    slice,
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::prelude::*;
use warpfold::{
    Buffer, Buffers, Output, Plain, Stream,
    dlpack::{self, DataType},
    internal::DynamicOp,
};

use crate::{
    device::{self, Open},
    elements,
    error::raise,
    functions::Function,
    kernels::{by_size, element_type, stream},
    torch::{Room, Torch, number_of},
};

/// Element type and GPU of a list of tensors, and the address and length of each non-empty one.
#[derive(Clone, PartialEq, Eq)]
struct TensorRanges {
    dtype: DataType,
    device: i32,
    ranges: Vec<(u64, usize)>,
}

/// Descriptions of recently reduced lists on the device, in the order of their last use: the gradients
/// of a model often have the same addresses in each step.
static TABLES: Mutex<Vec<(TensorRanges, Arc<dyn Any + Send + Sync>)>> = Mutex::new(Vec::new());

const MOST_TABLES: usize = 64;

impl TensorRanges {
    /// Returns the ranges of C-contiguous plain tensors of one type on one GPU; `None` for other lists,
    /// which Python code reduces.
    fn of(torch: &Torch, tensors: &[Bound<'_, PyAny>]) -> PyResult<Option<Self>> {
        let mut ranges: Option<Self> = None;
        for values in tensors {
            if Torch::of(values).is_none() || !torch.has_plain_memory(values)? {
                return Ok(None);
            }
            let Some(tensor) = torch.describe(values) else { return Ok(None) };
            let Some(len) = compact_len(&tensor) else { return Ok(None) };
            let (dtype, device) = (tensor.dtype, tensor.device.device_id);
            let ranges = ranges.get_or_insert_with(|| Self {
                dtype,
                device,
                ranges: Vec::with_capacity(tensors.len()),
            });
            let is_served = tensor.device.device_type == dlpack::CUDA
                && (dtype, device) == (ranges.dtype, ranges.device)
                && elements::require(dtype).is_ok();
            let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
            if !is_served || !address.is_multiple_of(elements::size(dtype) as u64) {
                return Ok(None);
            }
            if len > 0 {
                ranges.ranges.push((address, len));
            }
        }
        Ok(ranges.filter(|ranges| !ranges.ranges.is_empty()))
    }

    /// Returns the description of the tensors on the device, which a new list uploads.
    fn buffers<T: Plain>(&self, open: &Open) -> warpfold::Result<Arc<Buffers<T>>> {
        let tables = || TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |tables: &mut Vec<(Self, Arc<dyn Any + Send + Sync>)>| {
            let at = tables.iter().position(|(ranges, _)| ranges == self)?;
            let found = tables.remove(at);
            let table = found.1.clone();
            tables.push(found);
            Some(table)
        };
        let known = find(&mut tables());
        if let Some(buffers) = known.and_then(|table| table.downcast::<Buffers<T>>().ok()) {
            return Ok(buffers);
        }
        let buffer = |&(address, len)| {
            // SAFETY: a cached buffer may outlive its tensor. It is read only by launches of calls that
            // hold tensors at these addresses. PyTorch reuses memory that is freed afterwards for later
            // work of the stream only; the caller keeps tensors of other streams.
            unsafe { Buffer::<T>::from_raw_parts(&open.device, address, len, ()) }
        };
        let buffers: Vec<_> = self.ranges.iter().map(buffer).collect::<Result<_, _>>()?;
        let buffers = Arc::new(Buffers::new(&open.device, &buffers)?);
        let mut tables = tables();
        let oldest = (tables.len() == MOST_TABLES).then(|| tables.remove(0));
        tables.push((self.clone(), buffers.clone()));
        drop(tables);
        // Frees device memory, without the lock.
        drop(oldest);
        Ok(buffers)
    }

    fn reduce<T: Plain, R: Plain>(
        &self,
        open: &Open,
        op: DynamicOp<R>,
        stream: &Stream,
        output: u64,
    ) -> warpfold::Result<()> {
        let buffers = self.buffers::<T>(open)?;
        // SAFETY: the results are new memory of PyTorch for work of this stream, and nothing else uses
        // it before the launch.
        let mut output = unsafe { Output::<R>::from_raw_parts(&open.device, output, ()) }?;
        open.reducer.on(stream).reduce_into(op, &*buffers, &mut output)
    }
}

/// Returns the number of elements of a C-contiguous tensor; `None` for other tensors.
fn compact_len(tensor: &dlpack::Tensor) -> Option<usize> {
    let dimensions = usize::try_from(tensor.ndim).ok()?;
    if dimensions == 0 {
        return Some(1);
    }
    if tensor.strides.is_null() {
        return None;
    }
    // SAFETY: a tensor has a length and, as the API requires, a stride for each dimension, in memory of
    // the tensor, which the caller keeps.
    let (shape, strides) = unsafe {
        (
            slice::from_raw_parts(tensor.shape, dimensions),
            slice::from_raw_parts(tensor.strides, dimensions),
        )
    };
    if shape.contains(&0) {
        return Some(0);
    }
    let mut len = 1_i64;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size > 1 && stride != len {
            return None;
        }
        len = len.checked_mul(size)?;
    }
    usize::try_from(len).ok()
}

/// Reduces all elements of several tensors on PyTorch's current stream if the call needs no Python code.
/// Returns `None` for other calls, including wrong ones.
#[pyfunction]
#[pyo3(signature = (function, tensors, ddof=None))]
pub(crate) fn reduce_tensors(
    function: &Bound<'_, Function>,
    tensors: Vec<Bound<'_, PyAny>>,
    ddof: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let py = function.py();
    let Some(torch) = tensors.first().and_then(Torch::of) else { return Ok(None) };
    if torch.is_observing(py)? {
        return Ok(None);
    }
    let Some(ranges) = TensorRanges::of(torch, &tensors)? else { return Ok(None) };
    let Some(ddof) = ddof.map_or(Some(0.0), number_of) else { return Ok(None) };
    let TensorRanges { dtype, device, .. } = ranges;
    let function = function.get();
    let Some(result) = function.direct(dtype) else { return Ok(None) };
    let kernel = function.kernel(ddof);
    let Ok(op) = kernel.op(dtype, false) else { return Ok(None) };
    let Some(room) = Room::new(torch, function, result, Vec::new()) else { return Ok(None) };
    let open = device::open(py, &format!("cuda:{device}"))?.0;
    // SAFETY: PyTorch's current stream of the device lives as long as the process.
    let stream = unsafe { stream(&open, torch.current_stream(py, device)?) };
    if stream.is_recording().map_err(raise)? {
        return Ok(None);
    }
    let (output, results) = torch.allocate(py, &room, device)?;
    let reduced = py.detach(|| {
        let elements = element_type(dtype);
        by_size!(op, elements, |T, R| {
            ranges.reduce::<T, R>(&open, kernel.dynamic(op, elements), &stream, output)
        })
    });
    reduced.map_err(raise)?;
    results.into_object(py).map(Some)
}
