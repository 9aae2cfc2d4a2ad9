//! Devices that run kernels: an NVIDIA GPU or the PTX simulator. Both implement the CUDA driver's
//! interface, which cust calls, so that the same code runs on either. Only a GPU has meaningful times,
//! and only the simulator has counters.

mod binding;
mod cust_workarounds;
mod graph;
mod kernel;
mod memory;
mod signature;
mod stream;

use std::{
    collections::HashMap,
    ffi::c_void,
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    path::Path,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use warpfold_abi::Arguments;
use warpfold_driver::{
    CallError, Driver,
    cust::{
        self,
        context::{
            Context, CurrentContext,
            legacy::{self, ContextFlags, ContextStack},
        },
        device::Device as CudaDevice,
        error::{CudaError, CudaResult},
        module::Module,
        stream::Stream as CudaStream,
    },
    sys,
};
use warpfold_sim_driver::Watcher;

use crate::{Arch, Error, Result, nearest, visible};

pub use graph::Graph;
pub use kernel::{Counters, Geometry, Kernel, Launched, readable, writable};
pub(crate) use memory::ResultMemory;
pub use memory::{Allocation, Buffer, HostMemory, read_value};
pub use stream::{Event, Stream};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Selection {
    /// The GPU if its driver is available, otherwise the simulator.
    #[default]
    Auto,
    Cuda,
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
                see: "there are auto, cuda and sim".into(),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Cuda,
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

#[derive(Debug, Clone, Serialize)]
pub struct DeviceInfo {
    pub kind: Kind,
    pub name: String,
    pub arch: Arch,
    pub multiprocessors: u32,
    pub threads_per_multiprocessor: u32,
    pub blocks_per_multiprocessor: u32,
    /// Bytes of L2 cache; 0 for the simulator.
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    /// Peak bandwidth of global memory in bytes per second, from its clock and bus width: two
    /// transfers per clock. None for the simulator.
    pub peak_bandwidth: Option<f64>,
    /// Version of the driver's CUDA interface, as (major, minor). None for the simulator.
    pub driver: Option<(u32, u32)>,
}

impl DeviceInfo {
    /// Returns the number of blocks that fill the device once, considering threads only.
    pub fn resident_blocks(&self, block: u32) -> u32 {
        let per_multiprocessor =
            (self.threads_per_multiprocessor / block).clamp(1, self.blocks_per_multiprocessor);
        self.multiprocessors * per_multiprocessor
    }
}

/// A GPU or the simulator. Clones are handles to the same device.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    driver: &'static Driver,
    context: ManuallyDrop<Current>,
    info: DeviceInfo,
    /// A separate stream for uploads and downloads, so that they do not wait for launches.
    copies: ManuallyDrop<CudaStream>,
    /// Modules by their text, each compiled once. They stay loaded while the device is open.
    modules: Mutex<HashMap<String, ManuallyDrop<Module>>>,
    /// True after a wait has failed without proof that the work has ended. The device is then no longer
    /// used, and nothing on it is freed: running work could still access memory that was reused.
    abandoned: AtomicBool,
}

enum Current {
    /// The primary context, shared by the whole process.
    Primary(Context),
    /// A context that only this device handle uses.
    Own(OwnContext),
}

/// A context that is destroyed on drop. cust's type is not `Send`.
struct OwnContext(legacy::Context);

// SAFETY: the driver lets any thread make a context current, and any thread destroy it.
unsafe impl Send for OwnContext {}
// SAFETY: through a shared reference the context is only made current, which any thread may do.
unsafe impl Sync for OwnContext {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.info().name).finish()
    }
}

impl Device {
    /// Opens the first device in the process's primary context. The first call of a process decides
    /// between GPU and simulator for all later ones.
    pub fn open(selection: Selection) -> Result<Self> {
        let driver = binding::bind(selection)?;
        Self::with(driver, |device| Context::new(device).map(Current::Primary))
    }

    /// Opens the first device in its own context: it shares no memory with other handles, and a failing
    /// kernel does not affect them.
    pub fn isolated(selection: Selection) -> Result<Self> {
        Self::with(binding::bind(selection)?, |device| {
            let context = legacy::Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
            // Creation pushed the new context onto this thread's stack: restore the previous one.
            ContextStack::pop()?;
            Ok(Current::Own(OwnContext(context)))
        })
    }

    /// Opens the simulator with a watcher, which observes everything that runs on this device.
    pub fn watched(watcher: Arc<dyn Watcher>) -> Result<Self> {
        let device = Self::isolated(Selection::Sim)?;
        let context = device.raw_context()?;
        warpfold_sim_driver::watch(context.cast(), watcher).expect("the simulator made it");
        Ok(device)
    }

    /// Returns the driver's handle of the context, a `CUcontext`.
    pub fn raw_context(&self) -> Result<*mut c_void> {
        let context = self.inner.driver_call(|driver| driver.ctx_get_current())?;
        Ok(context.expect("it was made current just now").raw().cast())
    }

    fn with(
        driver: &'static Driver,
        context: impl FnOnce(CudaDevice) -> CudaResult<Current>,
    ) -> Result<Self> {
        let name = if driver.is_simulated() { "the simulator" } else { "the GPU" };
        let failed = |call, error| Error::of_call(name, CallError::from_cust(call, error));
        cust::init(cust::CudaFlags::empty()).map_err(|error| failed("cuInit", error))?;
        let device = CudaDevice::get_device(0).map_err(|error| failed("cuDeviceGet", error))?;
        let info = describe(driver).map_err(|error| Error::of_call(name, error))?;
        let context = context(device).map_err(|error| failed("cuCtxCreate", error))?;
        context.enter().map_err(|error| failed("cuCtxSetCurrent", error))?;
        let copies = cust_workarounds::non_blocking_stream(driver)
            .map_err(|error| Error::of_call(name, error))?;
        let (context, copies) = (ManuallyDrop::new(context), ManuallyDrop::new(copies));
        let (modules, abandoned) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { inner: Arc::new(Inner { driver, context, info, copies, modules, abandoned }) })
    }

    /// Returns a `warpfold::Device` for the same context. It and everything created on it must be
    /// dropped before the last clone of this device.
    pub(crate) fn library(&self) -> Result<warpfold::Device> {
        let context = self.inner.driver_call(|driver| driver.ctx_get_current())?;
        let context = context.expect("it was made current just now").raw();
        // SAFETY: the context lives as long as the device, and callers drop the library's device first.
        Ok(unsafe { warpfold::internal::device(self.inner.driver, context.cast()) }?)
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    pub fn free_memory(&self) -> Result<u64> {
        self.inner.call("cuMemGetInfo", cust::memory::mem_get_info).map(|(free, _)| free as u64)
    }

    /// Refuses an allocation that does not fit. The simulator's device memory is host memory, which must
    /// also hold the host's copy of the elements, so that twice the bytes are needed.
    pub fn require_memory(&self, needed: u64) -> Result<()> {
        let free = self.free_memory()?;
        if needed > free {
            return Err(Error::OutOfMemory { device: self.info().name.clone(), needed, free });
        }
        match self.info().kind {
            Kind::Sim => crate::cpu::require_memory(needed.saturating_mul(2)),
            Kind::Cuda => Ok(()),
        }
    }

    /// Creates a stream. Its launches run in order; launches of different streams may overlap.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns whether work may still be running that cannot be waited for: see [`Stream::synchronize`].
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.is_abandoned()
    }

    /// Loads an entry of a PTX text for launches with arguments `A`. `path` names the text in errors.
    pub fn load<A: Arguments>(&self, path: &Path, ptx: &str, entry: &str) -> Result<Kernel<A>> {
        let function = self.inner.function(path, ptx, entry)?;
        signature::check(path, ptx, entry, A::PARAMETERS)?;
        Ok(Kernel { device: self.clone(), function, arguments: PhantomData })
    }

    /// Creates an event with timing.
    pub fn event(&self) -> Result<Event> {
        Event::new(self)
    }
}

/// The driver's information on this machine, for `cargo xtask doctor`.
#[derive(Debug, Clone)]
pub struct GpuProbe {
    /// Version of the driver's CUDA interface, as (major, minor).
    pub driver: (u32, u32),
    pub gpu: DeviceInfo,
}

/// Queries the GPU that [`Selection::Cuda`] would open, without binding the process to its driver.
pub fn probe() -> Result<GpuProbe> {
    let driver = binding::gpu()?;
    let no_cuda = |error: CallError| Error::NoCuda { reason: error.to_string() };
    let gpu = describe(driver).map_err(no_cuda)?;
    Ok(GpuProbe { driver: driver.version(), gpu })
}

impl Current {
    fn enter(&self) -> CudaResult<()> {
        match self {
            Self::Primary(context) => CurrentContext::set_current(context),
            Self::Own(OwnContext(context)) => CurrentContext::set_current(context),
        }
    }
}

impl Inner {
    /// Makes the context current on this thread, as every driver call requires.
    fn enter(&self) -> Result<()> {
        if self.is_abandoned() {
            return Err(Error::Abandoned { device: self.info.name.clone() });
        }
        self.context.enter().map_err(|error| self.error("cuCtxSetCurrent", error))
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Waits for work. If that fails and the work may still run, waits a second time, because an error
    /// that the driver reports once does not prove that the work has ended. If the second wait fails
    /// too, the device is abandoned.
    fn wait_out(&self, name: &'static str, wait: impl Fn() -> CudaResult<()>) -> Result<()> {
        if self.is_abandoned() {
            return self.enter();
        }
        let wait = || {
            let entered = self.context.enter().map_err(|error| ("cuCtxSetCurrent", error));
            let waited = entered.and_then(|()| wait().map_err(|error| (name, error)));
            waited.map_err(|(name, error)| CallError::from_cust(name, error))
        };
        let Err(first) = wait() else { return Ok(()) };
        // After a sticky error nothing runs in the context any more.
        if !first.is_sticky() && wait().is_err_and(|again| !again.is_sticky()) {
            self.abandoned.store(true, Ordering::Relaxed);
        }
        Err(self.failed(first))
    }

    fn call<T>(&self, name: &'static str, call: impl FnOnce() -> CudaResult<T>) -> Result<T> {
        self.enter()?;
        call().map_err(|error| self.error(name, error))
    }

    /// Calls a driver function that cust lacks; otherwise like [`call`](Self::call).
    fn driver_call<T>(&self, call: impl FnOnce(&'static Driver) -> Result<T, CallError>) -> Result<T> {
        self.enter()?;
        call(self.driver).map_err(|error| self.failed(error))
    }

    fn error(&self, call: &'static str, error: CudaError) -> Error {
        self.failed(CallError::from_cust(call, error))
    }

    fn failed(&self, error: CallError) -> Error {
        Error::of_call(&self.info.name, error)
    }

    fn function(&self, path: &Path, ptx: &str, entry: &str) -> Result<kernel::Function> {
        self.enter()?;
        // A panic while the lock was held may have omitted a module, but never inserted a broken one.
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(ptx) {
            modules.insert(ptx.to_owned(), ManuallyDrop::new(self.compile(path, ptx)?));
        }
        match modules[ptx].get_function(entry) {
            // SAFETY: the module stays in the map until `self` is dropped, and the kernel that gets the
            // function keeps `self` alive.
            Ok(function) => Ok(unsafe { kernel::Function::of_kept_module(function) }),
            Err(CudaError::NotFound) => {
                Err(Error::PtxMissing { what: entry.to_owned(), path: path.to_owned() })
            }
            Err(error) => Err(self.error("cuModuleGetFunction", error)),
        }
    }

    fn compile(&self, path: &Path, ptx: &str) -> Result<Module> {
        cust_workarounds::load_ptx(self.driver, ptx).map_err(|error| {
            let reason = if error.log.contains("Unsupported .version") {
                let (major, minor) = self.driver.version();
                format!(
                    "this PTX needs a driver that is newer than that of CUDA {major}.{minor}; update \
                     the driver"
                )
            } else {
                error.to_string()
            };
            Error::PtxRejected { path: path.to_owned(), reason }
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_abandoned() {
            return;
        }
        // If the context cannot be entered, the process is ending or the device is lost, and nothing can
        // be freed.
        if self.enter().is_ok() {
            // SAFETY: `copies` is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.copies) };
            let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
            for (_, module) in modules.drain() {
                drop(ManuallyDrop::into_inner(module));
            }
        }
        // SAFETY: `context` is dropped only here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.context) };
    }
}

/// Returns the properties of a driver's first device. Does not use cust, which calls symbols that may be
/// unbound.
fn describe(driver: &'static Driver) -> Result<DeviceInfo, CallError> {
    let device = driver.device_get(0)?;
    let attribute = |number| driver.device_get_attribute(device, number).map(i32::cast_unsigned);
    let simulated = driver.is_simulated();
    let (major, minor) = driver.device_compute_capability(device)?;
    let clock = f64::from(attribute(sys::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?) * 1e3;
    let bus_bytes = f64::from(attribute(sys::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?) / 8.0;
    Ok(DeviceInfo {
        kind: if simulated { Kind::Sim } else { Kind::Cuda },
        name: visible(&driver.device_get_name(device)?).into_owned(),
        arch: Arch::new(major, minor),
        multiprocessors: attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        threads_per_multiprocessor: attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks_per_multiprocessor: attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        l2_bytes: if simulated { 0 } else { attribute(sys::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into() },
        memory_bytes: driver.device_total_mem(device)?,
        peak_bandwidth: (!simulated).then_some(2.0 * clock * bus_bytes),
        driver: (!simulated).then_some(driver.version()),
    })
}

#[cfg(test)]
pub(crate) fn testing_info() -> DeviceInfo {
    Device::open(Selection::Sim).expect("the simulator is always there").info().clone()
}
