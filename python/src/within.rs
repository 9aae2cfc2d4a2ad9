//! Reductions of the elements within an interval: count, sum and mean.

use std::ops::Bound as End;

use pyo3::{
    exceptions::{PyOverflowError, PyTypeError},
    prelude::*,
};
use warpfold::{
    Buffer, Element, Output, Stream, Within, bf16,
    dlpack::{DataType, Layout},
    f16, op,
};

use crate::{
    array::{Array, require_compact},
    device::Open,
    elements::{self, by_type},
    kernels::{Place, enqueue_on, output},
};

/// An element type whose interval ends can be given as Python numbers.
pub(crate) trait Ends: Element {
    /// Returns the lower end. An integer below the type's range sets no bound; an integer above the
    /// range excludes all elements.
    fn low(number: &Bound<'_, PyAny>) -> PyResult<End<Self>>;
    /// Returns the upper end. An integer above the type's range sets no bound; an integer below the
    /// range excludes all elements.
    fn high(number: &Bound<'_, PyAny>) -> PyResult<End<Self>>;
}

/// Extracts a Python integer, clamped to `i128`.
fn wide(number: &Bound<'_, PyAny>) -> PyResult<i128> {
    match number.extract::<i128>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
            Ok(if number.lt(0)? { i128::MIN } else { i128::MAX })
        }
        extracted => extracted,
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Ends for $ty {
            fn low(number: &Bound<'_, PyAny>) -> PyResult<End<Self>> {
                let number = wide(number)?;
                let outside = if number < 0 { End::Unbounded } else { End::Excluded(Self::MAX) };
                Ok(Self::try_from(number).map_or(outside, End::Included))
            }

            fn high(number: &Bound<'_, PyAny>) -> PyResult<End<Self>> {
                let number = wide(number)?;
                let outside = if number < 0 { End::Excluded(Self::MIN) } else { End::Unbounded };
                Ok(Self::try_from(number).map_or(outside, End::Included))
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($ty:ty: $of:expr;)*) => {$(
        impl Ends for $ty {
            /// Rounds to the type, as NumPy does when it compares arrays with numbers.
            fn low(number: &Bound<'_, PyAny>) -> PyResult<End<Self>> {
                let of: fn(f64) -> Self = $of;
                Ok(End::Included(of(number.extract()?)))
            }

            fn high(number: &Bound<'_, PyAny>) -> PyResult<End<Self>> {
                Self::low(number)
            }
        }
    )*};
}

floats! {
    f16: f16::from_f64;
    bf16: bf16::from_f64;
    f32: |number| number as f32;
    f64: |number| number;
}

fn end<T: Ends>(
    which: &str,
    number: Option<&Bound<'_, PyAny>>,
    of: fn(&Bound<'_, PyAny>) -> PyResult<End<T>>,
    dtype: DataType,
) -> PyResult<End<T>> {
    let Some(number) = number else { return Ok(End::Unbounded) };
    of(number).map_err(|_| {
        let kind = if matches!(dtype.code, 2 | 4) { "a number" } else { "an integer" };
        let dtype = elements::name(dtype);
        PyTypeError::new_err(format!(
            "{which} {number:?} for {dtype} elements; it must be {kind}, or None"
        ))
    })
}

/// Returns the interval between two Python numbers; `None` means no bound.
pub(crate) fn interval<T: Ends>(
    low: Option<&Bound<'_, PyAny>>,
    high: Option<&Bound<'_, PyAny>>,
    dtype: DataType,
) -> PyResult<(End<T>, End<T>)> {
    Ok((end("low", low, T::low, dtype)?, end("high", high, T::high, dtype)?))
}

/// Counts and sums the elements of an array that are neither below `low` nor above `high`; `None` means
/// no bound, and `everywhere` selects a sum with the same bits on any device. Returns four 8-byte
/// values: the count, the sum in two words, and the mean. They are written to `place`, if given, as in
/// [`reduce`](crate::kernels::reduce). Does not wait for the result.
#[pyfunction]
#[pyo3(signature = (array, low, high, everywhere, stream=None, place=None))]
pub(crate) fn reduce_within(
    py: Python<'_>,
    array: &Array,
    low: Option<Bound<'_, PyAny>>,
    high: Option<Bound<'_, PyAny>>,
    everywhere: bool,
    stream: Option<usize>,
    place: Option<Place>,
) -> PyResult<Array> {
    require_compact(&array.layout)?;
    let Array { open, bytes, layout: Layout { dtype, .. } } = array;
    let left = by_type!(
        *dtype,
        T => {
            let range = interval::<T>(low.as_ref(), high.as_ref(), *dtype)?;
            enqueue_on(py, open, stream, |stream| {
                within::<T>(open, stream, bytes, range, everywhere, place)
            })
        },
        unreachable!("every array is of one of the types")
    );
    Ok(Array::new(open, left?, DataType::of::<i64>(), vec![4]))
}

fn within<T: Element>(
    open: &Open,
    stream: &Stream,
    bytes: &Buffer<u8>,
    range: (End<T>, End<T>),
    everywhere: bool,
    place: Option<Place>,
) -> warpfold::Result<Buffer<u8>> {
    let buffer = bytes.cast::<T>()?;
    let mut output: Output<Within<T::Sum>> = output(open, place)?;
    let on = open.reducer.on(stream);
    if everywhere {
        on.reduce_into(op::Sum.reproducible(), buffer.filter(range), &mut output)?;
    } else {
        on.reduce_into(op::Sum, buffer.filter(range), &mut output)?;
    }
    Ok(output.into_bytes())
}
