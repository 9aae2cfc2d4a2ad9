//! Reductions along any axes of a view: a result for each position on the others.

use super::{
    Code, OnStream, Recorded, RecordedOutputs, Recorder, Reducer, Task,
    pieces::{Many, Pieces},
};
use crate::{
    Buffer, Device, Element, Error, Outcome, Outputs, Plain, Result, View, names::Op, op::RowsOperation,
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
/// former but the one that is furthest apart. [`Reducer::reduce_view`] alone takes more axes, of a view
/// without gaps: it copies the elements on the device first, once for each run of neighbouring reduced
/// axes, and reduces the rows of the last copy.
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
        let along = view.along(axes)?;
        if along.count() > 0 && !along.has_few_axes(op.code().is_indexed()) {
            // As words of the elements' size, whose bits none of these changes.
            let gathered = match size_of::<T>() {
                1 => self.gathered::<T, u8>(&along),
                2 => self.gathered::<T, u16>(&along),
                4 => self.gathered::<T, u32>(&along),
                8 => self.gathered::<T, u64>(&along),
                _ => Ok(None),
            };
            if let Some(rows) = gathered? {
                return self.reduce_rows(op, &rows.rows(rows.len() / along.count())?);
            }
        }
        self.reduce_pieces(op, &along)
    }

    /// Copies elements so that those of each result are side by side, which must be words of type `W`;
    /// none if the kernels do not take a step of that, either.
    ///
    /// Each step moves neighbouring axes along which is reduced behind all others. Of an array without
    /// gaps there are then three axes: those before them, those after them, and they themselves.
    fn gathered<T: Plain, W: Element + Outcome>(
        &self,
        along: &Along<'_, T>,
    ) -> Result<Option<Buffer<T>>> {
        let (view, reduced) = along.parts();
        let mut words = view.buffer().cast::<W>()?;
        let (mut lens, mut reduced) = (view.shape().to_vec(), reduced.to_vec());
        let strides: Vec<isize> = view.strides().iter().map(|&stride| stride as isize).collect();
        let mut copied = false;
        let mut left = reduced.iter().filter(|&&reduced| reduced).count();
        while left > 0 {
            let whole = match copied {
                true => words.view(&lens)?,
                false => words.view_strided(view.offset(), &lens, &strides)?,
            };
            let first = reduced.iter().position(|&reduced| reduced).expect("some are left");
            let count = reduced[first..].iter().take_while(|&&reduced| reduced).count().min(left);
            let order = |axes: std::ops::Range<usize>| axes.collect::<Vec<_>>();
            let order = [order(0..first), order(first + count..lens.len()), order(first..first + count)]
                .concat();
            let moved = whole.permuted(&order)?.each();
            if !moved.has_few_axes(false) {
                return Ok(None);
            }
            let many = Many::of(&moved, Code::BuiltIn(Op::Max, W::DTYPE), self.device())?;
            let copy = self.reduce_to_outputs::<W, W>(&many)?.into_buffer();
            (words, copied, left) = (copy, true, left - count);
            lens = order.iter().map(|&axis| lens[axis]).collect();
            reduced = order.iter().map(|&axis| reduced[axis]).collect();
        }
        words.cast::<T>().map(Some)
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
