//! Streams and events.

use std::{
    ffi::{c_int, c_uint, c_ulonglong, c_void},
    ptr,
};

use warpfold_driver::sys::{
    CUevent, CUgraph, CUgraphNode, CUhostFn, CUstream, CUstreamCallback, CUstreamCaptureMode,
    CUstreamCaptureStatus,
};

use crate::{errors::check, functions, runtime::ready};

functions! {
    fn cudaStreamCreate(stream: *mut CUstream) {
        check((ready()?.cuStreamCreate)(stream, 0))
    }

    fn cudaStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint) {
        check((ready()?.cuStreamCreate)(stream, flags))
    }

    fn cudaStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        check((ready()?.cuStreamCreateWithPriority)(stream, flags, priority))
    }

    fn cudaStreamDestroy(stream: CUstream) {
        check((ready()?.cuStreamDestroy_v2)(stream))
    }

    fn cudaStreamSynchronize(stream: CUstream) {
        check((ready()?.cuStreamSynchronize)(stream))
    }

    fn cudaStreamQuery(stream: CUstream) {
        check((ready()?.cuStreamQuery)(stream))
    }

    fn cudaStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        check((ready()?.cuStreamWaitEvent)(stream, event, flags))
    }

    fn cudaStreamAddCallback(
        stream: CUstream,
        callback: CUstreamCallback,
        data: *mut c_void,
        flags: c_uint,
    ) {
        check((ready()?.cuStreamAddCallback)(stream, callback, data, flags))
    }

    fn cudaLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        check((ready()?.cuLaunchHostFunc)(stream, function, data))
    }

    fn cudaStreamGetFlags(stream: CUstream, flags: *mut c_uint) {
        check((ready()?.cuStreamGetFlags)(stream, flags))
    }

    fn cudaStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        check((ready()?.cuStreamGetPriority)(stream, priority))
    }

    fn cudaStreamGetId(stream: CUstream, id: *mut c_ulonglong) {
        check((ready()?.cuStreamGetId)(stream, id))
    }

    fn cudaStreamBeginCapture(stream: CUstream, mode: CUstreamCaptureMode) {
        check((ready()?.cuStreamBeginCapture_v2)(stream, mode))
    }

    fn cudaStreamBeginCaptureToGraph(
        stream: CUstream,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        edges: *const c_void,
        count: usize,
        mode: CUstreamCaptureMode,
    ) {
        let begin = ready()?.cuStreamBeginCaptureToGraph;
        check(begin(stream, graph, dependencies, edges, count, mode))
    }

    fn cudaStreamUpdateCaptureDependencies(
        stream: CUstream,
        dependencies: *mut CUgraphNode,
        edges: *const c_void,
        count: usize,
        flags: c_uint,
    ) {
        let update = ready()?.cuStreamUpdateCaptureDependencies_v2;
        check(update(stream, dependencies, edges, count, flags))
    }

    fn cudaStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        check((ready()?.cuStreamEndCapture)(stream, graph))
    }

    fn cudaStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        check((ready()?.cuStreamIsCapturing)(stream, status))
    }

    fn cudaStreamGetCaptureInfo(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut c_ulonglong,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const c_void,
        count: *mut usize,
    ) {
        if !edges.is_null() {
            edges.write(ptr::null());
        }
        check((ready()?.cuStreamGetCaptureInfo_v2)(stream, status, id, graph, dependencies, count))
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
        check((ready()?.cuThreadExchangeStreamCaptureMode)(mode))
    }

    fn cudaEventCreate(event: *mut CUevent) {
        check((ready()?.cuEventCreate)(event, 0))
    }

    fn cudaEventCreateWithFlags(event: *mut CUevent, flags: c_uint) {
        check((ready()?.cuEventCreate)(event, flags))
    }

    fn cudaEventRecord(event: CUevent, stream: CUstream) {
        check((ready()?.cuEventRecord)(event, stream))
    }

    fn cudaEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) {
        check((ready()?.cuEventRecordWithFlags)(event, stream, flags))
    }

    fn cudaEventQuery(event: CUevent) {
        check((ready()?.cuEventQuery)(event))
    }

    fn cudaEventSynchronize(event: CUevent) {
        check((ready()?.cuEventSynchronize)(event))
    }

    fn cudaEventDestroy(event: CUevent) {
        check((ready()?.cuEventDestroy_v2)(event))
    }

    fn cudaEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        check((ready()?.cuEventElapsedTime)(milliseconds, start, end))
    }
}
