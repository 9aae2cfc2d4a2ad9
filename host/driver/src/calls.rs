//! Calls on handles of `cust` that `cust` does not have, or that its enums are too old for.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use cust::device::Device;
use cust::function::Function;
use cust::module::Module;
use cust::sys::{CUfunction, CUstream};

use crate::driver::Driver;
use crate::error::{CallError, PtxError};
use crate::sys::{self, LaunchAttribute, LaunchConfig};

/// The number of the device attribute "dynamic shared memory that a block may opt in to", for
/// [`Driver::device_attribute`].
pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int =
    sys::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;

const LOAD_PTX: &str = "cuModuleLoadDataEx";
const LOG_BYTES: usize = 16 * 1024;

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
    /// Whether it may start before the launch in front of it in the stream is over (programmatic dependent
    /// launch): the kernel then sees to that dependency itself.
    pub overlapping: bool,
}

/// A graph made ready by the driver, which [`Driver::destroy_graph`] gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphExec(NonNull<c_void>);

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
        // What is not wanted has its place behind those that count.
        let overlap =
            LaunchAttribute::new(sys::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        let cluster = cluster
            .map(|blocks| LaunchAttribute::new(sys::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &blocks));
        let (mut attributes, attribute_count) = match cluster {
            Some(cluster) => ([cluster, overlap], 1 + c_uint::from(overlapping)),
            None => ([overlap, LaunchAttribute::new(0, &[])], c_uint::from(overlapping)),
        };
        let attributes = attributes.as_mut_ptr();
        let stream = stream.cast();
        let config =
            LaunchConfig { grid, block, shared_bytes: shared, stream, attributes, attribute_count };
        // SAFETY: the configuration and its attributes live through the call, which copies them; the
        // caller answers for the rest.
        let code = unsafe {
            (self.api().cuLaunchKernelEx)(&config, function.cast(), arguments, ptr::null_mut())
        };
        self.check("cuLaunchKernelEx", code)
    }

    /// From here on what is enqueued on a stream is recorded and not run, until
    /// [`end_capture`](Self::end_capture). Only calls of this thread that could not be captured are refused
    /// meanwhile.
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn begin_capture(&self, stream: CUstream) -> Result<(), CallError> {
        let mode = sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the caller's contract.
        let code = unsafe { (self.api().cuStreamBeginCapture_v2)(stream.cast(), mode) };
        self.check("cuStreamBeginCapture_v2", code)
    }

    /// Ends a capture and makes what was recorded ready to be launched. Whatever it returns, the stream
    /// captures no more.
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn end_capture(&self, stream: CUstream) -> Result<GraphExec, CallError> {
        let api = self.api();
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: it writes one pointer to a local variable; the caller answers for the stream.
        let ended = unsafe { (api.cuStreamEndCapture)(stream.cast(), &mut graph) };
        self.check("cuStreamEndCapture", ended)?;
        // SAFETY: the graph came just now; one pointer is written to a local variable.
        let instantiated = unsafe { (api.cuGraphInstantiateWithFlags)(&mut exec, graph, 0) };
        let instantiated = self.check("cuGraphInstantiateWithFlags", instantiated);
        // SAFETY: nothing else has the graph, and what was made of it does not need it.
        unsafe { (api.cuGraphDestroy)(graph) };
        instantiated?;
        Ok(GraphExec(NonNull::new(exec.cast()).expect("instantiated")))
    }

    /// Enqueues everything that a graph recorded.
    ///
    /// # Safety
    /// The graph must not have been destroyed, `stream` be alive and of the current context; and what
    /// the recorded launches name must live until the stream was synchronised.
    pub unsafe fn launch_graph(&self, graph: GraphExec, stream: CUstream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        let code = unsafe { (self.api().cuGraphLaunch)(graph.0.as_ptr().cast(), stream.cast()) };
        self.check("cuGraphLaunch", code)
    }

    /// Gives a graph back.
    ///
    /// # Safety
    /// It must be called once, and the graph not be used afterwards.
    pub unsafe fn destroy_graph(&self, graph: GraphExec) {
        // SAFETY: the caller's contract. A failure would be that of an earlier launch.
        unsafe { (self.api().cuGraphExecDestroy)(graph.0.as_ptr().cast()) };
    }

    /// Compiles PTX for the device of the current context and loads it. Like
    /// `cust::module::Module::from_ptx`, but an error brings the driver's own code, which cust often
    /// reports as unknown, and what the driver's compiler wrote.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module, PtxError> {
        let rejected = |code, log| PtxError { error: self.failure(LOAD_PTX, code), log };
        let image = CString::new(ptx).map_err(|error| {
            let log = format!("error: a zero byte at offset {}", error.nul_position());
            rejected(sys::CUDA_ERROR_INVALID_PTX, log)
        })?;
        Module::from_ptx_cstr(&image, &[]).map_err(|error| match self.ptx_log(&image) {
            (code, log) if code != 0 => rejected(code, log),
            _ => rejected(error as c_int, String::new()),
        })
    }

    /// What the driver says about PTX that it rejected: its code, and what its compiler wrote. cust
    /// has no option for the log, and a `Module` cannot be made of a raw handle, so the failed
    /// compilation is done again.
    fn ptx_log(&self, image: &CStr) -> (c_int, String) {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut module = ptr::null_mut();
        let mut options = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // An option's value stands in the pointer itself where it fits.
        let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
        // SAFETY: the image ends in a zero byte and outlives the call; both arrays have the length
        // given; the driver writes at most `LOG_BYTES` to the log, and the length that it used over
        // the second value.
        let code = unsafe {
            (self.api().cuModuleLoadDataEx)(
                &mut module,
                image.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == 0 {
            // SAFETY: the module was loaded just now, and nothing else has its handle.
            unsafe { (self.api().cuModuleUnload)(module) };
        }
        let length = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
        (code, String::from_utf8_lossy(&log[..length]).into_owned())
    }
}
