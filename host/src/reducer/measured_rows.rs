//! Reductions of the rows of a matrix, for timing.

use warpfold::internal::{self, Job, RowsLaunch};

use super::{MAX_ELEMENTS, Reducer, kept::KeptLauncher};
use crate::{Device, Dtype, Error, Op, Result, Stream};

/// A reduction of every row of a matrix as the library launches it, for timing. The results are written
/// to device memory of the caller.
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
    /// - [`Error::NoValue`] for no rows or empty rows, [`Error::TooManyElements`];
    /// - [`Error::PtxMissing`] or [`Error::PtxRejected`] if the reducer's PTX lacks the kernels;
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

    /// Returns the launch for elements that start at a 16-byte boundary; `None` for a single row, which
    /// is reduced like a buffer.
    pub fn plan(&self) -> Option<RowsLaunch> {
        let device = self.launcher.library().device();
        (self.rows > 1).then(|| internal::rows_plan(device, &self.job(0), self.len))
    }

    fn job(&self, address: u64) -> Job {
        let Self { op, dtype, rows, len, .. } = *self;
        Job { op: op.library(), dtype, n: rows * len, address }
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.launcher.device()
    }

    /// Returns the type and number of the elements.
    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.rows * self.len)
    }

    /// Enqueues a reduction of the rows at `input`, which writes consecutive results to `output`: values
    /// of [`Op::result`], or for argmin and argmax 16 bytes each: the index in the row in 64 bits, the
    /// element, and zeros.
    ///
    /// # Errors
    /// [`Error::Driver`] if the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, 16-aligned, and `output` of memory for the results
    ///   and for 16 bytes, 8-aligned, both on this device; they and `self` must live until `stream` was
    ///   synchronised.
    /// - All launches of `self` since the last wait must be on this stream, and the wait must be
    ///   [`Stream::synchronize`].
    /// - If that wait fails, `self` must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64, output: u64) -> Result<()> {
        let (job, len) = (self.job(input), self.len);
        let (raw, recording) = (stream.raw()?, stream.is_capturing());
        // SAFETY: the launcher is used only here, by one launch at a time; the caller's contract.
        Ok(unsafe { self.launcher.launch_rows(&job, len, raw, output, recording) }?)
    }
}
