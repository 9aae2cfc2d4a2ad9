//! Graphs and stream capture.

use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Graph, GraphExec, Stream};
use crate::sys;

impl Driver {
    /// Captures the work that is enqueued on a stream, instead of running it, until
    /// [`stream_end_capture`](Self::stream_end_capture). `mode`, such as
    /// [`sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`], selects the threads on which potentially unsafe
    /// calls fail meanwhile.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_begin_capture(
        &self,
        stream: Stream,
        mode: sys::CUstreamCaptureMode,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live stream.
        unsafe { call!(self.cuStreamBeginCapture_v2(stream.raw(), mode)) }
    }

    /// Ends a capture and returns the graph. The capture has ended even if this fails.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, for example, if some work could not be captured.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_end_capture(&self, stream: Stream) -> Result<Graph, CallError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the caller guarantees a live stream; the call writes one handle to a local variable.
        unsafe { call!(self.cuStreamEndCapture(stream.raw(), &mut graph)) }?;
        Ok(Graph::from_raw(graph))
    }

    /// Returns the capture status of a stream, such as [`sys::CU_STREAM_CAPTURE_STATUS_ACTIVE`].
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_is_capturing(
        &self,
        stream: Stream,
    ) -> Result<sys::CUstreamCaptureStatus, CallError> {
        let mut status = sys::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller guarantees a live stream; the call writes one number to a local variable.
        unsafe { call!(self.cuStreamIsCapturing(stream.raw(), &mut status)) }?;
        Ok(status)
    }

    /// Sets this thread's capture mode, which decides the calls that it may make during captures.
    /// Returns the previous mode.
    pub fn thread_exchange_stream_capture_mode(
        &self,
        mode: sys::CUstreamCaptureMode,
    ) -> Result<sys::CUstreamCaptureMode, CallError> {
        let mut mode = mode;
        // SAFETY: the call reads and writes one number in a local variable.
        unsafe { call!(self.cuThreadExchangeStreamCaptureMode(&mut mode)) }?;
        Ok(mode)
    }

    /// Instantiates a graph for launching. The executable graph does not depend on `graph` afterwards.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_instantiate(&self, graph: Graph) -> Result<GraphExec, CallError> {
        let mut exec = ptr::null_mut();
        // SAFETY: the caller guarantees a live graph; the call writes one handle to a local variable.
        unsafe { call!(self.cuGraphInstantiateWithFlags(&mut exec, graph.raw(), 0)) }?;
        Ok(GraphExec::from_raw(exec))
    }

    /// Returns the number of nodes of a graph.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_node_count(&self, graph: Graph) -> Result<usize, CallError> {
        let mut count = 0;
        // SAFETY: the caller guarantees a live graph; with a null array, the call only counts its nodes.
        unsafe { call!(self.cuGraphGetNodes(graph.raw(), ptr::null_mut(), &mut count)) }?;
        Ok(count)
    }

    /// Destroys a graph, but not the executable graphs made from it.
    ///
    /// # Safety
    /// The graph must be alive and must not be used afterwards.
    pub unsafe fn graph_destroy(&self, graph: Graph) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live graph that is not used afterwards.
        unsafe { call!(self.cuGraphDestroy(graph.raw())) }
    }

    /// Uploads a graph to the device ahead of its first launch.
    ///
    /// # Safety
    /// The graph and the stream must be alive.
    pub unsafe fn graph_upload(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live graph and a live stream.
        unsafe { call!(self.cuGraphUpload(graph.raw(), stream.raw())) }
    }

    /// Enqueues the work of a graph.
    ///
    /// # Safety
    /// The graph and the stream must be alive. Everything that the graph's nodes refer to must stay
    /// alive until the stream was synchronised.
    pub unsafe fn graph_launch(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that the graph, its nodes' resources and the stream are alive.
        unsafe { call!(self.cuGraphLaunch(graph.raw(), stream.raw())) }
    }

    /// Destroys an executable graph that [`graph_instantiate`](Self::graph_instantiate) returned. A
    /// launch in progress runs to completion.
    ///
    /// # Safety
    /// The graph must be alive and must not be used afterwards.
    pub unsafe fn graph_exec_destroy(&self, graph: GraphExec) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live graph that is not used afterwards.
        unsafe { call!(self.cuGraphExecDestroy(graph.raw())) }
    }
}
