//! Results of many rows that stay in device memory.

use std::{fmt, marker::PhantomData, sync::Arc};

use warpfold_abi::reducer::OUTPUT_BYTES;

use crate::{
    Buffer, Device, Outcome, Plain, Result, Stream,
    memory::Memory,
    stream::{Event, LastWrite},
};

/// Device memory for the results of a matrix's rows, or of segments, which work that is enqueued behind
/// it can read there. It is made by [`Device::outputs`].
///
/// The results lie one behind the other at the [address](Self::as_device_ptr). A
/// [`Located`](crate::Located) one has 16 bytes: the index as a `u64`, then the element, and zeros.
///
/// ```
/// use warpfold::{Device, Reducer, Selection};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let matrix = device.upload(&[3_i32, 4, -1, 7, 7, 7])?;
/// // The largest sum of a row, without a wait between them.
/// let mut sums = device.outputs::<i64>(2)?;
/// reducer.on(&stream).sum_rows_into(&matrix.rows(3)?, &mut sums)?;
/// let largest = reducer.on(&stream).max(&sums.into_buffer())?;
/// assert_eq!(largest.wait()?, Some(21));
/// # Ok::<(), warpfold::Error>(())
/// ```
pub struct Outputs<R> {
    memory: Arc<Memory>,
    len: usize,
    written: LastWrite,
    result: PhantomData<fn() -> R>,
}

impl<R: Outcome> Outputs<R> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        let outputs = Self::of_any_bytes(device, len)?;
        device.clear(&outputs.memory)?;
        Ok(outputs)
    }

    /// Whose bytes must be written before they are read.
    pub(crate) fn of_any_bytes(device: &Device, len: usize) -> Result<Self> {
        // A single row is reduced as a buffer is, whose result may have so many bytes.
        let bytes = (len as u64).saturating_mul(R::BYTES).max(OUTPUT_BYTES);
        let memory = Arc::new(Memory::new(device, bytes)?);
        Ok(Self { memory, len, written: LastWrite::default(), result: PhantomData })
    }

    /// The device that they are on.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first one is, a `CUdeviceptr`. They are there for what is enqueued on the reduction's
    /// stream after it, or on one that [waits](Stream::wait_for) for that.
    pub fn as_device_ptr(&self) -> u64 {
        self.memory.address()
    }

    /// Waits for the last results that were asked for, and copies them to the host.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong in the reduction or the copy.
    pub fn read(&self) -> Result<Vec<R>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        self.written.settle()?;
        // SAFETY: the results are there as long as the memory, and what wrote them is done.
        unsafe { R::copy_out(self.device(), self.as_device_ptr(), self.len) }
    }

    /// Makes a stream wait for what writes them now, so that others may follow.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("outputs", stream.device())?;
        self.written.precede(stream)
    }

    /// Says until when what was enqueued writes them, behind all uses until now.
    pub(crate) fn written_until(&mut self, end: Arc<Event>) {
        self.written = LastWrite::until(end);
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl<T: Plain> Outputs<T> {
    /// The results as elements, to be reduced or copied in their turn, on any stream: whatever reads
    /// them waits until they are there. The host does not wait here.
    pub fn into_buffer(self) -> Buffer<T> {
        Buffer::written(self.memory, self.len, self.written)
    }
}

impl<R> fmt::Debug for Outputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, len) = (self.memory.device(), self.len);
        f.debug_struct("Outputs").field("len", &len).field("device", device).finish_non_exhaustive()
    }
}
