//! A reduction of a buffer as the reducer launches it, for timing.

use warpfold::internal::{self, Job};
use warpfold_abi::reducer::OUTPUT_BYTES;

use super::{Choice, Launch, Reducer, kept::LeakOnAbandonLauncher};
use crate::{
    Device, Dtype, Error, Op, Result, Stream, Value,
    device::{Allocation, Launched, read_value},
    reference::{Expected, POISON},
};

/// A reduction as the [`Reducer`] launches it, for timing. The result stays in device memory, as with
/// CUB.
pub struct Measured {
    // Dropped first, because it belongs to the device's context.
    launcher: LeakOnAbandonLauncher,
    op: Op,
    dtype: Dtype,
    n: u64,
    choice: Option<Choice>,
    expected: Expected,
    output: Allocation,
}

impl Measured {
    /// Loads the kernels, which are shared with the reducer, and allocates a workspace. `expected` is
    /// the expected result. A `choice` replaces that of the reducer's tuning.
    pub fn new(
        reducer: &Reducer,
        (op, dtype, n): (Op, Dtype, u64),
        choice: Option<Choice>,
        expected: Expected,
    ) -> Result<Self> {
        if n == 0 {
            return Err(Error::NoValue { statistic: op.into() });
        }
        let output = reducer.device().allocate(OUTPUT_BYTES)?;
        let launcher = LeakOnAbandonLauncher::new(reducer)?;
        let measured = Self { launcher, op, dtype, n, choice, expected, output };
        measured.launch_at(0)?;
        Ok(measured)
    }

    /// Returns the launch for elements that start at a 16-byte boundary.
    pub fn plan(&self) -> Result<Launch> {
        self.launch_at(0)
    }

    fn launch_at(&self, address: u64) -> Result<Launch> {
        Ok(internal::plan(self.launcher.library(), &self.job(address), self.choice)?)
    }

    fn job(&self, address: u64) -> Job {
        let Self { op, dtype, n, .. } = *self;
        Job { op: op.library(), dtype, n, address }
    }

    fn is_right(&self, input: u64, value: Value) -> Result<bool> {
        let depth = internal::depth(self.launch_at(input)?, &self.job(input));
        Ok(self.expected.judge(value, depth)?.ok)
    }

    /// Enqueues a reduction of the elements at `input`, which writes the result to `output`.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, and `output` that of 16 writable bytes, 8-aligned,
    ///   both on this device. They and `self` must live until `stream` was synchronised.
    /// - All launches of `self` since the last wait must be on this stream, and the wait must be
    ///   [`Stream::synchronize`].
    /// - If that wait fails, `self` must not be used again.
    pub(crate) unsafe fn launch_into(
        &mut self,
        stream: &Stream,
        input: u64,
        output: u64,
    ) -> Result<Launched> {
        let job = self.job(input);
        let (raw, recording) = (stream.raw()?, stream.is_capturing());
        // SAFETY: only this call uses the launcher, since `self` is borrowed exclusively. By this
        // function's contract, `input`, `output` and `self` live until the launch is complete.
        unsafe { self.launcher.launch(&job, self.choice, raw, output, recording) }?;
        Ok(Launched::last())
    }

    pub fn device(&self) -> &Device {
        self.output.device()
    }

    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.n)
    }

    /// Enqueues a reduction of the elements at `input`, with the result in memory of `self`.
    ///
    /// # Safety
    /// - `input` must be the address of the elements on this device, 16-aligned. They and `self` must
    ///   live until `stream` was synchronised.
    /// - All launches of `self` since the last wait must be on this stream, and the wait must be
    ///   [`Stream::synchronize`].
    /// - If that wait fails, `self` must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64) -> Result<()> {
        let output = self.output.address();
        // SAFETY: `self` owns the output. By this function's contract, `input` and `self` live until the
        // launch is complete, and the launches are on one stream.
        unsafe { self.launch_into(stream, input, output) }.map(drop)
    }

    /// Fills the result's memory with a byte that no correct result has. No launch may be pending.
    pub fn poison(&mut self) -> Result<()> {
        self.output.fill(0, POISON, OUTPUT_BYTES)
    }

    /// Returns whether the last launch, which must be complete, reduced the elements at `input`
    /// correctly.
    pub fn check(&self, input: u64) -> Result<bool> {
        // The output of an index operation begins with the index.
        let value = read_value(&self.output, 0, self.op.result(self.dtype))?;
        self.is_right(input, value)
    }
}
