//! Device memory, host memory that the device reaches, and the elements that are in either.

use std::{ops::Range, sync::Arc};

use super::{Backend, Device, Stream, cuda, stream::StreamInner};
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
        let size = bytes.max(1);
        let address = match &*self.backend {
            Backend::Cuda(cuda) => cuda.allocate(size)?,
            Backend::Sim(sim) => sim.allocate(size)?,
        };
        Ok(Allocation { device: self.clone(), address, bytes })
    }

    /// Copies bytes to page-locked host memory.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver cannot lock that much.
    pub fn lock(&self, bytes: &[u8]) -> Result<HostMemory> {
        let memory = match &*self.backend {
            Backend::Cuda(cuda) => HostBytes::Locked(cuda.lock(bytes)?),
            Backend::Sim(_) => HostBytes::Plain(bytes.to_vec()),
        };
        Ok(HostMemory { device: self.clone(), memory })
    }

    /// Host memory for the results of kernels, which write it without a copy. All zero.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver cannot lock so much, or not for the device to reach.
    pub(crate) fn results(&self, words: usize) -> Result<ResultMemory> {
        let inner = match &*self.backend {
            Backend::Cuda(cuda) => {
                ResultInner::Locked { words: cuda.lock_words(words)?, device: self.clone() }
            }
            Backend::Sim(_) => {
                let memory = self.allocate(8 * words as u64)?;
                memory.fill(0, 0, memory.bytes())?;
                ResultInner::Simulated(memory)
            }
        };
        Ok(ResultMemory(inner))
    }
}

/// Untyped device memory, freed when dropped.
#[derive(Debug)]
pub struct Allocation {
    device: Device,
    address: u64,
    bytes: u64,
}

impl Allocation {
    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.address
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
        let address = self.range(offset, bytes.len() as u64);
        match &*self.device.backend {
            Backend::Cuda(cuda) => cuda.write(address, bytes),
            Backend::Sim(sim) => sim.write(address, bytes),
        }
    }

    /// Copies device bytes at `offset` to the host. Returns when they have arrived.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let address = self.range(offset, bytes.len() as u64);
        match &*self.device.backend {
            Backend::Cuda(cuda) => cuda.read(address, bytes),
            Backend::Sim(sim) => sim.read(address, bytes),
        }
    }

    /// Sets `len` bytes at `offset` to one value. Returns when they are set.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    pub fn fill(&self, offset: u64, value: u8, len: u64) -> Result<()> {
        let address = self.range(offset, len);
        match &*self.device.backend {
            Backend::Cuda(cuda) => cuda.fill(address, value, len),
            Backend::Sim(sim) => sim.fill(address, value, len),
        }
    }

    /// Enqueues that `len` bytes at `offset` are set to one value.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When the range does not lie inside.
    ///
    /// # Safety
    /// The memory must live, and be used by nothing on another stream, until `stream` was synchronised.
    pub(crate) unsafe fn fill_on(
        &self,
        stream: &Stream,
        offset: u64,
        value: u8,
        len: u64,
    ) -> Result<()> {
        let address = self.range(offset, len);
        match (&*self.device.backend, &stream.inner) {
            // SAFETY: the range was checked; the caller's contract.
            (Backend::Cuda(cuda), StreamInner::Cuda(stream)) => unsafe {
                cuda.fill_on(stream, address, value, len)
            },
            (Backend::Sim(sim), _) => sim.fill(address, value, len),
            (Backend::Cuda(_), StreamInner::Sim) => unreachable!("streams are the device's"),
        }
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
        let address = self.range(offset, bytes.len() as u64);
        let bytes = &from.as_bytes()[bytes];
        match (&*self.device.backend, &stream.inner) {
            // SAFETY: the range was checked; the caller's contract.
            (Backend::Cuda(cuda), StreamInner::Cuda(stream)) => unsafe {
                cuda.write_on(stream, address, bytes)
            },
            (Backend::Sim(sim), _) => sim.write(address, bytes),
            (Backend::Cuda(_), StreamInner::Sim) => unreachable!("streams are the device's"),
        }
    }

    /// Enqueues a copy of `len` bytes from another place of the same device.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When a range does not lie inside.
    pub(crate) fn copy_from(
        &self,
        stream: &Stream,
        offset: u64,
        source: &Self,
        from: u64,
        len: u64,
    ) -> Result<()> {
        let (from, to) = (source.range(from, len), self.range(offset, len));
        match (&*self.device.backend, &stream.inner) {
            (Backend::Cuda(cuda), StreamInner::Cuda(stream)) => cuda.copy(stream, from, to, len),
            (Backend::Sim(sim), _) => sim.copy(from, to, len),
            (Backend::Cuda(_), StreamInner::Sim) => unreachable!("streams are the device's"),
        }
    }

    /// Enqueues a copy of `len` bytes from one offset to another.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Panics
    /// When a range does not lie inside.
    pub(crate) fn copy_within(&self, stream: &Stream, from: u64, to: u64, len: u64) -> Result<()> {
        self.copy_from(stream, to, self, from, len)
    }

    fn range(&self, offset: u64, len: u64) -> u64 {
        let end = offset.checked_add(len).expect("offsets are far below 2^64");
        assert!(end <= self.bytes, "{offset} + {len} is past the {} bytes allocated", self.bytes);
        self.address + offset
    }
}

/// Host memory that is page-locked where the device is a GPU: copies from it run while the host goes
/// on, and faster than from memory that may be paged out.
pub struct HostMemory {
    device: Device,
    memory: HostBytes,
}

enum HostBytes {
    Locked(cuda::LockedBytes),
    /// The simulator copies from any memory.
    Plain(Vec<u8>),
}

impl HostMemory {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.memory {
            HostBytes::Locked(bytes) => bytes.as_slice(),
            HostBytes::Plain(bytes) => bytes,
        }
    }
}

/// Host memory, in words of 8 bytes, that kernels write results into: page-locked and at an address of
/// the device where that is a GPU; on the simulator, whose kernels reach nothing else, its own memory.
pub(crate) struct ResultMemory(ResultInner);

enum ResultInner {
    Locked { words: cuda::LockedWords, device: Device },
    Simulated(Allocation),
}

impl ResultMemory {
    /// Where a kernel finds a word.
    pub(crate) fn address(&self, word: usize) -> u64 {
        let start = match &self.0 {
            ResultInner::Locked { words, .. } => words.address,
            ResultInner::Simulated(memory) => memory.address(),
        };
        start + 8 * word as u64
    }

    /// Sets every byte, so that a result that was never written shows. Nothing runs that writes it.
    ///
    /// # Errors
    /// [`Error::Driver`] when the memory cannot be set.
    pub(crate) fn poison(&mut self, byte: u8) -> Result<()> {
        match &mut self.0 {
            ResultInner::Locked { words, .. } => {
                words.fill(u64::from_ne_bytes([byte; 8]));
                Ok(())
            }
            ResultInner::Simulated(memory) => memory.fill(0, byte, memory.bytes()),
        }
    }

    /// Two words from `word` on, as the last kernel left them whose end the host has waited for.
    ///
    /// # Panics
    /// When they do not lie inside.
    pub(crate) fn read(&self, word: usize) -> [u64; 2] {
        match &self.0 {
            ResultInner::Locked { words, .. } => [words.get(word), words.get(word + 1)],
            ResultInner::Simulated(memory) => {
                let mut words = [0_u64; 2];
                memory
                    .read(8 * word as u64, bytemuck::bytes_of_mut(&mut words))
                    .expect("the simulator's memory is there as long as its owner");
                words
            }
        }
    }
}

impl Drop for ResultMemory {
    fn drop(&mut self) {
        if let ResultInner::Locked { words, device } = &mut self.0 {
            device.cuda().unlock_words(words);
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let HostBytes::Locked(bytes) = &mut self.memory {
            self.device.cuda().unlock(bytes);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match &*self.device.backend {
            Backend::Cuda(cuda) => cuda.free(self.address),
            Backend::Sim(sim) => sim.free(self.address),
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

    /// Number of elements.
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
