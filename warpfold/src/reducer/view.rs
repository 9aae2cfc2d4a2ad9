//! Reductions along any axes of a view: a result for each position on the others.

use super::{Code, OnStream, Recorded, RecordedOutputs, Recorder, Reducer, Task, pieces::Pieces};
use crate::{
    Buffer, Device, Element, Error, Outputs, Plain, Result, View, names::Op, op::RowsOperation,
    ptx::PiecesForm, view::Along,
};

/// # Views
/// The elements along any set of a view's axes are reduced to a result for each position on the others,
/// in the order that these have in the view, all of them by one launch.
///
/// Where a view's strides make its elements [rows](crate::Rows) or an [axis](crate::Axis) of matrices,
/// however far these are apart, it is their kernels that run; and where they lie as those do, one behind
/// the other, the results have the same bits. All other strides have kernels of their own. Axes whose
/// elements lie one behind the other count as one. In the end at most three axes along which is reduced
/// and three others may be left, with no more than 2^31 results, and as many positions on each of the
/// former but the one that is furthest apart.
impl Reducer {
    /// Loads the kernels for views of a type, for all operations, as the first reduction of each
    /// otherwise does. Views that are rows or an axis of matrices take those of
    /// [`prepare_rows`](Self::prepare_rows) and [`prepare_axis`](Self::prepare_axis).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_view<T: Element>(&self) -> Result<()> {
        let mut ops = Op::ALL.iter().filter(|op| op.takes(T::DTYPE));
        ops.try_for_each(|&op| self.core().kernels().prepare_pieces(PiecesForm::View, op, T::DTYPE))
    }

    /// The result of any [operation](crate::op) but the wrapping sum, of the elements along some of a
    /// view's axes, for each position on its other axes. The index of a place counts the positions on
    /// the former in the order that these axes have in the view, the last one fastest.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let reducer = Reducer::new(&device)?;
    /// // Two images of two rows of two pixels of three colours.
    /// let values: Vec<u8> = (0..24).map(|i| i * 7 % 24).collect();
    /// let buffer = device.upload(&values)?;
    /// let images = buffer.view(&[2, 2, 2, 3])?;
    /// // The brightest of each colour over all images, and where it is: image, row and column.
    /// let brightest = reducer.reduce_view(op::ArgMax, &images, &[0, 1, 2])?;
    /// assert_eq!((brightest[1].index, brightest[1].value), (3, 22));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::View`] for an axis that there is not, or that is named twice; for none; for axes of no
    ///   positions where there are results; and for more axes than are said above;
    /// - as [`sum_rows`](Self::sum_rows).
    pub fn reduce_view<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        view: &View<'_, T>,
        axes: &[usize],
    ) -> Result<Vec<O::Left>> {
        self.reduce_pieces(op, &view.along(axes)?)
    }
}

/// # Views
/// What these leave in device memory is there for what is enqueued behind them. The elements and the
/// outputs are kept until it is done.
impl OnStream<'_> {
    /// Leaves what [`Reducer::reduce_view`] gives in device memory, in as many outputs as
    /// [`View::results`] says.
    ///
    /// # Errors
    /// - As [`Reducer::reduce_view`], and [`Error::OtherDevice`] for a stream or outputs of another
    ///   device;
    /// - [`Error::View`] for outputs that are not as many as the results, and after
    ///   [`counted`](Self::counted), which counts elements.
    pub fn reduce_view_into<T: Plain, O: RowsOperation<T>>(
        self,
        op: O,
        view: &View<'_, T>,
        axes: &[usize],
        outputs: &mut Outputs<O::Left>,
    ) -> Result<()> {
        self.reduce_pieces_into(op, &view.along(axes)?, outputs)
    }
}

/// # Views
/// A replay reduces the elements along some of a view's axes, for each position on the other axes.
impl Recorder {
    /// Adds [`Reducer::reduce_view`].
    ///
    /// # Errors
    /// As [`Reducer::reduce_view`].
    pub fn reduce_view<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        view: &View<'_, T>,
        axes: &[usize],
    ) -> Result<Recorded<Vec<O::Left>>> {
        self.record_pieces(op, &view.along(axes)?)
    }

    /// Adds [`OnStream::reduce_view_into`], to outputs that are the recording's from now on.
    ///
    /// # Errors
    /// As [`Reducer::reduce_view`]; [`Error::OtherDevice`] for outputs of another device, and
    /// [`Error::View`] for outputs that are not as many as the results.
    pub fn reduce_view_into<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        view: &View<'_, T>,
        axes: &[usize],
        outputs: Outputs<O::Left>,
    ) -> Result<RecordedOutputs<O::Left>> {
        self.record_pieces_into(op, &view.along(axes)?, outputs)
    }
}

impl<T: Plain> Pieces<T> for Along<'_, T> {
    const WHAT: &'static str = "results of a view";

    fn refused(reason: String) -> Error {
        Error::View { reason }
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn values(&self) -> &Buffer<T> {
        self.buffer()
    }

    fn task(&self, code: Code, device: &Device) -> Result<Task<'static>> {
        self.task(code, device)
    }
}
