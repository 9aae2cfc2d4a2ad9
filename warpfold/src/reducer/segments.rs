//! Reductions of segments of a buffer: a result for each.

use std::{mem, sync::Arc};

use super::{
    Code, OnStream, Recorded, RecordedOutputs, Recorder, Reducer, Task, job::require_few, pieces::Pieces,
};
use crate::{
    Buffer, Device, Element, Error, Offset, Outputs, Plain, Result, Segments,
    memory::Memory,
    names::Op,
    op::RowsOperation,
    ptx::PiecesForm,
    segments::{Offsets, OffsetsJob},
};

/// # Segments
/// Every segment of a buffer is reduced to a result of its own, all of them by one launch. Segments have
/// any lengths: work is divided by elements and segments together, so that neither a few long segments
/// nor many short or empty ones among them leave a part of the device without work.
///
/// Segments that are found to be of one length are reduced as the [`Rows`](crate::Rows) that they are.
///
/// An empty segment has the result of no elements: 0 for sums and counts, 1 for a product, all bits for
/// those that all elements have, NaN both for mean and variance; and for extremes the value that gives
/// way to every other: for a minimum infinity or the type's largest integer, for a maximum the opposite;
/// of a located one at the index `u64::MAX`.
impl Reducer {
    /// The segments of a buffer that offsets in device memory describe: segment `i` has the elements
    /// from `offsets[i]` to before `offsets[i + 1]`, so that there is one offset more than there are
    /// segments. The first one need not be 0, nor the last one the buffer's length.
    ///
    /// A kernel looks at all offsets and notes what a reduction finds segments by; the host waits for
    /// it. Any number of reductions then do without.
    ///
    /// ```
    /// use warpfold::{Device, Reducer, Selection, op};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let reducer = Reducer::new(&device)?;
    /// let values = device.upload(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0])?;
    /// let offsets = device.upload(&[0_u32, 3, 3, 4, 6])?;
    /// let segments = reducer.segments(&values, &offsets)?;
    /// assert_eq!(reducer.reduce_segments(op::Sum, &segments)?, [7.0, 0.0, 8.0, 48.0]);
    /// let places = reducer.reduce_segments(op::ArgMax, &segments)?;
    /// assert_eq!((places[3].index, places[3].value), (1, 32.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for a buffer or offsets of another device, and
    ///   [`Error::TooManyElements`] for a buffer of more than 2^35;
    /// - [`Error::Segments`] for offsets that are none, descend, or are not all inside the buffer, and
    ///   for more than 2^35 segments;
    /// - those of [`prepare`](Self::prepare), at the first use;
    /// - [`Error::OutOfMemory`], or [`Error::Driver`] when the launch, the wait or a copy fails.
    pub fn segments<T: Plain, I: Offset>(
        &self,
        values: &Buffer<T>,
        offsets: &Buffer<I>,
    ) -> Result<Segments<T>> {
        let device = self.device();
        device.require("buffer", values.device())?;
        require_few(values.len() as u64)?;
        device.require("offsets", offsets.device())?;
        let job = OffsetsJob::of(values, offsets)?;
        let report = Memory::new(device, job.bytes())?;
        let task = Task::Offsets(job);
        if task.is_empty() {
            return Ok(Segments::new(values, offsets, job, report, [0, 0]));
        }
        device.clear(&report)?;
        offsets.settle()?;
        let core = self.core();
        core.sweep();
        // SAFETY: the offsets are those of the buffer, which is borrowed until this returns, and there
        // is room for the report. They are kept below where that is not enough.
        let looked = unsafe { core.reduce_into(&task, report.address()) };
        looked.map_err(|failed| {
            failed.or_keep(|| {
                report.keep_for_good();
                mem::forget((core.clone(), offsets.memory().clone()));
            })
        })?;
        Segments::checked(values, offsets, job, report)
    }

    /// Loads the kernels for segments of a type, for all operations, as the first reduction of each
    /// otherwise does, and that of [`segments`](Self::segments). Segments of one length take those of
    /// [`prepare_rows`](Self::prepare_rows).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_segments<T: Element>(&self) -> Result<()> {
        let kernels = self.core().kernels();
        kernels.prepare_offsets()?;
        let ops = Op::ALL.iter().filter(|op| op.takes(T::DTYPE));
        ops.into_iter().try_for_each(|&op| kernels.prepare_pieces(PiecesForm::Segments, op, T::DTYPE))
    }

    /// The result of any [operation](crate::op) but the wrapping sum, of every segment.
    ///
    /// # Errors
    /// - [`Error::OtherDevice`] for segments of another device;
    /// - those of [`prepare_segments`](Self::prepare_segments), at the first use of an operation and
    ///   type;
    /// - [`Error::OutOfMemory`] where there is no room for the results;
    /// - [`Error::Driver`] when the launch, the wait or the copy fails.
    pub fn reduce_segments<T: Plain, O: RowsOperation<T>>(
        &self,
        op: O,
        segments: &Segments<T>,
    ) -> Result<Vec<O::Left>> {
        self.reduce_pieces(op, segments)
    }
}

/// # Segments
/// What this leaves in device memory is there for what is enqueued behind it. The segments' elements and
/// offsets and the outputs are kept until it is done.
impl OnStream<'_> {
    /// Leaves the result of any [operation](crate::op) but the wrapping sum, of every segment, in device
    /// memory.
    ///
    /// # Errors
    /// - As [`Reducer::reduce_segments`], and [`Error::OtherDevice`] for a stream or outputs of another
    ///   device;
    /// - [`Error::Segments`] for outputs that are not as many as the segments, and after
    ///   [`counted`](Self::counted), which counts elements.
    pub fn reduce_segments_into<T: Plain, O: RowsOperation<T>>(
        self,
        op: O,
        segments: &Segments<T>,
        outputs: &mut Outputs<O::Left>,
    ) -> Result<()> {
        self.reduce_pieces_into(op, segments, outputs)
    }
}

/// # Segments
/// A replay reduces every segment to a result of its own.
impl Recorder {
    /// Adds [`Reducer::reduce_segments`].
    ///
    /// # Errors
    /// As [`Reducer::reduce_segments`].
    pub fn reduce_segments<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        segments: &Segments<T>,
    ) -> Result<Recorded<Vec<O::Left>>> {
        self.record_pieces(op, segments)
    }

    /// Adds [`OnStream::reduce_segments_into`], to outputs that are the recording's from now on.
    ///
    /// # Errors
    /// As [`Reducer::reduce_segments`]; [`Error::OtherDevice`] for outputs of another device, and
    /// [`Error::Segments`] for outputs that are not as many as the segments.
    pub fn reduce_segments_into<T: Plain, O: RowsOperation<T>>(
        &mut self,
        op: O,
        segments: &Segments<T>,
        outputs: Outputs<O::Left>,
    ) -> Result<RecordedOutputs<O::Left>> {
        self.record_pieces_into(op, segments, outputs)
    }
}

impl<T: Plain> Pieces<T> for Segments<T> {
    const WHAT: &'static str = "segments";

    fn refused(reason: String) -> Error {
        Error::Segments { reason }
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn values(&self) -> &Buffer<T> {
        self.buffer()
    }

    fn offsets(&self) -> Option<&Arc<Offsets>> {
        Some(self.offsets())
    }

    fn task(&self, code: Code, device: &Device) -> Result<Task<'static>> {
        device.require("buffer", self.buffer().device())?;
        code.require_device(device)?;
        Ok(Task::of_segments(self.job(code)))
    }
}
