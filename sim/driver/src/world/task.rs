//! Work that was asked for and is not done.

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

/// Tasks by the order in which they were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskId(u64);

/// What a task does.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Nothing: a point in the order.
    Nothing,
    Launch(Arc<Launching>),
    Copy(Arc<Transfer>),
    Fill(Fill),
    Host(HostCall),
    /// Says that everything before is done.
    Record(EventId),
    /// Gives what kernels decide by the values that it begins with.
    Begin(Arc<[Arc<Condition>]>),
    /// Runs graphs as kernels have decided.
    Conditional(Arc<Conditional>),
    /// Allocates memory of a graph.
    Allocate(Arc<Reserved>),
    /// Frees memory in the order of the stream.
    Release(u64),
}

/// A launch with all that it needs.
#[derive(Debug)]
pub(crate) struct Launching {
    pub(crate) module: ModuleId,
    pub(crate) context: ContextId,
    pub(crate) program: Module,
    pub(crate) entry: Arc<CStr>,
    pub(crate) shape: Launch,
    pub(crate) parameters: Vec<u8>,
    pub(crate) record: Arc<LaunchRecord>,
}

impl Launching {
    /// The name of the entry.
    pub(crate) fn entry_name(&self) -> &str {
        self.entry.to_str().unwrap_or_default()
    }
}

/// One end of a copy.
#[derive(Clone)]
pub(crate) enum End {
    /// Memory of a device, or of the host where kernels reach it.
    Memory(u64),
    /// Other memory of the host, which the program leaves alone until the copy is done.
    Host(u64),
    /// Bytes that were taken from there when the copy was asked for.
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

/// A copy of planes of rows of bytes.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) to: End,
    pub(crate) from: End,
    /// Bytes of a row.
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
    /// A copy of one row.
    pub(crate) fn of(to: End, from: End, bytes: u64) -> Self {
        let step = Step { row: bytes, plane: bytes };
        Self { to, from, bytes, rows: 1, planes: 1, to_step: step, from_step: step }
    }

    /// Whether there is nothing to copy.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0 || self.rows == 0 || self.planes == 0
    }

    /// Where each row begins, from the first one on.
    pub(crate) fn row_starts(&self, step: Step) -> impl Iterator<Item = u64> {
        let rows = self.rows;
        (0..self.planes)
            .flat_map(move |plane| (0..rows).map(move |row| plane * step.plane + row * step.row))
    }

    /// Bytes from the first one of all planes to the last one, at such steps.
    pub(crate) fn span(&self, step: Step) -> u64 {
        match self.is_empty() {
            true => 0,
            false => step.plane * (self.planes - 1) + step.row * (self.rows - 1) + self.bytes,
        }
    }
}

/// A memset of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) to: u64,
    /// The value, as often as it fits into 8 bytes.
    pub(crate) pattern: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) pitch: u64,
}

/// A call of the program's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    /// The program's argument, as a number.
    pub(crate) data: usize,
}

/// What a host node calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HostFunction {
    /// If what was before it went well.
    Plain(unsafe extern "C" fn(*mut c_void)),
    /// In any case, with the stream and how it went.
    Callback(unsafe extern "C" fn(CUstream, c_int, *mut c_void), StreamId),
}

/// A task that is not done.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) stream: StreamId,
    pub(crate) context: ContextId,
    pub(crate) work: Work,
    /// Tasks that must be done before; all are older.
    pub(crate) needs: Vec<TaskId>,
    /// Whether a thread runs it.
    pub(crate) running: bool,
    /// How many queries were told that it is not done.
    queries: u32,
    /// A mark of [`Tasks::with_ancestors`] while that looks.
    found: bool,
}

/// The tasks that are not done.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    next: u64,
    pub(super) pending: ById<TaskId, Task>,
    /// Bytes staged for copies among them.
    pub(super) staged: u64,
    /// Who sees to it that they run in the end.
    pub(super) attendant: Option<Thread>,
}

impl Tasks {
    /// Counts a query of a task, and returns whether it runs the task: after `usual` others, or as many
    /// as leave it where work runs late. The first ones leave work as it is, so that none orders
    /// anything by itself; a later one runs it, so that polling ends.
    pub(crate) fn query_runs(&mut self, id: TaskId, usual: u32) -> bool {
        let Some(task) = self.pending.get_mut(&id) else { return true };
        let runs = task.queries >= late::queries(usual);
        task.queries = task.queries.saturating_add(1);
        runs
    }

    pub(crate) fn is_done(&self, id: TaskId) -> bool {
        !self.pending.contains_key(&id)
    }

    /// Bytes staged for pending copies.
    pub(crate) fn staged(&self) -> u64 {
        self.staged
    }

    /// The tasks that are not done, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.pending.iter().map(|(&id, task)| (id, task))
    }

    /// Pending tasks of a context.
    pub(crate) fn of(&self, context: ContextId) -> Vec<TaskId> {
        self.all().filter(|(_, task)| task.context == context).map(|(id, _)| id).collect()
    }

    /// Forgets the tasks of a context.
    pub(super) fn drop_of(&mut self, context: ContextId) {
        self.pending.retain(|_, task| task.context != context);
        self.staged = self.pending.values().map(|task| task.work.staged_bytes()).sum();
    }

    /// These tasks and all that they wait for, in an order in which they may run: oldest first, or where
    /// work runs late newest first as far as tasks do not wait for each other.
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

    /// Targets and ancestors by a search in depth: each behind what it needs, of which the newest comes
    /// first.
    fn newest_first(&self, targets: &[TaskId]) -> Vec<TaskId> {
        let ascending = |ids: &[TaskId]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.into_iter().map(|id| (id, false))
        };
        let (mut order, mut found) = (Vec::new(), HashSet::new());
        // Tasks, with whether all that they need is in the order.
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
    /// Puts work on a stream, or into the graph that the stream is captured into; the task, if there
    /// is one now.
    pub(crate) fn submit(&mut self, stream: StreamId, work: Work) -> Outcome<Option<TaskId>> {
        if self.is_captured(stream)? {
            self.capture_work(stream, work)?;
            return Ok(None);
        }
        self.check_legacy(stream)?;
        Ok(Some(self.enqueue(stream, work, &[])))
    }

    /// Puts a task behind what is on a stream, and behind other tasks.
    pub(crate) fn enqueue(&mut self, stream: StreamId, work: Work, others: &[TaskId]) -> TaskId {
        let mut needs = self.before_next(stream);
        needs.extend(others.iter().copied().filter(|&id| !self.tasks.is_done(id)));
        let id = self.add_task(stream, work, needs);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.last = Some(id);
        }
        id
    }

    /// A task that comes behind others only.
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

    /// What is not done and must be before the next task of a stream.
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

    /// What must be done so that a stream is.
    pub(crate) fn left_on(&self, id: StreamId) -> Vec<TaskId> {
        match self.streams.get(&id) {
            Some(stream) if stream.kind == Kind::Legacy => self.before_next(id),
            Some(stream) => stream.last.into_iter().filter(|&id| !self.tasks.is_done(id)).collect(),
            None => Vec::new(),
        }
    }

    /// The context that is meant to do a launch: the function's and the stream's.
    pub(crate) fn check_same_context(&self, stream: StreamId, context: ContextId) -> Outcome {
        match self.streams.get(&stream) {
            Some(stream) if stream.context == context => Ok(()),
            _ => fail(CUDA_ERROR_INVALID_HANDLE),
        }
    }
}
