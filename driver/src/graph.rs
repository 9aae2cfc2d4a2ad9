//! Graphs and stream capture.

use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Graph, GraphExec, Stream};
use crate::sys;

impl Driver {
    /// Captures, instead of runs, the work that is enqueued on a stream until
    /// [`stream_end_capture`](Self::stream_end_capture). `mode` selects which unsafe calls are refused
    /// meanwhile: with [`sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`] those of this thread.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_begin_capture(
        &self,
        stream: Stream,
        mode: sys::CUstreamCaptureMode,
    ) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuStreamBeginCapture_v2(stream.raw(), mode)) }
    }

    /// Ends a capture and returns the graph. The capture has ended even if this fails.
    ///
    /// # Errors
    /// For example `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, if some work could not be captured.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_end_capture(&self, stream: Stream) -> Result<Graph, CallError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the caller's contract; it writes one handle to a local variable.
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
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuStreamIsCapturing(stream.raw(), &mut status)) }?;
        Ok(status)
    }

    /// Sets which calls this thread may make during captures, and returns the previous mode.
    pub fn thread_exchange_stream_capture_mode(
        &self,
        mode: sys::CUstreamCaptureMode,
    ) -> Result<sys::CUstreamCaptureMode, CallError> {
        let mut mode = mode;
        // SAFETY: it reads and writes one number, a local variable.
        unsafe { call!(self.cuThreadExchangeStreamCaptureMode(&mut mode)) }?;
        Ok(mode)
    }

    /// Instantiates a graph for launching. The executable graph does not depend on `graph` afterwards.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_instantiate(&self, graph: Graph) -> Result<GraphExec, CallError> {
        let mut exec = ptr::null_mut();
        // SAFETY: the caller's contract; it writes one handle to a local variable.
        unsafe { call!(self.cuGraphInstantiateWithFlags(&mut exec, graph.raw(), 0)) }?;
        Ok(GraphExec::from_raw(exec))
    }

    /// Returns the number of nodes of a graph.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_node_count(&self, graph: Graph) -> Result<usize, CallError> {
        let mut count = 0;
        // SAFETY: the caller's contract; with a null node array it only counts them.
        unsafe { call!(self.cuGraphGetNodes(graph.raw(), ptr::null_mut(), &mut count)) }?;
        Ok(count)
    }

    /// Destroys a graph, but not the executable graphs made from it.
    ///
    /// # Safety
    /// The graph must be alive and must not be used afterwards.
    pub unsafe fn graph_destroy(&self, graph: Graph) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphDestroy(graph.raw())) }
    }

    /// Uploads a graph to the device ahead of its first launch.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn graph_upload(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphUpload(graph.raw(), stream.raw())) }
    }

    /// Enqueues the work of a graph.
    ///
    /// # Safety
    /// Both must be alive; everything that the graph's nodes refer to must live until the stream was
    /// synchronised.
    pub unsafe fn graph_launch(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphLaunch(graph.raw(), stream.raw())) }
    }

    /// Destroys an executable graph of [`graph_instantiate`](Self::graph_instantiate). A launch in
    /// progress runs to completion.
    ///
    /// # Safety
    /// It must be alive and must not be used afterwards.
    pub unsafe fn graph_exec_destroy(&self, graph: GraphExec) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphExecDestroy(graph.raw())) }
    }
}
