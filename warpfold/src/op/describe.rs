//! A summary of all elements.

use std::array;

use super::{Operations, kind, sealed};
use crate::{
    Element, Ends, Spread,
    element::{Words, sealed::Outcome as _},
    names::{Dtype, Op, OpKind},
    reducer::{Code, Codes, HostResults, RowResults},
};

/// A [`Description`] of the elements, like a tuple of operations on them. That of a buffer, or of each
/// row, takes one launch.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[2.0_f32, f32::NAN, -1.0, 5.0])?;
/// let described = reducer.reduce(op::Describe, &values)?;
/// assert_eq!((described.count, described.nan_count), (3, 1));
/// assert_eq!((described.mean, described.variance), (2.0, 6.0));
/// assert_eq!((described.min, described.max), (Some(-1.0), Some(5.0)));
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Describe;

/// The result of [`Describe`]: facts about all elements that are not NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Description<T> {
    /// The number of elements that are not NaN.
    pub count: u64,
    /// The number of elements that are NaN.
    pub nan_count: u64,
    /// The mean, as that of [`MeanAndVariance`](super::MeanAndVariance); NaN if [`count`](Self::count)
    /// is 0.
    pub mean: f64,
    /// The mean of the squared distances from the mean; NaN if [`count`](Self::count) is 0.
    pub variance: f64,
    /// The smallest element.
    pub min: Option<T>,
    /// The largest element.
    pub max: Option<T>,
}

impl<T: Element> Description<T> {
    /// Decodes the results of the operations of [`described`] on this many elements.
    pub(crate) fn of(elements: u64, [spread, ends, nan_count]: [Words; 3]) -> Self {
        let nan_count = if T::DTYPE.is_float() { nan_count[0] } else { 0 };
        let count = elements.saturating_sub(nan_count);
        if count == 0 {
            let (mean, variance) = (f64::NAN, f64::NAN);
            return Self { count, nan_count, mean, variance, min: None, max: None };
        }
        let Spread { mean, variance } = Spread::from_words(spread);
        let Ends { min, max } = Ends::<T>::from_words(ends);
        Self { count, nan_count, mean, variance, min: Some(min), max: Some(max) }
    }
}

/// Returns the operations whose results are in a description: the mean and the variance, the extremes,
/// and for floats the number of NaN.
pub fn described(dtype: Dtype) -> impl Iterator<Item = Op> {
    let kinds = [OpKind::MeanAndVariance, OpKind::MinMax].into_iter();
    let kinds = kinds.chain(dtype.is_float().then_some(OpKind::CountNan));
    kinds.map(move |kind| kind.plain().skipping_nan(dtype))
}

impl sealed::Sealed for Describe {
    type Kind = kind::Together;
}

impl<T: Element> Operations<T> for Describe {
    type Output = Description<T>;
    type Rows = Vec<Description<T>>;

    fn codes(self) -> Codes {
        let mut ops = described(T::DTYPE);
        array::from_fn(|_| ops.next().map(|op| Code::BuiltIn(op, T::DTYPE)))
    }

    fn of_none() -> Option<Self::Output> {
        Some(Description::of(0, [Words::default(); 3]))
    }

    fn decode(results: HostResults<'_>) -> Self::Output {
        if results.is_of_none() {
            return Description::of(0, [Words::default(); 3]);
        }
        Description::of(results.elements(), [0, 1, 2].map(|result| results.get(result)))
    }

    fn decode_rows(results: &RowResults) -> Self::Rows {
        let of_row =
            |row| Description::of(results.row_len(), [0, 1, 2].map(|result| results.get(result, row)));
        (0..results.count()).map(of_row).collect()
    }
}
