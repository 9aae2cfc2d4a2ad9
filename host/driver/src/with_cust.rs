//! What goes between `cust` and this crate: errors, handles, and calls on its handles that `cust` does not
//! have, or that its enums are too old for.

use std::ffi::{c_int, c_void};
use std::ptr;

use cust::device::Device;
use cust::error::CudaError;
use cust::function::Function;
use cust::module::Module;
use cust::sys::{CUfunction, CUstream};

use crate::driver::{Driver, call};
use crate::error::{CallError, PtxError};
use crate::handle::{GraphExec, Stream};
use crate::launch::LaunchShape;
use crate::symbols::{loaded, take_unnamed_code};
use crate::sys;

/// The number of the device attribute "dynamic shared memory that a block may opt in to", for
/// [`Driver::device_attribute`].
pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int =
    sys::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;

/// A launch with attributes, which the plain call does not take.
#[derive(Debug, Clone, Copy)]
pub struct ExtendedLaunch {
    /// Blocks in x, y and z: multiples of the cluster's.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Blocks of a cluster in x, y and z, if they form clusters.
    pub cluster: Option<[u32; 3]>,
    /// Whether it may start before the launch in front of it in the stream is over (programmatic
    /// dependent launch): the kernel then sees to that dependency itself.
    pub overlapping: bool,
}

impl CallError {
    /// The error of a call that cust made through the symbols, named as in `cuda.h`. It must be made before
    /// another call of cust's on this thread, because it asks for what cust's enum could not say: the true
    /// code behind [`CudaError::UnknownError`], and what the driver knows beyond the code.
    ///
    /// ```
    /// use warpfold_driver::{CallError, cust};
    ///
    /// fn start() -> Result<(), Box<dyn std::error::Error>> {
    ///     let driver = warpfold_driver::load()?;
    ///     cust::init(cust::CudaFlags::empty()).map_err(|error| CallError::from_cust("cuInit", error))?;
    ///     println!("started {}", driver.name());
    ///     Ok(())
    /// }
    /// # if let Err(error) = start() { println!("{error}"); }
    /// ```
    pub fn from_cust(call: &'static str, error: CudaError) -> Self {
        let code = match error {
            CudaError::UnknownError => take_unnamed_code(),
            error => error as c_int,
        };
        match (error, loaded()) {
            // These are made by cust, not by a driver.
            (CudaError::InvalidMemoryAllocation | CudaError::OptixError, _) => Self {
                call,
                code,
                name: format!("{error:?}").into(),
                text: error.to_string().into(),
                detail: None,
            },
            (_, Some(driver)) => driver.failure(call, code),
            (_, None) => {
                Self::with_detail(call, code, "the cu* symbols are bound to no driver".to_owned())
            }
        }
    }
}

macro_rules! conversions {
    ($($from:ty => $to:ident: $handle:ident => $raw:expr;)*) => {$(
        impl From<$from> for crate::$to {
            fn from($handle: $from) -> Self {
                Self::from_raw($raw)
            }
        }
    )*};
}

conversions! {
    Device => Device: device => device.as_raw();
    &cust::context::Context => Context: context => context.as_raw().cast();
    &Function<'_> => Function: function => function.to_raw().cast();
    &cust::stream::Stream => Stream: stream => stream.as_inner().cast();
}

impl Driver {
    /// A device attribute by its number in `cuda.h`: those after 91 are not in cust's
    /// `DeviceAttribute`, such as [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`].
    pub fn device_attribute(&self, device: Device, number: c_int) -> Result<c_int, CallError> {
        let mut value = 0;
        // SAFETY: it writes one int to a local variable, and reports a number that it does not know.
        let code = unsafe { (self.api().cuDeviceGetAttribute)(&mut value, number, device.as_raw()) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }

    /// Lets launches of `function` ask for up to `bytes` of dynamic shared memory. More than 48 KiB
    /// needs this call; the limit is the device's [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`] less the
    /// function's static shared memory.
    pub fn allow_dynamic_shared(&self, function: &Function<'_>, bytes: u32) -> Result<(), CallError> {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the handle is that of a function whose module is alive, because `Function` borrows
        // it; the driver reports a size that is too large.
        let code =
            unsafe { (self.api().cuFuncSetAttribute)(function.to_raw().cast(), attribute, bytes) };
        self.check("cuFuncSetAttribute", code)
    }

    /// Launches a kernel with attributes, which `cust` has no call for. Drivers have it since CUDA 11.8.
    ///
    /// # Safety
    /// As `cuLaunchKernelEx`: `function` must be loaded in the current context, `stream` alive, and
    /// `arguments` point at one pointer for each parameter of the function, each at a value of its
    /// type; what the kernel reads and writes is up to the caller.
    pub unsafe fn launch_extended(
        &self,
        function: CUfunction,
        stream: CUstream,
        launch: &ExtendedLaunch,
        arguments: *mut *mut c_void,
    ) -> Result<(), CallError> {
        let &ExtendedLaunch { grid, block, shared, cluster, overlapping } = launch;
        let shape =
            LaunchShape { grid, block, shared_bytes: shared, cooperative: false, cluster, overlapping };
        shape.with_config(Stream::from_raw(stream.cast()), |config| {
            // SAFETY: the configuration and its attributes live through the call, which copies them; the
            // caller answers for the rest.
            unsafe { call!(self.cuLaunchKernelEx(config, function.cast(), arguments, ptr::null_mut())) }
        })
    }

    /// From here on what is enqueued on a stream is recorded and not run, until
    /// [`end_capture`](Self::end_capture). Only calls of this thread that could not be captured are
    /// refused meanwhile.
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn begin_capture(&self, stream: CUstream) -> Result<(), CallError> {
        let mode = sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the caller's contract.
        unsafe { self.stream_begin_capture(Stream::from_raw(stream.cast()), mode) }
    }

    /// Ends a capture and makes what was recorded ready to be launched. Whatever it returns, the stream
    /// captures no more.
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn end_capture(&self, stream: CUstream) -> Result<GraphExec, CallError> {
        // SAFETY: the caller's contract.
        let graph = unsafe { self.stream_end_capture(Stream::from_raw(stream.cast())) }?;
        // SAFETY: the graph came just now; nothing else has it, and what is made of it does not need it.
        unsafe {
            let made = self.graph_instantiate(graph);
            let _ = self.graph_destroy(graph);
            made
        }
    }

    /// Enqueues everything that a graph recorded.
    ///
    /// # Safety
    /// The graph must not have been destroyed, `stream` be alive and of the current context; and what
    /// the recorded launches name must live until the stream was synchronised.
    pub unsafe fn launch_graph(&self, graph: GraphExec, stream: CUstream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { self.graph_launch(graph, Stream::from_raw(stream.cast())) }
    }

    /// Gives a graph back.
    ///
    /// # Safety
    /// It must be called once, and the graph not be used afterwards.
    pub unsafe fn destroy_graph(&self, graph: GraphExec) {
        // SAFETY: the caller's contract. A failure would be that of an earlier launch.
        let _ = unsafe { self.graph_exec_destroy(graph) };
    }

    /// Compiles PTX for the device of the current context and loads it. Like
    /// `cust::module::Module::from_ptx`, but an error brings the driver's own code, which cust often
    /// reports as unknown, and what the driver's compiler wrote.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module, PtxError> {
        let image = self.c_ptx(ptx)?;
        // cust has no option for the log, and a `Module` cannot be made of a raw handle, so a failed
        // compilation is done again.
        Module::from_ptx_cstr(&image, &[]).map_err(|error| match self.module_load_c_ptx(&image) {
            Err(error) => error,
            Ok(module) => {
                // SAFETY: the module was loaded just now, and nothing else has its handle.
                let _ = unsafe { self.module_unload(module) };
                PtxError::new(self.failure("cuModuleLoadDataEx", error as c_int), String::new())
            }
        })
    }
}
