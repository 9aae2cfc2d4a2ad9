//! Results of several rows that stay in device memory.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use crate::{
    Buffer, Device, Outcome, Plain, Result, Stream,
    buffer::require_aligned,
    memory::Memory,
    stream::{Event, LastWrite},
};

/// Device memory for the results of rows, axes, views, segments or top-k, which work enqueued after the
/// reduction can read. [`Device::outputs`] allocates it.
///
/// The results are contiguous from the [address](Self::as_device_ptr) on. A [`Located`](crate::Located)
/// result has 16 bytes: the index as a `u64`, then the element, padded with zeros.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
/// let matrix = device.upload(&[3_i32, 4, -1, 7, 7, 7])?;
/// // The largest sum of a row, without a wait after the sums.
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

    /// Returns outputs for `len` results in foreign memory of [`bytes_of`](Self::bytes_of) bytes at
    /// `address`, a `CUdeviceptr` and a multiple of 8. `owner` is dropped after the outputs and the
    /// reductions that write them.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0 or not a multiple of 8.
    ///
    /// # Safety
    /// - These bytes must be readable and writable by kernels of this device until `owner` is dropped.
    /// - While a reduction may write them, only work enqueued after it may use them. After they
    ///   [became](Self::into_buffer) a buffer, nothing may write them while it exists.
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: u64,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u64>(address, 1)?;
        // SAFETY: the caller promises that kernels can use these bytes until `owner` is dropped.
        let memory = unsafe { Memory::foreign(device, address, Self::bytes_of(len), Box::new(owner)) };
        Ok(Self::in_memory(memory, len))
    }

    /// Returns the size in bytes of the memory for `len` results, without padding between them.
    pub const fn bytes_of(len: usize) -> u64 {
        (len as u64).saturating_mul(R::BYTES)
    }

    /// Allocates uninitialized memory for `len` results.
    pub(crate) fn of_any_bytes(device: &Device, len: usize) -> Result<Self> {
        Ok(Self::in_memory(Memory::new(device, Self::bytes_of(len))?, len))
    }

    fn in_memory(memory: Memory, len: usize) -> Self {
        let (memory, written) = (Arc::new(memory), LastWrite::default());
        Self { memory, len, written, result: PhantomData }
    }

    /// Returns the device that holds the results.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Returns the number of results.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first result, a `CUdeviceptr`. The results are complete for work
    /// enqueued after the reduction on its stream, or on one that [waits](Stream::wait_for) for it.
    pub fn as_device_ptr(&self) -> u64 {
        self.memory.address()
    }

    /// Waits for the latest reduction, and copies its results to the host.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the reduction or the copy fails.
    pub fn read(&self) -> Result<Vec<R>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        self.wait_ready()?;
        // SAFETY: the results live as long as the memory, and their writes are complete.
        unsafe { R::copy_out(self.device(), self.as_device_ptr(), self.len) }
    }

    /// Returns the bytes of the results, one after the other. A [`Located`](crate::Located) result has
    /// 16 bytes: its index, then its element. [`Ends`](crate::Ends) are the minimum, then the maximum; a
    /// [`Spread`](crate::Spread) is the mean, then the variance. Readers of the bytes wait for the
    /// reduction; the host does not wait here.
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

    pub(crate) fn wait_ready(&self) -> Result<()> {
        self.written.wait_ready()
    }

    /// Makes a stream wait for the latest write, so that it can write other results.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("outputs", stream.device())?;
        self.written.precede(stream)
    }

    pub(crate) fn written_until(&mut self, end: Arc<Event>) {
        self.written = LastWrite::Until(end);
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl<T: Plain> Outputs<T> {
    /// Returns the results as elements, for further reductions or copies on any stream, which wait for
    /// the results. The host does not wait here.
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
