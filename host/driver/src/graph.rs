//! Graphs, and their recording from streams.

use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Graph, GraphExec, Stream};
use crate::sys;

impl Driver {
    /// From here on what is enqueued on a stream is recorded and not run, until
    /// [`stream_end_capture`](Self::stream_end_capture). `mode` says which calls that could not be
    /// recorded are refused meanwhile: with [`sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`] those of this
    /// thread.
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

    /// Ends a recording and returns what was recorded. Whatever it returns, the stream records no more.
    ///
    /// # Errors
    /// Such as `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`, if something could not be recorded.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_end_capture(&self, stream: Stream) -> Result<Graph, CallError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the caller's contract; it writes one handle to a local variable.
        unsafe { call!(self.cuStreamEndCapture(stream.raw(), &mut graph)) }?;
        Ok(Graph::from_raw(graph))
    }

    /// Whether a stream records: a number like [`sys::CU_STREAM_CAPTURE_STATUS_ACTIVE`].
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

    /// Sets which calls this thread may make while streams record, and returns what was set before.
    pub fn thread_exchange_stream_capture_mode(
        &self,
        mode: sys::CUstreamCaptureMode,
    ) -> Result<sys::CUstreamCaptureMode, CallError> {
        let mut mode = mode;
        // SAFETY: it reads and writes one number, a local variable.
        unsafe { call!(self.cuThreadExchangeStreamCaptureMode(&mut mode)) }?;
        Ok(mode)
    }

    /// Makes a graph ready to be launched. It does not need the graph afterwards.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_instantiate(&self, graph: Graph) -> Result<GraphExec, CallError> {
        let mut exec = ptr::null_mut();
        // SAFETY: the caller's contract; it writes one handle to a local variable.
        unsafe { call!(self.cuGraphInstantiateWithFlags(&mut exec, graph.raw(), 0)) }?;
        Ok(GraphExec::from_raw(exec))
    }

    /// How many nodes a graph has.
    ///
    /// # Safety
    /// The graph must be alive.
    pub unsafe fn graph_node_count(&self, graph: Graph) -> Result<usize, CallError> {
        let mut count = 0;
        // SAFETY: the caller's contract; without a place for the nodes it only counts them.
        unsafe { call!(self.cuGraphGetNodes(graph.raw(), ptr::null_mut(), &mut count)) }?;
        Ok(count)
    }

    /// Gives a graph back, but not what was made of it.
    ///
    /// # Safety
    /// The graph must be alive and is not afterwards.
    pub unsafe fn graph_destroy(&self, graph: Graph) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphDestroy(graph.raw())) }
    }

    /// Sends a graph to the device ahead of its first launch.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn graph_upload(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphUpload(graph.raw(), stream.raw())) }
    }

    /// Enqueues everything that is in a graph.
    ///
    /// # Safety
    /// Both must be alive; what the graph's nodes name must live until the stream was synchronised.
    pub unsafe fn graph_launch(&self, graph: GraphExec, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphLaunch(graph.raw(), stream.raw())) }
    }

    /// Gives back what [`graph_instantiate`](Self::graph_instantiate) made. A launch under way is
    /// finished.
    ///
    /// # Safety
    /// It must be alive and is not afterwards.
    pub unsafe fn graph_exec_destroy(&self, graph: GraphExec) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuGraphExecDestroy(graph.raw())) }
    }
}
