//! What cust 0.3.2 cannot do, or not right. Everything else of this folder goes through it.
//!
//! | what | why not by cust |
//! |---|---|
//! | [`non_blocking_stream`] | `Stream::new` drops the flag |
//! | [`launch`] | it has plain launches only: no cooperative ones, no clusters, no overlap |
//! | [`allow_shared`], [`device_address`] | it has no call for either |
//! | [`load_ptx`] | it throws away what the driver's compiler said |
//! | [`begin_capture`], [`end_capture`], [`launch_graph`], [`destroy_graph`] | its graphs cannot be recorded from a stream |

use std::{ffi::c_void, mem::transmute};

use warpfold_driver::{
    CallError, Driver, GraphExec, LaunchShape, Parameters, PtxError,
    cust::{
        function::Function,
        module::Module,
        stream::Stream,
        sys::{CUmodule, CUstream},
    },
    sys,
};

/// A stream that does not wait for the driver's default one, nor that for it: with streams of the other
/// kind an upload of one thread breaks the capture of another.
pub(super) fn non_blocking_stream(driver: &Driver) -> Result<Stream, CallError> {
    const { assert!(size_of::<Stream>() == size_of::<CUstream>(), "cust's stream is its handle") };
    let stream: CUstream = driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?.raw().cast();
    // SAFETY:
    // - `Stream` has one field, the handle, and is as large as a handle: there is nothing else in it.
    //   The version of cust is pinned.
    // - The handle came just now, and nothing else destroys it.
    Ok(unsafe { transmute::<CUstream, Stream>(stream) })
}

/// Launches a kernel.
///
/// # Safety
/// As [`Driver::launch`]: there must be a pointer for each of the function's parameters, at a value of
/// its type; the module must be loaded and the stream alive.
pub(super) unsafe fn launch(
    driver: &Driver,
    function: &Function<'_>,
    stream: &Stream,
    shape: &LaunchShape,
    parameters: &mut [*mut c_void],
) -> Result<(), CallError> {
    let function = function.into();
    // SAFETY: the caller's contract.
    unsafe { driver.launch(function, shape, stream.into(), Parameters::Pointers(parameters)) }
}

/// Where the device finds page-locked memory of the host.
///
/// # Safety
/// The memory must be locked.
pub(super) unsafe fn device_address(driver: &Driver, host: *mut c_void) -> Result<u64, CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.mem_host_get_device_pointer(host) }
}

/// Compiles PTX for the device of the current context and loads it.
pub(super) fn load_ptx(driver: &Driver, ptx: &str) -> Result<Module, PtxError> {
    const { assert!(size_of::<Module>() == size_of::<CUmodule>(), "cust's module is its handle") };
    let module: CUmodule = driver.module_load_ptx(ptx)?.raw().cast();
    // SAFETY: as for a stream.
    Ok(unsafe { transmute::<CUmodule, Module>(module) })
}

/// From here on what is enqueued on a stream is recorded and not run. Only calls of this thread that
/// cannot be recorded are refused meanwhile.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn begin_capture(driver: &Driver, stream: &Stream) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.stream_begin_capture(stream.into(), sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
}

/// Ends a recording and makes it ready to be launched. Whatever it returns, the stream records no more.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn end_capture(driver: &Driver, stream: &Stream) -> Result<GraphExec, CallError> {
    // SAFETY: the caller's contract; the graph came just now, nothing else has it, and what is made of
    // it does not need it.
    unsafe {
        let graph = driver.stream_end_capture(stream.into())?;
        let exec = driver.graph_instantiate(graph);
        let destroyed = driver.graph_destroy(graph);
        exec.and_then(|exec| destroyed.map(|()| exec))
    }
}

/// Enqueues everything that was recorded.
///
/// # Safety
/// The stream must be alive and of the current context, the graph not destroyed; what it names must live
/// until the stream was synchronised.
pub(super) unsafe fn launch_graph(
    driver: &Driver,
    graph: GraphExec,
    stream: &Stream,
) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.graph_launch(graph, stream.into()) }
}

/// Gives a graph back.
///
/// # Safety
/// It must be called once, and the graph not be used afterwards.
pub(super) unsafe fn destroy_graph(driver: &Driver, graph: GraphExec) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.graph_exec_destroy(graph) }
}
