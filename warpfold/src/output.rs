//! Results that stay in device memory.

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use warpfold_abi::reducer::OUTPUT_BYTES;

use crate::{
    Buffer, Count, Device, Outcome, Result, Stream,
    buffer::require_aligned,
    element::Words,
    memory::Memory,
    stream::{Event, LastWrite},
};

/// Device memory for one result, which work enqueued after the reduction can read. [`Device::output`]
/// allocates it.
///
/// The result is stored at the [address](Self::as_device_ptr). A [`Located`](crate::Located) result is
/// the index as a `u64`, with the element at offset 8; [`Ends`](crate::Ends) are the minimum and then
/// the maximum, and a [`Spread`](crate::Spread) is the mean and then the variance.
pub struct Output<R> {
    memory: Arc<Memory>,
    written: LastWrite,
    /// Completion events of the work that has read the result as a count since the last write.
    reads: Mutex<Vec<Arc<Event>>>,
    result: PhantomData<fn() -> R>,
}

impl<R: Outcome> Output<R> {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let memory = Memory::new(device, Self::BYTES)?;
        device.clear(&memory)?;
        Ok(Self::in_memory(memory))
    }

    const BYTES: u64 = if R::BYTES > OUTPUT_BYTES { R::BYTES } else { OUTPUT_BYTES };

    /// Returns an output in foreign memory at `address`, a `CUdeviceptr` and a multiple of 8: 16 bytes,
    /// or the size of the result if that is larger. `owner` is dropped after the output and the
    /// reductions that write it.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0 or not a multiple of 8.
    ///
    /// # Safety
    /// - These bytes must be readable and writable by kernels of this device until `owner` is dropped.
    /// - While a reduction may write them, only work enqueued after it may use them.
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: u64,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u64>(address, 1)?;
        // SAFETY: the caller promises that kernels can use these bytes until `owner` is dropped.
        let memory = unsafe { Memory::foreign(device, address, Self::BYTES, Box::new(owner)) };
        Ok(Self::in_memory(memory))
    }

    fn in_memory(memory: Memory) -> Self {
        let (memory, written, reads) = (Arc::new(memory), LastWrite::default(), Mutex::default());
        Self { memory, written, reads, result: PhantomData }
    }

    /// Returns the device that holds the result.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Returns the address of the result, a `CUdeviceptr`. The result is complete for work enqueued
    /// after the reduction on its stream, or on one that [waits](Stream::wait_for) for it.
    pub fn as_device_ptr(&self) -> u64 {
        self.memory.address()
    }

    /// Waits for the latest reduction, and copies its result to the host.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the reduction or the copy fails.
    pub fn read(&self) -> Result<R> {
        self.written.wait_ready()?;
        // SAFETY: the result lives as long as the memory, and its writes are complete.
        let results = unsafe { R::copy_out(self.device(), self.as_device_ptr(), 1) }?;
        Ok(results[0])
    }

    pub(crate) fn words(&self) -> Result<Words> {
        self.written.wait_ready()?;
        let mut words = Words::default();
        let bytes = self.memory.bytes().min(size_of_val(&words) as u64);
        // SAFETY: the memory has these words, and their writes are complete.
        let there = unsafe {
            self.device().copy_out::<u64>(self.as_device_ptr(), bytes as usize / size_of::<u64>())
        }?;
        words[..there.len()].copy_from_slice(&there);
        Ok(words)
    }

    /// Returns the bytes of the result, like [`Outputs::into_bytes`](crate::Outputs::into_bytes).
    /// Readers of the bytes wait for the reduction; the host does not wait here.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let mut sum = device.output()?;
    /// reducer.on(&stream).reduce_into(op::Sum, &device.upload(&[3_i64, 9])?, &mut sum)?;
    /// assert_eq!(sum.into_bytes().cast::<i64>()?.download()?, [12]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub fn into_bytes(self) -> Buffer<u8> {
        Buffer::written(self.memory, R::BYTES as usize, self.written)
    }

    /// Waits for earlier writes, and for launches that read the result as a count.
    pub(crate) fn wait_ready(&self) -> Result<()> {
        self.written.wait_ready()?;
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().try_for_each(|end| end.wait_out().map_err(|failed| failed.error))
    }

    /// Makes a stream wait for all uses so far, so that it can write another result.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("output", stream.device())?;
        self.precede_reads(stream)?;
        self.wait_for_reads_on(stream)
    }

    /// Makes a stream of any device wait for all reads so far.
    pub(crate) fn wait_for_reads_on(&self, stream: &Stream) -> Result<()> {
        self.device().require_process()?;
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().try_for_each(|end| end.precede(stream))
    }

    /// Makes a stream of any device wait for the latest write.
    pub(crate) fn precede_reads(&self, stream: &Stream) -> Result<()> {
        self.written.precede(stream)
    }

    pub(crate) fn read_until(&self, end: &Arc<Event>) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished events are dropped, so that they do not accumulate while the result is only read.
        reads.retain(|end| !end.is_done().unwrap_or(false));
        reads.push(end.clone());
    }

    pub(crate) fn written_until(&mut self, end: Arc<Event>) {
        self.written(LastWrite::Until(end));
    }

    pub(crate) fn written(&mut self, last: LastWrite) {
        self.written = last;
        self.reads.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Output<u64> {
    /// Returns the result as a number of elements for [counted](Buffer::counted) reductions, which use
    /// the latest result.
    ///
    /// ```
    /// # use warpfold::{Device, Reducer, Selection, op};
    /// # let device = Device::open(Selection::Sim)?;
    /// # let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
    /// let mut ones = device.output::<u64>()?;
    /// reducer.on(&stream).reduce_into(op::Sum, &device.upload(&[1_u8, 0, 1, 1])?, &mut ones)?;
    /// let values = device.upload(&[0.5_f32, 2.0, 8.0, 100.0])?;
    /// let count = ones.as_count();
    /// let largest = reducer.on(&stream).reduce(op::Max, values.counted(&count))?;
    /// assert_eq!(largest.wait()?, Some(8.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    pub fn as_count(&self) -> Count<'_> {
        Count::of_result(self)
    }
}

impl<R> fmt::Debug for Output<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("device", self.memory.device()).finish_non_exhaustive()
    }
}
