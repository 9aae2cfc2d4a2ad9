//! The library's operations by name, on elements of any type.

use std::{ffi::c_void, sync::Arc};

use pyo3::{exceptions::PyValueError, prelude::*};
use warpfold::{
    Buffer, Outcome, Output, Outputs, Plain, Stream,
    dlpack::{DataType, Layout},
    internal::{Dtype, DynamicOp, ExpressionText, Form, MapOp, Nan, Op, OpKind, Written, data_type},
    op,
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    error::raise,
    functions::Function,
};

/// An operation of the library for elements of any type, with the name of its function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) kind: OpKind,
    pub(crate) nan: Nan,
    /// True for a sum of floats of up to 32 bits in `f64`, or of integers of 64 bits in 128.
    pub(crate) wide: bool,
    pub(crate) form: Form,
    /// The expression whose values are reduced in place of the elements, which is never dropped.
    pub(crate) expression: Option<(MapOp, &'static ExpressionText)>,
}

pub(crate) fn element_type(dtype: DataType) -> Dtype {
    let dtype = elements::in_memory(dtype);
    let found = Dtype::ALL.iter().copied().find(|&one| data_type(one) == dtype);
    found.expect("every array is of one of the types")
}

impl Kernel {
    pub(crate) fn op(self, dtype: DataType, everywhere: bool) -> PyResult<Op> {
        let elements = element_type(dtype);
        if let Some((op, text)) = self.expression {
            text.compiled(op, elements).map_err(raise)?;
            if everywhere && elements.is_float() && op == MapOp::Sum {
                return Err(PyValueError::new_err(format!(
                    "{} of {} elements; its result has the same bits from run to run only; use \
                     determinism=\"run-to-run\"",
                    self.name,
                    elements::name(dtype)
                )));
            }
            // Its results have the type of a sum.
            return Ok(OpKind::Sum.plain());
        }
        let op = Op { wide: self.wide, ..self.kind.plain() }.for_elements(elements);
        let op = if self.nan == Nan::Skip { op.skipping_nan(elements) } else { op };
        // Norms that are computed as sums have the form of a sum.
        let op = if op.written() == Written::Sum { op } else { Op { form: self.form, ..op } };
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

    /// Returns the operation to launch. `op` is what [`op`](Self::op) has returned for the elements.
    pub(crate) fn dynamic<R: Plain>(self, op: Op, elements: Dtype) -> DynamicOp<R> {
        match self.expression {
            None => DynamicOp::new(op, elements),
            Some((op, text)) => {
                DynamicOp::expression(text.compiled(op, elements).expect("`op` has compiled it"))
            }
        }
    }
}

/// Returns the type of sums of elements of a type.
pub(crate) fn sum_type(dtype: DataType) -> DataType {
    data_type(element_type(dtype).sum())
}

/// Expands generic code with types of the sizes of an element and of a result. Code that only moves
/// bytes is compiled once per size, not once per operation and type.
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
        match warpfold::internal::result_bytes($op, $dtype) {
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

pub(crate) use by_size;

/// Wraps a caller's stream by its handle: 0 and 1 are the default stream, 2 is the per-thread one.
///
/// # Safety
/// Any other handle must be that of a stream in the device's primary context that outlives the returned
/// stream. Python callers hold the stream's object during their call, as the documentation of `stream`
/// requires.
pub(crate) unsafe fn stream(open: &Open, handle: usize) -> Stream {
    let raw: *mut c_void = std::ptr::without_provenance_mut(handle);
    // SAFETY: by this function's contract, the handle is that of a stream that outlives the result.
    unsafe { Stream::from_raw(&open.device, raw, ()) }
}

/// Returns an error if the stream is being captured.
fn require_idle(stream: &Stream) -> PyResult<()> {
    if stream.is_recording().map_err(raise)? {
        return Err(PyValueError::new_err(
            "the stream is being captured into a graph; only reductions of PyTorch's tensors along axes can \
             be captured; call before the capture or after it",
        ));
    }
    Ok(())
}

/// Wraps a caller's stream as [`stream`] does. Returns an error if the stream is being captured.
///
/// # Safety
/// Same as [`stream`].
pub(crate) unsafe fn idle_stream(open: &Open, handle: usize) -> PyResult<Stream> {
    // SAFETY: this function has the same contract.
    let stream = unsafe { stream(open, handle) };
    require_idle(&stream)?;
    Ok(stream)
}

/// Memory of the graph into which a stream is captured, and its owner.
type Workspace = (u64, Py<PyAny>);

/// Returns memory from `allocate` for a launch that is captured; `None` if the stream is not captured.
fn workspace(
    open: &Open,
    stream: &Stream,
    allocate: impl FnOnce(u64) -> PyResult<Workspace>,
) -> PyResult<Option<Workspace>> {
    if !stream.is_recording().map_err(raise)? {
        return Ok(None);
    }
    allocate(open.reducer.workspace_bytes()).map(Some)
}

/// Memory for results that another library has allocated: its device address, and its owner if the
/// launch must keep the memory alive.
pub(crate) type Place = (u64, Option<Py<PyAny>>);

/// Returns memory for the results of a launch: a caller's, or new.
pub(crate) fn outputs<R: Outcome>(
    open: &Open,
    place: Option<Place>,
    len: usize,
) -> warpfold::Result<Outputs<R>> {
    match place {
        None => open.device.outputs(len),
        // SAFETY:
        // - The package's Python files have allocated room for the values that the launch's function
        //   documents, on this device and for work of its stream; nothing else uses it yet.
        // - The buffer keeps the owner, or the owner frees the memory for later work of this stream
        //   only. The owner's library does not write to the memory before the results are read.
        Some((address, owner)) => unsafe { Outputs::from_raw_parts(&open.device, address, len, owner) },
    }
}

/// Returns memory for a single result, as [`outputs`] does for several.
pub(crate) fn output<R: Outcome>(open: &Open, place: Option<Place>) -> warpfold::Result<Output<R>> {
    match place {
        None => open.device.output(),
        // SAFETY: as in `outputs`.
        Some((address, owner)) => unsafe { Output::from_raw_parts(&open.device, address, owner) },
    }
}

/// Calls `enqueue` with the caller's stream of a handle, or with the stream of host arrays. Returns an
/// error if the stream is being captured. The interpreter's lock is released meanwhile, because kernels
/// may have to be loaded.
pub(crate) fn enqueue_on<R: Send>(
    py: Python<'_>,
    open: &Open,
    handle: Option<usize>,
    enqueue: impl FnOnce(&Stream) -> warpfold::Result<R> + Send,
) -> PyResult<R> {
    // SAFETY: the Python caller keeps the stream alive during its call, as `idle_stream` requires.
    let given = handle.map(|handle| unsafe { idle_stream(open, handle) }).transpose()?;
    py.detach(|| enqueue(given.as_ref().unwrap_or(&open.stream))).map_err(raise)
}

struct Launch<'a> {
    open: &'a Open,
    /// The caller's stream, or `None` for the stream of host arrays.
    stream: Option<&'a Stream>,
    bytes: &'a Buffer<u8>,
    place: Option<Place>,
    /// The address of the workspace if the stream is being captured.
    workspace: Option<u64>,
    /// `true` if the launch must keep the elements and the results until it has finished.
    keeps: bool,
}

impl Launch<'_> {
    fn stream(&self) -> &Stream {
        self.stream.unwrap_or(&self.open.stream)
    }

    fn outputs<R: Outcome>(&mut self, len: usize) -> warpfold::Result<Outputs<R>> {
        outputs(self.open, self.place.take(), len)
    }
}

struct Along<'a> {
    launch: Launch<'a>,
    axes: &'a Axes,
}

impl Along<'_> {
    fn reduce<T: Plain, R: Plain>(self, op: DynamicOp<R>) -> warpfold::Result<Buffer<u8>> {
        let Self { mut launch, axes: Axes { lens, strides, reduced } } = self;
        let buffer = launch.bytes.cast::<T>()?;
        let along = buffer.view_strided(0, lens, strides)?.along(reduced)?;
        let mut outputs = launch.outputs(along.count())?;
        let on = launch.open.reducer.on(launch.stream());
        if launch.keeps && launch.workspace.is_none() {
            on.reduce_into(op, along, &mut outputs)?;
            return Ok(outputs.into_bytes());
        }
        // SAFETY:
        // - The elements and the results are PyTorch's, which frees their memory for later work of the
        //   stream only; where they are of another stream, the caller orders that, as for every operator
        //   of PyTorch. The device is never closed.
        // - If the stream is being captured, the caller does so by one thread at a time, by
        //   `torch.cuda.graph`, and keeps the elements. The workspace and the results are in the graph's
        //   own memory pool, which PyTorch keeps until the graph is destroyed, and whose reuse it
        //   orders.
        unsafe { on.launch_into(op, along, &mut outputs, launch.workspace) }?;
        Ok(outputs.into_bytes())
    }
}

/// A reduction along axes, prepared for all arrays of one layout.
pub(crate) struct Prepared {
    open: Arc<Open>,
    kernel: Kernel,
    op: Op,
    elements: Dtype,
    axes: Axes,
    bytes: usize,
}

impl Prepared {
    /// Returns `None` if the element type has no such operation, or if the layout exceeds any memory.
    pub(crate) fn new(
        open: Arc<Open>,
        kernel: Kernel,
        layout: &Layout,
        reduced: &[usize],
    ) -> Option<Self> {
        let (op, bytes) = (kernel.op(layout.dtype, false).ok()?, layout.bytes()?);
        let (elements, axes) = (element_type(layout.dtype), Axes::new(layout, reduced));
        Some(Self { open, kernel, op, elements, axes, bytes })
    }

    /// Enqueues the reduction of the elements at an address on the stream of a handle, with the results
    /// at `output`. Returns whether the library's kernels can read these axes in place.
    ///
    /// If the stream is being captured, `allocate`, given a number of bytes, returns the workspace.
    ///
    /// # Safety
    /// - The contract of [`stream`] holds for `handle`.
    /// - The elements are at `address`, a multiple of their size, on the device.
    /// - `output`, a multiple of 8, has room for the values of every result, on the device.
    /// - After the memory of the elements, the results or the workspace is freed, only later work of the
    ///   stream uses it.
    pub(crate) unsafe fn enqueue(
        &self,
        py: Python<'_>,
        handle: usize,
        address: u64,
        output: u64,
        allocate: impl FnOnce(u64) -> PyResult<Workspace>,
    ) -> PyResult<bool> {
        let Self { open, kernel, op, elements, axes, bytes } = self;
        // SAFETY: this function's contract includes that of `stream`.
        let stream = unsafe { stream(open, handle) };
        // Its owner is kept to the end of this function.
        let captured = workspace(open, &stream, allocate)?;
        let workspace = captured.as_ref().map(|(address, _)| *address);
        let reduced = py.detach(|| {
            // SAFETY: by this function's contract, the elements stay valid until the launch has
            // finished.
            let bytes = unsafe { Buffer::from_raw_parts(&open.device, address, *bytes, ()) }?;
            let (stream, place) = (Some(&stream), Some((output, None)));
            let launch = Launch { open, stream, bytes: &bytes, place, workspace, keeps: false };
            by_size!(*op, *elements, |T, R| {
                let op = kernel.dynamic::<R>(*op, *elements);
                Along { launch, axes }.reduce::<T, R>(op)
            })
        });
        match reduced {
            Ok(_) => Ok(true),
            Err(warpfold::Error::View { .. }) => Ok(false),
            Err(error) => Err(raise(error)),
        }
    }
}

/// The axes of an array. Adjacent axes that are both reduced or both kept are merged if a single stride
/// describes them, because a view has at most eight axes.
struct Axes {
    lens: Vec<usize>,
    strides: Vec<isize>,
    reduced: Vec<usize>,
}

impl Axes {
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
        // Strides fit: elements in memory are less than 2^63 apart.
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
        // The reducer checks the offsets on a stream of its own, so their writes must have finished.
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

/// Reduces an array along some axes by a function with its `ddof`, and returns the values that the
/// kernel writes, contiguous in the order of the other axes. They are written to `place`, if given: a
/// device address and its owner, with as much memory as [`outcome`](crate::functions::outcome) states.
/// Without `stream`, the reduction is enqueued on the stream of host arrays. If the stream is being
/// captured, the workspace is what `allocate` returns for a type and a number of elements: its owner,
/// and a `Place`. Does not wait for the result.
#[pyfunction]
#[pyo3(signature = (operation, array, axes, everywhere, stream=None, place=None, allocate=None))]
pub(crate) fn reduce(
    operation: (PyRef<'_, Function>, f64),
    array: &Array,
    axes: Vec<usize>,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
    allocate: Option<Bound<'_, PyAny>>,
) -> PyResult<Array> {
    let py = operation.0.py();
    let pieces = Pieces::Along(Axes::new(&array.layout, &axes));
    let target = Target { everywhere, stream, place, allocate };
    run(py, (&operation.0, operation.1), array, pieces, target)
}

/// Reduces the segments of a one-dimensional array that `offsets` describes, like [`reduce`]. Waits for
/// the offsets.
#[pyfunction]
#[pyo3(signature = (operation, array, offsets, everywhere, stream=None, place=None))]
pub(crate) fn reduce_segments(
    py: Python<'_>,
    operation: (PyRef<'_, Function>, f64),
    array: &Array,
    offsets: &Array,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    require_segments(&array.layout, &offsets.layout)?;
    let pieces = Pieces::Segments(offsets);
    let target = Target { everywhere, stream, place, allocate: None };
    run(py, (&operation.0, operation.1), array, pieces, target)
}

/// Returns an error for arrays that cannot be values and offsets of segments.
pub(crate) fn require_segments(values: &Layout, offsets: &Layout) -> PyResult<()> {
    for (what, layout) in [("values", values), ("offsets", offsets)] {
        require_compact(layout)?;
        if layout.shape.len() != 1 {
            let shape = elements::tuple(&layout.shape);
            return Err(PyValueError::new_err(format!(
                "{what} of the shape {shape}; they must be of one dimension; call `reshape(-1)` first"
            )));
        }
    }
    let DataType { code, bits, .. } = offsets.dtype;
    if !(matches!(code, 0 | 1) && bits >= 32) {
        let dtype = elements::name(offsets.dtype);
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "offsets of {dtype}; there are int32, int64, uint32 and uint64; convert them first"
        )));
    }
    Ok(())
}

enum Pieces<'a> {
    Along(Axes),
    Segments(&'a Array),
}

struct Target<'py> {
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
    allocate: Option<Bound<'py, PyAny>>,
}

/// Enqueues an operation. Releases the GIL, because kernels may have to be loaded.
fn run(
    py: Python<'_>,
    (function, ddof): (&Function, f64),
    array: &Array,
    pieces: Pieces<'_>,
    target: Target<'_>,
) -> PyResult<Array> {
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    let Target { everywhere, stream: handle, place, allocate } = target;
    // SAFETY: the Python caller keeps the stream alive during its call, as `stream` requires.
    let stream = handle.map(|handle| unsafe { stream(open, handle) });
    let captured = match (&stream, allocate) {
        (None, _) => None,
        (Some(stream), Some(allocate)) => workspace(open, stream, |bytes| {
            let (_, place): (Bound<'_, PyAny>, Workspace) =
                allocate.call1(("uint8", bytes))?.extract()?;
            Ok(place)
        })?,
        (Some(stream), None) => {
            require_idle(stream)?;
            None
        }
    };
    let workspace = captured.as_ref().map(|(address, _)| *address);
    let (kernel, elements) = (function.kernel(ddof), element_type(*dtype));
    let op = kernel.op(*dtype, everywhere)?;
    let (written, _) = function.types(*dtype, false, everywhere)?;
    let reduced = py.detach(|| {
        let launch = Launch { open, stream: stream.as_ref(), bytes, place, workspace, keeps: true };
        by_size!(op, elements, |T, R| {
            let op = kernel.dynamic::<R>(op, elements);
            match pieces {
                Pieces::Along(axes) => Along { launch, axes: &axes }.reduce::<T, R>(op),
                Pieces::Segments(offsets) => Segmented { launch, offsets }.reduce::<T, R>(op),
            }
        })
    });
    let bytes = reduced.map_err(raise)?;
    let len = bytes.len() / elements::size(written);
    Ok(Array::new(open, bytes, written, vec![len]))
}

/// Returns a bound on the error of the sum of an array's elements, or of their squares, relative to the
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
