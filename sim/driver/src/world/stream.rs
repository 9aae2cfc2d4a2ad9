use std::cell::Cell;

use warpfold_driver::sys::*;

use super::{Capturing, State, TaskId, thread_number};
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, StreamId};
use crate::watch::Counters;

/// The synchronisation of a stream with the legacy default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    /// This stream and the legacy stream wait for each other.
    Blocking,
    /// This stream and the legacy stream do not wait for each other.
    NonBlocking,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: ContextId,
    pub(crate) kind: Kind,
    pub(crate) priority: c_int,
    /// The last task, which may be done.
    pub(crate) last: Option<TaskId>,
    pub(crate) capture: Option<Capturing>,
    /// Dependencies returned by the last `cuStreamGetCaptureInfo`, which stay valid until the next one.
    pub(crate) listed: Vec<usize>,
    pub(crate) counters: Counters,
    /// Set if the handle was destroyed while work was pending.
    pub(crate) destroyed: bool,
}

impl Stream {
    pub(crate) fn new(context: ContextId, kind: Kind, priority: c_int) -> Self {
        Self {
            context,
            kind,
            priority,
            last: None,
            capture: None,
            listed: Vec::new(),
            counters: Counters::default(),
            destroyed: false,
        }
    }
}

thread_local! {
    /// Set while stream 0 is the thread's default stream.
    static OF_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// While this exists, stream 0 is the calling thread's default stream. Like any stream that was created
/// with the default flags, that stream and the legacy default stream wait for each other.
pub(crate) struct DefaultOfThread {
    previous: bool,
}

impl DefaultOfThread {
    pub(crate) fn set() -> Self {
        Self { previous: OF_THREAD.replace(true) }
    }
}

impl Drop for DefaultOfThread {
    fn drop(&mut self) {
        OF_THREAD.set(self.previous);
    }
}

impl State {
    pub(crate) fn add_stream(&mut self, context: ContextId, kind: Kind, priority: c_int) -> StreamId {
        let id = StreamId(self.new_handle());
        self.streams.insert(id, Stream::new(context, kind, priority));
        if kind == Kind::Blocking
            && let Some(context) = self.contexts.get_mut(&context)
        {
            context.blocking.insert(id);
        }
        id
    }

    /// Returns the stream of a handle, which may be a default stream of the current context. Fails if
    /// the stream's context or the current context is lost.
    pub(crate) fn stream(&mut self, handle: StreamId) -> Outcome<StreamId> {
        let here = self.here()?;
        let id = match handle.0 {
            0 if OF_THREAD.get() => self.of_this_thread(here)?,
            0 | 1 => self.context(here)?.legacy,
            2 => self.of_this_thread(here)?,
            _ => handle,
        };
        match self.streams.get(&id) {
            Some(stream) if !stream.destroyed => {
                self.check(stream.context)?;
                Ok(id)
            }
            _ => fail(CUDA_ERROR_INVALID_HANDLE),
        }
    }

    fn of_this_thread(&mut self, here: ContextId) -> Outcome<StreamId> {
        let thread = thread_number();
        if let Some(&id) = self.context(here)?.of_threads.get(&thread) {
            return Ok(id);
        }
        let id = self.add_stream(here, Kind::Blocking, 0);
        self.context(here)?.of_threads.insert(thread, id);
        Ok(id)
    }

    /// Invalidates the handle of a stream. Its pending work still runs when something waits for it.
    pub(crate) fn remove_stream(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.destroyed = true;
        let done = stream.last.is_none_or(|last| self.tasks.is_done(last));
        if done {
            self.purge_stream(id);
        }
    }

    /// Forgets a destroyed stream without work left.
    pub(super) fn purge_stream(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id)
            && let Some(context) = self.contexts.get_mut(&stream.context)
        {
            context.blocking.remove(&id);
        }
    }
}
