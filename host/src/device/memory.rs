//! Device memory, host memory that the device reaches, and the elements that are in either.

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
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when the copy fails.
    pub fn upload(&self, data: &Data) -> Result<Buffer> {
        self.upload_bytes(data.dtype(), data.len() as u64, data.as_bytes())
    }

    /// Copies elements of a type that the program knows to the device.
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

    /// Allocates device memory of any contents, freed when dropped.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when the driver refuses otherwise.
    pub fn allocate(&self, bytes: u64) -> Result<Allocation> {
        self.inner.enter()?;
        // SAFETY: nothing is read before it is written: kernels and copies see to that.
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
    /// [`Error::Driver`] when the driver cannot lock that much.
    pub fn lock(&self, bytes: &[u8]) -> Result<HostMemory> {
        // cust takes no allocation of nothing.
        let padded = if bytes.is_empty() { &[0] } else { bytes };
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::from_slice(padded))?;
        Ok(HostMemory { device: self.clone(), locked: ManuallyDrop::new(locked), len: bytes.len() })
    }

    /// Host memory for the results of kernels, which write it without a copy. All zero.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver cannot lock so much, or not for the device to reach.
    pub(crate) fn results(&self, words: usize) -> Result<ResultMemory> {
        let locked = self.inner.call("cuMemAllocHost", || LockedBuffer::new(&0_u64, words.max(1)))?;
        let mut memory =
            ResultMemory { device: self.clone(), locked: ManuallyDrop::new(locked), address: 0 };
        let start = memory.locked.as_mut_ptr();
        // Under unified addressing it is the host's own address; the driver says so, or that it is not.
        // SAFETY: it was locked just now.
        let address = |driver| unsafe { gaps::device_address(driver, start.cast()) };
        memory.address = self.inner.driver_call(address)?;
        Ok(memory)
    }

    /// Makes a copy on the stream that copies have to themselves, and waits for it, whatever came of it:
    /// the driver may return from a copy of memory that may be paged out before the bytes have arrived.
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

/// Bytes that are copied to the host at once.
const STAGED: usize = 64 << 20;

/// Untyped device memory, freed when dropped.
#[derive(Debug)]
pub struct Allocation {
    device: Device,
    memory: ManuallyDrop<DeviceBuffer<u8>>,
    bytes: u64,
}

impl Allocation {
    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.memory.as_device_ptr().as_raw()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies host bytes to `offset`. Returns when they have arrived.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut range = self.range(offset, bytes.len() as u64);
        // SAFETY: the memory lives until the copy was waited for, or for good. Of bytes that may be
        // paged out the driver has its own copy when the call returns, and it only reads any others.
        self.device.copy_now("cuMemcpyHtoD", |copies| unsafe { range.async_copy_from(bytes, copies) })
    }

    /// Copies device bytes at `offset` to the host. Returns when they have arrived.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let _inside = self.range(offset, bytes.len() as u64);
        let mut from = offset;
        for part in bytes.chunks_mut(STAGED) {
            self.read_staged(from, part)?;
            from += part.len() as u64;
        }
        Ok(())
    }

    /// Copies over memory of its own, which can stay for good: the caller's cannot.
    fn read_staged(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let (range, mut staged) = (self.range(offset, bytes.len() as u64), vec![0; bytes.len()]);
        // SAFETY: both live until the copy was waited for, or for good.
        let copy = |copies: &_| unsafe { range.async_copy_to(&mut staged, copies) };
        let copied = self.device.copy_now("cuMemcpyDtoH", copy);
        if self.device.inner.is_abandoned() {
            mem::forget(staged);
            return copied;
        }
        copied.map(|()| bytes.copy_from_slice(&staged))
    }

    /// Sets `len` bytes at `offset` to one value. Returns when they are set.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    pub fn fill(&self, offset: u64, value: u8, len: u64) -> Result<()> {
        let mut range = self.range(offset, len);
        // SAFETY: as in `write`.
        self.device.copy_now("cuMemsetD8", |copies| unsafe { range.set_8_async(value, copies) })
    }

    /// Enqueues a copy of `len` bytes of page-locked host memory to `offset`.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When a range does not lie inside.
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

    /// Enqueues a copy of `len` bytes from another place of the same device.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When a range does not lie inside.
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
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When a range does not lie inside.
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
        // SAFETY: the range lies inside, which was checked just now. The slice is a place and nothing
        // more: what is done with it is each caller's argument.
        unsafe { DeviceSlice::from_raw_parts_mut(start, len as usize) }
    }
}

/// Page-locked host memory, which nothing writes once it was made: copies from it run while the host
/// goes on, and faster than from memory that may be paged out.
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

/// Page-locked host memory, in words of 8 bytes, that kernels write results into.
pub(crate) struct ResultMemory {
    device: Device,
    locked: ManuallyDrop<LockedBuffer<u64>>,
    /// Where it is on the device.
    address: u64,
}

impl ResultMemory {
    /// Where a kernel finds a word.
    pub(crate) fn address(&self, word: usize) -> u64 {
        self.address + 8 * word as u64
    }

    /// Sets every byte, so that a result that was never written shows. Nothing runs that writes it.
    pub(crate) fn poison(&mut self, byte: u8) {
        for word in self.locked.as_mut_slice() {
            // SAFETY: the reference is to a word of ours. The device touches it too, when the host has
            // lent it the address, for which a volatile access is made.
            unsafe { std::ptr::from_mut(word).write_volatile(u64::from_ne_bytes([byte; 8])) };
        }
    }

    /// Takes a result of `bytes` bytes, 16 at most: two words from `word` on, as the last kernel left
    /// them whose end the host has waited for.
    ///
    /// # Panics
    /// When they do not lie inside.
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
            // SAFETY: it is dropped here alone, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: it is dropped here alone, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.locked) };
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // A failed free reports an earlier launch's error, which that launch's wait reports too.
            // SAFETY: it is dropped here alone, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Elements in device memory. They never change once uploaded, so that any number of launches may
/// read them at once; the memory is freed when the last user is done.
#[derive(Debug, Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    /// Where the elements start, in bytes.
    offset: u64,
    dtype: Dtype,
    len: u64,
}

impl Buffer {
    /// The device that holds it.
    pub fn device(&self) -> &Device {
        self.allocation.device()
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some of the elements, wherever they start: the same memory, which lives as long as either.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the range does not lie inside.
    pub fn slice(&self, range: Range<u64>) -> Result<Self> {
        if range.start > range.end || range.end > self.len {
            let (Range { start, end }, len) = (range, self.len);
            let reason = format!("{start}..{end} does not lie in the {len} elements of the buffer");
            return Err(Error::Mismatch { what: "slice", reason });
        }
        let offset = self.offset + range.start * self.dtype.size() as u64;
        Ok(Self { offset, len: range.end - range.start, ..self.clone() })
    }

    /// Puts another element in the place of one. Nothing else may hold the memory: no slice, and no
    /// launch that is under way. Returns when it is there.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when something does, when there is no such element, and for a value of
    /// another type; [`Error::Driver`] when the driver refuses.
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

    /// Where the elements start on the device.
    pub(crate) fn address(&self) -> u64 {
        self.allocation.address() + self.offset
    }

    /// The memory that holds the elements, and where in it they start, in bytes.
    pub(crate) fn place(&self) -> (&Arc<Allocation>, u64) {
        (&self.allocation, self.offset)
    }

    /// Bytes of the elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.len * self.dtype.size() as u64
    }
}

/// Reads one value of a type.
///
/// # Errors
/// [`Error::Driver`] when the driver refuses.
pub fn read_value(memory: &Allocation, offset: u64, dtype: Dtype) -> Result<Value> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..dtype.size()];
    memory.read(offset, bytes)?;
    Ok(Value::from_bytes(dtype, bytes))
}
