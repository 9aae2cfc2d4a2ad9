//! Execution of work when a call waits for it.

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpfold_driver::sys::*;
use warpfold_sim::{GlobalMemory, Gpu, Stats, readable};

use super::{
    Conditional, End, Event, Fill, Guard, HostCall, HostFunction, LaunchRequest, Record, Reserved,
    State, Step, TaskId, Transfer, WORLD, Work, lock,
};
use crate::call;
use crate::failure::{Failure, Outcome, fail_with, while_running};
use crate::ffi::{ContextId, StreamId};
use crate::functions::make_new;
use crate::host;
use crate::staging::Staged;
use crate::watch::{self, SimLaunch, Watcher};

/// Milliseconds without a driver call after which pending work runs anyway.
static PATIENCE: AtomicU64 = AtomicU64::new(1000);

pub(crate) fn patience() -> Duration {
    Duration::from_millis(PATIENCE.load(Ordering::Relaxed))
}

pub(crate) fn set_patience(patience: Duration) {
    let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    PATIENCE.store(milliseconds.max(1), Ordering::Relaxed);
    if let Some(background_runner) = &lock().tasks.background_runner {
        background_runner.unpark();
    }
}

static FREES_WAIT: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_frees_wait(wait: bool) {
    FREES_WAIT.store(wait, Ordering::Relaxed);
}

pub(crate) fn before_free(state: Guard) -> Outcome<Guard> {
    if !FREES_WAIT.load(Ordering::Relaxed) {
        return Ok(state);
    }
    let here = state.here()?;
    let tasks = state.tasks.of(here);
    let state = force(state, &tasks);
    state.check(here)?;
    Ok(state)
}

/// Runs tasks and their dependencies, in the order of `Tasks::with_ancestors`, and nothing else. Waits
/// for tasks that other threads run.
pub(crate) fn force(mut state: Guard, targets: &[TaskId]) -> Guard {
    for id in state.tasks.with_ancestors(targets) {
        // Ancestors come first, so those of this task are done.
        while let Some(task) = state.tasks.pending.get(&id) {
            if task.running {
                state = WORLD.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(job) = state.claim(id) else { break };
            drop(state);
            let carried_out = catch_unwind(AssertUnwindSafe(|| job.run()));
            let outcome = carried_out.unwrap_or_else(|panic| Err(call::panicked(&*panic)));
            state = lock();
            state.complete(id, outcome);
            WORLD.changed.notify_all();
        }
    }
    state
}

/// A task with all objects that running it without the lock needs.
enum Job {
    Nothing,
    Fail(Failure),
    Launch { gpu: Arc<Gpu>, watcher: Option<Arc<dyn Watcher>>, launch: Arc<LaunchRequest> },
    Copy { transfer: Arc<Transfer>, to: Place, from: Place, watcher: Option<Arc<dyn Watcher>> },
    Fill { fill: Fill, memory: GlobalMemory, watcher: Option<Arc<dyn Watcher>> },
    Host { call: HostCall, status: c_int },
    Decide { stream: StreamId, context: ContextId, node: Arc<Conditional> },
    Allocate { memory: GlobalMemory, range: Arc<Reserved>, watcher: Option<Arc<dyn Watcher>> },
    Release { address: u64, bytes: u64, watcher: Option<Arc<dyn Watcher>> },
}

enum Place {
    Memory(GlobalMemory, u64),
    Host(u64),
    Staged(Arc<Staged>),
}

impl State {
    fn claim(&mut self, id: TaskId) -> Option<Job> {
        let task = self.tasks.pending.get_mut(&id)?;
        task.running = true;
        let (stream, context, work) = (task.stream, task.context, task.work.clone());
        Some(self.job(stream, context, work))
    }

    fn job(&mut self, stream: StreamId, id: ContextId, work: Work) -> Job {
        let Some(context) = self.contexts.get(&id) else { return Job::Nothing };
        if let Some(lost) = &context.lost {
            return match work {
                Work::Host(call @ HostCall { function: HostFunction::Callback(..), .. }) => {
                    Job::Host { call, status: lost.code }
                }
                _ => Job::Nothing,
            };
        }
        let watcher = context.watcher.clone();
        let job = match work {
            Work::Nothing | Work::Record(_) => Ok(Job::Nothing),
            Work::Begin(conditions) => {
                conditions.iter().for_each(|condition| condition.begin());
                Ok(Job::Nothing)
            }
            Work::Conditional(node) => Ok(Job::Decide { stream, context: id, node }),
            Work::Launch(launch) => self.claim_launch(launch),
            Work::Copy(transfer) => self.claim_copy(transfer, watcher),
            Work::Fill(fill) => {
                let memory = self.memory_for("memset", fill.to);
                memory.map(|memory| Job::Fill { fill, memory, watcher })
            }
            Work::Host(call) => Ok(Job::Host { call, status: CUDA_SUCCESS }),
            Work::Allocate(range) => match self.contexts.get(&range.context) {
                Some(context) => {
                    let (memory, watcher) = (context.gpu.memory().clone(), context.watcher.clone());
                    // Allocated with the lock held, so that no thread sees bytes that are neither
                    // promised nor allocated.
                    let allocated = memory.alloc_at(range.address, range.bytes);
                    allocated.map_err(Failure::from).map(|()| Job::Allocate { memory, range, watcher })
                }
                None => Ok(Job::Nothing),
            },
            Work::Release(address) => self.claim_release(address, watcher),
        };
        job.unwrap_or_else(Job::Fail)
    }

    fn claim_launch(&self, launch: Arc<LaunchRequest>) -> Outcome<Job> {
        match self.contexts.get(&launch.context) {
            Some(context) if self.modules.contains_key(&launch.module) => {
                let (gpu, watcher) = (Arc::clone(&context.gpu), context.watcher.clone());
                Ok(Job::Launch { gpu, watcher, launch })
            }
            _ => {
                let detail = format!(
                    "the module of `{}` was unloaded before the kernel ran",
                    readable(launch.entry_name())
                );
                fail_with(CUDA_ERROR_LAUNCH_FAILED, detail)
            }
        }
    }

    fn claim_copy(&self, transfer: Arc<Transfer>, watcher: Option<Arc<dyn Watcher>>) -> Outcome<Job> {
        let find = |end: &End| match end {
            End::Memory(address) => {
                self.memory_for("copy", *address).map(|memory| Place::Memory(memory, *address))
            }
            End::Host(address) => Ok(Place::Host(*address)),
            End::Staged(bytes) => Ok(Place::Staged(Arc::clone(bytes))),
        };
        let (to, from) = (find(&transfer.to)?, find(&transfer.from)?);
        Ok(Job::Copy { transfer, to, from, watcher })
    }

    /// Frees memory with the lock held, and returns a job that only notifies the watcher.
    fn claim_release(&mut self, address: u64, watcher: Option<Arc<dyn Watcher>>) -> Outcome<Job> {
        self.leave_pool(address);
        let memory = self.memory_for("cuMemFreeAsync", address)?;
        let bytes = memory.allocation_of(address).map_or(0, |(_, bytes)| bytes);
        memory.free(address).map_err(while_running)?;
        Ok(Job::Release { address, bytes, watcher })
    }

    fn memory_for(&self, what: &str, address: u64) -> Outcome<GlobalMemory> {
        self.memory_of(address).map_or_else(
            || {
                let detail = format!("{what} at {address:#x}, where memory is no longer allocated");
                fail_with(CUDA_ERROR_ILLEGAL_ADDRESS, detail)
            },
            Ok,
        )
    }

    fn complete(&mut self, id: TaskId, outcome: Outcome<Option<Stats>>) {
        // The task is gone if its context was destroyed meanwhile.
        let Some(task) = self.tasks.pending.remove(&id) else { return };
        self.tasks.staged -= task.work.staged_bytes();
        if let Work::Record(event) = task.work
            && let Some(Event { record, .. }) = self.events.get_mut(&event)
            && matches!(record, Record::Pending(by) if *by == id)
        {
            *record = Record::Done(Instant::now());
        }
        let Some(stream) = self.streams.get_mut(&task.stream) else { return };
        match outcome {
            Ok(None) => {}
            Ok(Some(stats)) => stream.counters.add(&stats),
            Err(failure) => {
                if let Some(context) = self.contexts.get_mut(&task.context) {
                    context.lost.get_or_insert(failure);
                }
            }
        }
        if stream.destroyed && stream.last == Some(id) {
            self.purge_stream(task.stream);
        }
    }

    /// Ensures that pending work runs even if no call ever waits for it.
    pub(super) fn attend(&mut self) {
        if self.tasks.background_runner.is_none() {
            let background_runner = thread::Builder::new().name("sim-driver".to_owned()).spawn(attend);
            // If no thread can be started, work still runs when a call waits for it.
            self.tasks.background_runner =
                background_runner.ok().map(|background_runner| background_runner.thread().clone());
        }
    }
}

/// Runs all pending work when no driver call was made for [`PATIENCE`]; ends when nothing is pending.
fn attend() {
    loop {
        let (before, since) = (super::calls_at_rest(), Instant::now());
        // Parking may end early, and the patience may change meanwhile.
        while let Some(left) = patience().checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            thread::park_timeout(left);
        }
        let mut state = lock();
        if state.tasks.pending.is_empty() {
            state.tasks.background_runner = None;
            return;
        }
        if before.is_some() && before == super::calls_at_rest() {
            let all: Vec<TaskId> = state.tasks.all().map(|(id, _)| id).collect();
            drop(force(state, &all));
        }
    }
}

impl Job {
    fn run(self) -> Outcome<Option<Stats>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Fail(failure) => Err(failure),
            Self::Launch { gpu, watcher, launch } => {
                let about = SimLaunch::new(&gpu, &launch);
                let ran = watcher.map_or_else(|| about.run(), |watcher| watcher.launch(&about));
                watch::ended(&about, &ran);
                // Kernels print to the program's standard output; the text is lost if that is closed.
                let _ = io::stdout().write_all(&gpu.take_printed()).and_then(|()| io::stdout().flush());
                ran.inspect(|stats| launch.record.set(stats)).map(Some).map_err(while_running)
            }
            Self::Copy { transfer, to, from, watcher } => {
                tell_of_copy(&transfer, &to, watcher);
                copy(&transfer, &to, &from).map(|()| None)
            }
            Self::Fill { fill, memory, watcher } => {
                if let Some(watcher) = watcher {
                    watcher.written(fill.to, fill.pitch * fill.rows.saturating_sub(1) + fill.bytes);
                }
                for row in 0..fill.rows {
                    let at = fill.to + row * fill.pitch;
                    memory.fill(at, fill.pattern, fill.bytes).map_err(while_running)?;
                }
                Ok(None)
            }
            Self::Host { call, status } => {
                // SAFETY: a driver call requested the host function, and a task runs once.
                call::as_host_function(|| unsafe { host::call(&call, status) });
                Ok(None)
            }
            Self::Decide { stream, context, node } => decide(stream, context, &node).map(|_| None),
            Self::Allocate { memory, range, watcher } => {
                make_new(&memory, range.address, range.bytes)?;
                if let Some(watcher) = watcher {
                    watcher.allocated(range.address, range.bytes);
                }
                Ok(None)
            }
            Self::Release { address, bytes, watcher } => {
                if let Some(watcher) = watcher {
                    watcher.freed(address, bytes);
                }
                Ok(None)
            }
        }
    }
}

/// Cost of one iteration of a conditional node, as the number of warp instructions that take about the
/// same time.
const ROUND: u64 = 1000;

/// Runs the selected bodies of a conditional node, and returns the warp instructions spent.
fn decide(stream: StreamId, context: ContextId, node: &Conditional) -> Outcome<u64> {
    let mut spent = 0_u64;
    while lock().check(context).is_ok() {
        let Some(body) = node.chosen() else { break };
        body.begin();
        for work in &body.steps {
            if let Work::Conditional(inner) = work {
                spent = spent.saturating_add(decide(stream, context, inner)?);
                continue;
            }
            let job = lock().job(stream, context, work.clone());
            if let Some(stats) = job.run()? {
                spent = spent.saturating_add(stats.warp_instructions);
                if let Some(stream) = lock().streams.get_mut(&stream) {
                    stream.counters.add(&stats);
                }
            }
        }
        spent = spent.saturating_add(ROUND);
        if node.kind != CU_GRAPH_COND_TYPE_WHILE {
            break;
        }
        let most = node.most_steps();
        if spent > most {
            let detail = format!("a WHILE node looped for more than {most} instructions");
            return fail_with(CUDA_ERROR_LAUNCH_TIMEOUT, detail);
        }
    }
    Ok(spent)
}

fn tell_of_copy(transfer: &Transfer, to: &Place, watcher: Option<Arc<dyn Watcher>>) {
    let Some(watcher) = watcher else { return };
    // Gaps between rows are not copied.
    if let (End::Memory(address), Place::Host(_)) = (&transfer.from, to) {
        let rows = transfer.row_starts(transfer.from_step);
        rows.for_each(|ahead| watcher.read(address + ahead, transfer.bytes));
    }
    if let End::Memory(address) = transfer.to {
        let rows = transfer.row_starts(transfer.to_step);
        rows.for_each(|ahead| watcher.written(address + ahead, transfer.bytes));
    }
}

fn copy(transfer: &Transfer, to: &Place, from: &Place) -> Outcome {
    for plane in 0..transfer.planes {
        for row in 0..transfer.rows {
            let at = |step: Step| plane * step.plane + row * step.row;
            copy_row(to, at(transfer.to_step), from, at(transfer.from_step), transfer.bytes)?;
        }
    }
    Ok(())
}

fn copy_row(to: &Place, ahead: u64, from: &Place, behind: u64, bytes: u64) -> Outcome {
    let (start, end) = (behind as usize, (behind + bytes) as usize);
    let done = match (to, from) {
        (Place::Memory(memory, address), Place::Staged(all)) => {
            memory.write(address + ahead, &all.bytes()[start..end])
        }
        (Place::Memory(memory, address), Place::Memory(other, source)) => {
            memory.copy(address + ahead, other, source + behind, bytes)
        }
        // SAFETY: the program requested the copy with this address and size, and the copy is not done.
        (Place::Memory(memory, address), Place::Host(host)) => unsafe {
            host::with_bytes(host + behind, bytes, |from| memory.write(address + ahead, from))
        },
        // SAFETY: the program requested the copy to this address with this size, and it is not done.
        (Place::Host(host), Place::Memory(memory, address)) => unsafe {
            host::with_bytes_mut(host + ahead, bytes, |to| memory.read(address + behind, to))
        },
        // SAFETY: the program requested the copy to this address with this size, and it is not done.
        (Place::Host(host), Place::Staged(all)) => unsafe {
            host::with_bytes_mut(host + ahead, bytes, |to| to.copy_from_slice(&all.bytes()[start..end]));
            Ok(())
        },
        // SAFETY: the program requested the copy between both addresses, and it is not done.
        (Place::Host(host), Place::Host(source)) => unsafe {
            host::copy(host + ahead, source + behind, bytes);
            Ok(())
        },
        (Place::Staged(_), _) => {
            return fail_with(CUDA_ERROR_UNKNOWN, "staged bytes cannot be the target of a copy");
        }
    };
    done.map_err(while_running)
}
