//! Where kernels run: an NVIDIA GPU through cust, or the PTX simulator.
//!
//! Both answer the same calls. What only one of them can do says so in its result: the simulator
//! has no times, the GPU no instruction counts.

mod cuda;
mod graph;
mod sim;
mod watch;

use std::{fmt, ops::Range, path::Path, str::FromStr, sync::Arc};

use serde::Serialize;

use crate::{Arch, Data, Dtype, Error, Result, Value, nearest};

pub use cuda::{GpuProbe, probe};
pub(crate) use graph::Graph;
pub use watch::{SimLaunch, Watcher};

/// Which device a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// The GPU where the driver answers, else the simulator.
    #[default]
    Auto,
    /// An NVIDIA GPU.
    Cuda,
    /// The PTX simulator.
    Sim,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        match given {
            "auto" => Ok(Self::Auto),
            "cuda" => Ok(Self::Cuda),
            "sim" => Ok(Self::Sim),
            _ => Err(Error::UnknownName {
                what: "device",
                given: given.to_owned(),
                nearest: nearest(given, ["auto", "cuda", "sim"]),
                see: "there are auto, cuda and sim",
            }),
        }
    }
}

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An NVIDIA GPU.
    Cuda,
    /// The PTX simulator.
    Sim,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "cuda",
            Self::Sim => "sim",
        })
    }
}

/// What a device is and has.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceInfo {
    /// GPU or simulator.
    pub kind: Kind,
    /// Its name, for a GPU the driver's.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most threads resident on one multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Most blocks resident on one multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Bytes of L2 cache; 0 for the simulator.
    pub l2_bytes: u64,
    /// Bytes of global memory.
    pub memory_bytes: u64,
    /// Peak bandwidth of global memory in bytes per second, from its clock and bus width: two
    /// transfers per clock. None for the simulator.
    pub peak_bandwidth: Option<f64>,
    /// Version of the driver's CUDA interface, as (major, minor). None for the simulator.
    pub driver: Option<(u32, u32)>,
}

impl DeviceInfo {
    /// Blocks of this many threads that fill the device once, by threads alone.
    pub fn resident_blocks(&self, block: u32) -> u32 {
        let per_multiprocessor =
            (self.threads_per_multiprocessor / block).clamp(1, self.blocks_per_multiprocessor);
        self.multiprocessors * per_multiprocessor
    }
}

/// A GPU or the simulator. Clones are handles to the same device.
#[derive(Clone)]
pub struct Device {
    backend: Arc<Backend>,
}

enum Backend {
    Cuda(cuda::Cuda),
    Sim(sim::Sim),
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.info().name).finish()
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::NoCuda`] when a GPU is demanded and the driver does not answer.
    pub fn open(selection: Selection) -> Result<Self> {
        let backend = match selection {
            Selection::Sim => Backend::Sim(sim::Sim::new(None)),
            Selection::Cuda => Backend::Cuda(cuda::Cuda::open()?),
            Selection::Auto => match cuda::Cuda::open() {
                Ok(cuda) => Backend::Cuda(cuda),
                Err(Error::NoCuda { .. }) => Backend::Sim(sim::Sim::new(None)),
                Err(error) => return Err(error),
            },
        };
        Ok(Self { backend: Arc::new(backend) })
    }

    /// The simulator, watched: whatever runs on this device does so under the watcher's eyes.
    pub fn watched(watcher: Arc<dyn Watcher>) -> Self {
        Self { backend: Arc::new(Backend::Sim(sim::Sim::new(Some(watcher)))) }
    }

    /// What the device is and has.
    pub fn info(&self) -> &DeviceInfo {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda.info(),
            Backend::Sim(sim) => sim.info(),
        }
    }

    /// Bytes of device memory that are free now.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver does not answer.
    pub fn free_memory(&self) -> Result<u64> {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda.free_memory(),
            Backend::Sim(sim) => Ok(sim.free_memory()),
        }
    }

    /// Refuses before anything is allocated what cannot fit.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with what is needed and what is free.
    pub fn require_memory(&self, needed: u64) -> Result<()> {
        let free = self.free_memory()?;
        if needed > free {
            return Err(Error::OutOfMemory { device: self.info().name.clone(), needed, free });
        }
        Ok(())
    }

    /// Copies elements to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when the copy fails.
    pub fn upload(&self, data: &Data) -> Result<Buffer> {
        let allocation = self.allocate(data.as_bytes().len() as u64)?;
        allocation.write(0, data.as_bytes())?;
        Ok(Buffer {
            allocation: Arc::new(allocation),
            offset: 0,
            dtype: data.dtype(),
            len: data.len() as u64,
        })
    }

    /// A stream: launches on one run in order, launches on two may overlap.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses it.
    pub fn stream(&self) -> Result<Stream> {
        let inner = match &*self.backend {
            Backend::Cuda(cuda) => StreamInner::Cuda(cuda.stream()?),
            Backend::Sim(_) => StreamInner::Sim,
        };
        Ok(Stream { device: self.clone(), inner })
    }

    /// Whether both handles are the same device.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
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

    /// Loads an entry of a PTX text; `path` is what errors call it.
    ///
    /// # Errors
    /// [`Error::PtxRejected`] when the device does not take the text, [`Error::PtxMissing`] when it
    /// has no such entry.
    pub fn load(&self, path: &Path, ptx: &str, entry: &str) -> Result<Kernel> {
        let inner = match &*self.backend {
            Backend::Cuda(cuda) => KernelInner::Cuda(cuda.load(path, ptx, entry)?),
            Backend::Sim(sim) => KernelInner::Sim(sim.load(path, ptx, entry)?),
        };
        Ok(Kernel { device: self.clone(), inner })
    }

    pub(crate) fn event(&self) -> Result<Option<Event>> {
        match &*self.backend {
            Backend::Cuda(cuda) => Ok(Some(Event { device: self.clone(), inner: cuda.event()? })),
            Backend::Sim(_) => Ok(None),
        }
    }

    /// The CUDA backend behind an object that only it can have made.
    fn cuda(&self) -> &cuda::Cuda {
        match &*self.backend {
            Backend::Cuda(cuda) => cuda,
            Backend::Sim(_) => unreachable!("the simulator makes no CUDA objects"),
        }
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

/// An order of launches on a device.
pub struct Stream {
    device: Device,
    inner: StreamInner,
}

enum StreamInner {
    Cuda(cuda::CudaStream),
    /// The simulator finishes a launch before it returns.
    Sim,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Stream {
    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until everything launched on it has finished.
    ///
    /// # Errors
    /// [`Error::Driver`] with what went wrong in a launch.
    pub fn synchronize(&self) -> Result<()> {
        match &self.inner {
            StreamInner::Cuda(stream) => self.device.cuda().synchronize(stream),
            StreamInner::Sim => Ok(()),
        }
    }
}

impl Stream {
    /// The driver's handle, with its context current on this thread; none in the simulator.
    pub(crate) fn raw(&self) -> Result<Option<*mut std::ffi::c_void>> {
        match &self.inner {
            StreamInner::Cuda(stream) => self.device.cuda().raw_stream(stream).map(Some),
            StreamInner::Sim => Ok(None),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let StreamInner::Cuda(stream) = &mut self.inner {
            self.device.cuda().drop_stream(stream);
        }
    }
}

/// A kernel ready to be launched.
pub struct Kernel {
    device: Device,
    inner: KernelInner,
}

enum KernelInner {
    Cuda(cuda::CudaKernel),
    Sim(sim::SimKernel),
}

/// Shape of one launch.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Whether all blocks must be resident at once, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster along x, which reach each other's shared memory; 1 without clusters.
    pub cluster: u32,
}

impl Geometry {
    /// Blocks and threads along x alone.
    pub const fn linear(grid: u32, block: u32, shared: u32) -> Self {
        Self { grid: [grid, 1, 1], block: [block, 1, 1], shared, cooperative: false, cluster: 1 }
    }
}

/// What the simulator counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Instructions issued, once per warp.
    pub warp_instructions: u64,
    /// Instructions executed, once per active thread.
    pub thread_instructions: u64,
    /// Blocks run.
    pub blocks: u64,
    /// Kernel launches.
    pub launches: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.blocks += other.blocks;
        self.launches += other.launches;
    }
}

impl Kernel {
    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Blocks of this many threads and bytes of dynamic shared memory that the device can hold at once.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver does not answer.
    pub fn resident_blocks(&self, block: u32, shared: u32) -> Result<u32> {
        let info = self.device.info();
        match &self.inner {
            KernelInner::Cuda(kernel) => {
                let per_multiprocessor =
                    self.device.cuda().blocks_per_multiprocessor(kernel, block, shared)?;
                Ok(info.multiprocessors * per_multiprocessor)
            }
            KernelInner::Sim(kernel) => Ok(kernel.resident_blocks(info, block, shared)),
        }
    }

    /// Enqueues a launch; the simulator runs it at once and returns what it counted. All arguments
    /// are 8 bytes, addresses and counts, as all kernels of the suite have them.
    ///
    /// # Errors
    /// [`Error::Driver`] when the launch is refused, [`Error::Simulator`] when the kernel fails,
    /// [`Error::Mismatch`] when the stream is another device's.
    ///
    /// # Safety
    /// The arguments must be what the kernel's contract asks for, and the memory they name must stay
    /// alive, and be left alone by others, until the stream has been synchronised.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &[u64],
    ) -> Result<Option<Counters>> {
        match (&self.inner, &stream.inner) {
            // SAFETY: the caller's contract.
            (KernelInner::Cuda(kernel), StreamInner::Cuda(stream)) => unsafe {
                self.device.cuda().launch(kernel, stream, geometry, arguments).map(|()| None)
            },
            (KernelInner::Sim(kernel), StreamInner::Sim) => match &*self.device.backend {
                Backend::Sim(sim) => sim.launch(kernel, geometry, arguments).map(Some),
                Backend::Cuda(_) => unreachable!("a simulated kernel has the simulator"),
            },
            _ => Err(Error::Mismatch {
                what: "stream",
                reason: format!(
                    "it belongs to {}, the kernel to {}",
                    stream.device.info().name,
                    self.device.info().name
                ),
            }),
        }
    }
}

/// A point in a stream's work, with a time stamp. Only GPUs have them.
pub(crate) struct Event {
    device: Device,
    inner: cuda::CudaEvent,
}

impl Event {
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        match &stream.inner {
            StreamInner::Cuda(stream) => self.device.cuda().record(&self.inner, stream),
            StreamInner::Sim => unreachable!("events are made for GPUs only"),
        }
    }

    /// Microseconds from `start` to here; both must have happened.
    pub(crate) fn microseconds_since(&self, start: &Self) -> Result<f64> {
        self.device.cuda().microseconds_between(&start.inner, &self.inner)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.cuda().drop_event(&mut self.inner);
    }
}

/// Reads one value of a type.
pub(crate) fn read_value(memory: &Allocation, offset: u64, dtype: Dtype) -> Result<Value> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..dtype.size()];
    memory.read(offset, bytes)?;
    Ok(Value::from_bytes(dtype, bytes))
}

/// A device that plans can be made for without one.
#[cfg(test)]
pub(crate) fn testing_info() -> DeviceInfo {
    sim::Sim::new(None).info().clone()
}
