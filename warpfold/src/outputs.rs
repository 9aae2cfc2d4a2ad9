//! Results of many rows that stay in device memory.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use warpfold_abi::reducer::OUTPUT_BYTES;

use crate::{
    Buffer, Device, Outcome, Plain, Result, Stream,
    buffer::require_aligned,
    memory::Memory,
    stream::{Event, LastWrite},
};

/// Device memory for the results of rows, axes, views, segments or top-k, which work enqueued after the
/// reduction can read. It is made by [`Device::outputs`].
///
/// The results lie one behind the other at the [address](Self::as_device_ptr). A
/// [`Located`](crate::Located) one has 16 bytes: the index as a `u64`, then the element, and zeros.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let matrix = device.upload(&[3_i32, 4, -1, 7, 7, 7])?;
/// // The largest sum of a row, without a wait between them.
/// let mut sums = device.outputs::<i64>(2)?;
/// reducer.on(&stream).reduce_into(op::Sum, &matrix.rows(3)?, &mut sums)?;
/// let largest = reducer.on(&stream).reduce(op::Max, &sums.into_buffer())?;
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

    /// Memory of somebody else's for `len` results: as many bytes as [`bytes_of`](Self::bytes_of)
    /// says, at `address`, a `CUdeviceptr` and a multiple of 8. `owner` is kept as long as this and the
    /// reductions that write it.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0, or no multiple of 8.
    ///
    /// # Safety
    /// - These bytes must be readable and writable there by kernels of this device, until `owner` is
    ///   dropped.
    /// - While a reduction may write them, nothing else may use them, but what is enqueued behind it;
    ///   and while a buffer that they [became](Self::into_buffer) is there, nothing may write them.
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: u64,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u64>(address, 1)?;
        // SAFETY: the caller's contract.
        let memory = unsafe { Memory::foreign(device, address, Self::bytes_of(len), Box::new(owner)) };
        Ok(Self::in_memory(memory, len))
    }

    /// Bytes of memory that `len` results take.
    pub const fn bytes_of(len: usize) -> u64 {
        let bytes = (len as u64).saturating_mul(R::BYTES);
        // A single row is reduced as a buffer is, whose result may have `OUTPUT_BYTES` bytes.
        if bytes < OUTPUT_BYTES { OUTPUT_BYTES } else { bytes }
    }

    /// Whose bytes must be written before they are read.
    pub(crate) fn of_any_bytes(device: &Device, len: usize) -> Result<Self> {
        Ok(Self::in_memory(Memory::new(device, Self::bytes_of(len))?, len))
    }

    fn in_memory(memory: Memory, len: usize) -> Self {
        let (memory, written) = (Arc::new(memory), LastWrite::default());
        Self { memory, len, written, result: PhantomData }
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
        self.settle()?;
        // SAFETY: the results are there as long as the memory, and what wrote them is done.
        unsafe { R::copy_out(self.device(), self.as_device_ptr(), self.len) }
    }

    /// The bytes of the results, as they lie one behind the other: of a [`Located`](crate::Located) one
    /// the index and the element in 16, of [`Ends`](crate::Ends) the smaller and the larger, of a
    /// [`Spread`](crate::Spread) the mean and the variance. Whatever reads them waits until they are
    /// there; the host does not wait here.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let matrix = device.upload(&[3_i64, 9, -1, 7])?;
    /// let mut places = device.outputs(2)?;
    /// reducer.on(&stream).reduce_into(op::ArgMax, &matrix.rows(2)?, &mut places)?;
    /// assert_eq!(places.into_bytes().cast::<i64>()?.download()?, [1, 9, 1, 7]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub fn into_bytes(self) -> Buffer<u8> {
        let bytes = self.len * R::BYTES as usize;
        Buffer::written(self.memory, bytes, self.written)
    }

    /// Waits until what writes them now is done.
    pub(crate) fn settle(&self) -> Result<()> {
        self.written.settle()
    }

    /// Makes a stream wait for what writes them now, so that others may follow.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("outputs", stream.device())?;
        self.written.precede(stream)
    }

    /// Says until when what was enqueued writes them, behind all uses until now.
    pub(crate) fn written_until(&mut self, end: Arc<Event>) {
        self.written = LastWrite::Until(end);
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
