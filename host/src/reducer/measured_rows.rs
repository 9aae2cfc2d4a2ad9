//! Reductions of the rows of a matrix, to be timed.

use warpfold::internal::{self, Job, RowsLaunch};

use super::{MAX_ELEMENTS, Reducer, kept::KeptLauncher};
use crate::{Device, Dtype, Error, Op, Result, Stream};

/// A reduction of every row of a matrix as the library launches it, to be timed. The results go where
/// the caller wants them in device memory.
pub struct MeasuredRows {
    launcher: KeptLauncher,
    op: Op,
    dtype: Dtype,
    rows: u64,
    len: u64,
}

impl MeasuredRows {
    /// Loads the kernels, which it shares with the reducer, and allocates a workspace, for `rows` rows
    /// of `len` elements each.
    ///
    /// # Errors
    /// - [`Error::NoValue`] for no rows or rows of no elements, [`Error::TooManyElements`];
    /// - [`Error::PtxMissing`] or [`Error::PtxRejected`] where the reducer's PTX has no such kernels;
    /// - [`Error::OutOfMemory`] and [`Error::Driver`].
    pub fn new(reducer: &Reducer, (op, dtype): (Op, Dtype), rows: u64, len: u64) -> Result<Self> {
        let n = rows.saturating_mul(len);
        if n == 0 {
            return Err(Error::NoValue { statistic: op.into() });
        }
        if n > MAX_ELEMENTS {
            return Err(Error::TooManyElements { n, most: MAX_ELEMENTS });
        }
        let launcher = KeptLauncher::new(reducer)?;
        let measured = Self { launcher, op, dtype, rows, len };
        internal::prepare_rows(measured.launcher.library(), &measured.job(0), len)?;
        Ok(measured)
    }

    /// The launch on elements that start at a 16-byte boundary; none for a single row, which is reduced
    /// as a buffer is.
    pub fn plan(&self) -> Option<RowsLaunch> {
        let device = self.launcher.library().device();
        (self.rows > 1).then(|| internal::rows_plan(device, &self.job(0), self.len))
    }

    fn job(&self, address: u64) -> Job {
        let Self { op, dtype, rows, len, .. } = *self;
        Job { op: op.library(), dtype, n: rows * len, address }
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        self.launcher.device()
    }

    /// Type and number of the elements that it reads.
    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.rows * self.len)
    }

    /// Enqueues a reduction of the rows at `input`, whose results land at `output`, one behind the
    /// other: values of [`Op::result`], or for the place of an extreme 16 bytes, the index in the row in
    /// 64 bits, the element, and zeros.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, 16-aligned, and `output` of memory for the results
    ///   and for 16 bytes, 8-aligned, both on this device; they and `self` must live until `stream` was
    ///   synchronised.
    /// - All that was enqueued here since the last time that it was waited for must be on this stream,
    ///   and the wait be [`Stream::synchronize`].
    /// - When that wait fails, it must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64, output: u64) -> Result<()> {
        let (job, len) = (self.job(input), self.len);
        let (raw, recording) = (stream.raw()?, stream.is_capturing());
        // SAFETY: the launcher is used here alone, by one launch after the other; the caller's contract.
        Ok(unsafe { self.launcher.launch_rows(&job, len, raw, output, recording) }?)
    }
}
