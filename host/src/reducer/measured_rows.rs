//! Reductions of the rows of a matrix, for timing.

use warpfold::internal::{self, Job, RowsLaunch};

use super::{MAX_ELEMENTS, Reducer, kept::LeakOnAbandonLauncher};
use crate::{Device, Dtype, Error, Op, Result, Stream};

/// A reduction of every row of a matrix as the library launches it, for timing. The results are written
/// to the caller's device memory.
pub struct MeasuredRows {
    launcher: LeakOnAbandonLauncher,
    op: Op,
    dtype: Dtype,
    rows: u64,
    len: u64,
}

impl MeasuredRows {
    /// Loads the kernels, which it shares with the reducer, and allocates a workspace, for `rows` rows
    /// of `len` elements each.
    pub fn new(reducer: &Reducer, (op, dtype): (Op, Dtype), rows: u64, len: u64) -> Result<Self> {
        let n = rows.saturating_mul(len);
        if n == 0 {
            return Err(Error::NoValue { statistic: op.into() });
        }
        if n > MAX_ELEMENTS {
            return Err(Error::TooManyElements { n, most: MAX_ELEMENTS });
        }
        let launcher = LeakOnAbandonLauncher::new(reducer)?;
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

    pub fn device(&self) -> &Device {
        self.launcher.device()
    }

    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.rows * self.len)
    }

    /// Enqueues a reduction of the rows at `input`, which writes consecutive results to `output`. The
    /// type of a result is [`Op::result`]. For argmin and argmax, a result is 16 bytes: the index within
    /// the row as 64 bits, the element, and zeros.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, 16-aligned, and `output` that of memory for the
    ///   results and at least 16 bytes, 8-aligned, both on this device. They and `self` must live until
    ///   `stream` was synchronised.
    /// - All launches of `self` since the last wait must be on this stream, and the wait must be
    ///   [`Stream::synchronize`].
    /// - If that wait fails, `self` must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64, output: u64) -> Result<()> {
        let (job, len) = (self.job(input), self.len);
        let (raw, recording) = (stream.raw()?, stream.is_capturing());
        // SAFETY: only this call uses the launcher, since `self` is borrowed exclusively. By this
        // function's contract, `input`, `output` and `self` live until the launch is complete.
        Ok(unsafe { self.launcher.launch_rows(&job, len, raw, output, recording) }?)
    }
}
