//! Recording of streams.

use warpfold_driver::sys::*;

use super::stream::null;
use crate::failure::{Outcome, fail};
use crate::ffi::{Out, StreamId, put_if};
use crate::world::{self, State, exchange_mode, is_mode};

pub(crate) fn cuStreamBeginCapture_v2(stream: StreamId, mode: CUstreamCaptureMode) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    if !is_mode(mode) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    state.begin_capture(stream, mode)
}

pub(crate) fn cuStreamEndCapture(stream: StreamId, graph: Out<CUgraph>) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    match state.end_capture(stream) {
        Ok(captured) => graph.put(captured.raw()),
        Err(failure) => {
            graph.put(null())?;
            Err(failure)
        }
    }
}

/// Status, number and graph of a stream's capture.
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
    cuStreamGetCaptureInfo_v2(stream, status, id, None, null(), None)
}

pub(crate) fn cuStreamGetCaptureInfo_v2(
    stream: StreamId,
    status: Out<CUstreamCaptureStatus>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: *mut *const CUgraphNode,
    num_dependencies: Option<Out<usize>>,
) -> Outcome {
    let mut state = world::lock();
    let stream = state.stream(stream)?;
    state.check_legacy(stream)?;
    // The list would have to stay in the driver's memory until the next call on the stream.
    if !dependencies.is_null() {
        return fail(CUDA_ERROR_NOT_SUPPORTED);
    }
    let (found, number, captured) = info(&state, stream);
    let behind = state.streams[&stream].capture.as_ref().map_or(0, |one| one.behind.len());
    status.put(found)?;
    put_if(id, number)?;
    put_if(graph, captured)?;
    put_if(num_dependencies, behind)
}

pub(crate) fn cuStreamGetCaptureInfo_v3(
    stream: StreamId,
    status: Out<CUstreamCaptureStatus>,
    id: Option<Out<u64>>,
    graph: Option<Out<CUgraph>>,
    dependencies: *mut *const CUgraphNode,
    edge_data: Option<Out<*const c_void>>,
    num_dependencies: Option<Out<usize>>,
) -> Outcome {
    // Edges have no data here, which is what a null pointer says.
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
