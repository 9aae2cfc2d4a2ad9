//! The library's operations by their names, on elements of any type.

use std::ffi::c_void;

use pyo3::{exceptions::PyValueError, prelude::*};
use warpfold::{
    Buffer, Element, Outcome, Outputs, Stream,
    dlpack::{DataType, Layout},
    op::{self, RowsOperation},
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    error::raise,
};

/// The operations of the library.
#[pyclass(frozen, eq, hash, module = "warpfold")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Sum,
    SumOfSquares,
    SumOfMagnitudes,
    Product,
    Min,
    Max,
    MinMax,
    ArgMin,
    ArgMax,
    CountNonZero,
    Spread,
    Mean,
    L1Norm,
    L2Norm,
    LogSumExp,
    NanSum,
    NanSumOfSquares,
    NanSumOfMagnitudes,
    NanProduct,
    NanL2Norm,
    NanMin,
    NanMax,
    NanMinMax,
    NanArgMin,
    NanArgMax,
    NanSpread,
    NanCount,
    BitAnd,
    BitOr,
    BitXor,
}

/// Whether elements are floats.
fn is_float(dtype: DataType) -> bool {
    matches!(dtype.code, 2 | 4)
}

/// What is done with an operation, on elements of a type.
trait Visit {
    type Output;

    fn visit<T: Element, O: RowsOperation<T>>(self, op: O) -> Self::Output;
}

impl Kernel {
    /// What users know it by.
    const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::SumOfSquares => "sum_of_squares",
            Self::SumOfMagnitudes => "sum_of_magnitudes",
            Self::Product => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::MinMax => "aminmax",
            Self::ArgMin => "argmin",
            Self::ArgMax => "argmax",
            Self::CountNonZero => "count_nonzero",
            Self::Spread => "var",
            Self::Mean => "mean",
            Self::L1Norm => "l1_norm",
            Self::L2Norm => "l2_norm",
            Self::LogSumExp => "logsumexp",
            Self::NanSum => "nansum",
            Self::NanSumOfSquares => "nansum_of_squares",
            Self::NanSumOfMagnitudes => "nansum_of_magnitudes",
            Self::NanProduct => "nanprod",
            Self::NanL2Norm => "nanl2_norm",
            Self::NanMin => "nanmin",
            Self::NanMax => "nanmax",
            Self::NanMinMax => "nanaminmax",
            Self::NanArgMin => "nanargmin",
            Self::NanArgMax => "nanargmax",
            Self::NanSpread => "nanvar",
            Self::NanCount => "count_nan",
            Self::BitAnd => "bitwise_and",
            Self::BitOr => "bitwise_or",
            Self::BitXor => "bitwise_xor",
        }
    }

    /// What it leaves for each result of elements of a type: the type of its values, and how many.
    fn left(self, dtype: DataType) -> (DataType, usize) {
        let dtype = elements::in_memory(dtype);
        let sum = match dtype.code {
            0 => DataType::of::<i64>(),
            1 => DataType::of::<u64>(),
            _ if dtype.bits == 64 => DataType::of::<f64>(),
            _ => DataType::of::<f32>(),
        };
        match self {
            Self::Sum | Self::SumOfSquares | Self::SumOfMagnitudes => (sum, 1),
            Self::NanSum | Self::NanSumOfSquares | Self::NanSumOfMagnitudes => (sum, 1),
            Self::Product | Self::NanProduct | Self::LogSumExp => (sum, 1),
            Self::Min | Self::Max | Self::BitAnd | Self::BitOr | Self::BitXor => (dtype, 1),
            Self::NanMin | Self::NanMax => (dtype, 1),
            Self::MinMax | Self::NanMinMax => (dtype, 2),
            // The index and, in the other 8 bytes, the element.
            Self::ArgMin | Self::ArgMax => (DataType::of::<i64>(), 2),
            Self::NanArgMin | Self::NanArgMax => (DataType::of::<i64>(), 2),
            Self::CountNonZero | Self::NanCount => (DataType::of::<i64>(), 1),
            Self::Spread | Self::NanSpread => (DataType::of::<f64>(), 2),
            // Sums of magnitudes have room in the type of sums, but those of the longest integers.
            Self::L1Norm if dtype.bits < 64 || is_float(dtype) => (sum, 1),
            Self::Mean | Self::L1Norm | Self::L2Norm | Self::NanL2Norm => (DataType::of::<f64>(), 1),
        }
    }

    /// Hands the operation to a visitor, as that of elements of a type; an error where they have none.
    fn of<V: Visit>(self, dtype: DataType, everywhere: bool, visitor: V) -> PyResult<V::Output> {
        let floats = is_float(dtype);
        let refused = || {
            let (kernel, dtype) = (self.name(), elements::name(dtype));
            let reason = match self {
                Self::BitAnd | Self::BitOr | Self::BitXor => "only integers and truth values have bits",
                Self::LogSumExp | Self::NanCount if !floats => "only floats have it; convert them first",
                _ => "its result has the same bits from run to run only; use determinism=\"run-to-run\"",
            };
            PyValueError::new_err(format!("{kernel} of {dtype} elements; {reason}"))
        };
        /// An operation on elements of all types, of integers or of floats.
        macro_rules! hand {
            ($op:expr $(, $which:ident)?) => {
                by_type!($($which)? dtype, T => Ok(visitor.visit::<T, _>($op)), Err(refused()))
            };
        }
        match self {
            Self::Sum if everywhere && floats => hand!(op::Sum.reproducible(), floats),
            Self::SumOfSquares if everywhere && floats => {
                hand!(op::SumOfSquares.reproducible(), floats)
            }
            Self::SumOfMagnitudes if everywhere && floats => {
                hand!(op::SumOfMagnitudes.reproducible(), floats)
            }
            Self::Product if everywhere => hand!(op::Product.reproducible(), integers),
            Self::LogSumExp if everywhere => Err(refused()),
            Self::Spread if everywhere => hand!(op::MeanAndVariance.reproducible()),
            Self::NanProduct if everywhere && floats => Err(refused()),
            Self::NanSum if everywhere && floats => {
                hand!(op::Sum.skip_nan().reproducible(), floats)
            }
            Self::NanSumOfSquares if everywhere && floats => {
                hand!(op::SumOfSquares.skip_nan().reproducible(), floats)
            }
            Self::NanSumOfMagnitudes if everywhere && floats => {
                hand!(op::SumOfMagnitudes.skip_nan().reproducible(), floats)
            }
            Self::L1Norm if everywhere && floats => {
                hand!(op::SumOfMagnitudes.reproducible(), floats)
            }
            Self::Mean | Self::L2Norm | Self::NanL2Norm if everywhere && floats => Err(refused()),
            Self::NanSpread if everywhere => hand!(op::MeanAndVariance.skip_nan().reproducible()),
            // No order changes the others, nor sums of integers.
            Self::Sum => hand!(op::Sum),
            Self::SumOfSquares => hand!(op::SumOfSquares),
            Self::SumOfMagnitudes => hand!(op::SumOfMagnitudes),
            Self::Product => hand!(op::Product),
            Self::Min => hand!(op::Min),
            Self::Max => hand!(op::Max),
            Self::MinMax => hand!(op::MinMax),
            Self::ArgMin => hand!(op::ArgMin),
            Self::ArgMax => hand!(op::ArgMax),
            Self::CountNonZero => hand!(op::CountNonZero),
            Self::Spread => hand!(op::MeanAndVariance),
            Self::Mean => hand!(op::Mean),
            Self::L1Norm if floats || dtype.bits < 64 => hand!(op::SumOfMagnitudes),
            Self::L1Norm => hand!(op::L1Norm, long_integers),
            Self::L2Norm => hand!(op::L2Norm),
            Self::NanL2Norm => hand!(op::L2Norm.skip_nan()),
            Self::LogSumExp => hand!(op::LogSumExp, floats),
            Self::NanSum => hand!(op::Sum.skip_nan()),
            Self::NanSumOfSquares => hand!(op::SumOfSquares.skip_nan()),
            Self::NanSumOfMagnitudes => hand!(op::SumOfMagnitudes.skip_nan()),
            Self::NanProduct => hand!(op::Product.skip_nan()),
            Self::NanMin => hand!(op::Min.skip_nan()),
            Self::NanMax => hand!(op::Max.skip_nan()),
            Self::NanMinMax => hand!(op::MinMax.skip_nan()),
            Self::NanArgMin => hand!(op::ArgMin.skip_nan()),
            Self::NanArgMax => hand!(op::ArgMax.skip_nan()),
            Self::NanSpread => hand!(op::MeanAndVariance.skip_nan()),
            Self::NanCount => hand!(op::CountNan, floats),
            Self::BitAnd => hand!(op::BitAnd, integers),
            Self::BitOr => hand!(op::BitOr, integers),
            Self::BitXor => hand!(op::BitXor, integers),
        }
    }
}

/// Somebody's stream, by its handle: 0 and 1 are the default stream, 2 is the thread's. One that is
/// recording is refused.
///
/// # Safety
/// A handle that is none of these must be that of a stream of the device, in its primary context, which
/// stays until what is returned is gone. Python's callers have the stream's object in hand during their
/// call, and are told so by the documentation of `stream`.
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

/// Memory of another library for results: its address and what owns it.
pub(crate) type Place = (u64, Py<PyAny>);

/// Where something is enqueued, and where its results go.
struct Launch<'a> {
    open: &'a Open,
    /// Its own if there is none.
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
            // - The package's Python files have allocated as much as `outcome` has told them, on this
            //   device, for the work of this stream, and nothing else has the memory yet.
            // - The owner is kept, and nobody writes what its library gives out before it reads it.
            Some((address, owner)) => unsafe {
                Outputs::from_raw_parts(&self.open.device, address, len, owner)
            },
        }
    }
}

/// Reductions along some axes.
struct Along<'a> {
    launch: Launch<'a>,
    axes: Axes,
}

impl Visit for Along<'_> {
    type Output = warpfold::Result<Buffer<u8>>;

    fn visit<T: Element, O: RowsOperation<T>>(self, op: O) -> Self::Output {
        let Self { mut launch, axes: Axes { lens, strides, reduced } } = self;
        let buffer = launch.bytes.cast::<T>()?;
        let along = buffer.view_strided(0, &lens, &strides)?.along(&reduced)?;
        let mut outputs = launch.outputs(along.count())?;
        launch.open.reducer.on(launch.stream()).reduce_into(op, along, &mut outputs)?;
        Ok(outputs.into_bytes())
    }
}

/// The axes of an array, as few as there can be: neighbours of a kind whose elements lie as those of one
/// do are one. A view has eight at most.
struct Axes {
    lens: Vec<usize>,
    strides: Vec<isize>,
    /// The numbers of those along which is reduced, of which there is one at least.
    reduced: Vec<usize>,
}

impl Axes {
    /// Those of an array of elements, reduced along the axes of these numbers.
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
        // What is in memory is less than 2^63 apart.
        let strides = axes.iter().map(|&(_, stride, _)| stride.cast_signed()).collect();
        Self { lens: axes.iter().map(|&(len, ..)| len).collect(), strides, reduced }
    }
}

/// What reduces segments of an array.
struct Segmented<'a> {
    launch: Launch<'a>,
    offsets: &'a Array,
}

impl Visit for Segmented<'_> {
    type Output = warpfold::Result<Buffer<u8>>;

    fn visit<T: Element, O: RowsOperation<T>>(self, op: O) -> Self::Output {
        let Self { mut launch, offsets } = self;
        let reducer = &launch.open.reducer;
        let buffer = launch.bytes.cast::<T>()?;
        // A kernel looks at the offsets on a stream of the reducer's, and the host waits for it: what
        // writes them must be over.
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

/// What an operation leaves for results of elements of a type: the type of the values, how many there
/// are for each result, and how many at least memory for results has, which is at a multiple of 8 bytes.
#[pyfunction]
pub(crate) fn outcome(kernel: &Kernel, dtype: &str) -> PyResult<(String, usize, usize)> {
    let (left, step) = kernel.left(elements::named(dtype)?);
    let least = Outputs::<u8>::bytes_of(0) as usize / elements::size(left);
    Ok((elements::name(left), step, least))
}

/// Reduces an array of elements along some axes, and returns the values that the operation leaves, one
/// behind the other in the order of the other axes. They go to `place`, if that is given: an address of
/// the device and its owner, with as much memory as [`outcome`] says. Without `stream` an array from the
/// host is reduced on a stream of the package's own. Nothing is waited for.
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

/// Reduces the segments of an array of one dimension that offsets describe, as [`reduce`] does. The
/// offsets are waited for.
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

/// The pieces that are reduced.
enum Pieces<'a> {
    Along(Axes),
    Segments(&'a Array),
}

/// Where the results are written.
struct Target {
    everywhere: bool,
    /// The handle of a stream.
    stream: Option<usize>,
    place: Option<Place>,
}

/// Enqueues an operation, without the interpreter's lock: kernels may have to be loaded.
fn run(
    py: Python<'_>,
    kernel: Kernel,
    array: &Array,
    pieces: Pieces<'_>,
    target: Target,
) -> PyResult<Array> {
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    let Target { everywhere, stream: handle, place } = target;
    // SAFETY: as `stream` says; the caller has the stream in hand.
    let stream = handle.map(|handle| unsafe { stream(open, handle) }).transpose()?;
    let reduced = py.detach(|| {
        let launch = Launch { open, stream: stream.as_ref(), bytes, place };
        match pieces {
            Pieces::Along(axes) => kernel.of(*dtype, everywhere, Along { launch, axes }),
            Pieces::Segments(offsets) => kernel.of(*dtype, everywhere, Segmented { launch, offsets }),
        }
    });
    let bytes = reduced?.map_err(raise)?;
    let (left, _) = kernel.left(*dtype);
    let len = bytes.len() / elements::size(left);
    Ok(Array::new(open, bytes, left, vec![len]))
}

/// How far the sum of an array's elements, or of their squares, may be from the exact one, over the sum
/// of the terms' magnitudes.
#[pyfunction]
pub(crate) fn error_bound(py: Python<'_>, array: &Array, of_squares: bool) -> PyResult<f64> {
    require_compact(&array.layout)?;
    let reducer = &array.open.reducer;
    let bound = py.detach(|| {
        by_type!(
            array.layout.dtype,
            T => array.bytes.cast::<T>().and_then(|buffer| match of_squares {
                false => reducer.sum_error_bound(&buffer),
                true => reducer.sum_of_squares_error_bound(&buffer),
            }),
            unreachable!("every array is of one of the types")
        )
    });
    bound.map_err(raise)
}
