//! Stream capture: work becomes nodes of a graph and does not run.

use std::cell::Cell;
use std::collections::BTreeSet;

use warpfold_driver::sys::*;

use super::{Event, Kind, Record, State, Work, thread_number};
use crate::failure::{Failure, Outcome, fail, fail_with};
use crate::ffi::{ContextId, EventId, GraphId, NodeId, StreamId};

/// Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CaptureId(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) context: ContextId,
    origin: StreamId,
    mode: CUstreamCaptureMode,
    thread: u64,
    pub(crate) graph: GraphId,
    is_given: bool,
    /// The last nodes of streams that left the capture because they were destroyed.
    left: Vec<NodeId>,
    /// Set if the origin stream was destroyed: nothing can end the capture, and it accepts no more work.
    is_orphan: bool,
    /// Set after a call that is not allowed during stream capture.
    pub(crate) is_invalid: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Capturing {
    pub(crate) capture: CaptureId,
    /// Dependencies of the next node of this stream.
    pub(crate) behind: Vec<NodeId>,
}

thread_local! {
    static MODE: Cell<CUstreamCaptureMode> = const { Cell::new(CU_STREAM_CAPTURE_MODE_GLOBAL) };
}

pub(crate) fn exchange_mode(mode: CUstreamCaptureMode) -> CUstreamCaptureMode {
    MODE.replace(mode)
}

pub(crate) fn is_mode(mode: CUstreamCaptureMode) -> bool {
    (CU_STREAM_CAPTURE_MODE_GLOBAL..=CU_STREAM_CAPTURE_MODE_RELAXED).contains(&mode)
}

impl State {
    pub(crate) fn begin_capture(
        &mut self,
        origin: StreamId,
        mode: CUstreamCaptureMode,
        into: Option<(GraphId, Vec<NodeId>)>,
    ) -> Outcome {
        let stream = &self.streams[&origin];
        let context = stream.context;
        if stream.kind == Kind::Legacy {
            let detail = "the legacy default stream cannot be captured; make a stream for it";
            return fail_with(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, detail);
        }
        if stream.capture.is_some() {
            return fail(CUDA_ERROR_ILLEGAL_STATE);
        }
        let is_given = into.is_some();
        if let Some((graph, behind)) = &into {
            self.check_nodes(*graph, behind)?;
        }
        let (graph, behind) = into.unwrap_or_else(|| (self.add_graph(), Vec::new()));
        let (id, thread) = (CaptureId(self.new_handle()), thread_number());
        let capture = Capture {
            context,
            origin,
            mode,
            thread,
            graph,
            is_given,
            left: Vec::new(),
            is_orphan: false,
            is_invalid: false,
        };
        self.captures.insert(id, capture);
        self.set_capturing(origin, Some(Capturing { capture: id, behind }));
        Ok(())
    }

    fn set_capturing(&mut self, stream: StreamId, capturing: Option<Capturing>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = capturing;
        }
    }

    fn check_nodes(&self, graph: GraphId, nodes: &[NodeId]) -> Outcome {
        let all = &self.graph(graph)?.nodes;
        if nodes.iter().all(|node| all.contains(node)) { Ok(()) } else { fail(CUDA_ERROR_INVALID_VALUE) }
    }

    pub(crate) fn set_dependencies(&mut self, id: StreamId, nodes: Vec<NodeId>, add: bool) -> Outcome {
        if !self.is_captured(id)? {
            return fail_with(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
        }
        let graph = self.captured_graph(id)?;
        self.check_nodes(graph, &nodes)?;
        if let Some(capturing) = self.streams.get_mut(&id).and_then(|stream| stream.capture.as_mut()) {
            let before = if add { capturing.behind.clone() } else { Vec::new() };
            let new = nodes.into_iter().filter(|node| !before.contains(node));
            capturing.behind = before.iter().copied().chain(new).collect();
        }
        Ok(())
    }

    pub(crate) fn end_capture(&mut self, id: StreamId) -> Outcome<GraphId> {
        let Some(Capturing { capture: number, behind }) = self.streams[&id].capture.clone() else {
            return fail_with(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being captured");
        };
        let capture = &self.captures[&number];
        if capture.origin != id {
            self.invalidate(number);
            return fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture.thread != thread_number() {
            self.invalidate(number);
            return fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let (graph, is_given, is_invalid) = (capture.graph, capture.is_given, capture.is_invalid);
        let joined = self.are_joined(number, &behind);
        self.captures.remove(&number);
        for stream in self.streams.values_mut() {
            if stream.capture.as_ref().is_some_and(|other| other.capture == number) {
                stream.capture = None;
            }
        }
        let wrong = match (is_invalid, joined) {
            (true, _) => CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            (false, false) => CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            (false, true) => return Ok(graph),
        };
        if !is_given {
            self.remove_graph(graph)?;
        }
        fail(wrong)
    }

    /// Returns whether a stream is captured into a graph that existed before the capture.
    pub(crate) fn is_captured_into_given(&self, id: StreamId) -> bool {
        let capturing = self.streams.get(&id).and_then(|stream| stream.capture.as_ref());
        let capture = capturing.and_then(|capturing| self.captures.get(&capturing.capture));
        capture.is_some_and(|capture| capture.is_given)
    }

    /// Removes a stream from its capture before the stream is destroyed. The capture can end only after
    /// the stream's nodes have been joined.
    ///
    /// If the capture began in this stream, the capture is over; CUDA does not specify this case. The
    /// graph is dropped unless it existed before the capture, and calls that were not allowed during the
    /// capture are allowed again. Other streams of the capture stay invalidated until they are
    /// destroyed: their work was to be recorded, and must not run instead.
    pub(crate) fn leave_capture(&mut self, id: StreamId) {
        let capturing = self.streams.get_mut(&id).and_then(|stream| stream.capture.take());
        let Some(Capturing { capture: number, behind }) = capturing else { return };
        let Some(capture) = self.captures.get_mut(&number) else { return };
        capture.left.extend(behind);
        if capture.origin == id {
            (capture.is_invalid, capture.is_orphan) = (true, true);
            let (graph, is_given) = (capture.graph, capture.is_given);
            if !is_given {
                self.drop_graph(graph);
                self.forget_graph_memory();
            }
        }
        let captured = |stream: &super::Stream| {
            stream.capture.as_ref().is_some_and(|capturing| capturing.capture == number)
        };
        if self.captures[&number].is_orphan && !self.streams.values().any(captured) {
            self.captures.remove(&number);
        }
    }

    /// Returns whether all nodes that other streams have added are ancestors of `behind`.
    fn are_joined(&self, id: CaptureId, behind: &[NodeId]) -> bool {
        let mut reached = BTreeSet::new();
        let mut open = behind.to_vec();
        while let Some(node) = open.pop() {
            if reached.insert(node)
                && let Some(node) = self.nodes.get(&node)
            {
                open.extend(&node.needs);
            }
        }
        let of_others = self.streams.values().filter_map(|stream| stream.capture.as_ref());
        let mut of_others = of_others.filter(|capturing| capturing.capture == id);
        let is_joined = |nodes: &[NodeId]| nodes.iter().all(|node| reached.contains(node));
        let left = self.captures.get(&id).is_none_or(|capture| is_joined(&capture.left));
        left && of_others.all(|capturing| is_joined(&capturing.behind))
    }

    /// Returns whether a stream is being captured; fails if the capture was invalidated.
    pub(crate) fn is_captured(&self, stream: StreamId) -> Outcome<bool> {
        let Some(capturing) = self.streams.get(&stream).and_then(|stream| stream.capture.as_ref())
        else {
            return Ok(false);
        };
        match self.captures.get(&capturing.capture) {
            Some(capture) if capture.is_invalid => fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
            capture => Ok(capture.is_some()),
        }
    }

    pub(crate) fn capture_work(&mut self, stream: StreamId, work: Work) -> Outcome {
        self.capture_steps(stream, &[(work, Vec::new())])
    }

    pub(crate) fn capture_allocation(
        &mut self,
        stream: StreamId,
        context: ContextId,
        bytes: usize,
    ) -> Outcome<u64> {
        let graph = self.captured_graph(stream)?;
        let range = self.reserve(graph, context, bytes, Box::default())?;
        let address = range.address;
        self.capture_work(stream, Work::Allocate(range))?;
        Ok(address)
    }

    pub(crate) fn capture_free(&mut self, stream: StreamId, address: u64) -> Outcome {
        let graph = self.captured_graph(stream)?;
        let work = self.free_in_graph(graph, address)?;
        self.capture_work(stream, work)
    }

    fn captured_graph(&self, id: StreamId) -> Outcome<GraphId> {
        let capturing = self.streams.get(&id).and_then(|stream| stream.capture.as_ref());
        let capture = capturing.and_then(|capturing| self.captures.get(&capturing.capture));
        capture.map(|capture| capture.graph).ok_or_else(|| CUDA_ERROR_ILLEGAL_STATE.into())
    }

    /// Adds the work of a whole graph to the graph of a captured stream.
    pub(crate) fn capture_steps(&mut self, id: StreamId, steps: &[(Work, Vec<usize>)]) -> Outcome {
        let Some(Capturing { capture, behind }) = self.streams[&id].capture.clone() else {
            return fail(CUDA_ERROR_ILLEGAL_STATE);
        };
        let graph = self.captures[&capture].graph;
        let ends = self.extend_graph(graph, steps, &behind)?;
        let behind = if steps.is_empty() { behind } else { ends };
        self.set_capturing(id, Some(Capturing { capture, behind }));
        Ok(())
    }

    pub(crate) fn capture_record(&mut self, stream: StreamId, event: EventId) -> Outcome {
        let Some(Capturing { capture, behind }) = self.streams[&stream].capture.clone() else {
            return fail(CUDA_ERROR_ILLEGAL_STATE);
        };
        if let Some(Event { record, .. }) = self.events.get_mut(&event) {
            *record = Record::Captured(capture, behind);
        }
        Ok(())
    }

    pub(crate) fn capture_wait(
        &mut self,
        stream: StreamId,
        capture: CaptureId,
        nodes: &[NodeId],
    ) -> Outcome {
        if self.captures.get(&capture).is_none_or(|capture| capture.is_invalid) {
            return fail(CUDA_ERROR_CAPTURED_EVENT);
        }
        let mut behind = match self.streams[&stream].capture.clone() {
            None if self.streams[&stream].kind == Kind::Legacy => {
                self.invalidate(capture);
                return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
            }
            None => Vec::new(),
            Some(other) if other.capture == capture => other.behind,
            Some(other) => {
                self.invalidate(capture);
                self.invalidate(other.capture);
                return fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
            }
        };
        for &node in nodes {
            if !behind.contains(&node) {
                behind.push(node);
            }
        }
        self.set_capturing(stream, Some(Capturing { capture, behind }));
        Ok(())
    }

    pub(crate) fn invalidate(&mut self, id: CaptureId) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.is_invalid = true;
        }
    }

    /// Returns an error for work on the legacy stream that would have to wait for a captured stream.
    pub(crate) fn check_legacy(&mut self, id: StreamId) -> Outcome {
        let Some(stream) = self.streams.get(&id).filter(|_| !self.captures.is_empty()) else {
            return Ok(());
        };
        if stream.kind != Kind::Legacy {
            return Ok(());
        }
        let in_the_way = |stream: &&super::Stream| stream.kind == Kind::Blocking;
        let context = stream.context;
        let streams = self.streams.values().filter(in_the_way).filter(|other| other.context == context);
        let captures = streams.filter_map(|other| Some(other.capture.as_ref()?.capture));
        let takes_more = |id: &CaptureId| self.captures.get(id).is_some_and(|one| !one.is_orphan);
        let captures: Vec<_> = captures.filter(takes_more).collect();
        if captures.is_empty() {
            return Ok(());
        }
        for capture in captures {
            self.invalidate(capture);
        }
        let detail = "the legacy default stream would have to wait for a stream that is being captured; \
                      create the captured stream with CU_STREAM_NON_BLOCKING";
        fail_with(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, detail)
    }

    /// Returns an error for a potentially unsafe call, if the capture modes of the threads forbid it.
    pub(crate) fn check_unsafe_call(&mut self, call: &'static str) -> Outcome {
        if self.captures.is_empty() {
            return Ok(());
        }
        let (mode, thread) = (MODE.get(), thread_number());
        let disturbed = |capture: &Capture| match mode {
            CU_STREAM_CAPTURE_MODE_RELAXED => false,
            _ if capture.is_orphan => false,
            _ if capture.thread == thread => capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED,
            CU_STREAM_CAPTURE_MODE_GLOBAL => capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL,
            _ => false,
        };
        let disturbed: Vec<_> = self.captures.iter().filter(|(_, capture)| disturbed(capture)).collect();
        let disturbed: Vec<_> = disturbed.into_iter().map(|(&id, _)| id).collect();
        if disturbed.is_empty() {
            return Ok(());
        }
        for id in disturbed {
            self.invalidate(id);
        }
        Err(not_while_captured(call))
    }

    /// Returns an error for a wait for a captured stream, and invalidates the capture.
    pub(crate) fn check_wait(&mut self, call: &'static str, stream: StreamId) -> Outcome {
        let capturing = self.streams.get(&stream).and_then(|stream| stream.capture.as_ref());
        let Some(id) = capturing.map(|capturing| capturing.capture) else { return Ok(()) };
        self.is_captured(stream)?;
        self.invalidate(id);
        Err(not_while_captured(call))
    }

    /// Returns an error for a wait for a context with captured streams, and invalidates the captures.
    pub(crate) fn check_context_wait(&mut self, call: &'static str, context: ContextId) -> Outcome {
        let hinders = |capture: &Capture| capture.context == context && !capture.is_orphan;
        let captures = self.captures.iter().filter(|(_, capture)| hinders(capture));
        let captures: Vec<_> = captures.map(|(&id, _)| id).collect();
        for &id in &captures {
            self.invalidate(id);
        }
        if captures.is_empty() { Ok(()) } else { Err(not_while_captured(call)) }
    }
}

fn not_while_captured(call: &str) -> Failure {
    let detail = format!("{call} is not allowed while a stream is being captured");
    Failure::new(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, detail)
}
