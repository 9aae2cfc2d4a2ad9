//! Typed calls that `cust` does not have, or that its enums are too old for.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::{self, NonNull};

use cust::device::Device;
use cust::function::Function;
use cust::module::Module;
use cust::sys::{CUdevice, CUfunction, CUmodule, CUstream};

use crate::error::{CallError, PtxError};
use crate::loader::Driver;
use crate::symbols::NOT_PRESENT;

/// The number of the device attribute "dynamic shared memory that a block may opt in to", for
/// [`Driver::device_attribute`].
pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;

const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

const LOAD_PTX: &str = "cuModuleLoadDataEx";
const INVALID_PTX: c_int = 218;
const JIT_ERROR_LOG_BUFFER: c_int = 5;
const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
const LOG_BYTES: usize = 16 * 1024;

const CLUSTER_DIMENSION: c_uint = 4;
const PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;

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

/// `CUlaunchConfig`
#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: CUstream,
    attributes: *mut LaunchAttribute,
    attribute_count: c_uint,
}

/// `CUlaunchAttribute`: a number, padding to 8 bytes, a union of 64 bytes.
#[repr(C, align(8))]
struct LaunchAttribute {
    id: c_uint,
    padding: [u8; 4],
    value: [c_uint; 16],
}

impl LaunchAttribute {
    /// One whose value begins with these words.
    fn new(id: c_uint, words: &[c_uint]) -> Self {
        let mut value = [0; 16];
        value[..words.len()].copy_from_slice(words);
        Self { id, padding: [0; 4], value }
    }
}

type LaunchKernelEx =
    unsafe extern "C" fn(*const LaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void) -> c_int;
type DeviceGetAttribute = unsafe extern "C" fn(*mut c_int, c_int, CUdevice) -> c_int;
type FuncSetAttribute = unsafe extern "C" fn(CUfunction, c_int, c_int) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
type ModuleLoadDataEx =
    unsafe extern "C" fn(*mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void) -> c_int;
type ModuleUnload = unsafe extern "C" fn(CUmodule) -> c_int;
type StreamBeginCapture = unsafe extern "C" fn(CUstream, c_int) -> c_int;
type StreamEndCapture = unsafe extern "C" fn(CUstream, *mut *mut c_void) -> c_int;
type GraphInstantiate = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, u64) -> c_int;
type GraphLaunch = unsafe extern "C" fn(*mut c_void, CUstream) -> c_int;
type GraphDestroy = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Only calls of the capturing thread that could not be captured are refused meanwhile.
const CAPTURE_MODE_THREAD_LOCAL: c_int = 1;

/// A graph made ready by the driver, which [`Driver::destroy_graph`] gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphExec(NonNull<c_void>);

impl Driver {
    /// Turns what a driver function returned into a result, with the driver's words for the code.
    /// `call` names the function.
    pub fn check(&self, call: &'static str, code: c_int) -> Result<(), CallError> {
        if code == 0 { Ok(()) } else { Err(self.failure(call, code)) }
    }

    fn failure(&self, call: &'static str, code: c_int) -> CallError {
        let words = |function, otherwise: &str| {
            self.words(function, code).unwrap_or_else(|| otherwise.to_owned())
        };
        CallError {
            call,
            code,
            name: words("cuGetErrorName", "unnamed"),
            text: words("cuGetErrorString", "unknown error"),
        }
    }

    /// A device attribute by its number in `cuda.h`: those after 91 are not in cust's
    /// `DeviceAttribute`, such as [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`].
    pub fn device_attribute(&self, device: Device, number: c_int) -> Result<c_int, CallError> {
        const CALL: &str = "cuDeviceGetAttribute";
        let function = self.require(CALL)?;
        // SAFETY: this is the type of cuDeviceGetAttribute, its enum as the int that it is in C.
        let function: DeviceGetAttribute = unsafe { transmute(function) };
        let mut value = 0;
        // SAFETY: it writes one int to a local variable, and reports a number that it does not know.
        let code = unsafe { function(&mut value, number, device.as_raw()) };
        self.check(CALL, code)?;
        Ok(value)
    }

    /// Lets launches of `function` ask for up to `bytes` of dynamic shared memory. More than 48 KiB
    /// needs this call; the limit is the device's [`MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`] less the
    /// function's static shared memory.
    pub fn allow_dynamic_shared(&self, function: &Function<'_>, bytes: u32) -> Result<(), CallError> {
        const CALL: &str = "cuFuncSetAttribute";
        let set = self.require(CALL)?;
        // SAFETY: this is the type of cuFuncSetAttribute, its enum as the int that it is in C.
        let set: FuncSetAttribute = unsafe { transmute(set) };
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the handle is that of a function whose module is alive, because `Function` borrows
        // it; the driver reports a size that is too large.
        let code = unsafe { set(function.to_raw(), MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes) };
        self.check(CALL, code)
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
        const CALL: &str = "cuLaunchKernelEx";
        let call = self.require(CALL)?;
        // SAFETY: this is the type of cuLaunchKernelEx.
        let call: LaunchKernelEx = unsafe { transmute(call) };
        let &ExtendedLaunch { grid, block, shared, cluster, overlapping } = launch;
        // What is not wanted has its place behind those that count.
        let overlap = LaunchAttribute::new(PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        let cluster = cluster.map(|blocks| LaunchAttribute::new(CLUSTER_DIMENSION, &blocks));
        let (mut attributes, attribute_count) = match cluster {
            Some(cluster) => ([cluster, overlap], 1 + c_uint::from(overlapping)),
            None => ([overlap, LaunchAttribute::new(0, &[])], c_uint::from(overlapping)),
        };
        let attributes = attributes.as_mut_ptr();
        let config = LaunchConfig { grid, block, shared, stream, attributes, attribute_count };
        // SAFETY: the configuration and its attributes live through the call, which copies them; the
        // caller answers for the rest.
        let code = unsafe { call(&config, function, arguments, ptr::null_mut()) };
        self.check(CALL, code)
    }

    /// From here on what is enqueued on a stream is recorded and not run, until
    /// [`end_capture`](Self::end_capture).
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn begin_capture(&self, stream: CUstream) -> Result<(), CallError> {
        const CALL: &str = "cuStreamBeginCapture_v2";
        let begin = self.require(CALL)?;
        // SAFETY: this is the type of cuStreamBeginCapture_v2, its enum as the int that it is in C.
        let begin: StreamBeginCapture = unsafe { transmute(begin) };
        // SAFETY: the caller's contract.
        self.check(CALL, unsafe { begin(stream, CAPTURE_MODE_THREAD_LOCAL) })
    }

    /// Ends a capture and makes what was recorded ready to be launched. Whatever it returns, the stream
    /// captures no more.
    ///
    /// # Safety
    /// `stream` must be alive and of the current context.
    pub unsafe fn end_capture(&self, stream: CUstream) -> Result<GraphExec, CallError> {
        const END: &str = "cuStreamEndCapture";
        const INSTANTIATE: &str = "cuGraphInstantiateWithFlags";
        let (end, instantiate) = (self.require(END)?, self.require(INSTANTIATE)?);
        let destroy = self.require("cuGraphDestroy")?;
        // SAFETY: this is the type of cuStreamEndCapture.
        let end: StreamEndCapture = unsafe { transmute(end) };
        // SAFETY: this is the type of cuGraphInstantiateWithFlags.
        let instantiate: GraphInstantiate = unsafe { transmute(instantiate) };
        // SAFETY: this is the type of cuGraphDestroy.
        let destroy: GraphDestroy = unsafe { transmute(destroy) };
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: it writes one pointer to a local variable; the caller answers for the stream.
        self.check(END, unsafe { end(stream, &mut graph) })?;
        // SAFETY: the graph came just now; one pointer is written to a local variable.
        let instantiated = self.check(INSTANTIATE, unsafe { instantiate(&mut exec, graph, 0) });
        // SAFETY: nothing else has the graph, and what was made of it does not need it.
        unsafe { destroy(graph) };
        instantiated?;
        Ok(GraphExec(NonNull::new(exec).expect("instantiated")))
    }

    /// Enqueues everything that a graph recorded.
    ///
    /// # Safety
    /// The graph must not have been destroyed, `stream` be alive and of the current context; and what
    /// the recorded launches name must live until the stream was synchronised.
    pub unsafe fn launch_graph(&self, graph: GraphExec, stream: CUstream) -> Result<(), CallError> {
        const CALL: &str = "cuGraphLaunch";
        let launch = self.require(CALL)?;
        // SAFETY: this is the type of cuGraphLaunch.
        let launch: GraphLaunch = unsafe { transmute(launch) };
        // SAFETY: the caller's contract.
        self.check(CALL, unsafe { launch(graph.0.as_ptr(), stream) })
    }

    /// Gives a graph back.
    ///
    /// # Safety
    /// It must be called once, and the graph not be used afterwards.
    pub unsafe fn destroy_graph(&self, graph: GraphExec) {
        if let Some(destroy) = self.symbol("cuGraphExecDestroy") {
            // SAFETY: this is the type of cuGraphExecDestroy.
            let destroy: GraphDestroy = unsafe { transmute(destroy) };
            // SAFETY: the caller's contract. A failure would be that of an earlier launch.
            unsafe { destroy(graph.0.as_ptr()) };
        }
    }

    /// Compiles PTX for the device of the current context and loads it. Like
    /// `cust::module::Module::from_ptx`, but an error brings the driver's own code, which cust often
    /// reports as unknown, and what the driver's compiler wrote.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module, PtxError> {
        let rejected = |code, log| PtxError { error: self.failure(LOAD_PTX, code), log };
        let image = CString::new(ptx).map_err(|error| {
            rejected(INVALID_PTX, format!("error: a zero byte at offset {}", error.nul_position()))
        })?;
        Module::from_ptx_cstr(&image, &[]).map_err(|error| match self.ptx_log(&image) {
            Some((code, log)) if code != 0 => rejected(code, log),
            _ => rejected(error as c_int, String::new()),
        })
    }

    /// What the driver says about PTX that it rejected: its code, and what its compiler wrote. cust
    /// has no option for the log, and a `Module` cannot be made of a raw handle, so the failed
    /// compilation is done again.
    fn ptx_log(&self, image: &CStr) -> Option<(c_int, String)> {
        let (load, unload) = (self.symbol(LOAD_PTX)?, self.symbol("cuModuleUnload")?);
        // SAFETY: this is the type of cuModuleLoadDataEx, its enums as the ints that they are in C.
        let load: ModuleLoadDataEx = unsafe { transmute(load) };
        // SAFETY: this is the type of cuModuleUnload, likewise.
        let unload: ModuleUnload = unsafe { transmute(unload) };

        let mut log = vec![0_u8; LOG_BYTES];
        let mut module = ptr::null_mut();
        let mut options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // An option's value stands in the pointer itself where it fits.
        let mut values = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
        // SAFETY: the image ends in a zero byte and outlives the call; both arrays have the length
        // given; the driver writes at most `LOG_BYTES` to the log, and the length that it used over
        // the second value.
        let code = unsafe {
            load(
                &mut module,
                image.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == 0 {
            // SAFETY: the module was loaded just now, and nothing else has its handle.
            unsafe { unload(module) };
        }
        let length = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
        Some((code, String::from_utf8_lossy(&log[..length]).into_owned()))
    }

    /// A function that the call in question cannot do without.
    fn require(&self, call: &'static str) -> Result<NonNull<c_void>, CallError> {
        self.symbol(call).ok_or_else(|| CallError {
            call,
            code: NOT_PRESENT,
            name: "CUDA_ERROR_NOT_FOUND".to_owned(),
            text: "this driver does not have it".to_owned(),
        })
    }

    fn words(&self, function: &str, code: c_int) -> Option<String> {
        let function = self.symbol(function)?;
        // SAFETY: this is the type of cuGetErrorName and cuGetErrorString.
        let function: ErrorText = unsafe { transmute(function) };
        let mut text = ptr::null();
        // SAFETY: either function takes any code and writes one pointer to a local variable.
        let status = unsafe { function(code, &mut text) };
        if status != 0 || text.is_null() {
            return None;
        }
        // SAFETY: the driver answered with a string of its own, which ends in a zero byte and is
        // never freed.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_cuda_h() {
        assert_eq!((size_of::<LaunchAttribute>(), size_of::<LaunchConfig>()), (72, 56));
    }
}
