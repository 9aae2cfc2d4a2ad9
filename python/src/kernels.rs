//! The library's operations by name, on elements of any type.

use std::ffi::c_void;

use pyo3::{exceptions::PyValueError, prelude::*};
use warpfold::{
    Buffer, Outcome, Outputs, Plain, Stream,
    dlpack::{DataType, Layout},
    internal::{Dtype, DynamicOp, Nan, Op, OpKind, Written, data_type, result_bytes},
    op,
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    error::raise,
};

/// An operation of the library, by the name of its function.
#[pyclass(frozen, eq, hash, module = "warpfold")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) kind: OpKind,
    pub(crate) nan: Nan,
}

fn element_type(dtype: DataType) -> Dtype {
    let dtype = elements::in_memory(dtype);
    let found = Dtype::ALL.iter().copied().find(|&one| data_type(one) == dtype);
    found.expect("every array is of one of the types")
}

impl Kernel {
    /// Returns the operation for elements of a type, or an error if it does not support them.
    fn op(self, dtype: DataType, everywhere: bool) -> PyResult<Op> {
        let elements = element_type(dtype);
        let op = self.kind.plain().for_elements(elements);
        let op = if self.nan == Nan::Skip { op.skipping_nan(elements) } else { op };
        let reason = if !op.takes(elements) {
            match elements.is_float() {
                true => "only integers and truth values have bits",
                false => "only floats have it; convert them first",
            }
        } else if everywhere && !op.is_reproducible(elements) {
            "its result has the same bits from run to run only; use determinism=\"run-to-run\""
        } else {
            return Ok(if everywhere { op.reproducible(elements) } else { op });
        };
        let (kernel, dtype) = (self.name, elements::name(dtype));
        Err(PyValueError::new_err(format!("{kernel} of {dtype} elements; {reason}")))
    }

    fn left(self, dtype: DataType) -> (DataType, usize) {
        let elements = element_type(dtype);
        match self.kind.plain().for_elements(elements).written() {
            Written::Sum => (data_type(elements.sum()), 1),
            Written::Element => (elements::in_memory(dtype), 1),
            Written::Ends => (elements::in_memory(dtype), 2),
            // The index and, in the other 8 bytes, the element.
            Written::Place => (DataType::of::<i64>(), 2),
            Written::Count => (DataType::of::<i64>(), 1),
            Written::Double => (DataType::of::<f64>(), 1),
            Written::Moments => (DataType::of::<f64>(), 2),
        }
    }
}

/// Runs generic code with types of the sizes of an element and of a result. Code that only moves bytes
/// is compiled once per size, not for each operation and type.
macro_rules! by_size {
    ($op:expr, $dtype:expr, |$W:ident, $R:ident| $body:expr) => {
        match $dtype.size() {
            1 => by_size!(@ u8, $op, $dtype, $W, $R, $body),
            2 => by_size!(@ u16, $op, $dtype, $W, $R, $body),
            4 => by_size!(@ u32, $op, $dtype, $W, $R, $body),
            _ => by_size!(@ u64, $op, $dtype, $W, $R, $body),
        }
    };
    (@ $word:ty, $op:expr, $dtype:expr, $W:ident, $R:ident, $body:expr) => {
        match result_bytes($op, $dtype) {
            1 => by_size!(@@ $word, [u8; 1], $W, $R, $body),
            2 => by_size!(@@ $word, [u8; 2], $W, $R, $body),
            4 => by_size!(@@ $word, [u8; 4], $W, $R, $body),
            8 => by_size!(@@ $word, [u8; 8], $W, $R, $body),
            _ => by_size!(@@ $word, [u8; 16], $W, $R, $body),
        }
    };
    (@@ $word:ty, $result:ty, $W:ident, $R:ident, $body:expr) => {{
        type $W = $word;
        type $R = $result;
        $body
    }};
}

/// Wraps a caller's stream by its handle: 0 and 1 are the default stream, 2 is the per-thread one.
/// Returns an error for a stream that is being captured.
///
/// # Safety
/// Any other handle must be that of a stream of the device, in its primary context, which outlives the
/// returned stream. Python callers hold the stream's object during their call, as the documentation of
/// `stream` requires.
pub(crate) unsafe fn stream(open: &Open, handle: usize) -> PyResult<Stream> {
    let raw: *mut c_void = std::ptr::without_provenance_mut(handle);
    // SAFETY: the caller's contract.
    let stream = unsafe { Stream::from_raw(&open.device, raw, ()) };
    if stream.is_recording().map_err(raise)? {
        return Err(PyValueError::new_err(
            "the stream is recording into a graph; it must not be; call before the recording or after it",
        ));
    }
    Ok(stream)
}

/// Memory of another library for results: its address and owner.
pub(crate) type Place = (u64, Py<PyAny>);

struct Launch<'a> {
    open: &'a Open,
    /// The caller's stream; the device's own if `None`.
    stream: Option<&'a Stream>,
    bytes: &'a Buffer<u8>,
    place: Option<Place>,
}

impl Launch<'_> {
    fn stream(&self) -> &Stream {
        self.stream.unwrap_or(&self.open.stream)
    }

    fn outputs<R: Outcome>(&mut self, len: usize) -> warpfold::Result<Outputs<R>> {
        match self.place.take() {
            None => self.open.device.outputs(len),
            // SAFETY:
            // - The package's Python files have allocated as much as `outcome` has returned, on this
            //   device, for the work of this stream, and nothing else uses the memory yet.
            // - The owner is kept, and nothing writes to memory that its library has handed out before
            //   it is read.
            Some((address, owner)) => unsafe {
                Outputs::from_raw_parts(&self.open.device, address, len, owner)
            },
        }
    }
}

struct Along<'a> {
    launch: Launch<'a>,
    axes: Axes,
}

impl Along<'_> {
    fn reduce<T: Plain, R: Plain>(self, op: DynamicOp<R>) -> warpfold::Result<Buffer<u8>> {
        let Self { mut launch, axes: Axes { lens, strides, reduced } } = self;
        let buffer = launch.bytes.cast::<T>()?;
        let along = buffer.view_strided(0, &lens, &strides)?.along(&reduced)?;
        let mut outputs = launch.outputs(along.count())?;
        launch.open.reducer.on(launch.stream()).reduce_into(op, along, &mut outputs)?;
        Ok(outputs.into_bytes())
    }
}

/// The axes of an array, merged as far as possible: adjacent axes that are both reduced or both kept are
/// one if their elements have one stride. A view has at most eight.
struct Axes {
    lens: Vec<usize>,
    strides: Vec<isize>,
    reduced: Vec<usize>,
}

impl Axes {
    /// Merges the axes of an array that is reduced along `along`.
    fn new(layout: &Layout, along: &[usize]) -> Self {
        let mut axes: Vec<(usize, usize, bool)> = Vec::new();
        for (axis, (&len, &stride)) in layout.shape.iter().zip(&layout.strides).enumerate() {
            let reduced = along.contains(&axis);
            match axes.last_mut() {
                _ if len == 1 => {}
                Some(outer) if outer.2 == reduced && outer.1 == stride * len => {
                    *outer = (outer.0 * len, stride, reduced);
                }
                _ => axes.push((len, stride, reduced)),
            }
        }
        if !axes.iter().any(|&(.., reduced)| reduced) {
            axes.push((1, 1, true));
        }
        let reduced = (0..axes.len()).filter(|&axis| axes[axis].2).collect();
        // Elements in memory are less than 2^63 apart.
        let strides = axes.iter().map(|&(_, stride, _)| stride.cast_signed()).collect();
        Self { lens: axes.iter().map(|&(len, ..)| len).collect(), strides, reduced }
    }
}

struct Segmented<'a> {
    launch: Launch<'a>,
    offsets: &'a Array,
}

impl Segmented<'_> {
    fn reduce<T: Plain, R: Plain>(self, op: DynamicOp<R>) -> warpfold::Result<Buffer<u8>> {
        let Self { mut launch, offsets } = self;
        let reducer = &launch.open.reducer;
        let buffer = launch.bytes.cast::<T>()?;
        // A kernel checks the offsets on a stream of the reducer, and the host waits for it: their
        // writes must have finished.
        launch.stream().synchronize()?;
        let bytes = &offsets.bytes;
        let segments = match (offsets.layout.dtype.code, offsets.layout.dtype.bits) {
            (0, 32) => reducer.segments(&buffer, &bytes.cast::<i32>()?),
            (0, _) => reducer.segments(&buffer, &bytes.cast::<i64>()?),
            (_, 32) => reducer.segments(&buffer, &bytes.cast::<u32>()?),
            _ => reducer.segments(&buffer, &bytes.cast::<u64>()?),
        }?;
        let mut outputs = launch.outputs(segments.count())?;
        reducer.on(launch.stream()).reduce_into(op, &segments, &mut outputs)?;
        Ok(outputs.into_bytes())
    }
}

/// Returns what an operation leaves for results of elements of a type: the type of the values, their
/// number per result, and the minimum number that result memory must have room for, which must be 8-byte
/// aligned.
#[pyfunction]
pub(crate) fn outcome(
    kernel: &Kernel,
    dtype: &str,
    everywhere: bool,
) -> PyResult<(String, usize, usize)> {
    let dtype = elements::named(dtype)?;
    kernel.op(dtype, everywhere)?;
    let (left, step) = kernel.left(dtype);
    let least = Outputs::<u8>::bytes_of(0) as usize / elements::size(left);
    Ok((elements::name(left), step, least))
}

/// Reduces an array along some axes and returns the values that the operation leaves, contiguous in the
/// order of the other axes. They are written to `place`, if given: a device address and its owner, with
/// as much memory as [`outcome`] says. Without `stream`, an array from the host is reduced on a stream
/// of the package. Does not wait for the result.
#[pyfunction]
#[pyo3(signature = (kernel, array, axes, everywhere, stream=None, place=None))]
pub(crate) fn reduce(
    py: Python<'_>,
    kernel: &Kernel,
    array: &Array,
    axes: Vec<usize>,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    let pieces = Pieces::Along(Axes::new(&array.layout, &axes));
    run(py, *kernel, array, pieces, Target { everywhere, stream, place })
}

/// Reduces the segments of a one-dimensional array that offsets describe, as [`reduce`] does. Waits for
/// the offsets.
#[pyfunction]
#[pyo3(signature = (kernel, array, offsets, everywhere, stream=None, place=None))]
pub(crate) fn reduce_segments(
    py: Python<'_>,
    kernel: &Kernel,
    array: &Array,
    offsets: &Array,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    for (what, array) in [("values", array), ("offsets", offsets)] {
        require_compact(&array.layout)?;
        if array.layout.shape.len() != 1 {
            let shape = elements::tuple(&array.layout.shape);
            return Err(PyValueError::new_err(format!(
                "{what} of the shape {shape}; they must be of one dimension; call `reshape(-1)` first"
            )));
        }
    }
    let DataType { code, bits, .. } = offsets.layout.dtype;
    if !(matches!(code, 0 | 1) && bits >= 32) {
        let dtype = elements::name(offsets.layout.dtype);
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "offsets of {dtype}; there are int32, int64, uint32 and uint64; convert them first"
        )));
    }
    let pieces = Pieces::Segments(offsets);
    run(py, *kernel, array, pieces, Target { everywhere, stream, place })
}

enum Pieces<'a> {
    Along(Axes),
    Segments(&'a Array),
}

struct Target {
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
}

/// Enqueues an operation without the GIL, because kernels may have to be loaded.
fn run(
    py: Python<'_>,
    kernel: Kernel,
    array: &Array,
    pieces: Pieces<'_>,
    target: Target,
) -> PyResult<Array> {
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    let Target { everywhere, stream: handle, place } = target;
    // SAFETY: see `stream`; the caller keeps the stream alive.
    let stream = handle.map(|handle| unsafe { stream(open, handle) }).transpose()?;
    let (op, elements) = (kernel.op(*dtype, everywhere)?, element_type(*dtype));
    let reduced = py.detach(|| {
        let launch = Launch { open, stream: stream.as_ref(), bytes, place };
        by_size!(op, elements, |T, R| {
            let op = DynamicOp::<R>::new(op, elements);
            match pieces {
                Pieces::Along(axes) => Along { launch, axes }.reduce::<T, R>(op),
                Pieces::Segments(offsets) => Segmented { launch, offsets }.reduce::<T, R>(op),
            }
        })
    });
    let bytes = reduced.map_err(raise)?;
    let (left, _) = kernel.left(*dtype);
    let len = bytes.len() / elements::size(left);
    Ok(Array::new(open, bytes, left, vec![len]))
}

/// Returns a bound of the error of the sum of an array's elements, or of their squares, relative to the
/// sum of the terms' magnitudes.
#[pyfunction]
pub(crate) fn error_bound(py: Python<'_>, array: &Array, of_squares: bool) -> PyResult<f64> {
    require_compact(&array.layout)?;
    let reducer = &array.open.reducer;
    let bound = py.detach(|| {
        by_type!(
            array.layout.dtype,
            T => array.bytes.cast::<T>().and_then(|buffer| match of_squares {
                false => reducer.error_bound(op::Sum, &buffer),
                true => reducer.error_bound(op::SumOfSquares, &buffer),
            }),
            unreachable!("every array is of one of the types")
        )
    });
    bound.map_err(raise)
}
