//! The check of segments' offsets.

use std::mem;

use super::OffsetsTask;
use crate::{
    Buffer, Offset, Plain, Result, Segments,
    input::Task,
    memory::Memory,
    reducer::{Reducer, require_few},
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
    /// assert_eq!(reducer.reduce(op::Sum, &segments)?, [7.0, 0.0, 8.0, 48.0]);
    /// let places = reducer.reduce(op::ArgMax, &segments)?;
    /// assert_eq!((places[3].index, places[3].value), (1, 32.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) for a buffer or offsets of another device,
    ///   and [`Error::TooManyElements`](crate::Error::TooManyElements) for a buffer of more than 2^35;
    /// - [`Error::Segments`](crate::Error::Segments) for offsets that are none, descend, or are not
    ///   all inside the buffer, and for more than 2^35 segments;
    /// - those of [`prepare`](Self::prepare), at the first use;
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory), or
    ///   [`Error::Driver`](crate::Error::Driver) when the launch, the wait or a copy fails.
    pub fn segments<T: Plain, I: Offset>(
        &self,
        values: &Buffer<T>,
        offsets: &Buffer<I>,
    ) -> Result<Segments<T>> {
        let device = self.device();
        device.require("buffer", values.device())?;
        require_few(values.len() as u64)?;
        device.require("offsets", offsets.device())?;
        let job = OffsetsTask::of(values, offsets)?;
        let report = Memory::new(device, job.bytes())?;
        if job.is_empty() {
            return Ok(Segments::new(values, offsets, job, report, [0, 0]));
        }
        device.clear(&report)?;
        offsets.settle()?;
        let core = self.core();
        core.sweep();
        // SAFETY: the offsets are those of the buffer, which is borrowed until this returns, and there
        // is room for the report. They are kept below where that is not enough.
        let looked = unsafe { core.reduce_into(&job, report.address()) };
        looked.map_err(|failed| {
            failed.or_keep(|| {
                report.keep_for_good();
                mem::forget((core.clone(), offsets.memory().clone()));
            })
        })?;
        Segments::checked(values, offsets, job, report)
    }
}
