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

/// Device memory for one result, which work that is enqueued behind it can read there.
///
/// Of a value it has the bytes at its [address](Self::as_device_ptr). Of a [`Located`](crate::Located)
/// one it has the index as a `u64`, and 8 bytes behind it the element.
pub struct Output<R> {
    memory: Arc<Memory>,
    written: LastWrite,
    /// The ends of what has read it as a count since.
    reads: Mutex<Vec<Arc<Event>>>,
    result: PhantomData<fn() -> R>,
}

impl<R: Outcome> Output<R> {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let memory = Memory::new(device, Self::BYTES)?;
        device.clear(&memory)?;
        Ok(Self::in_memory(memory))
    }

    /// Bytes of its memory.
    const BYTES: u64 = if R::BYTES > OUTPUT_BYTES { R::BYTES } else { OUTPUT_BYTES };

    /// Memory of somebody else's: 16 bytes, or as many as the result has if those are more, at
    /// `address`, a `CUdeviceptr` and a multiple of 8. `owner`
    /// is kept as long as this and the reductions that write it.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) for an address that is 0, or no multiple of 8.
    ///
    /// # Safety
    /// - These bytes must be readable and writable there by kernels of this device, until `owner` is
    ///   dropped.
    /// - While a reduction may write them, nothing else may use them, but what is enqueued behind it.
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: u64,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        require_aligned::<u64>(address, 1)?;
        // SAFETY: the caller's contract.
        let memory = unsafe { Memory::foreign(device, address, Self::BYTES, Box::new(owner)) };
        Ok(Self::in_memory(memory))
    }

    fn in_memory(memory: Memory) -> Self {
        let (memory, written, reads) = (Arc::new(memory), LastWrite::default(), Mutex::default());
        Self { memory, written, reads, result: PhantomData }
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Where the result is, a `CUdeviceptr`. It is there for what is enqueued on the reduction's stream
    /// after it, or on one that [waits](Stream::wait_for) for that.
    pub fn as_device_ptr(&self) -> u64 {
        self.memory.address()
    }

    /// Waits for the last result that was asked for, and copies it to the host.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong in the reduction or the copy.
    pub fn read(&self) -> Result<R> {
        self.written.settle()?;
        // SAFETY: the result is there as long as the memory, and what wrote it is done.
        let results = unsafe { R::copy_out(self.device(), self.as_device_ptr(), 1) }?;
        Ok(results[0])
    }

    /// The same as words.
    pub(crate) fn words(&self) -> Result<Words> {
        self.written.settle()?;
        let mut words = Words::default();
        let bytes = self.memory.bytes().min(size_of_val(&words) as u64);
        // SAFETY: as of `read`.
        let there = unsafe {
            self.device().copy_out::<u64>(self.as_device_ptr(), bytes as usize / size_of::<u64>())
        }?;
        words[..there.len()].copy_from_slice(&there);
        Ok(words)
    }

    /// The bytes of the result, as those of [`Outputs`](crate::Outputs::into_bytes): whatever reads them
    /// waits until they are there; the host does not wait here.
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

    /// Waits for earlier writes, and for the launches that read the result as a count.
    pub(crate) fn settle(&self) -> Result<()> {
        self.written.settle()?;
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().try_for_each(|end| end.wait_out().map_err(|failed| failed.error))
    }

    /// Makes a stream wait for what uses it now, so that another result may follow.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.device().require("output", stream.device())?;
        self.precede_reads(stream)?;
        self.precede_behind_readers(stream)
    }

    /// Makes a stream of any device wait for what reads it now.
    pub(crate) fn precede_behind_readers(&self, stream: &Stream) -> Result<()> {
        self.device().require_process()?;
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().try_for_each(|end| end.precede(stream))
    }

    /// Makes a stream of any device wait for what writes it now.
    pub(crate) fn precede_reads(&self, stream: &Stream) -> Result<()> {
        self.written.precede(stream)
    }

    /// Says until when what was enqueued reads it.
    pub(crate) fn read_until(&self, end: &Arc<Event>) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        // A result that is only read must not keep the ends of all reads.
        reads.retain(|end| !end.is_done().unwrap_or(false));
        reads.push(end.clone());
    }

    /// Says until when what was enqueued writes it, behind all uses until now.
    pub(crate) fn written_until(&mut self, end: Arc<Event>) {
        self.written(LastWrite::Until(end));
    }

    /// Says what was enqueued to write it, behind all uses until now.
    pub(crate) fn written(&mut self, last: LastWrite) {
        self.written = last;
        self.reads.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Output<u64> {
    /// The result as a number of elements, for reductions that take as many elements as it says. What
    /// they read is the result that was asked for last.
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
