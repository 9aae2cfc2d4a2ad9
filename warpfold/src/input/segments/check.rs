//! The check of segment offsets.

use std::mem;

use super::OffsetsTask;
use crate::{
    Buffer, Offset, Plain, Result, Segments,
    input::Task,
    memory::Memory,
    reducer::{Reducer, require_few},
};

/// # Segments
/// Each segment of a buffer is reduced to one result, all of them by one launch. Segments have any
/// lengths: the sum of the elements and the segments is the same for each block, so that neither a few
/// long segments nor many short or empty ones leave a part of the device idle.
///
/// Segments of equal length are detected and reduced as [`Rows`](crate::Rows).
///
/// The result of an empty segment is 0 for sums, counts, L1 and L2 norms, 1 for products, NaN for means
/// and variances, −∞ for logarithms of sums, all bits set for [`BitAnd`](crate::op::BitAnd) and 0 for
/// the other bitwise operations. Minima are ∞ or the type's largest integer, maxima −∞ or its smallest
/// integer, and their indices are `u64::MAX`.
impl Reducer {
    /// Creates the segments of a buffer from offsets in device memory: segment `i` has the elements from
    /// `offsets[i]` up to, but not including, `offsets[i + 1]`, so that there is one more offset than
    /// there are segments. The first offset need not be 0, nor the last one the buffer's length.
    ///
    /// A kernel checks all offsets and prepares the division of work, and the host waits for it. Any
    /// number of reductions can follow without another check.
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
    /// - [`Error::Segments`](crate::Error::Segments) for no offsets, for offsets that descend or are not
    ///   all inside the buffer, and for more than 2^35 segments;
    /// - the errors of [`prepare`](Self::prepare), at the first use;
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
        let task = OffsetsTask::of(values, offsets)?;
        let report = Memory::new(device, task.bytes())?;
        if task.is_empty() {
            return Ok(Segments::new(values, offsets, task, report, [0, 0]));
        }
        device.clear(&report)?;
        offsets.wait_ready()?;
        let core = self.core();
        core.reclaim_finished();
        // SAFETY: the buffer of the offsets is borrowed until this returns, and there is room for the
        // report. Both are leaked below if the kernel may still run then.
        let checked = unsafe { core.reduce_into(&task, report.address()) };
        checked.map_err(|failed| {
            failed.or_keep(|| {
                report.keep_for_good();
                mem::forget((core.clone(), offsets.memory().clone()));
            })
        })?;
        Segments::checked(values, offsets, task, report)
    }
}
