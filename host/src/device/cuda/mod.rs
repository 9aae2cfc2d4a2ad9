//! An NVIDIA GPU as a device: cust, with the driver bound at run time.

mod event;
mod memory;
mod raw;

use std::{
    collections::HashMap,
    ffi::{c_int, c_uint, c_void},
    mem::ManuallyDrop,
    path::Path,
    ptr,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use warpfold_driver::{
    CallError, Driver, ExtendedLaunch, GraphExec,
    cust::{
        self,
        context::CurrentContext,
        device::{Device as CudaDevice, DeviceAttribute},
        error::CudaError,
        module::Module,
        sys::{CUfunction, CUstream},
    },
};

use super::{
    DeviceInfo, Geometry, Kind,
    kernel::{ArgumentList, MAX_ARGUMENTS},
};
use crate::{Arch, Error, Result};
use raw::{
    cuFuncSetAttribute, cuLaunchCooperativeKernel, cuLaunchKernel,
    cuOccupancyMaxActiveBlocksPerMultiprocessor, cuStreamCreate, cuStreamDestroy_v2,
    cuStreamSynchronize,
};

pub(super) use event::CudaEvent;
pub(super) use memory::{LockedBytes, LockedWords};

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

// Handles need the context to be current when they are dropped, on whatever thread that is: the device
// drops them (`drop_stream`, `drop_event`, `Drop for Cuda`).

/// A stream that does not wait for the driver's default one, nor that for it. cust makes no such
/// streams: it drops the flag.
pub(super) struct CudaStream {
    raw: CUstream,
    /// Whether it records what is enqueued on it.
    capturing: AtomicBool,
}
/// A function of a module that the device keeps.
pub(super) struct CudaKernel {
    function: CUfunction,
}

/// Launches recorded from a stream.
pub(super) struct CudaGraph(GraphExec);

// SAFETY: driver handles may be used from any thread on which their context is current, and every
// use here makes it so first.
unsafe impl Send for CudaStream {}
// SAFETY: as above; the driver locks a stream for the length of a call.
unsafe impl Sync for CudaStream {}
// SAFETY: as above.
unsafe impl Send for CudaKernel {}
// SAFETY: a loaded function does not change.
unsafe impl Sync for CudaKernel {}
// SAFETY: a driver handle, used with its context current.
unsafe impl Send for CudaGraph {}

impl CudaStream {
    fn is_capturing(&self) -> bool {
        self.capturing.load(Ordering::Relaxed)
    }
}

impl Cuda {
    /// The first GPU, in its primary context.
    pub(super) fn open() -> Result<Self> {
        let no_cuda = |reason: String| Error::NoCuda { reason };
        let driver = warpfold_driver::load().map_err(|error| no_cuda(error.to_string()))?;
        cust::init(cust::CudaFlags::empty()).map_err(|error| no_cuda(error.to_string()))?;
        let device = CudaDevice::get_device(0).map_err(|error| no_cuda(error.to_string()))?;
        let context = cust::context::Context::new(device).map_err(|error| no_cuda(error.to_string()))?;
        let blocks = driver
            .device_attribute(device, MAX_BLOCKS_PER_MULTIPROCESSOR)
            .map_err(|error| no_cuda(error.to_string()))?;
        let info = describe(device, driver.version(), blocks.cast_unsigned())
            .map_err(|error| no_cuda(error.to_string()))?;
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

    /// Lets launches of a kernel ask for so much dynamic shared memory.
    pub(super) fn allow_shared(&self, kernel: &CudaKernel, bytes: u32) -> Result<()> {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        self.raw_call("cuFuncSetAttribute", || {
            // SAFETY: the function is loaded; the driver refuses what is too much.
            unsafe { cuFuncSetAttribute(kernel.function, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) }
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

    /// # Safety
    /// As [`Kernel::launch`](super::Kernel::launch).
    pub(super) unsafe fn launch(
        &self,
        kernel: &CudaKernel,
        stream: &CudaStream,
        geometry: Geometry,
        arguments: ArgumentList<'_>,
    ) -> Result<()> {
        let mut pointers = [ptr::null_mut::<c_void>(); MAX_ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(arguments.iter()) {
            *pointer = argument.as_ptr().cast_mut().cast();
        }
        let Geometry { grid, block, shared, cooperative, cluster, overlapping } = geometry;
        let overlapping = overlapping && self.info.arch >= OVERLAPPING && stream.is_capturing();
        if cluster > 1 || overlapping {
            let cluster = (cluster > 1).then_some([cluster, 1, 1]);
            let launch = ExtendedLaunch { grid, block, shared, cluster, overlapping };
            self.enter()?;
            // SAFETY: the function is loaded and the stream alive; the driver copies the arguments
            // before it returns; the caller answers for what they name.
            let launched = unsafe {
                let stream = stream.raw;
                self.driver.launch_extended(kernel.function, stream, &launch, pointers.as_mut_ptr())
            };
            return launched.map_err(|error| self.call_error(error));
        }
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let (function, stream, arguments) = (kernel.function, stream.raw, pointers.as_mut_ptr());
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
        let mut stream = ptr::null_mut();
        self.raw_call("cuStreamCreate", || {
            // SAFETY: writes one handle to a local variable.
            unsafe { cuStreamCreate(&mut stream, NON_BLOCKING) }
        })?;
        Ok(CudaStream { raw: stream, capturing: AtomicBool::new(false) })
    }

    pub(super) fn synchronize(&self, stream: &CudaStream) -> Result<()> {
        self.raw_call("kernel", || {
            // SAFETY: the stream is alive.
            unsafe { cuStreamSynchronize(stream.raw) }
        })
    }

    /// The driver's handle of a stream, with its context current on this thread.
    pub(super) fn raw_stream(&self, stream: &CudaStream) -> Result<*mut c_void> {
        self.enter()?;
        Ok(stream.raw.cast())
    }

    /// Records what `work` enqueues on a stream, which runs none of it.
    pub(super) fn capture(
        &self,
        stream: &CudaStream,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<CudaGraph> {
        let raw = stream.raw;
        self.enter()?;
        // SAFETY: the stream is alive and of the context that was entered.
        unsafe { self.driver.begin_capture(raw) }.map_err(|error| self.call_error(error))?;
        // A launch must know, and asking the driver each time would cost it more than the launch's own
        // part.
        stream.capturing.store(true, Ordering::Relaxed);
        let worked = work();
        stream.capturing.store(false, Ordering::Relaxed);
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
        unsafe { self.driver.launch_graph(graph.0, stream.raw) }.map_err(|error| self.call_error(error))
    }

    pub(super) fn drop_graph(&self, graph: &mut CudaGraph) {
        let _ = self.enter();
        // SAFETY: its owner is being dropped.
        unsafe { self.driver.destroy_graph(graph.0) };
    }

    // The handles are dropped once, by their owners' `Drop`, and not touched afterwards. Where the
    // context cannot be entered the process is ending or the device is lost: nothing to free.

    pub(super) fn drop_stream(&self, stream: &mut CudaStream) {
        let _ = self.raw_call("cuStreamDestroy", || {
            // SAFETY: see above. What it still has to do is done before it goes.
            unsafe { cuStreamDestroy_v2(stream.raw) }
        });
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

/// The number of a function's attribute: dynamic shared memory that a launch may ask for.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// The oldest architecture whose launches may overlap.
const OVERLAPPING: Arch = Arch::new(9, 0);

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;

/// `CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR`, which cust has no name for.
const MAX_BLOCKS_PER_MULTIPROCESSOR: c_int = 106;

fn describe(
    device: CudaDevice,
    driver: (u32, u32),
    blocks_per_multiprocessor: u32,
) -> Result<DeviceInfo, CudaError> {
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
        blocks_per_multiprocessor,
        l2_bytes: attribute(DeviceAttribute::L2CacheSize)?.into(),
        memory_bytes: device.total_memory()? as u64,
        peak_bandwidth: Some(2.0 * clock * bus_bytes),
        driver: Some(driver),
    })
}
