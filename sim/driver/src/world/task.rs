//! Pending work.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;
use std::thread::Thread;

use warpfold_driver::sys::*;
use warpfold_sim::{Launch, Module};

use super::{ById, Condition, Conditional, Event, Kind, Record, Reserved, State};
use crate::failure::{Outcome, fail};
use crate::ffi::{ContextId, EventId, ModuleId, StreamId};
use crate::late;
use crate::staging::Staged;
use crate::watch::LaunchRecord;

/// Id of a task; ids are in the order of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskId(u64);

#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// No work: a point in the stream's order.
    Nothing,
    Launch(Arc<LaunchRequest>),
    Copy(Arc<Transfer>),
    Fill(Fill),
    Host(HostCall),
    Record(EventId),
    /// Sets conditions to their initial values.
    Begin(Arc<[Arc<Condition>]>),
    Conditional(Arc<Conditional>),
    Allocate(Arc<Reserved>),
    /// Frees memory in the order of the stream.
    Release(u64),
}

#[derive(Debug)]
pub(crate) struct LaunchRequest {
    pub(crate) module: ModuleId,
    pub(crate) context: ContextId,
    pub(crate) program: Module,
    pub(crate) entry: Arc<CStr>,
    pub(crate) shape: Launch,
    pub(crate) parameters: Vec<u8>,
    pub(crate) record: Arc<LaunchRecord>,
}

impl LaunchRequest {
    pub(crate) fn entry_name(&self) -> &str {
        self.entry.to_str().unwrap_or_default()
    }
}

#[derive(Clone)]
pub(crate) enum End {
    /// Memory that kernels can access, of a device or of the host.
    Memory(u64),
    /// Other host memory, which the program does not touch until the copy is done.
    Host(u64),
    /// Bytes copied from host memory when the copy was requested.
    Staged(Arc<Staged>),
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(address) => write!(f, "memory at {address:#x}"),
            Self::Host(address) => write!(f, "the host's memory at {address:#x}"),
            Self::Staged(bytes) => write!(f, "{} staged bytes", bytes.bytes().len()),
        }
    }
}

/// A copy in one to three dimensions: `planes` planes of `rows` rows of `bytes` bytes.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) to: End,
    pub(crate) from: End,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) planes: u64,
    pub(crate) to_step: Step,
    pub(crate) from_step: Step,
}

/// Bytes from one row to the next, and from one plane to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) row: u64,
    pub(crate) plane: u64,
}

impl Transfer {
    pub(crate) fn of(to: End, from: End, bytes: u64) -> Self {
        let step = Step { row: bytes, plane: bytes };
        Self { to, from, bytes, rows: 1, planes: 1, to_step: step, from_step: step }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0 || self.rows == 0 || self.planes == 0
    }

    pub(crate) fn row_starts(&self, step: Step) -> impl Iterator<Item = u64> {
        let rows = self.rows;
        (0..self.planes)
            .flat_map(move |plane| (0..rows).map(move |row| plane * step.plane + row * step.row))
    }

    /// Returns the bytes from the start of the first row to the end of the last one, gaps included.
    pub(crate) fn span(&self, step: Step) -> u64 {
        match self.is_empty() {
            true => 0,
            false => step.plane * (self.planes - 1) + step.row * (self.rows - 1) + self.bytes,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) to: u64,
    /// The value, repeated to 8 bytes.
    pub(crate) pattern: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) pitch: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    pub(crate) data: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum HostFunction {
    /// Called if the preceding work succeeded.
    Plain(unsafe extern "C" fn(*mut c_void)),
    /// Called in any case, with the stream and the outcome of the preceding work.
    Callback(unsafe extern "C" fn(CUstream, c_int, *mut c_void), StreamId),
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) stream: StreamId,
    pub(crate) context: ContextId,
    pub(crate) work: Work,
    /// Tasks that must be done before this one; all are older.
    pub(crate) needs: Vec<TaskId>,
    pub(crate) running: bool,
    /// Number of queries that reported the task as pending.
    queries: u32,
    /// Set by a search of [`Tasks::with_ancestors`] that has found the task.
    found: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    next: u64,
    pub(super) pending: ById<TaskId, Task>,
    /// Bytes staged for pending copies.
    pub(super) staged: u64,
    /// The thread that runs pending work when no driver call is made for long.
    pub(super) background_runner: Option<Thread>,
}

impl Tasks {
    /// Counts a query of a task. Returns whether the query runs the task, which it does after `usual`
    /// earlier ones, or more in late mode. The first queries leave the task pending, so that a single
    /// query cannot replace a wait; a later one runs the task, so that polling ends.
    pub(crate) fn query_runs(&mut self, id: TaskId, usual: u32) -> bool {
        let Some(task) = self.pending.get_mut(&id) else { return true };
        let runs = task.queries >= late::queries(usual);
        task.queries = task.queries.saturating_add(1);
        runs
    }

    pub(crate) fn is_done(&self, id: TaskId) -> bool {
        !self.pending.contains_key(&id)
    }

    pub(crate) fn staged(&self) -> u64 {
        self.staged
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.pending.iter().map(|(&id, task)| (id, task))
    }

    pub(crate) fn of(&self, context: ContextId) -> Vec<TaskId> {
        self.all().filter(|(_, task)| task.context == context).map(|(id, _)| id).collect()
    }

    pub(super) fn drop_of(&mut self, context: ContextId) {
        self.pending.retain(|_, task| task.context != context);
        self.staged = self.pending.values().map(|task| task.work.staged_bytes()).sum();
    }

    /// Returns `targets` and all their dependencies, in an order in which they may run: oldest first, or
    /// in late mode newest first as far as dependencies allow.
    pub(super) fn with_ancestors(&mut self, targets: &[TaskId]) -> Vec<TaskId> {
        if late::is_late() {
            return self.newest_first(targets);
        }
        let (mut found, mut open) = (Vec::new(), targets.to_vec());
        while let Some(id) = open.pop() {
            if let Some(task) = self.pending.get_mut(&id)
                && !task.found
            {
                task.found = true;
                found.push(id);
                open.extend_from_slice(&task.needs);
            }
        }
        for id in &found {
            if let Some(task) = self.pending.get_mut(id) {
                task.found = false;
            }
        }
        found.sort_unstable();
        found
    }

    /// Orders targets and ancestors by depth-first search: each task follows its dependencies, the
    /// newest of them first.
    fn newest_first(&self, targets: &[TaskId]) -> Vec<TaskId> {
        let ascending = |ids: &[TaskId]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.into_iter().map(|id| (id, false))
        };
        let (mut order, mut found) = (Vec::new(), HashSet::new());
        // Tasks, with a flag that is set once their dependencies are in the order.
        let mut open: Vec<(TaskId, bool)> = ascending(targets).collect();
        while let Some((id, is_next)) = open.pop() {
            if is_next {
                order.push(id);
            } else if let Some(task) = self.pending.get(&id)
                && found.insert(id)
            {
                open.push((id, true));
                open.extend(ascending(&task.needs));
            }
        }
        order
    }
}

impl Work {
    pub(super) fn staged_bytes(&self) -> u64 {
        match self {
            Self::Copy(transfer) => match &transfer.from {
                End::Staged(staged) => staged.bytes().len() as u64,
                _ => 0,
            },
            _ => 0,
        }
    }
}

impl State {
    /// Enqueues work on a stream and returns the task, or adds it to the graph if the stream is being
    /// captured.
    pub(crate) fn submit(&mut self, stream: StreamId, work: Work) -> Outcome<Option<TaskId>> {
        if self.is_captured(stream)? {
            self.capture_work(stream, work)?;
            return Ok(None);
        }
        self.check_legacy(stream)?;
        Ok(Some(self.enqueue(stream, work, &[])))
    }

    /// Adds a task after the work of a stream and after other tasks.
    pub(crate) fn enqueue(&mut self, stream: StreamId, work: Work, others: &[TaskId]) -> TaskId {
        let mut needs = self.before_next(stream);
        needs.extend(others.iter().copied().filter(|&id| !self.tasks.is_done(id)));
        let id = self.add_task(stream, work, needs);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.last = Some(id);
        }
        id
    }

    /// Adds a task that depends on `needs` only.
    pub(crate) fn add_task(&mut self, stream: StreamId, work: Work, needs: Vec<TaskId>) -> TaskId {
        let id = TaskId(self.tasks.next);
        self.tasks.next += 1;
        self.tasks.staged += work.staged_bytes();
        if let Work::Record(event) = work
            && let Some(Event { record, .. }) = self.events.get_mut(&event)
        {
            *record = Record::Pending(id);
        }
        let context = self.streams[&stream].context;
        let task = Task { stream, context, work, needs, running: false, queries: 0, found: false };
        self.tasks.pending.insert(id, task);
        self.attend();
        id
    }

    /// Returns the pending tasks on which the next task of a stream depends.
    pub(crate) fn before_next(&self, id: StreamId) -> Vec<TaskId> {
        let Some(stream) = self.streams.get(&id) else { return Vec::new() };
        let pending = |id: &TaskId| !self.tasks.is_done(*id);
        let last = |id: &StreamId| self.streams.get(id).and_then(|stream| stream.last);
        let mut needs: Vec<TaskId> = stream.last.into_iter().filter(pending).collect();
        let Some(context) = self.contexts.get(&stream.context) else { return needs };
        match stream.kind {
            Kind::Legacy => needs.extend(context.blocking.iter().filter_map(last).filter(pending)),
            Kind::Blocking => needs.extend(last(&context.legacy).filter(pending)),
            Kind::NonBlocking => {}
        }
        needs
    }

    /// Returns the pending tasks that a wait for a stream must complete.
    pub(crate) fn left_on(&self, id: StreamId) -> Vec<TaskId> {
        match self.streams.get(&id) {
            Some(stream) if stream.kind == Kind::Legacy => self.before_next(id),
            Some(stream) => stream.last.into_iter().filter(|&id| !self.tasks.is_done(id)).collect(),
            None => Vec::new(),
        }
    }

    pub(crate) fn check_same_context(&self, stream: StreamId, context: ContextId) -> Outcome {
        match self.streams.get(&stream) {
            Some(stream) if stream.context == context => Ok(()),
            _ => fail(CUDA_ERROR_INVALID_HANDLE),
        }
    }
}
