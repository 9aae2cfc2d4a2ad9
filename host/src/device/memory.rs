//! Device memory, host memory that the device can access, and the elements in them.

use std::{
    mem::{self, ManuallyDrop},
    ops::Range,
    sync::Arc,
};

use warpfold_driver::cust::{
    error::CudaError,
    memory::{AsyncCopyDestination, DeviceBuffer, DevicePointer, DeviceSlice, LockedBuffer},
};

use super::{Device, Stream, gaps};
use crate::{Data, Dtype, Error, Result, Scalar, Value};

impl Device {
    /// Copies elements to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] if the copy fails.
    pub fn upload(&self, data: &Data) -> Result<Buffer> {
        self.upload_bytes(data.dtype(), data.len() as u64, data.as_bytes())
    }

    /// Copies elements of a statically known type to the device.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn upload_slice<T: Scalar>(&self, values: &[T]) -> Result<Buffer> {
        self.upload_bytes(T::DTYPE, values.len() as u64, bytemuck::cast_slice(values))
    }

    fn upload_bytes(&self, dtype: Dtype, len: u64, bytes: &[u8]) -> Result<Buffer> {
        let allocation = self.allocate(bytes.len() as u64)?;
        allocation.write(0, bytes)?;
        Ok(Buffer { allocation: Arc::new(allocation), offset: 0, dtype, len })
    }

    /// Allocates uninitialised device memory, freed when dropped.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] if the driver refuses otherwise.
    pub fn allocate(&self, bytes: u64) -> Result<Allocation> {
        self.inner.enter()?;
        // SAFETY: kernels and copies do not read memory before it is written.
        match unsafe { DeviceBuffer::uninitialized(bytes.max(1) as usize) } {
            Ok(memory) => {
                Ok(Allocation { device: self.clone(), memory: ManuallyDrop::new(memory), bytes })
            }
            Err(CudaError::OutOfMemory) => Err(Error::OutOfMemory {
                device: self.info().name.clone(),
                needed: bytes,
                free: self.free_memory()?,
            }),
            Err(error) => Err(self.inner.error("cuMemAlloc", error)),
        }
    }

    /// Copies bytes to page-locked host memory.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver cannot lock that much.
    pub fn lock(&self, bytes: &[u8]) -> Result<HostMemory> {
        // cust refuses empty allocations.
        let padded = if bytes.is_empty() { &[0] } else { bytes };
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::from_slice(padded))?;
        Ok(HostMemory { device: self.clone(), locked: ManuallyDrop::new(locked), len: bytes.len() })
    }

    /// Allocates zeroed, page-locked host memory that kernels write results to directly.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver cannot lock that much or cannot map it for the device.
    pub(crate) fn results(&self, words: usize) -> Result<ResultMemory> {
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::new(&0_u64, words.max(1)))?;
        let mut memory =
            ResultMemory { device: self.clone(), locked: ManuallyDrop::new(locked), address: 0 };
        let start = memory.locked.as_mut_ptr();
        // With unified addressing this is the host's own address; otherwise the driver reports another
        // or fails.
        // SAFETY: the memory was just locked.
        let address = |driver| unsafe { gaps::device_address(driver, start.cast()) };
        memory.address = self.inner.driver_call(address)?;
        Ok(memory)
    }

    /// Runs a copy on the dedicated copy stream and waits for it, even if enqueueing failed: the driver
    /// may return from a copy of pageable memory before the bytes have arrived.
    fn copy_now(
        &self,
        call: &'static str,
        copy: impl FnOnce(&warpfold_driver::cust::stream::Stream) -> Result<(), CudaError>,
    ) -> Result<()> {
        let copies = &self.inner.copies;
        let enqueued = self.inner.call(call, || copy(copies));
        self.inner.wait_out(call, || copies.synchronize()).and(enqueued)
    }
}

/// The most bytes that are copied to the host at once.
const STAGED: usize = 64 << 20;

/// Untyped device memory, freed when dropped.
#[derive(Debug)]
pub struct Allocation {
    device: Device,
    memory: ManuallyDrop<DeviceBuffer<u8>>,
    bytes: u64,
}

impl Allocation {
    /// Returns the address on the device.
    pub fn address(&self) -> u64 {
        self.memory.as_device_ptr().as_raw()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the device of the memory.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies host bytes to `offset`. Returns after they have arrived.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut range = self.range(offset, bytes.len() as u64);
        // SAFETY: the memory lives until the copy was waited for, or is leaked. The driver has its own
        // copy of pageable bytes when the call returns, and only reads any others.
        self.device.copy_now("cuMemcpyHtoD", |copies| unsafe { range.async_copy_from(bytes, copies) })
    }

    /// Copies device bytes at `offset` to the host. Returns after they have arrived.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let _inside = self.range(offset, bytes.len() as u64);
        let mut from = offset;
        for part in bytes.chunks_mut(STAGED) {
            self.read_staged(from, part)?;
            from += part.len() as u64;
        }
        Ok(())
    }

    /// Copies through a staging buffer, which can be leaked if the device is abandoned; the caller's
    /// cannot.
    fn read_staged(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let (range, mut staged) = (self.range(offset, bytes.len() as u64), vec![0; bytes.len()]);
        // SAFETY: both live until the copy was waited for, or are leaked.
        let copy = |copies: &_| unsafe { range.async_copy_to(&mut staged, copies) };
        let copied = self.device.copy_now("cuMemcpyDtoH", copy);
        if self.device.inner.is_abandoned() {
            mem::forget(staged);
            return copied;
        }
        copied.map(|()| bytes.copy_from_slice(&staged))
    }

    /// Sets `len` bytes at `offset` to one value. Returns after they are set.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn fill(&self, offset: u64, value: u8, len: u64) -> Result<()> {
        let mut range = self.range(offset, len);
        // SAFETY: as in `write`.
        self.device.copy_now("cuMemsetD8", |copies| unsafe { range.set_8_async(value, copies) })
    }

    /// Enqueues a copy of `bytes` of page-locked host memory to `offset`.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if a range is out of bounds.
    ///
    /// # Safety
    /// Both memories must live until `stream` was synchronised.
    pub(crate) unsafe fn write_from(
        &self,
        stream: &Stream,
        offset: u64,
        from: &HostMemory,
        bytes: Range<usize>,
    ) -> Result<()> {
        let mut range = self.range(offset, bytes.len() as u64);
        let bytes = &from.as_bytes()[bytes];
        self.device.inner.call("cuMemcpyHtoDAsync", || {
            // SAFETY: the caller's contract.
            unsafe { range.async_copy_from(bytes, stream.cust()) }
        })
    }

    /// Enqueues a copy of `len` bytes from another allocation on the same device.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if a range is out of bounds.
    ///
    /// # Safety
    /// Both memories must live until `stream` was synchronised.
    pub(crate) unsafe fn copy_from(
        &self,
        stream: &Stream,
        offset: u64,
        source: &Self,
        from: u64,
        len: u64,
    ) -> Result<()> {
        let (from, mut to) = (source.range(from, len), self.range(offset, len));
        self.device.inner.call("cuMemcpyDtoDAsync", || {
            // SAFETY: the caller's contract.
            unsafe { to.async_copy_from(&from, stream.cust()) }
        })
    }

    /// Enqueues a copy of `len` bytes from one offset to another.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    ///
    /// # Panics
    /// Panics if a range is out of bounds.
    ///
    /// # Safety
    /// The memory must live until `stream` was synchronised.
    pub(crate) unsafe fn copy_within(
        &self,
        stream: &Stream,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.copy_from(stream, to, self, from, len) }
    }

    fn range(&self, offset: u64, len: u64) -> DeviceSlice<u8> {
        let end = offset.checked_add(len).expect("offsets are far below 2^64");
        assert!(end <= self.bytes, "{offset} + {len} is past the {} bytes allocated", self.bytes);
        let start = DevicePointer::from_raw(self.address() + offset);
        // SAFETY: the range is in bounds, as checked above. The slice only names memory; each caller
        // justifies its accesses.
        unsafe { DeviceSlice::from_raw_parts_mut(start, len as usize) }
    }
}

/// Page-locked host memory that is immutable after creation: copies from it run asynchronously, and
/// faster than from pageable memory.
pub struct HostMemory {
    device: Device,
    locked: ManuallyDrop<LockedBuffer<u8>>,
    len: usize,
}

impl HostMemory {
    /// Returns the bytes of the memory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.locked[..self.len]
    }
}

/// Page-locked host memory, in 8-byte words, for the results of kernels.
pub(crate) struct ResultMemory {
    device: Device,
    locked: ManuallyDrop<LockedBuffer<u64>>,
    address: u64,
}

impl ResultMemory {
    /// Returns the device address of a word.
    pub(crate) fn address(&self, word: usize) -> u64 {
        self.address + 8 * word as u64
    }

    /// Sets every byte, so that unwritten results show. No kernel that writes the memory may be running.
    pub(crate) fn poison(&mut self, byte: u8) {
        for word in self.locked.as_mut_slice() {
            // SAFETY: the reference is to a word of ours. The access is volatile because the device
            // writes the memory too.
            unsafe { std::ptr::from_mut(word).write_volatile(u64::from_ne_bytes([byte; 8])) };
        }
    }

    /// Reads a result of up to 16 bytes: the two words from `word` on, after the host has waited for the
    /// last kernel that writes them.
    ///
    /// # Panics
    /// Panics if they are out of bounds.
    pub(crate) fn take(&self, word: usize, bytes: usize) -> [u64; 2] {
        let words = &self.locked[word..word + 2];
        self.device.inner.driver.host_takes(self.address(word), bytes);
        // SAFETY: as above, for reading.
        [0, 1].map(|at| unsafe { words.as_ptr().add(at).read_volatile() })
    }
}

impl Drop for ResultMemory {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: it is dropped only here, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: it is dropped only here, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // A failed free reports an earlier launch's error, which that launch's wait reports too.
            // SAFETY: it is dropped only here, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Elements in device memory. They are immutable while shared, so that any number of launches may read
/// them at once; the memory is freed with its last user.
#[derive(Debug, Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    /// The byte offset of the elements.
    offset: u64,
    dtype: Dtype,
    len: u64,
}

impl Buffer {
    /// Returns the device that holds the elements.
    pub fn device(&self) -> &Device {
        self.allocation.device()
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a sub-buffer that shares the memory and keeps it alive.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the range is out of bounds.
    pub fn slice(&self, range: Range<u64>) -> Result<Self> {
        if range.start > range.end || range.end > self.len {
            let (Range { start, end }, len) = (range, self.len);
            let reason = format!("{start}..{end} does not lie in the {len} elements of the buffer");
            return Err(Error::Mismatch { what: "slice", reason });
        }
        let offset = self.offset + range.start * self.dtype.size() as u64;
        Ok(Self { offset, len: range.end - range.start, ..self.clone() })
    }

    /// Replaces an element. Nothing else may hold the memory: no slice, and no pending launch. Returns
    /// after the element was written.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if something else holds the memory, if the index is out of bounds, or for a
    /// value of another type; [`Error::Driver`] if the driver refuses.
    pub fn set(&mut self, index: u64, value: Value) -> Result<()> {
        let refused = |reason| Err(Error::Mismatch { what: "element", reason });
        if index >= self.len || value.dtype() != self.dtype {
            let (dtype, given, len) = (self.dtype, value.dtype(), self.len);
            return refused(format!("there are {len} {dtype}, given was a {given} for number {index}"));
        }
        let offset = self.offset + index * self.dtype.size() as u64;
        match Arc::get_mut(&mut self.allocation) {
            Some(memory) => memory.write(offset, &value.to_bytes()),
            None => refused("slices or launches hold the memory; drop or wait for them".to_owned()),
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.allocation.address() + self.offset
    }

    /// Returns the memory that holds the elements, and their byte offset.
    pub(crate) fn place(&self) -> (&Arc<Allocation>, u64) {
        (&self.allocation, self.offset)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.len * self.dtype.size() as u64
    }
}

/// Reads one value from device memory.
///
/// # Errors
/// [`Error::Driver`] if the driver refuses.
pub fn read_value(memory: &Allocation, offset: u64, dtype: Dtype) -> Result<Value> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..dtype.size()];
    memory.read(offset, bytes)?;
    Ok(Value::from_bytes(dtype, bytes))
}
