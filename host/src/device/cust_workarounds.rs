//! Workarounds for gaps and bugs of cust 0.3.2. All other code in this folder uses cust.
//!
//! | what | problem in cust |
//! |---|---|
//! | [`non_blocking_stream`] | `Stream::new` drops the flag |
//! | [`launch`] | only plain launches: not cooperative, no clusters, no programmatic dependent launch |
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

/// Creates a stream that does not synchronise with the default stream. If it did, an upload by one
/// thread would invalidate another thread's capture.
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
/// There must be a pointer for each of the function's parameters, to a value of its type. The module
/// must be loaded and the stream alive.
pub(super) unsafe fn launch(
    driver: &Driver,
    function: &Function<'_>,
    stream: &Stream,
    shape: &LaunchShape,
    parameters: &mut [*mut c_void],
) -> Result<(), CallError> {
    let function = function.into();
    // SAFETY: pointers, module and stream are valid by this function's contract.
    unsafe { driver.launch(function, shape, stream.into(), Parameters::Pointers(parameters)) }
}

/// Returns the device address of page-locked host memory.
///
/// # Safety
/// The memory must be page-locked.
pub(super) unsafe fn device_address(driver: &Driver, host: *mut c_void) -> Result<u64, CallError> {
    // SAFETY: by this function's contract, the memory is page-locked.
    unsafe { driver.mem_host_get_device_pointer(host) }
}

pub(super) fn load_ptx(driver: &Driver, ptx: &str) -> Result<Module, PtxError> {
    const { assert!(size_of::<Module>() == size_of::<CUmodule>(), "cust's module is its handle") };
    let module: CUmodule = driver.module_load_ptx(ptx)?.raw().cast();
    // SAFETY: as in `non_blocking_stream`, with `Module` in place of `Stream`.
    Ok(unsafe { transmute::<CUmodule, Module>(module) })
}

/// Starts capturing the work that is enqueued on a stream. Until the capture ends, the driver refuses
/// calls on this thread that cannot be captured.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn begin_capture(driver: &Driver, stream: &Stream) -> Result<(), CallError> {
    // SAFETY: by this function's contract, the stream is alive and of the current context.
    unsafe { driver.stream_begin_capture(stream.into(), sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
}

/// Ends a capture and instantiates the graph. The capture has ended even if this fails.
///
/// # Safety
/// The stream must be alive and of the current context.
pub(super) unsafe fn end_capture(driver: &Driver, stream: &Stream) -> Result<GraphExec, CallError> {
    // SAFETY: by this function's contract, the stream is alive and of the current context. The graph was
    // just created and is not shared, and the executable graph does not depend on it.
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
/// The stream must be alive and of the current context. The graph must not have been destroyed, and the
/// memory that it uses must live until the stream was synchronised.
pub(super) unsafe fn launch_graph(
    driver: &Driver,
    graph: GraphExec,
    stream: &Stream,
) -> Result<(), CallError> {
    // SAFETY: by this function's contract, the stream, the graph and the memory that it uses are alive.
    unsafe { driver.graph_launch(graph, stream.into()) }
}

/// Destroys a graph.
///
/// # Safety
/// This function must be called once per graph, and the graph must not be used afterwards.
pub(super) unsafe fn destroy_graph(driver: &Driver, graph: GraphExec) -> Result<(), CallError> {
    // SAFETY: by this function's contract, the graph is destroyed once and not used afterwards.
    unsafe { driver.graph_exec_destroy(graph) }
}
