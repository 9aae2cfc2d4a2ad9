//! Devices, which are GPUs or simulated, and their contexts.

use std::{ffi::c_void, fmt, sync::Arc};

use warpfold_driver::{
    CallError, Context, Device as Ordinal, Driver, ForkGuard, Stream as RawStream, sys,
};
use warpfold_ptx::Arch;

use crate::{
    Buffer, Error, Outcome, Output, Outputs, Plain, Result, Selection, Stream,
    context::{Current, Failed},
    error,
    tuning::Shape,
};

/// A GPU or a simulated device. Clones are the same device.
///
/// [`open`](Self::open) uses the device's primary context, which it shares with `cust`, `cudarc`, the
/// CUDA runtime and everything built on it: their memory can be reduced in place
/// ([`Buffer::from_raw_parts`]). [`from_context`](Self::from_context) uses another context. Calls leave
/// the thread's current context unchanged.
///
/// The context lives as long as any object of this crate that belongs to it.
///
/// A forked child of the process that opened the device cannot use it: every call returns
/// [`Error::Forked`] at once.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    driver: &'static Driver,
    context: Context,
    hold: Hold,
    /// Stream of copies. It and the driver's default stream do not wait for each other.
    copies: RawStream,
    info: DeviceInfo,
    process: ForkGuard,
}

enum Hold {
    Primary(Ordinal),
    Foreign,
}

/// The properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name, such as `NVIDIA H200`.
    pub name: String,
    /// True if the device is simulated; its times are meaningless.
    pub simulated: bool,
    /// The ordinal of the device in this process, from 0.
    pub ordinal: u32,
    /// The compute capability, major and minor.
    pub capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Maximum number of resident threads per multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Maximum number of resident blocks per multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Size of the device memory in bytes.
    pub memory_bytes: u64,
    /// Size of the L2 cache in bytes; 0 in the simulator, which has none.
    pub l2_bytes: u64,
    /// The newest CUDA version that the driver supports, major and minor.
    pub driver_version: (u32, u32),
}

/// L2 size that launches assume in the simulator: small, so that small inputs reach every kernel.
const SIMULATED_L2: u64 = 64 << 10;

impl DeviceInfo {
    pub(crate) fn arch(&self) -> Arch {
        Arch::new(self.capability.0, self.capability.1)
    }

    fn require_capability(&self) -> Result<()> {
        if self.arch() < Arch::OLDEST {
            return Err(Error::TooOld { device: self.name.clone(), capability: self.capability });
        }
        Ok(())
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            arch: self.arch(),
            multiprocessors: self.multiprocessors,
            threads_per_multiprocessor: self.threads_per_multiprocessor,
            blocks_per_multiprocessor: self.blocks_per_multiprocessor,
            l2_bytes: if self.simulated { SIMULATED_L2 } else { self.l2_bytes },
        }
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// - [`Error::NoDriver`] if a GPU is selected and there is no driver for it, and [`Error::NoDevice`]
    ///   if there is no such device;
    /// - [`Error::NoSimulator`] if the simulator is selected and the crate was built without it;
    /// - [`Error::TooOld`] for a GPU of compute capability below 8.0;
    /// - [`Error::Driver`] if the driver fails to open the device.
    pub fn open(selection: Selection) -> Result<Self> {
        match selection {
            Selection::Auto => Self::first_gpu_or_simulator(),
            Selection::Cuda => Self::gpu(0),
            Selection::CudaOrdinal(ordinal) => Self::gpu(ordinal),
            Selection::CudaPci { domain, bus, device } => Self::at(nvidia()?, domain, bus, device),
            Selection::Sim => Self::simulated(0),
            Selection::SimOrdinal(ordinal) => Self::simulated(ordinal),
        }
    }

    /// Returns the device of a context that other code has created with NVIDIA's driver and that is not
    /// the device's primary context, which [`open`](Self::open) uses.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    ///
    /// # Safety
    /// `context` must be a `CUcontext` of that driver, and live until the device and everything created
    /// on it has been dropped.
    pub unsafe fn from_context(context: *mut c_void) -> Result<Self> {
        // SAFETY: the caller keeps the context, of NVIDIA's driver, alive as long as the device.
        unsafe { Self::in_context(nvidia()?, Context::from_raw(context.cast())) }
    }

    /// # Safety
    /// `context` must be of `driver`, and live until the device and everything created on it is dropped.
    pub(crate) unsafe fn in_context(driver: &'static Driver, context: Context) -> Result<Self> {
        // SAFETY: the caller keeps the context alive.
        let ordinal = unsafe { Current::enter(driver, context) }
            .and_then(|_current| driver.ctx_get_device())
            .map_err(|error| refused(driver.name(), "querying the context's device", error))?;
        // SAFETY: the caller keeps the context alive as long as the device and everything created on it.
        unsafe { Self::new(driver, ordinal, context, Hold::Foreign) }
    }

    fn first_gpu_or_simulator() -> Result<Self> {
        match Self::gpu(0) {
            Err(none @ (Error::NoDriver { .. } | Error::NoDevice { .. }))
                if cfg!(feature = "simulator") =>
            {
                let device = Self::simulated(0)?;
                log::warn!("warpfold uses {}: {}", device.info().name, error::in_full(&none));
                Ok(device)
            }
            found => found.inspect(|device| log::info!("warpfold uses {}", device.info().name)),
        }
    }

    fn gpu(ordinal: u32) -> Result<Self> {
        let driver = nvidia()?;
        Self::numbered(driver, ordinal, format!("cuda:{ordinal}"))
    }

    fn at(driver: &'static Driver, domain: u32, bus: u8, device: u8) -> Result<Self> {
        let address = format!("{domain:04x}:{bus:02x}:{device:02x}.0");
        let found = start(driver, &address).and_then(|count| {
            driver.device_get_by_pci_bus_id(&address).map_err(|error| match error.code {
                sys::CUDA_ERROR_INVALID_DEVICE | sys::CUDA_ERROR_INVALID_VALUE => {
                    none(&address, driver, count)
                }
                _ => refused(driver.name(), "looking up a PCI address", error),
            })
        })?;
        Self::primary(driver, found)
    }

    #[cfg(feature = "simulator")]
    fn simulated(ordinal: u32) -> Result<Self> {
        Self::numbered(warpfold_sim_driver::driver(), ordinal, format!("sim:{ordinal}"))
    }

    #[cfg(not(feature = "simulator"))]
    fn simulated(_ordinal: u32) -> Result<Self> {
        Err(Error::NoSimulator)
    }

    fn numbered(driver: &'static Driver, ordinal: u32, wanted: String) -> Result<Self> {
        let count = start(driver, &wanted)?;
        if ordinal >= count {
            return Err(none(&wanted, driver, count));
        }
        let found = driver.device_get(ordinal);
        Self::primary(driver, found.map_err(|error| refused(&wanted, "opening it", error))?)
    }

    fn primary(driver: &'static Driver, ordinal: Ordinal) -> Result<Self> {
        let context = driver
            .primary_ctx_retain(ordinal)
            .map_err(|error| refused(driver.name(), "retaining a device's context", error))?;
        // SAFETY: `primary_ctx_retain` keeps the context alive until the device is dropped.
        unsafe { Self::new(driver, ordinal, context, Hold::Primary(ordinal)) }
    }

    /// # Safety
    /// The context must live as long as the device and everything created on it; `Hold::Primary` keeps
    /// it alive.
    unsafe fn new(
        driver: &'static Driver,
        ordinal: Ordinal,
        context: Context,
        hold: Hold,
    ) -> Result<Self> {
        // SAFETY: the caller keeps the context alive.
        let made = unsafe { Current::enter(driver, context) }.and_then(|_current| {
            let info = describe(driver, ordinal)?;
            Ok((info, driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?))
        });
        match made {
            Ok((info, copies)) => {
                // From here on, dropping the device releases the context.
                let process = ForkGuard::new();
                let device = Self(Arc::new(Inner { driver, context, hold, copies, info, process }));
                device.require_process()?;
                device.info().require_capability()?;
                Ok(device)
            }
            Err(error) => {
                release(driver, &hold);
                Err(refused(driver.name(), "opening a device", error))
            }
        }
    }

    /// Returns the properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Returns the device's context, a `CUcontext`, for calls of the driver.
    pub fn as_raw_context(&self) -> *mut c_void {
        self.0.context.raw().cast()
    }

    pub(crate) fn context(&self) -> Context {
        self.0.context
    }

    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.0.hold, Hold::Primary(_))
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails to create it.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Copies elements to new memory on the device, and waits for the copy.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] if the copy fails; [`Error::Foreign`] for a type
    /// that is aligned to more than 256 bytes.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        Buffer::upload(self, values)
    }

    /// Allocates device memory for one result, zero until a reduction writes it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`].
    pub fn output<R: Outcome>(&self) -> Result<Output<R>> {
        Output::new(self)
    }

    /// Allocates device memory for `len` results, such as those of rows or segments. It is zero until a
    /// reduction writes it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`].
    pub fn outputs<R: Outcome>(&self, len: usize) -> Result<Outputs<R>> {
        Outputs::new(self, len)
    }

    /// Returns the ordinal, in this process, of the device that holds the memory at an address, a
    /// `CUdeviceptr`, or `None` if the driver has no memory there.
    ///
    /// # Errors
    /// [`Error::Driver`] if the query fails.
    pub fn ordinal_of(&self, address: u64) -> Result<Option<u32>> {
        let known = self.call("looking up memory", |driver| driver.pointer_get_attributes(address))?;
        Ok(u32::try_from(known.device_ordinal).ok().filter(|_| known.memory_type != 0))
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.0.driver
    }

    pub(crate) fn copy_stream(&self) -> RawStream {
        self.0.copies
    }

    /// Calls `wait`, and calls it again if it fails with an error after which the work may still run:
    /// the driver may report an error once while the work continues.
    pub(crate) fn wait_out(
        &self,
        doing: &'static str,
        wait: impl Fn(&'static Driver) -> Result<(), CallError>,
    ) -> Result<(), Failed<Error>> {
        let first = match self.call(doing, &wait) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // After a sticky error, nothing runs in the context.
        let ended = first.is_sticky()
            || self.call(doing, &wait).map_or_else(|again| again.is_sticky(), |()| true);
        Err(Failed { error: first, ended })
    }

    /// Returns whether the calling process opened the device. In a forked child, locks may be held by
    /// threads that do not exist, and no driver works.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.0.process.is_same_process()
    }

    pub(crate) fn require_process(&self) -> Result<()> {
        if self.is_of_this_process() {
            return Ok(());
        }
        Err(Error::Forked { device: self.info().name.clone() })
    }

    pub(crate) fn call<T>(
        &self,
        doing: &'static str,
        calls: impl FnOnce(&'static Driver) -> Result<T, CallError>,
    ) -> Result<T> {
        self.require_process()?;
        let Inner { driver, context, .. } = *self.0;
        // SAFETY: the context lives as long as the device.
        unsafe { Current::enter(driver, context) }
            .and_then(|_current| calls(driver))
            .map_err(|error| refused(&self.info().name, doing, error))
    }

    /// Runs `work`, in which this thread may make calls that are refused while a stream is being
    /// captured, such as loading a kernel.
    pub(crate) fn relax_capture(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        struct Restore<'d>(&'d Device, sys::CUstreamCaptureMode);

        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                let Self(device, mode) = *self;
                device.give_back(|driver| driver.thread_exchange_stream_capture_mode(mode).map(drop));
            }
        }

        let relaxed = sys::CU_STREAM_CAPTURE_MODE_RELAXED;
        let mode =
            self.call("capturing", |driver| driver.thread_exchange_stream_capture_mode(relaxed))?;
        let _restore = Restore(self, mode);
        work()
    }

    /// Releases a resource. If the context cannot be entered, the device is lost or the process exits,
    /// and nothing is left to release.
    pub(crate) fn give_back(&self, call: impl FnOnce(&'static Driver) -> Result<(), CallError>) {
        if let Err(error) = self.call("releasing a resource", call) {
            log::debug!("{}", error::in_full(&error));
        }
    }

    #[cfg(feature = "cust")]
    pub(crate) fn require_own(&self, address: u64) -> Result<()> {
        let known = self.call("looking up memory", |driver| driver.pointer_get_attributes(address))?;
        if known.context == Some(self.0.context) {
            return Ok(());
        }
        let reason = format!("it is in another context than the device {}", self.info().name);
        Err(Error::Foreign { what: "memory", reason })
    }

    pub(crate) fn require(&self, what: &'static str, of: &Self) -> Result<()> {
        if self == of {
            return Ok(());
        }
        let name = |device: &Self| format!("{} {}", device.info().name, device.info().ordinal);
        Err(Error::OtherDevice { what, has: name(of), needs: name(self) })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.driver, other.0.driver) && self.0.context == other.0.context
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.info().name).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Self { driver, context, copies, .. } = *self;
        // SAFETY: the context is still held, every copy has been waited for, and nothing else uses the
        // stream.
        let destroyed = unsafe {
            Current::enter(driver, context).and_then(|_current| driver.stream_destroy(copies))
        };
        if let Err(error) = destroyed {
            log::debug!("{error}");
        }
        release(driver, &self.hold);
    }
}

fn release(driver: &Driver, hold: &Hold) {
    if let Hold::Primary(ordinal) = *hold {
        // SAFETY: `hold` stands for one `primary_ctx_retain`, and no object created in the context is
        // left, because every such object holds the device.
        if let Err(error) = unsafe { driver.primary_ctx_release(ordinal) } {
            log::debug!("{error}");
        }
    }
}

fn nvidia() -> Result<&'static Driver> {
    Driver::load().map_err(|source| Error::NoDriver { source })
}

/// Initializes a driver and returns its number of devices.
fn start(driver: &'static Driver, wanted: &str) -> Result<u32> {
    let count = driver.init().and_then(|()| driver.device_count());
    count.map_err(|error| match error.code {
        sys::CUDA_ERROR_NO_DEVICE => none(wanted, driver, 0),
        // `cuInit` returns this only in a forked child whose parent has called it.
        sys::CUDA_ERROR_NOT_INITIALIZED => Error::Forked { device: driver.name().to_owned() },
        _ => refused(driver.name(), "initializing the driver", error),
    })
}

fn none(wanted: &str, driver: &Driver, count: u32) -> Error {
    let offered = format!("{} has {count} devices", driver.name());
    Error::NoDevice { wanted: wanted.to_owned(), offered }
}

fn refused(device: &str, doing: &'static str, source: CallError) -> Error {
    Error::Driver { device: device.to_owned(), doing, source: Box::new(source) }
}

fn describe(driver: &Driver, ordinal: Ordinal) -> Result<DeviceInfo, CallError> {
    let attribute = |attribute| driver.device_get_attribute(ordinal, attribute).map(i32::cast_unsigned);
    Ok(DeviceInfo {
        name: driver.device_get_name(ordinal)?,
        simulated: driver.is_simulated(),
        ordinal: ordinal.raw().cast_unsigned(),
        capability: driver.device_compute_capability(ordinal)?,
        multiprocessors: attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        threads_per_multiprocessor: attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks_per_multiprocessor: attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        memory_bytes: driver.device_total_mem(ordinal)?,
        l2_bytes: if driver.is_simulated() {
            0
        } else {
            attribute(sys::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into()
        },
        driver_version: driver.version(),
    })
}

#[cfg(test)]
mod tests;
