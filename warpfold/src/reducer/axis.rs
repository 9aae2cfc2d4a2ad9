//! Reductions along an axis of an array: a result for each position on the others.

use super::{Code, OnStream, Recorded, RecordedOutputs, Recorder, Reducer, Task, pieces::Pieces};
use crate::{
    Axis, Buffer, Device, Element, Error, Outputs, Plain, Result, names::Op, op::RowsOperation,
    ptx::PiecesForm,
};

/// # Axes
/// The elements along an axis of an array, or along several neighbouring ones, are reduced to a result
/// for each position on the others, all of them by one launch. Where the axis is the array's last one,
/// this is what reductions of [rows](crate::Rows) do.
impl Reducer {
    /// Loads the kernels for axes of a type, for all operations, as the first reduction of each
    /// otherwise does. An array's last axis takes those of [`prepare_rows`](Self::prepare_rows).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_axis<T: Element>(&self) -> Result<()> {
        let mut ops = Op::ALL.iter().filter(|op| op.takes(T::DTYPE));
        ops.try_for_each(|&op| self.core().kernels().prepare_pieces(PiecesForm::Axis, op, T::DTYPE))
    }

    /// The result of any [operation](crate::op) but the wrapping sum, of the elements along an axis, for
    /// each position on the other axes. The index of a place is the position on the axis.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// let matrix = device.upload(&[2.0_f32, 1.0, 5.0, 3.0, 9.0, 4.0])?;
    /// let largest = reducer.reduce_axis(op::ArgMax, &matrix.columns(3)?)?;
    /// assert_eq!((largest[1].index, largest[1].value), (1, 9.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sum_rows`](Self::sum_rows).
    pub fn reduce_axis<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        axis: &Axis<'_, T>,
    ) -> Result<Vec<O::Left>> {
        self.reduce_pieces(op, axis)
    }
}

/// # Axes
/// What these leave in device memory is there for what is enqueued behind them. The elements and the
/// outputs are kept until it is done.
impl OnStream<'_> {
    /// Leaves the result of any [operation](crate::op) but the wrapping sum, of the elements along an
    /// axis, in device memory, for each position on the other axes.
    ///
    /// # Errors
    /// - As [`Reducer::sum_rows`], and [`Error::OtherDevice`] for a stream or outputs of another device;
    /// - [`Error::Axis`] for outputs that are not as many as the results, and after
    ///   [`counted`](Self::counted), which counts elements.
    pub fn reduce_axis_into<T: Plain, O: RowsOperation<T>>(
        self,
        op: O,
        axis: &Axis<'_, T>,
        outputs: &mut Outputs<O::Left>,
    ) -> Result<()> {
        self.reduce_pieces_into(op, axis, outputs)
    }
}

/// # Axes
/// A replay reduces the elements along an axis, for each position on the other axes.
impl Recorder {
    /// Adds [`Reducer::reduce_axis`].
    ///
    /// # Errors
    /// As [`Reducer::reduce_axis`].
    pub fn reduce_axis<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        axis: &Axis<'_, T>,
    ) -> Result<Recorded<Vec<O::Left>>> {
        self.record_pieces(op, axis)
    }

    /// Adds [`OnStream::reduce_axis_into`], to outputs that are the recording's from now on.
    ///
    /// # Errors
    /// As [`Reducer::reduce_axis`]; [`Error::OtherDevice`] for outputs of another device, and
    /// [`Error::Axis`] for outputs that are not as many as the results.
    pub fn reduce_axis_into<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        axis: &Axis<'_, T>,
        outputs: Outputs<O::Left>,
    ) -> Result<RecordedOutputs<O::Left>> {
        self.record_pieces_into(op, axis, outputs)
    }
}

impl<T: Plain> Pieces<T> for Axis<'_, T> {
    const WHAT: &'static str = "results of an axis";

    fn refused(reason: String) -> Error {
        Error::Axis { reason }
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn values(&self) -> &Buffer<T> {
        self.buffer()
    }

    fn task(&self, code: Code, device: &Device) -> Result<Task<'static>> {
        Ok(Task::of_axis(self.job(code, device)?))
    }
}
