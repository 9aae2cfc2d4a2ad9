//! Reductions of a matrix's rows: a result for each.

use super::{Code, OnStream, Recorded, RecordedOutputs, Recorder, Reducer, Task, pieces::Pieces};
use crate::{
    Buffer, Device, Element, Error, Located, Outputs, Plain, Result,
    names::Op,
    op::{self, RowsOperation},
    ptx::PiecesForm,
    rows::Rows,
};

/// # Rows
/// Every row of a matrix is reduced to a result of its own, all of them by one launch. The results come
/// in a vector; to leave them in device memory, [`on`](Self::on) a stream, is what costs nothing
/// besides.
impl Reducer {
    /// Loads the kernels for rows of a type, for all operations, as the first reduction of each
    /// otherwise does. A matrix of a single row takes those of [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_rows<T: Element>(&self) -> Result<()> {
        Op::ALL
            .iter()
            .filter(|op| op.takes(T::DTYPE))
            .try_for_each(|&op| self.core().kernels().prepare_pieces(PiecesForm::Rows, op, T::DTYPE))
    }

    /// The sum of every row, in the type [`Element::Sum`].
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for a buffer of another device, and [`Error::TooManyElements`] for one
    ///   of more than 2^35 elements;
    /// - those of [`prepare_rows`](Self::prepare_rows), at the first use of an operation and type;
    /// - [`Error::OutOfMemory`] where there is no room for the results;
    /// - [`Error::Driver`] when the launch, the wait or the copy fails.
    pub fn sum_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<T::Sum>> {
        self.reduce_rows(op::Sum, rows)
    }

    /// The sum of every row's squares, in the type [`Element::Sum`].
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn sum_of_squares_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<T::Sum>> {
        self.reduce_rows(op::SumOfSquares, rows)
    }

    /// The smallest element of every row, or NaN if any of its elements is NaN.
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn min_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<T>> {
        self.reduce_rows(op::Min, rows)
    }

    /// The largest element of every row, or NaN if any of its elements is NaN.
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn max_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<T>> {
        self.reduce_rows(op::Max, rows)
    }

    /// The first of the smallest elements of every row, or its first NaN, with its index in the row.
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn arg_min_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<Located<T>>> {
        self.reduce_rows(op::ArgMin, rows)
    }

    /// The first of the largest elements of every row, or its first NaN, with its index in the row.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[2.0_f32, 1.0, 5.0, 3.0, 9.0, 4.0])?;
    /// let largest = reducer.arg_max_rows(&matrix.rows(3)?)?;
    /// assert_eq!((largest[1].index, largest[1].value), (1, 9.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn arg_max_rows<T: Element>(&self, rows: &Rows<'_, T>) -> Result<Vec<Located<T>>> {
        self.reduce_rows(op::ArgMax, rows)
    }

    /// The result of any [operation](op) but the wrapping sum, of every row.
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn reduce_rows<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        rows: &Rows<'_, T>,
    ) -> Result<Vec<O::Left>> {
        self.reduce_pieces(op, rows)
    }
}

/// # Rows
/// What these leave in device memory is there for what is enqueued behind them. The rows' elements and
/// the outputs are kept until it is done.
impl OnStream<'_> {
    /// Leaves the sum of every row in device memory.
    ///
    /// # Errors
    /// - As [`Reducer::sum_rows`], and [`Error::OtherDevice`] for a stream or outputs of another device;
    /// - [`Error::Rows`] for outputs that are not as many as the rows, and after
    ///   [`counted`](Self::counted), which counts elements.
    pub fn sum_rows_into<T: Element>(
        self,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<T::Sum>,
    ) -> Result<()> {
        self.reduce_rows_into(op::Sum, rows, outputs)
    }

    /// Leaves the sum of every row's squares in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn sum_of_squares_rows_into<T: Element>(
        self,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<T::Sum>,
    ) -> Result<()> {
        self.reduce_rows_into(op::SumOfSquares, rows, outputs)
    }

    /// Leaves the smallest element of every row, or NaN, in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn min_rows_into<T: Element>(self, rows: &Rows<'_, T>, outputs: &mut Outputs<T>) -> Result<()> {
        self.reduce_rows_into(op::Min, rows, outputs)
    }

    /// Leaves the largest element of every row, or NaN, in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn max_rows_into<T: Element>(self, rows: &Rows<'_, T>, outputs: &mut Outputs<T>) -> Result<()> {
        self.reduce_rows_into(op::Max, rows, outputs)
    }

    /// Leaves the first of the smallest elements of every row, or its first NaN, in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn arg_min_rows_into<T: Element>(
        self,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<Located<T>>,
    ) -> Result<()> {
        self.reduce_rows_into(op::ArgMin, rows, outputs)
    }

    /// Leaves the first of the largest elements of every row, or its first NaN, in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn arg_max_rows_into<T: Element>(
        self,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<Located<T>>,
    ) -> Result<()> {
        self.reduce_rows_into(op::ArgMax, rows, outputs)
    }

    /// Leaves the result of any [operation](op) but the wrapping sum, of every row, in device memory.
    ///
    /// # Errors
    /// As [`sum_rows_into`](Self::sum_rows_into).
    pub fn reduce_rows_into<T: Plain, O: RowsOperation<T>>(
        self,
        op: O,
        rows: &Rows<'_, T>,
        outputs: &mut Outputs<O::Left>,
    ) -> Result<()> {
        self.reduce_pieces_into(op, rows, outputs)
    }
}

/// # Rows
/// A replay reduces every row to a result of its own.
impl Recorder {
    /// Adds [`Reducer::reduce_rows`].
    ///
    /// # Errors
    /// As [`Reducer::sum_rows`].
    pub fn reduce_rows<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        rows: &Rows<'_, T>,
    ) -> Result<Recorded<Vec<O::Left>>> {
        self.record_pieces(op, rows)
    }

    /// Adds [`OnStream::reduce_rows_into`], to outputs that are the recording's from now on.
    ///
    /// # Errors
    /// As [`Reducer::sum_rows`]; [`Error::OtherDevice`] for outputs of another device, and
    /// [`Error::Rows`] for outputs that are not as many as the rows.
    pub fn reduce_rows_into<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        rows: &Rows<'_, T>,
        outputs: Outputs<O::Left>,
    ) -> Result<RecordedOutputs<O::Left>> {
        self.record_pieces_into(op, rows, outputs)
    }
}

impl<T: Plain> Pieces<T> for Rows<'_, T> {
    const WHAT: &'static str = "rows";

    fn refused(reason: String) -> Error {
        Error::Rows { reason }
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn values(&self) -> &Buffer<T> {
        self.buffer()
    }

    fn task(&self, code: Code, device: &Device) -> Result<Task<'static>> {
        Ok(Task::of_rows(self.job(code, device)?))
    }
}
