//! Rows: a buffer as a matrix.

mod launch;
mod task;

use std::{convert::Infallible, fmt};

pub(crate) use launch::BLOCKS;
pub use launch::RowsLaunch;

use crate::{
    Buffer, Device, Error, Outputs, Plain, Result,
    input::{AnyTask, Enqueue, Input, buffer::TogetherTask, by_plan},
    op::{Operations, RowsOperation, kind, sealed},
    reducer::{Code, DeviceOutput, ElementRange, Plan},
};

/// A buffer's elements as a matrix, row after row, from [`Buffer::rows`].
///
/// [`Reducer::reduce`](crate::Reducer::reduce) returns one result for each row, from one launch; for
/// [`Largest`](crate::op::Largest) and [`Smallest`](crate::op::Smallest) k results for each row, row by
/// row. A [tuple](crate::op::Operations) has a tuple of results: for each operation, those of all rows.
/// The index in a [`Located`](crate::Located) result counts from the start of the row.
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op};
/// # let device = Device::open(Selection::Sim)?;
/// # let reducer = Reducer::new(&device)?;
/// let matrix = device.upload(&[3_i32, 9, 1, 4, 0, 2, 8, 7])?;
/// let rows = matrix.rows(4)?;
/// assert_eq!(reducer.reduce(op::Sum, rows)?, [17, 17]);
/// let smallest = reducer.reduce(op::Smallest(2), rows)?;
/// let of_rows: Vec<_> = smallest.chunks(2).map(|row| [row[0].index, row[1].index]).collect();
/// assert_eq!(of_rows, [[2, 0], [0, 1]]);
/// let (sums, max) = reducer.reduce((op::Sum, op::Max), rows)?;
/// assert_eq!((sums, max), (vec![17, 17], vec![9, 8]));
/// # Ok::<(), warpfold::Error>(())
/// ```
pub struct Rows<'a, T> {
    buffer: &'a Buffer<T>,
    len: usize,
}

impl<'a, T: Plain> Rows<'a, T> {
    pub(crate) fn new(buffer: &'a Buffer<T>, len: usize) -> Result<Self> {
        check(buffer.len(), len)?;
        Ok(Self { buffer, len })
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.buffer.len() / self.len
    }

    /// Returns the number of elements of a row.
    pub fn row_len(&self) -> usize {
        self.len
    }

    /// Returns the buffer with the elements.
    pub fn buffer(&self) -> &'a Buffer<T> {
        self.buffer
    }

    pub(crate) fn task(&self, code: Code, device: &Device) -> Result<RowsTask> {
        let range = ElementRange::of(code, self.buffer, device)?;
        Ok(RowsTask::contiguous(range, self.len as u64))
    }
}

pub(crate) fn check(elements: usize, len: usize) -> Result<()> {
    let reason = if len == 0 {
        "rows of 0 elements; give 1 or more".to_owned()
    } else if !elements.is_multiple_of(len) {
        let whole = elements - elements % len;
        format!(
            "rows of {len} do not divide {elements} elements; give a length that does, or a slice of \
             {whole} elements"
        )
    } else {
        return Ok(());
    };
    Err(Error::Rows { reason })
}

impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<'_, T> {}

impl<T: Plain> fmt::Debug for Rows<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, len } = self;
        f.debug_struct("Rows").field("buffer", buffer).field("row_len", len).finish()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RowsTask {
    pub(crate) code: Code,
    pub(crate) rows: u64,
    /// Elements per row; not zero.
    pub(crate) len: u64,
    /// Elements from the start of a row to that of the next one.
    pub(crate) pitch: u64,
    /// The address of the first element, aligned as in a [`Buffer`].
    pub(crate) address: u64,
}

impl RowsTask {
    /// Returns the reduction of rows of `len` elements without gaps between them. `len` must not be 0.
    pub(crate) fn contiguous(range: ElementRange, len: u64) -> Self {
        let ElementRange { code, n, address } = range;
        Self { code, rows: n / len, len, pitch: len, address }
    }

    /// Returns the task. A single row is reduced as a buffer, whose launches are tuned by measurements.
    pub(crate) fn task(self) -> AnyTask {
        if self.rows != 1 {
            return AnyTask::Rows(self);
        }
        let Self { code, len, address, .. } = self;
        AnyTask::Elements(ElementRange { code, n: len, address })
    }
}

/// A kind of operations that reduces rows.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce rows of `{T}`",
    note = "any operation of one result but `WrappingSum` does, tuples, and `Largest` and `Smallest`"
)]
pub trait ReduceRows<O, T: Plain> {
    /// The results of all rows. A row has one result, one for each operation of a tuple, or k results in
    /// a top-k search.
    type Output;
    type Left: DeviceOutput;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Self::Output>>;
}

impl<T: Plain, O: RowsOperation<T>> ReduceRows<O, T> for kind::Single {
    type Output = Vec<O::Left>;
    type Left = Outputs<O::Left>;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Self::Output>> {
        let task = rows.task(op.code(), device)?.task();
        Ok(Plan::of_several(task, rows.buffer(), rows.count(), RESULTS))
    }
}

impl<T: Plain, O: Operations<T>> ReduceRows<O, T> for kind::Together {
    type Output = O::Rows;
    type Left = Infallible;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Self::Output>> {
        let task = TogetherTask::of_rows(&op.codes(), &rows, device)?;
        Ok(Plan::of_rows::<T, O>(AnyTask::Together(task), rows.buffer(), RESULTS))
    }
}

/// The name of the results of rows, and the error about their number.
const RESULTS: (&str, fn(String) -> Error) = ("rows", |reason| Error::Rows { reason });

impl<T: Plain, O: sealed::Sealed<Kind: ReduceRows<O, T>>> Input<O> for Rows<'_, T> {
    type Output = <O::Kind as ReduceRows<O, T>>::Output;

    by_plan!(O);
}

impl<T: Plain, O: sealed::Sealed<Kind: ReduceRows<O, T>>> Enqueue<O> for Rows<'_, T> {
    type Left = <O::Kind as ReduceRows<O, T>>::Left;

    fn plan<'p>(self, op: O, device: &Device) -> Result<Plan<'p, Self::Output>>
    where
        Self: 'p,
    {
        O::Kind::plan(op, self, device)
    }
}
