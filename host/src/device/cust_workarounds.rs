//! Workarounds for what cust 0.3.2 lacks or does wrong. Everything else in this folder uses cust.
//!
//! | what | problem in cust |
//! |---|---|
//! | [`non_blocking_stream`] | `Stream::new` drops the flag |
//! | [`launch`] | only plain launches: no cooperative ones, no clusters, no overlap |
//! | [`device_address`] | no call for it |
//! | [`load_ptx`] | discards the log of the driver's compiler |
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

/// Creates a stream that does not synchronise with the default stream: otherwise an upload of one thread
/// would invalidate the capture of another.
pub(super) fn non_blocking_stream(driver: &Driver) -> Result<Stream, CallError> {
    const { assert!(size_of::<Stream>() == size_of::<CUstream>(), "cust's stream is its handle") };
    let stream: CUstream = driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?.raw().cast();
    // SAFETY:
    // - `Stream` has one field, the handle, and the size of a handle, so it contains nothing else. The
    //   version of cust is pinned.
    // - The handle was just created, and nothing else destroys it.
    Ok(unsafe { transmute::<CUstream, Stream>(stream) })
}

/// Launches a kernel.
///
/// # Safety
/// As [`Driver::launch`]: there must be a pointer for each of the function's parameters, to a value of
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

/// Returns the device address of page-locked host memory.
///
/// # Safety
/// The memory must be page-locked.
pub(super) unsafe fn device_address(driver: &Driver, host: *mut c_void) -> Result<u64, CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.mem_host_get_device_pointer(host) }
}

pub(super) fn load_ptx(driver: &Driver, ptx: &str) -> Result<Module, PtxError> {
    const { assert!(size_of::<Module>() == size_of::<CUmodule>(), "cust's module is its handle") };
    let module: CUmodule = driver.module_load_ptx(ptx)?.raw().cast();
    // SAFETY: as for a stream.
    Ok(unsafe { transmute::<CUmodule, Module>(module) })
}

/// Starts capturing the work that is enqueued on a stream. Only calls of this thread that cannot be
/// captured are refused meanwhile.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn begin_capture(driver: &Driver, stream: &Stream) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.stream_begin_capture(stream.into(), sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
}

/// Ends a capture and instantiates the graph. The capture has ended even if this fails.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn end_capture(driver: &Driver, stream: &Stream) -> Result<GraphExec, CallError> {
    // SAFETY: the caller's contract; the graph was just created and is not shared, and the executable
    // graph does not depend on it.
    unsafe {
        let graph = driver.stream_end_capture(stream.into())?;
        let exec = driver.graph_instantiate(graph);
        let destroyed = driver.graph_destroy(graph);
        exec.and_then(|exec| destroyed.map(|()| exec))
    }
}

/// Enqueues a captured graph.
///
/// # Safety
/// The stream must be alive and of the current context, and the graph not destroyed; the memory that it
/// uses must live until the stream was synchronised.
pub(super) unsafe fn launch_graph(
    driver: &Driver,
    graph: GraphExec,
    stream: &Stream,
) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.graph_launch(graph, stream.into()) }
}

/// Destroys a graph.
///
/// # Safety
/// It must be called once, and the graph must not be used afterwards.
pub(super) unsafe fn destroy_graph(driver: &Driver, graph: GraphExec) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe { driver.graph_exec_destroy(graph) }
}
