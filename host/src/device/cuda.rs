//! An NVIDIA GPU as a device: cust, with the driver bound at run time.

use std::{
    collections::HashMap,
    ffi::{c_int, c_uint, c_void},
    mem::ManuallyDrop,
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::Mutex,
};

use warpfold_driver::{
    CallError, ClusterLaunch, Driver, GraphExec,
    cust::{
        self,
        context::CurrentContext,
        device::{Device as CudaDevice, DeviceAttribute},
        error::CudaError,
        event::EventFlags,
        memory::{DevicePointer, cuda_free, cuda_malloc, memcpy_htod},
        module::Module,
        stream::StreamFlags,
        sys::{CUdeviceptr, CUfunction, CUstream},
    },
};

use super::{DeviceInfo, Geometry, Kind};
use crate::{Arch, Error, Result};

// Calls that cust does not have, or only in a form of its own. Results are integers, as in C: the enum
// of `cust::sys` cannot hold the codes that drivers have learned since.
unsafe extern "C" {
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
    ) -> c_int;
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: CUfunction,
        block: c_int,
        shared_bytes: usize,
    ) -> c_int;
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream)
    -> c_int;
    fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) -> c_int;
    fn cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) -> c_int;
    fn cuMemFreeHost(memory: *mut c_void) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> c_int;
    fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) -> c_int;
}

pub(super) struct Cuda {
    driver: &'static Driver,
    context: cust::context::Context,
    info: DeviceInfo,
    /// Modules by their text, so that the driver compiles each once. They stay loaded as long as the
    /// device is open.
    modules: Mutex<HashMap<String, ManuallyDrop<Module>>>,
}

/// What the driver says of this machine, for `cargo xtask doctor`.
#[derive(Debug, Clone)]
pub struct GpuProbe {
    /// Version of the driver's CUDA interface, as (major, minor).
    pub driver: (u32, u32),
    /// The GPU that would be used.
    pub gpu: DeviceInfo,
}

/// Asks the driver for the GPU that [`Selection::Cuda`](super::Selection::Cuda) would open.
///
/// # Errors
/// [`Error::NoCuda`] with the reason.
pub fn probe() -> Result<GpuProbe> {
    let gpu = Cuda::open()?.info().clone();
    Ok(GpuProbe { driver: gpu.driver.expect("a GPU has a driver"), gpu })
}

// cust's handles need the context to be current when they are dropped, on whatever thread that is:
// the device drops them (`drop_stream`, `drop_event`, `Drop for Cuda`).
pub(super) struct CudaStream(ManuallyDrop<cust::stream::Stream>);
pub(super) struct CudaEvent(ManuallyDrop<cust::event::Event>);
/// A function of a module that the device keeps.
pub(super) struct CudaKernel {
    function: CUfunction,
}

/// Page-locked host memory.
pub(super) struct LockedBytes {
    address: NonNull<u8>,
    len: usize,
}

impl LockedBytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `lock` wrote this many bytes there, nothing writes later, and its owner unlocks them
        // last of all.
        unsafe { slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

/// Launches recorded from a stream.
pub(super) struct CudaGraph(GraphExec);

// SAFETY: memory that nothing writes once it was made.
unsafe impl Send for LockedBytes {}
// SAFETY: as above.
unsafe impl Sync for LockedBytes {}
// SAFETY: driver handles may be used from any thread on which their context is current, and every
// use here makes it so first.
unsafe impl Send for CudaStream {}
// SAFETY: as above; the driver locks a stream for the length of a call.
unsafe impl Sync for CudaStream {}
// SAFETY: as above.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Send for CudaKernel {}
// SAFETY: a loaded function does not change.
unsafe impl Sync for CudaKernel {}
// SAFETY: a driver handle, used with its context current.
unsafe impl Send for CudaGraph {}

impl Cuda {
    /// The first GPU, in its primary context.
    pub(super) fn open() -> Result<Self> {
        let no_cuda = |reason: String| Error::NoCuda { reason };
        let driver = warpfold_driver::load().map_err(|error| no_cuda(error.to_string()))?;
        cust::init(cust::CudaFlags::empty()).map_err(|error| no_cuda(error.to_string()))?;
        let device = CudaDevice::get_device(0).map_err(|error| no_cuda(error.to_string()))?;
        let context = cust::context::Context::new(device).map_err(|error| no_cuda(error.to_string()))?;
        let info = describe(device, driver.version()).map_err(|error| no_cuda(error.to_string()))?;
        Ok(Self { driver, context, info, modules: Mutex::default() })
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Makes the context current on this thread, as every driver call needs.
    fn enter(&self) -> Result<()> {
        CurrentContext::set_current(&self.context).map_err(|error| self.error("cuCtxSetCurrent", error))
    }

    fn error(&self, call: &'static str, error: CudaError) -> Error {
        Error::Driver { device: self.info.name.clone(), call, reason: error.to_string() }
    }

    /// Enters the context, makes a call and names it if it fails.
    fn call<T>(&self, name: &'static str, call: impl FnOnce() -> Result<T, CudaError>) -> Result<T> {
        self.enter()?;
        call().map_err(|error| self.error(name, error))
    }

    /// The same for a call that cust does not have.
    fn raw_call(&self, name: &'static str, call: impl FnOnce() -> c_int) -> Result<()> {
        self.enter()?;
        let code = call();
        self.driver.check(name, code).map_err(|error| self.call_error(error))
    }

    fn call_error(&self, CallError { call, text, name, .. }: CallError) -> Error {
        Error::Driver { device: self.info.name.clone(), call, reason: format!("{text} ({name})") }
    }

    pub(super) fn free_memory(&self) -> Result<u64> {
        self.call("cuMemGetInfo", cust::memory::mem_get_info).map(|(free, _)| free as u64)
    }

    pub(super) fn allocate(&self, bytes: u64) -> Result<u64> {
        self.enter()?;
        // SAFETY: nothing is read before it is written: kernels and copies see to that.
        match unsafe { cuda_malloc::<u8>(bytes as usize) } {
            Ok(pointer) => Ok(pointer.as_raw()),
            Err(CudaError::OutOfMemory) => Err(Error::OutOfMemory {
                device: self.info.name.clone(),
                needed: bytes,
                free: self.free_memory()?,
            }),
            Err(error) => Err(self.error("cuMemAlloc", error)),
        }
    }

    pub(super) fn free(&self, address: u64) {
        // A failed free reports an earlier launch's error, which that launch's wait reports too.
        let _ = self.call("cuMemFree", || {
            // SAFETY: the address came from `allocate` and its owner is being dropped.
            unsafe { cuda_free(DevicePointer::<u8>::from_raw(address)) }
        });
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.call("cuMemcpyHtoD", || {
            // SAFETY: `Allocation` checked the range, and the slice is readable.
            unsafe { memcpy_htod(address, bytes.as_ptr().cast(), bytes.len()) }
        })
    }

    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.raw_call("cuMemcpyDtoH", || {
            // SAFETY: `Allocation` checked the range, and the slice is writable.
            unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) }
        })
    }

    pub(super) fn fill(&self, address: u64, value: u8, len: u64) -> Result<()> {
        self.raw_call("cuMemsetD8", || {
            // SAFETY: `Allocation` checked the range.
            unsafe { cuMemsetD8_v2(address, value, len as usize) }
        })?;
        // The driver returns before the bytes are set, and streams of ours do not wait for it.
        self.call("cuCtxSynchronize", CurrentContext::synchronize)
    }

    pub(super) fn load(&self, path: &Path, ptx: &str, entry: &str) -> Result<CudaKernel> {
        self.enter()?;
        // A panic while the lock was held can have left out a module, never a broken one.
        let mut modules = self.modules.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !modules.contains_key(ptx) {
            modules.insert(ptx.to_owned(), ManuallyDrop::new(self.compile(path, ptx)?));
        }
        match modules[ptx].get_function(entry) {
            Ok(function) => Ok(CudaKernel { function: function.to_raw() }),
            Err(CudaError::NotFound) => {
                Err(Error::PtxMissing { what: entry.to_owned(), path: path.to_owned() })
            }
            Err(error) => Err(self.error("cuModuleGetFunction", error)),
        }
    }

    fn compile(&self, path: &Path, ptx: &str) -> Result<Module> {
        self.driver.load_ptx(ptx).map_err(|error| {
            let newer = error.log.contains("Unsupported .version");
            let reason = if newer {
                let (major, minor) = self.driver.version();
                format!(
                    "this PTX is newer than the driver for CUDA {major}.{minor} takes; update the driver"
                )
            } else {
                error.to_string()
            };
            Error::PtxRejected { path: path.to_owned(), reason }
        })
    }

    pub(super) fn blocks_per_multiprocessor(
        &self,
        kernel: &CudaKernel,
        block: u32,
        shared: u32,
    ) -> Result<u32> {
        let mut blocks = 0;
        self.raw_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", || {
            // SAFETY: writes one int to a local variable; the function is loaded.
            unsafe {
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    kernel.function,
                    block.cast_signed(),
                    shared as usize,
                )
            }
        })?;
        Ok(blocks.cast_unsigned())
    }

    pub(super) fn copy(&self, stream: &CudaStream, from: u64, to: u64, len: u64) -> Result<()> {
        self.raw_call("cuMemcpyDtoDAsync", || {
            // SAFETY: `Allocation` checked both ranges, which its owner keeps until the stream is done.
            unsafe { cuMemcpyDtoDAsync_v2(to, from, len as usize, stream.0.as_inner()) }
        })
    }

    /// # Safety
    /// The range of the device must be allocated, and both memories live until the stream was
    /// synchronised.
    pub(super) unsafe fn write_on(&self, stream: &CudaStream, address: u64, bytes: &[u8]) -> Result<()> {
        self.raw_call("cuMemcpyHtoDAsync", || {
            // SAFETY: the caller's contract.
            unsafe {
                cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), stream.0.as_inner())
            }
        })
    }

    pub(super) fn lock(&self, bytes: &[u8]) -> Result<LockedBytes> {
        let mut memory = ptr::null_mut();
        self.raw_call("cuMemAllocHost", || {
            // SAFETY: writes one pointer to a local variable; the driver refuses what it cannot lock.
            unsafe { cuMemAllocHost_v2(&mut memory, bytes.len().max(1)) }
        })?;
        let address = NonNull::new(memory.cast::<u8>()).expect("the driver has allocated");
        // SAFETY: fresh memory of that size.
        unsafe { address.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(LockedBytes { address, len: bytes.len() })
    }

    pub(super) fn unlock(&self, bytes: &mut LockedBytes) {
        // As with `free`: what went wrong earlier is reported where it happened.
        let _ = self.raw_call("cuMemFreeHost", || {
            // SAFETY: the address came from `lock` and its owner is being dropped.
            unsafe { cuMemFreeHost(bytes.address.as_ptr().cast()) }
        });
    }

    /// # Safety
    /// As [`Kernel::launch`](super::Kernel::launch).
    pub(super) unsafe fn launch(
        &self,
        kernel: &CudaKernel,
        stream: &CudaStream,
        geometry: Geometry,
        arguments: &[u64],
    ) -> Result<()> {
        let mut pointers = [ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
        for (pointer, argument) in pointers[..arguments.len()].iter_mut().zip(arguments) {
            *pointer = ptr::from_ref(argument).cast_mut().cast();
        }
        let Geometry { grid, block, shared, cooperative, cluster } = geometry;
        if cluster > 1 {
            let shape = ClusterLaunch { grid, block, shared, cluster: [cluster, 1, 1] };
            self.enter()?;
            // SAFETY: the function is loaded and the stream alive; the driver copies the arguments
            // before it returns; the caller answers for what they name.
            let launched = unsafe {
                let stream = stream.0.as_inner();
                self.driver.launch_clusters(kernel.function, stream, &shape, pointers.as_mut_ptr())
            };
            return launched.map_err(|error| self.call_error(error));
        }
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let (function, stream, arguments) =
            (kernel.function, stream.0.as_inner(), pointers.as_mut_ptr());
        self.raw_call("cuLaunchKernel", || {
            // SAFETY: the function is loaded and the stream alive; the driver copies the arguments
            // before it returns; the caller answers for what they name.
            unsafe {
                if cooperative {
                    cuLaunchCooperativeKernel(
                        function, gx, gy, gz, bx, by, bz, shared, stream, arguments,
                    )
                } else {
                    let no_extra = ptr::null_mut();
                    cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, no_extra)
                }
            }
        })
    }

    pub(super) fn stream(&self) -> Result<CudaStream> {
        self.call("cuStreamCreate", || cust::stream::Stream::new(StreamFlags::NON_BLOCKING, None))
            .map(|stream| CudaStream(ManuallyDrop::new(stream)))
    }

    pub(super) fn synchronize(&self, stream: &CudaStream) -> Result<()> {
        self.call("kernel", || stream.0.synchronize())
    }

    /// The driver's handle of a stream, with its context current on this thread.
    pub(super) fn raw_stream(&self, stream: &CudaStream) -> Result<*mut c_void> {
        self.enter()?;
        Ok(stream.0.as_inner().cast())
    }

    /// Records what `work` enqueues on a stream, which runs none of it.
    pub(super) fn capture(
        &self,
        stream: &CudaStream,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<CudaGraph> {
        let raw = stream.0.as_inner();
        self.enter()?;
        // SAFETY: the stream is alive and of the context that was entered.
        unsafe { self.driver.begin_capture(raw) }.map_err(|error| self.call_error(error))?;
        let worked = work();
        self.enter()?;
        // SAFETY: as above.
        let graph = unsafe { self.driver.end_capture(raw) }.map_err(|error| self.call_error(error));
        match (worked, graph) {
            (Ok(()), graph) => graph.map(CudaGraph),
            (Err(error), Ok(graph)) => {
                self.drop_graph(&mut CudaGraph(graph));
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// # Safety
    /// What the recorded launches name must live until the stream was synchronised.
    pub(super) unsafe fn launch_graph(&self, graph: &CudaGraph, stream: &CudaStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the owner has the graph still; the caller answers for the rest.
        unsafe { self.driver.launch_graph(graph.0, stream.0.as_inner()) }
            .map_err(|error| self.call_error(error))
    }

    pub(super) fn drop_graph(&self, graph: &mut CudaGraph) {
        let _ = self.enter();
        // SAFETY: its owner is being dropped.
        unsafe { self.driver.destroy_graph(graph.0) };
    }

    pub(super) fn event(&self) -> Result<CudaEvent> {
        self.call("cuEventCreate", || cust::event::Event::new(EventFlags::DEFAULT))
            .map(|event| CudaEvent(ManuallyDrop::new(event)))
    }

    pub(super) fn record(&self, event: &CudaEvent, stream: &CudaStream) -> Result<()> {
        self.call("cuEventRecord", || event.0.record(&stream.0))
    }

    pub(super) fn microseconds_between(&self, start: &CudaEvent, end: &CudaEvent) -> Result<f64> {
        self.call("cuEventElapsedTime", || end.0.elapsed_time_f32(&start.0))
            .map(|milliseconds| f64::from(milliseconds) * 1e3)
    }

    // The handles are dropped once, by their owners' `Drop`, and not touched afterwards. Where the
    // context cannot be entered the process is ending or the device is lost: nothing to free.

    pub(super) fn drop_stream(&self, stream: &mut CudaStream) {
        let _ = self.enter();
        // SAFETY: see above.
        unsafe { ManuallyDrop::drop(&mut stream.0) }
    }

    pub(super) fn drop_event(&self, event: &mut CudaEvent) {
        let _ = self.enter();
        // SAFETY: see above.
        unsafe { ManuallyDrop::drop(&mut event.0) }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let entered = self.enter();
        let modules = self.modules.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (_, module) in modules.drain() {
            if entered.is_ok() {
                drop(ManuallyDrop::into_inner(module));
            }
        }
    }
}

/// Most arguments of a kernel in the suite.
const MAX_ARGUMENTS: usize = 8;

fn describe(device: CudaDevice, driver: (u32, u32)) -> Result<DeviceInfo, CudaError> {
    let attribute = |attribute| device.get_attribute(attribute).map(i32::cast_unsigned);
    let clock = f64::from(attribute(DeviceAttribute::MemoryClockRate)?) * 1e3;
    let bus_bytes = f64::from(attribute(DeviceAttribute::GlobalMemoryBusWidth)?) / 8.0;
    Ok(DeviceInfo {
        kind: Kind::Cuda,
        name: device.name()?,
        arch: Arch::new(
            attribute(DeviceAttribute::ComputeCapabilityMajor)?,
            attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
        threads_per_multiprocessor: attribute(DeviceAttribute::MaxThreadsPerMultiprocessor)?,
        // cust has no name for this attribute; it is 32 on compute capability 8.0 and 9.0, and 16
        // to 24 on the consumer chips between, where the count of threads binds first.
        blocks_per_multiprocessor: 32,
        l2_bytes: attribute(DeviceAttribute::L2CacheSize)?.into(),
        memory_bytes: device.total_memory()? as u64,
        peak_bandwidth: Some(2.0 * clock * bus_bytes),
        driver: Some(driver),
    })
}
