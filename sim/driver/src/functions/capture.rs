use warpfold_driver::sys::*;

use super::stream::null;
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{GraphId, NodeId, Out, StreamId, list, put_if};
use crate::world::{self, State, exchange_mode, is_mode};

pub(crate) fn cuStreamBeginCapture_v2(stream: StreamId, mode: CUstreamCaptureMode) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if !is_mode(mode) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.begin_capture(stream, mode, None)
}

/// Returns an error for edges that carry more than a plain dependency.
///
/// # Safety
/// `edges` is null, or `count` edges can be read there.
pub(super) unsafe fn check_edges(edges: *const c_void, count: usize) -> Outcome {
    if edges.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract, `count` edges of 8 bytes can be read.
    let edges = unsafe { list(edges.cast::<u64>(), count) }?;
    if edges.iter().any(|&edge| edge != 0) {
        return fail_with(
            CUDA_ERROR_NOT_SUPPORTED,
            "edge data of graphs is not supported; allowed is null",
        );
    }
    Ok(())
}

/// # Safety
/// `count` nodes can be read at `first`.
pub(super) unsafe fn nodes_of(first: *const CUgraphNode, count: usize) -> Outcome<Vec<NodeId>> {
    // SAFETY: by this function's contract, `count` nodes can be read.
    Ok(unsafe { list(first, count) }?.into_iter().map(NodeId::from).collect())
}

pub(crate) fn cuStreamBeginCaptureToGraph(
    stream: StreamId,
    graph: GraphId,
    dependencies: *const CUgraphNode,
    dependency_data: *const c_void,
    num_dependencies: usize,
    mode: CUstreamCaptureMode,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if !is_mode(mode) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller passes `num_dependencies` nodes, and as many edges or null.
    let behind = unsafe {
        check_edges(dependency_data, num_dependencies)?;
        nodes_of(dependencies, num_dependencies)?
    };
    state.begin_capture(stream, mode, Some((graph, behind)))
}

pub(crate) fn cuStreamUpdateCaptureDependencies(
    stream: StreamId,
    dependencies: *mut CUgraphNode,
    num_dependencies: usize,
    flags: c_uint,
) -> Outcome {
    cuStreamUpdateCaptureDependencies_v2(stream, dependencies, null(), num_dependencies, flags)
}

pub(crate) fn cuStreamUpdateCaptureDependencies_v2(
    stream: StreamId,
    dependencies: *mut CUgraphNode,
    dependency_data: *const c_void,
    num_dependencies: usize,
    flags: c_uint,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    let add = match flags {
        CU_STREAM_ADD_CAPTURE_DEPENDENCIES => true,
        CU_STREAM_SET_CAPTURE_DEPENDENCIES => false,
        _ => return fail(CUDA_ERROR_INVALID_VALUE),
    };
    // SAFETY: the caller passes `num_dependencies` nodes, and as many edges or null.
    let nodes = unsafe {
        check_edges(dependency_data, num_dependencies)?;
        nodes_of(dependencies, num_dependencies)?
    };
    state.set_dependencies(stream, nodes, add)
}

pub(crate) fn cuStreamEndCapture(stream: StreamId, graph: Option<Out<CUgraph>>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    // `graph` may be null for a capture into an existing graph, whose handle the program has.
    if graph.is_none() && !state.is_captured_into_given(stream) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    match state.end_capture(stream) {
        Ok(captured) => put_if(graph, captured.raw()),
        Err(failure) => {
            put_if(graph, null())?;
            Err(failure)
        }
    }
}

fn info(state: &State, stream: StreamId) -> (CUstreamCaptureStatus, u64, CUgraph) {
    let capturing = state.streams.get(&stream).and_then(|stream| stream.capture.as_ref());
    let found = capturing.and_then(|one| state.captures.get(&one.capture).map(|all| (one, all)));
    match found {
        None => (CU_STREAM_CAPTURE_STATUS_NONE, 0, null()),
        Some((_, capture)) if capture.is_invalid => (CU_STREAM_CAPTURE_STATUS_INVALIDATED, 0, null()),
        Some((one, capture)) => (CU_STREAM_CAPTURE_STATUS_ACTIVE, one.capture.0, capture.graph.raw()),
    }
}

pub(crate) fn cuStreamIsCapturing(stream: StreamId, status: Out<CUstreamCaptureStatus>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.check_legacy(stream)?;
    status.put(info(&state, stream).0)
}

pub(crate) fn cuStreamGetCaptureInfo(
    stream: StreamId,
    status: Out<CUstreamCaptureStatus>,
    id: Option<Out<u64>>,
) -> Outcome {
    cuStreamGetCaptureInfo_v2(stream, status, id, None, None, None)
}

pub(crate) fn cuStreamGetCaptureInfo_v2(
    stream: StreamId,
    status: Out<CUstreamCaptureStatus>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: Option<Out<*const CUgraphNode>>,
    num_dependencies: Option<Out<usize>>,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.check_legacy(stream)?;
    let (found, number, captured) = info(&state, stream);
    status.put(found)?;
    put_if(id, number)?;
    put_if(graph, captured)?;
    let Some(stream) = state.streams.get_mut(&stream) else { return fail(CUDA_ERROR_INVALID_HANDLE) };
    let behind = stream.capture.iter().flat_map(|one| &one.behind);
    let behind: Vec<usize> = behind.map(|node| node.0 as usize).collect();
    put_if(num_dependencies, behind.len())?;
    let Some(dependencies) = dependencies else { return Ok(()) };
    stream.listed = behind;
    dependencies.put(stream.listed.as_ptr().cast())
}

pub(crate) fn cuStreamGetCaptureInfo_v3(
    stream: StreamId,
    status: Out<CUstreamCaptureStatus>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: Option<Out<*const CUgraphNode>>,
    edge_data: Option<Out<*const c_void>>,
    num_dependencies: Option<Out<usize>>,
) -> Outcome {
    // Edges have no data in the simulator.
    put_if(edge_data, null())?;
    cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, num_dependencies)
}

pub(crate) fn cuThreadExchangeStreamCaptureMode(mode: Out<CUstreamCaptureMode>) -> Outcome {
    let wanted = mode.get();
    if !is_mode(wanted) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    mode.put(exchange_mode(wanted))
}
