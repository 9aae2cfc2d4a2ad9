//! Device memory, page-locked host memory, and buffers of elements.

use std::{
    mem::{self, ManuallyDrop},
    ops::Range,
    sync::Arc,
};

use warpfold_driver::cust::{
    error::CudaError,
    memory::{AsyncCopyDestination, DeviceBuffer, DevicePointer, DeviceSlice, LockedBuffer},
};

use super::{Device, Stream, cust_workarounds};
use crate::{Data, Dtype, Error, Result, Scalar, Value};

impl Device {
    pub fn upload(&self, data: &Data) -> Result<Buffer> {
        self.upload_bytes(data.dtype(), data.len() as u64, data.as_bytes())
    }

    pub fn upload_slice<T: Scalar>(&self, values: &[T]) -> Result<Buffer> {
        self.upload_bytes(T::DTYPE, values.len() as u64, bytemuck::cast_slice(values))
    }

    fn upload_bytes(&self, dtype: Dtype, len: u64, bytes: &[u8]) -> Result<Buffer> {
        let allocation = self.allocate(bytes.len() as u64)?;
        allocation.write(0, bytes)?;
        Ok(Buffer { allocation: Arc::new(allocation), offset: 0, dtype, len })
    }

    /// Allocates uninitialised device memory, freed when dropped.
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
    pub fn lock(&self, bytes: &[u8]) -> Result<HostMemory> {
        // cust refuses empty allocations.
        let padded = if bytes.is_empty() { &[0] } else { bytes };
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::from_slice(padded))?;
        Ok(HostMemory { device: self.clone(), locked: ManuallyDrop::new(locked), len: bytes.len() })
    }

    /// Allocates zeroed, page-locked host memory that kernels write results to directly.
    pub(crate) fn results(&self, words: usize) -> Result<ResultMemory> {
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::new(&0_u64, words.max(1)))?;
        let mut memory =
            ResultMemory { device: self.clone(), locked: ManuallyDrop::new(locked), address: 0 };
        let start = memory.locked.as_mut_ptr();
        // With unified addressing, the device address equals the host address. Otherwise the driver
        // reports another address or fails. SAFETY: the memory was just page-locked.
        let address = |driver| unsafe { cust_workarounds::device_address(driver, start.cast()) };
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

/// Size of the staging buffer of a copy to the host, in bytes.
const STAGED: usize = 64 << 20;

/// Untyped device memory, freed when dropped.
#[derive(Debug)]
pub struct Allocation {
    device: Device,
    memory: ManuallyDrop<DeviceBuffer<u8>>,
    bytes: u64,
}

impl Allocation {
    pub fn address(&self) -> u64 {
        self.memory.as_device_ptr().as_raw()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies host bytes to `offset`. Returns after they have arrived.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut range = self.range(offset, bytes.len() as u64);
        // SAFETY: the device memory lives until the copy was waited for, or is leaked. The driver has
        // copied pageable host bytes when the call returns, and only reads page-locked ones.
        self.device.copy_now("cuMemcpyHtoD", |copies| unsafe { range.async_copy_from(bytes, copies) })
    }

    /// Copies device bytes at `offset` to the host. Returns after they have arrived.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let _inside = self.range(offset, bytes.len() as u64);
        let mut from = offset;
        for part in bytes.chunks_mut(STAGED) {
            self.read_staged(from, part)?;
            from += part.len() as u64;
        }
        Ok(())
    }

    /// Copies through a staging buffer. If the device is abandoned, the staging buffer is leaked, which
    /// is not possible with the caller's buffer.
    fn read_staged(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let (range, mut staged) = (self.range(offset, bytes.len() as u64), vec![0; bytes.len()]);
        // SAFETY: both memories live until the copy was waited for, or are leaked.
        let copy = |copies: &_| unsafe { range.async_copy_to(&mut staged, copies) };
        let copied = self.device.copy_now("cuMemcpyDtoH", copy);
        if self.device.inner.is_abandoned() {
            mem::forget(staged);
            return copied;
        }
        copied.map(|()| bytes.copy_from_slice(&staged))
    }

    /// Sets `len` bytes at `offset` to one value. Returns after they are set.
    pub fn fill(&self, offset: u64, value: u8, len: u64) -> Result<()> {
        let mut range = self.range(offset, len);
        // SAFETY: the device memory lives until the memset was waited for, or is leaked.
        self.device.copy_now("cuMemsetD8", |copies| unsafe { range.set_8_async(value, copies) })
    }

    /// Enqueues a copy of `bytes` of page-locked host memory to `offset`.
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
            // SAFETY: by this function's contract, both memories live until the copy is complete.
            unsafe { range.async_copy_from(bytes, stream.cust()) }
        })
    }

    /// Enqueues a copy of `len` bytes from another allocation on the same device.
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
            // SAFETY: by this function's contract, both memories live until the copy is complete.
            unsafe { to.async_copy_from(&from, stream.cust()) }
        })
    }

    /// Enqueues a copy of `len` bytes from one offset to another.
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
        // SAFETY: by this function's contract, the memory lives until the copy is complete.
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

/// Immutable page-locked host memory. Copies from it are asynchronous, and faster than from pageable
/// memory.
pub struct HostMemory {
    device: Device,
    locked: ManuallyDrop<LockedBuffer<u8>>,
    len: usize,
}

impl HostMemory {
    pub fn as_bytes(&self) -> &[u8] {
        &self.locked[..self.len]
    }
}

/// Page-locked host memory for results, in words of 8 bytes.
pub(crate) struct ResultMemory {
    device: Device,
    locked: ManuallyDrop<LockedBuffer<u64>>,
    address: u64,
}

impl ResultMemory {
    pub(crate) fn address(&self, word: usize) -> u64 {
        self.address + 8 * word as u64
    }

    /// Sets every byte, so that missing writes are detected. No kernel that writes the memory may be
    /// running.
    pub(crate) fn poison(&mut self, byte: u8) {
        for word in self.locked.as_mut_slice() {
            // SAFETY: `word` is valid. The access is volatile because the device writes the memory too.
            unsafe { std::ptr::from_mut(word).write_volatile(u64::from_ne_bytes([byte; 8])) };
        }
    }

    /// Reads a result of up to 16 bytes, which starts at the 8-byte word `word`. The host must have
    /// waited for the last kernel that writes it. Panics if `word` or the next word is out of bounds.
    pub(crate) fn take(&self, word: usize, bytes: usize) -> [u64; 2] {
        let words = &self.locked[word..word + 2];
        self.device.inner.driver.host_takes(self.address(word), bytes);
        // SAFETY: `words` has both words. The reads are volatile because the device writes the memory.
        [0, 1].map(|at| unsafe { words.as_ptr().add(at).read_volatile() })
    }
}

impl Drop for ResultMemory {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: `locked` is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: `locked` is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // A failed free reports the error of an earlier launch, which the wait for that launch
            // reports too. SAFETY: `memory` is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Elements in device memory. They are immutable while shared, so that any number of launches may read
/// them at once. The memory is freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    /// Offset of the first element, in bytes.
    offset: u64,
    dtype: Dtype,
    len: u64,
}

impl Buffer {
    pub fn device(&self) -> &Device {
        self.allocation.device()
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a sub-buffer that shares the memory and keeps it alive.
    pub fn slice(&self, range: Range<u64>) -> Result<Self> {
        if range.start > range.end || range.end > self.len {
            let (Range { start, end }, len) = (range, self.len);
            let reason = format!("{start}..{end} is out of range; the buffer has {len} elements");
            return Err(Error::Mismatch { what: "slice", reason });
        }
        let offset = self.offset + range.start * self.dtype.size() as u64;
        Ok(Self { offset, len: range.end - range.start, ..self.clone() })
    }

    /// Replaces an element. Nothing else may hold the memory: no slice, and no pending launch. Returns
    /// after the element was written.
    pub fn set(&mut self, index: u64, value: Value) -> Result<()> {
        let refused = |reason| Err(Error::Mismatch { what: "element", reason });
        if index >= self.len || value.dtype() != self.dtype {
            let (dtype, given, len) = (self.dtype, value.dtype(), self.len);
            return refused(format!(
                "the buffer has {len} {dtype}; a {given} was given for index {index}"
            ));
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

pub fn read_value(memory: &Allocation, offset: u64, dtype: Dtype) -> Result<Value> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..dtype.size()];
    memory.read(offset, bytes)?;
    Ok(Value::from_bytes(dtype, bytes))
}
