//! A reducer for timing, with its own or a given launch choice.

use warpfold::internal::{self, Job};
use warpfold_abi::reducer::OUTPUT_BYTES;

use super::{Choice, Launch, Reducer, kept::KeptLauncher};
use crate::{
    Device, Dtype, Error, Op, Result, Stream, Value,
    device::{Allocation, Launched, read_value},
    reference::{Expected, POISON},
};

/// A reduction as the [`Reducer`] launches it, for timing. Unlike there, the result stays in device
/// memory, as with CUB.
pub struct Measured {
    // Dropped first: it is in the device's context.
    launcher: KeptLauncher,
    op: Op,
    dtype: Dtype,
    n: u64,
    choice: Option<Choice>,
    expected: Expected,
    output: Allocation,
}

impl Measured {
    /// Loads the kernels, which it shares with the reducer, and allocates a workspace. `expected` is the
    /// expected result. A `choice`, if given, replaces the tuning's.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a choice that the device or the PTX does not support, [`Error::NoValue`]
    /// for an empty input, and those of [`Reducer::reduce`].
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
        let launcher = KeptLauncher::new(reducer)?;
        let measured = Self { launcher, op, dtype, n, choice, expected, output };
        measured.launch_at(0)?;
        Ok(measured)
    }

    /// Returns the launch for elements that start at a 16-byte boundary.
    ///
    /// # Errors
    /// Only those of [`new`](Self::new).
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
    /// # Errors
    /// [`Error::Driver`] if the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, `output` of 16 writable bytes, 8-aligned, both on
    ///   this device; they and `self` must live until `stream` was synchronised.
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
        // SAFETY: the launcher is used only here, by one launch at a time; the caller's contract.
        unsafe { self.launcher.launch(&job, self.choice, raw, output, recording) }?;
        Ok(Launched::last())
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.output.device()
    }

    /// Returns the type and number of the elements.
    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.n)
    }

    /// Enqueues a reduction of the elements at `input`, with the result in memory of `self`.
    ///
    /// # Errors
    /// [`Error::Driver`] if the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements on this device, 16-aligned; they and `self` must
    ///   live until `stream` was synchronised.
    /// - All launches of `self` since the last wait must be on this stream, and the wait must be
    ///   [`Stream::synchronize`].
    /// - If that wait fails, `self` must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64) -> Result<()> {
        let output = self.output.address();
        // SAFETY: the output belongs to `self`; the rest is the caller's contract.
        unsafe { self.launch_into(stream, input, output) }.map(drop)
    }

    /// Fills the result's memory with bytes that no correct result has. No launch may be pending.
    ///
    /// # Errors
    /// [`Error::Driver`] if the memory cannot be set.
    pub fn poison(&mut self) -> Result<()> {
        self.output.fill(0, POISON, OUTPUT_BYTES)
    }

    /// Returns whether the last launch, on the elements at `input`, gave the correct result. It must be
    /// complete.
    ///
    /// # Errors
    /// [`Error::Driver`] if the result cannot be read, and those of [`Expected::judge`].
    pub fn check(&self, input: u64) -> Result<bool> {
        // An index is stored before its element.
        let value = read_value(&self.output, 0, self.op.result(self.dtype))?;
        self.is_right(input, value)
    }
}
