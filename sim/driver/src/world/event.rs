//! Events: points in the work of streams.

use std::time::Instant;

use warpfold_driver::sys::*;

use super::{CaptureId, State, TaskId};
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, EventId, NodeId};

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextId,
    pub(crate) flags: c_uint,
    pub(crate) record: Record,
}

#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// Not recorded; a wait for the event returns at once.
    Never,
    /// Recorded by a task that is pending, or that was dropped with its context.
    Pending(TaskId),
    /// Recorded by a task that was done at this time.
    Done(Instant),
    /// Recorded in a capture, after these nodes.
    Captured(CaptureId, Vec<NodeId>),
}

impl State {
    pub(crate) fn add_event(&mut self, context: ContextId, flags: c_uint) -> EventId {
        let id = EventId(self.new_handle());
        self.events.insert(id, Event { context, flags, record: Record::Never });
        id
    }

    pub(crate) fn event(&mut self, id: EventId) -> Outcome<&mut Event> {
        let Some(event) = self.events.get(&id) else { return fail(CUDA_ERROR_INVALID_HANDLE) };
        self.check(event.context)?;
        self.events.get_mut(&id).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
    }

    /// Returns the pending task that recorded an event; fails for an event of a capture.
    pub(crate) fn pending_record(&mut self, id: EventId) -> Outcome<Option<TaskId>> {
        match self.event(id)?.record {
            Record::Pending(task) => Ok(Some(task)),
            Record::Captured(capture, _) => {
                self.invalidate(capture);
                fail(CUDA_ERROR_CAPTURED_EVENT)
            }
            Record::Never | Record::Done(_) => Ok(None),
        }
    }
}
