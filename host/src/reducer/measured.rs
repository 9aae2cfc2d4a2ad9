//! The reducer to be timed, with its own choices or with one that is tried.

use warpfold::internal::{self, Job};
use warpfold_abi::reducer::OUTPUT_BYTES;

use super::{Choice, Launch, Reducer, kept::KeptLauncher};
use crate::{
    Device, Dtype, Error, Op, Result, Stream, Value,
    device::{Allocation, Launched, read_value},
    reference::{Expected, POISON},
};

/// A reduction as the [`Reducer`] launches it, to be timed. But for its result: that stays in device
/// memory, where CUB leaves its own.
pub struct Measured {
    // Dropped first: it is in the device's context.
    launcher: KeptLauncher,
    op: Op,
    dtype: Dtype,
    n: u64,
    /// In place of the tuning's.
    choice: Option<Choice>,
    expected: Expected,
    output: Allocation,
}

impl Measured {
    /// Loads the kernels, which it shares with the reducer, and allocates a workspace. `expected` is
    /// what must come out. With a `choice` of the caller's no other runs.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a choice that the device or the PTX does not have, [`Error::NoValue`] for
    /// no elements, and those of [`Reducer::reduce`].
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

    /// The launch on elements that start at a 16-byte boundary.
    ///
    /// # Errors
    /// None but those of [`new`](Self::new).
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

    /// Whether a value is the right result of the elements at an address; of an index, the index.
    ///
    /// # Errors
    /// None but those of [`new`](Self::new) and of [`Expected::judge`].
    fn is_right(&self, input: u64, value: Value) -> Result<bool> {
        let depth = internal::depth(self.launch_at(input)?, &self.job(input));
        Ok(self.expected.judge(value, depth)?.ok)
    }

    /// Enqueues a reduction of the elements at `input`, whose result lands at `output`.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements, `output` of 16 writable bytes, 8-aligned, both on
    ///   this device; they and `self` must live until `stream` was synchronised.
    /// - All that was enqueued here since the last time that it was waited for must be on this stream,
    ///   and the wait be [`Stream::synchronize`].
    /// - When that wait fails, it must not be used again.
    pub(crate) unsafe fn launch_into(
        &mut self,
        stream: &Stream,
        input: u64,
        output: u64,
    ) -> Result<Launched> {
        let job = self.job(input);
        let (raw, recording) = (stream.raw()?, stream.is_capturing());
        // SAFETY: the launcher is used here alone, by one launch after the other; the caller's contract.
        unsafe { self.launcher.launch(&job, self.choice, raw, output, recording) }?;
        Ok(Launched::last())
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        self.output.device()
    }

    /// Type and number of the elements that it reads.
    pub fn elements(&self) -> (Dtype, u64) {
        (self.dtype, self.n)
    }

    /// Enqueues a reduction of the elements at `input`, whose result stays in memory of its own.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch fails.
    ///
    /// # Safety
    /// - `input` must be the address of the elements on this device, 16-aligned; they and `self` must
    ///   live until `stream` was synchronised.
    /// - All that was enqueued here since the last time that it was waited for must be on this stream,
    ///   and the wait be [`Stream::synchronize`].
    /// - When that wait fails, it must not be used again.
    pub unsafe fn launch(&mut self, stream: &Stream, input: u64) -> Result<()> {
        let output = self.output.address();
        // SAFETY: the output is ours; the caller answers for the rest.
        unsafe { self.launch_into(stream, input, output) }.map(drop)
    }

    /// Sets the memory of the result to what no right result consists of. Nothing runs meanwhile.
    ///
    /// # Errors
    /// [`Error::Driver`] when the memory cannot be set.
    pub fn poison(&mut self) -> Result<()> {
        self.output.fill(0, POISON, OUTPUT_BYTES)
    }

    /// Whether the last launch, on the elements at `input`, left the right result. It is over.
    ///
    /// # Errors
    /// [`Error::Driver`] when the result cannot be read, and those of [`Expected::judge`].
    pub fn check(&self, input: u64) -> Result<bool> {
        // An index comes before its element.
        let value = read_value(&self.output, 0, self.op.result(self.dtype))?;
        self.is_right(input, value)
    }
}
