//! The shared core of a reducer, which launches tasks.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    group::Shared,
    host_results::{HostResults, Layout, Mark},
    job::Codes,
    kernels::{Kernels, LaunchContext},
    pool::{Cell, Lease, Pool},
    streamed::Ring,
};
use crate::{
    Count, Device, Error, Result, Stream, context::Failed, input::Task, input::segments::Offsets,
    memory::Memory, stream::Event,
};

/// A reducer's kernels and memory. Each pending result holds a reference to its core. Dropping the core
/// waits for detached reductions.
pub(crate) struct Core {
    kernels: Kernels,
    pool: Pool,
    detached: Mutex<VecDeque<InFlight>>,
    /// The buffers of the last [streamed](crate::Streamed) reduction, kept for the next one.
    ring: Mutex<Option<Ring>>,
}

/// The resources of a reduction on a stream, held until it has finished.
pub(crate) struct InFlight {
    cell: Cell,
    /// The layout of the results in the cell; empty if they go to an output.
    layout: Layout,
    /// The [`Mark`] that the results overwrite, and the input size; `None` if the host may not poll.
    awaited: Option<(Mark, u64)>,
    _memories: [Option<Arc<Memory>>; 3],
    _offsets: Option<Arc<Offsets>>,
    count: Option<Arc<Memory>>,
    _group: Option<Arc<Shared>>,
    _codes: Codes,
}

/// A leased workspace with pending tasks.
pub(super) struct Submission<'c> {
    core: &'c Core,
    lease: Lease<'c>,
}

impl Submission<'_> {
    /// Enqueues a non-empty task after the work that `precede` makes the stream wait for. Its results go
    /// to the workspace.
    ///
    /// # Safety
    /// [`seen`](Self::seen) or [`finish`](Self::finish) must be called afterwards, even after an error.
    /// Until then, or forever if `finish` fails and the work may still run, the elements must be
    /// readable on this device, nothing may write them, and the device must have access to the task's
    /// [meeting](warpfold_abi::meeting), which only this reduction may use. The kernels must be
    /// [prepared](Task::prepare).
    pub(super) unsafe fn launch(
        &self,
        task: &dyn Task,
        precede: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        precede(self.lease.stream())?;
        // SAFETY: the slots are ready, and each task leaves them zero. `seen` and `finish` handle a
        // workspace that is still in use. The caller keeps the elements and the meeting valid.
        unsafe { self.core.launch(&self.lease, task, self.lease.output()) }
    }

    pub(super) fn is_done(&self) -> bool {
        self.lease.is_done()
    }

    /// Marks the tasks complete; their results were observed.
    pub(super) fn seen(mut self) {
        self.lease.seen();
        self.lease.used();
    }

    /// Waits for all tasks. `launched` is the outcome of enqueueing them.
    pub(super) fn finish(self, launched: Result<()>) -> Result<(), Failed<Error>> {
        self.lease.wait_or_leak(launched).map(Lease::used)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) task: &'a dyn Task,
    pub(crate) memory: &'a Arc<Memory>,
    /// The second elements of pairs, or the state of a running reduction.
    pub(crate) second: Option<&'a Arc<Memory>>,
    pub(crate) offsets: Option<&'a Arc<Offsets>>,
    pub(crate) count: Option<&'a Count<'a>>,
    pub(crate) group: Option<&'a Arc<Shared>>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn of(task: &'a dyn Task, memory: &'a Arc<Memory>) -> Self {
        Self { task, memory, second: None, offsets: None, count: None, group: None }
    }
}

impl Core {
    pub(crate) fn new(kernels: Kernels, workspaces: usize) -> Self {
        let pool = Pool::new(kernels.device(), workspaces);
        Self { kernels, pool, detached: Mutex::default(), ring: Mutex::default() }
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(crate) fn device(&self) -> &Device {
        self.kernels.device()
    }

    pub(crate) fn ring(&self) -> MutexGuard<'_, Option<Ring>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reduces a non-empty task without a count, waits, and passes the results to `read`.
    ///
    /// # Safety
    /// The results must fit into the host memory of a workspace. The elements must be readable on this
    /// device, and nothing may write them, until this returns, or forever if it fails and the work may
    /// still run.
    pub(crate) unsafe fn reduce<R>(
        &self,
        task: &dyn Task,
        read: impl FnOnce(HostResults<'_>) -> R,
    ) -> Result<R, Failed<Error>> {
        // SAFETY: the conditions of `run` without `output` are those of this function.
        let lease = unsafe { self.run(task, None) }?;
        let results = read(lease.take(task.layout()));
        lease.used();
        Ok(results)
    }

    /// Reduces a task as [`reduce`](Self::reduce) does, to any number of results in device memory.
    ///
    /// # Safety
    /// Same as [`reduce`](Self::reduce). For as long as the elements must be readable, `output` must
    /// have room for the results, and nothing else may use it.
    pub(crate) unsafe fn reduce_into(&self, task: &dyn Task, output: u64) -> Result<(), Failed<Error>> {
        // SAFETY: the conditions of `run` with `output` are those of this function.
        unsafe { self.run(task, Some(output)) }?.used();
        Ok(())
    }

    /// Enqueues a task on the stream of a workspace, waits for it, and returns the workspace, which
    /// holds the results if there is no `output`.
    ///
    /// # Safety
    /// Same as [`reduce_into`](Self::reduce_into), or as [`reduce`](Self::reduce) without `output`.
    unsafe fn run(&self, task: &dyn Task, output: Option<u64>) -> Result<Lease<'_>, Failed<Error>> {
        task.prepare(&self.kernels).map_err(Failed::not_begun)?;
        let mut lease = self.pool.lease(None).map_err(Failed::not_begun)?;
        // SAFETY: the workspace is leased, and only the holder of the lease uses its stream.
        let ready = unsafe { lease.make_ready(None) };
        let bytes = task.pollable_bytes().filter(|_| output.is_none());
        let awaited = bytes.map(|bytes| (lease.awaited(task.layout()), bytes));
        let output = output.unwrap_or_else(|| lease.output());
        // SAFETY: the slots are ready. The workspace is leased until the task has finished, or leaked.
        // The caller keeps the elements and the output valid.
        let launched = ready.and_then(|()| unsafe { self.launch(&lease, task, output) });
        let is_done = || lease.is_done();
        if launched.is_ok() && awaited.is_some_and(|(results, bytes)| results.poll(is_done, bytes)) {
            lease.seen();
            return Ok(lease);
        }
        lease.wait_or_leak(launched)
    }

    /// Enqueues a task on the stream of a workspace whose slots are ready.
    ///
    /// # Safety
    /// The workspace must be kept until the task has finished; otherwise as [`run`](Self::run).
    unsafe fn launch(&self, lease: &Lease<'_>, task: &dyn Task, output: u64) -> Result<()> {
        // SAFETY: the slots are ready; the caller keeps workspace, elements and output valid.
        unsafe { self.launch_on(lease.stream(), task, lease.slots(), output) }
    }

    /// Returns slots that only work of `stream` uses, or `None` if there are none left.
    pub(super) fn slots_of(&self, stream: &Stream) -> Result<Option<u64>> {
        self.pool.slots_of(stream)
    }

    /// Enqueues a task whose kernels are loaded on a stream, and keeps nothing.
    ///
    /// # Safety
    /// The slots must be zero when the task begins, and only work of the stream, or of the graph into
    /// which it is captured, may use them. The stream must be of this device. The elements, the output
    /// and the task's kernels must live until the task has finished; the output must have room for the
    /// results.
    pub(super) unsafe fn launch_on(
        &self,
        stream: &Stream,
        task: &dyn Task,
        slots: u64,
        output: u64,
    ) -> Result<()> {
        let context = LaunchContext::new(slots, output, stream.raw());
        // SAFETY: the conditions are those of this function.
        unsafe { task.enqueue(&self.kernels, &context) }
    }

    /// Leases a workspace for tasks that must be waited for. A caller that leases from several reducers
    /// does so in the order of [`place`](Self::place), which rules out a deadlock.
    pub(super) fn begin(&self) -> Result<Submission<'_>> {
        let mut lease = self.pool.lease(None)?;
        // SAFETY: the workspace is leased, and only the holder of the lease uses its stream.
        unsafe { lease.make_ready(None) }?;
        Ok(Submission { core: self, lease })
    }

    /// Returns this core's position in a total order of all cores.
    pub(super) fn place(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Enqueues a task, which may be empty only if [`Task::enqueue`] allows it. The results go to
    /// `output`, or without `output` to a [`Cell`] in host memory.
    ///
    /// # Safety
    /// - The stream and the task's count must be of this device.
    /// - The task's elements and offsets must be those of `inputs`, and nothing may write them until the
    ///   returned reduction has finished.
    /// - `output` must have room for the results, and only later work on the stream may use it. Without
    ///   `output` the results must fit into a cell.
    /// - Nothing may enqueue a write of the count before this returns.
    pub(crate) unsafe fn enqueue(
        self: &Arc<Self>,
        stream: &Stream,
        inputs: Inputs<'_>,
        output: Option<&Arc<Memory>>,
    ) -> Result<InFlight> {
        let Inputs { task, memory, second, offsets, count, group } = inputs;
        task.prepare(&self.kernels)?;
        if let Some(count) = count {
            count.precede(stream)?;
        }
        let (cell, layout) = (self.pool.cell()?, task.layout());
        let bytes = task.pollable_bytes().filter(|_| output.is_none());
        let in_flight = InFlight {
            awaited: bytes.map(|bytes| (cell.mark(layout), bytes)),
            cell,
            layout: if output.is_some() { Layout::default() } else { layout },
            _memories: [Some(memory.clone()), second.cloned(), output.cloned()],
            _offsets: offsets.cloned(),
            count: count.map(|count| count.memory().clone()),
            _group: group.cloned(),
            _codes: task.kept_codes(),
        };
        let address = output.map_or_else(|| in_flight.cell.address(), |output| output.address());
        // SAFETY: `in_flight` keeps the inputs, the output and the cell until the task has finished. The
        // other conditions are those of this function.
        match unsafe { self.enqueue_to(stream, task, address, &in_flight.cell) } {
            Ok(()) => {
                if let Some(count) = count {
                    count.read_until(&in_flight.cell.end);
                }
                Ok(in_flight)
            }
            Err(failed) => Err(self.lose(in_flight, failed)),
        }
    }

    /// Enqueues a clear of `output`, for operations whose result of no elements is zero.
    ///
    /// # Safety
    /// The stream must be of this device, and only later work on it may use `output`.
    pub(crate) unsafe fn enqueue_zero(
        self: &Arc<Self>,
        stream: &Stream,
        output: &Arc<Memory>,
    ) -> Result<InFlight> {
        let in_flight = self.holding(output)?;
        // SAFETY: `in_flight` keeps the memory until the clear has finished. The stream is of this
        // device, and only later work on it uses `output`.
        let enqueued = unsafe { output.clear_on(stream) };
        self.record_end(stream, in_flight, enqueued)
    }

    /// Keeps memory and the resources of a group's launches until the work enqueued so far on a stream
    /// of this device has finished.
    pub(super) fn keep_on(
        self: &Arc<Self>,
        stream: &Stream,
        memory: &Arc<Memory>,
        group: &Arc<Shared>,
    ) -> Result<InFlight> {
        let in_flight = InFlight { _group: Some(group.clone()), ..self.holding(memory)? };
        self.record_end(stream, in_flight, Ok(()))
    }

    fn holding(&self, memory: &Arc<Memory>) -> Result<InFlight> {
        let _memories = [Some(memory.clone()), None, None];
        Ok(InFlight { _memories, ..InFlight::with_cell(self.pool.cell()?) })
    }

    fn record_end(
        self: &Arc<Self>,
        stream: &Stream,
        in_flight: InFlight,
        enqueued: Result<()>,
    ) -> Result<InFlight> {
        match enqueued.and_then(|()| in_flight.cell.end.record(stream)) {
            Ok(()) => Ok(in_flight),
            Err(error) => Err(self.lose(in_flight, Failed { error, ended: stream.has_ended() })),
        }
    }

    /// Enqueues a task with a leased workspace, and records its end in `cell`. If the task has a
    /// [`Count`], the kernel also writes the value of that count to `cell`.
    ///
    /// # Safety
    /// The stream must be of this device. The task's input, `output` and the cell must live until the
    /// task has finished, and nothing else may use the cell; otherwise as [`enqueue`](Self::enqueue).
    unsafe fn enqueue_to(
        &self,
        stream: &Stream,
        task: &dyn Task,
        output: u64,
        cell: &Cell,
    ) -> Result<(), Failed<Error>> {
        let mut lease = self.pool.lease(Some(stream)).map_err(Failed::not_begun)?;
        // SAFETY: the workspace is leased until this use ends or `cell.end` marks its end.
        let ready = unsafe { lease.make_ready(Some(stream)) };
        let context = LaunchContext::new(lease.slots(), output, stream.raw());
        let context = LaunchContext { found: Some(cell.found_address()), ..context };
        // SAFETY: the slots are ready, and the workspace is leased until this use ends or `cell.end`
        // marks its end. The caller keeps the input, `output` and the cell alive.
        let enqueue = |context: &LaunchContext| unsafe { task.enqueue(&self.kernels, context) };
        match ready.and_then(|()| enqueue(&context)).and_then(|()| cell.end.record(stream)) {
            Ok(()) => {
                lease.used_until(&cell.end);
                Ok(())
            }
            // The launch may be in flight despite the error.
            Err(error) => Err(lease.fail(Err(error), stream.wait_out())),
        }
    }

    /// Waits for an enqueued reduction, and passes its results to `read`. If the number of elements was
    /// in device memory, passes also the number that the kernel read there.
    pub(crate) fn finish<R>(
        self: &Arc<Self>,
        in_flight: InFlight,
        read: impl FnOnce(HostResults<'_>, Option<u64>) -> R,
    ) -> Result<R> {
        // A forked child may lack the memory of the results, and the thread that can unlock the pool.
        if let Err(error) = self.device().require_process() {
            return Err(self.lose(in_flight, Failed { error, ended: false }));
        }
        if in_flight.poll_results() {
            let read = read(in_flight.cell.take(in_flight.layout), None);
            // The kernels only have to exit: they access no memory any more, and no caller waits for
            // them.
            self.detach(InFlight { _codes: in_flight._codes, ..InFlight::with_cell(in_flight.cell) });
            return Ok(read);
        }
        match in_flight.cell.end.wait_out() {
            Ok(()) => {
                let results = in_flight.cell.take(in_flight.layout);
                let found = in_flight.count.is_some().then(|| in_flight.cell.found());
                let read = read(results, found);
                self.pool.give(in_flight.cell);
                Ok(read)
            }
            Err(failed) => Err(self.lose(in_flight, failed)),
        }
    }

    /// Releases the resources of a failed launch, or leaks them if it may still run.
    fn lose(self: &Arc<Self>, in_flight: InFlight, failed: Failed<Error>) -> Error {
        if failed.ended {
            self.pool.give(in_flight.cell);
        } else {
            mem::forget((self.clone(), in_flight));
        }
        failed.error
    }

    /// Stores the resources of a reduction that no caller waits for.
    /// [`reclaim_finished`](Self::reclaim_finished) releases them after it has finished.
    pub(crate) fn detach(&self, in_flight: InFlight) {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner).push_back(in_flight);
    }

    /// Releases the resources of detached reductions that have finished. A call stops at the first
    /// reduction in flight and moves it to the back of the queue. So the call costs one query beyond
    /// those of finished reductions, and a long reduction does not hold up the others.
    pub(crate) fn reclaim_finished(&self) {
        while self.device().is_of_this_process() {
            let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = detached.pop_front() else { return };
            if !next.has_ended() {
                detached.push_back(next);
                return;
            }
            // Unlocks first: dropping the memory can run an owner's code, which may use this reducer.
            drop(detached);
            self.pool.give(next.cell);
        }
    }
}

impl InFlight {
    fn with_cell(cell: Cell) -> Self {
        Self {
            cell,
            layout: Layout::default(),
            awaited: None,
            _memories: Default::default(),
            _offsets: None,
            count: None,
            _group: None,
            _codes: Codes::default(),
        }
    }

    fn poll_results(&self) -> bool {
        let is_done = || self.cell.end.is_done().unwrap_or(true);
        self.awaited
            .is_some_and(|(mark, bytes)| self.cell.awaited(mark, self.layout).poll(is_done, bytes))
    }

    pub(crate) fn is_ready(&self) -> Result<bool> {
        self.cell.end.is_done()
    }

    pub(crate) fn end(&self) -> &Arc<Event> {
        &self.cell.end
    }

    /// Returns whether the reduction has ended, successfully or not.
    fn has_ended(&self) -> bool {
        self.is_ready().unwrap_or_else(|error| error.is_sticky())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let detached = self.detached.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut all_ended = true;
        for in_flight in detached.drain(..) {
            if let Err(Failed { ended: false, .. }) = in_flight.cell.end.wait_out() {
                all_ended = false;
                mem::forget(in_flight);
            }
        }
        // All other uses of the pool belonged to reductions that held a reference to this core, so they
        // have finished, except for the exit of kernels whose results were observed.
        all_ended &= self.pool.wait_idle();
        if !all_ended {
            // Work that may still run needs its slots, its code and its context.
            self.pool.keep_for_good();
            self.kernels.keep_for_good();
        }
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use super::*;
    use crate::{Reducer, Selection};

    /// `reclaim_finished` stops after one query of a reduction in flight. The workspace in use on the
    /// stream is leased without a query.
    #[test]
    fn reclaim_finished_queries_one_reduction_and_does_not_wait() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        let (stream, mut sum) = (device.stream().unwrap(), device.output().unwrap());
        let in_flight = || reducer.core().detached.lock().unwrap().len();
        for queries in [0, 1] {
            let log = warpfold_sim_driver::record_calls();
            reducer.on(&stream).reduce_into(crate::op::Sum, &values, &mut sum).unwrap();
            let asked =
                ["cuEventQuery", "cuStreamQuery", "cuStreamWaitEvent"].map(|call| log.count(call));
            // No wait is enqueued, because the earlier write of the sum is on the same stream.
            assert_eq!(asked, [queries, 0, 0]);
        }
        assert_eq!(in_flight(), 2);
        stream.synchronize().unwrap();
        let log = warpfold_sim_driver::record_calls();
        reducer.core().reclaim_finished();
        assert_eq!((log.count("cuEventQuery"), in_flight()), (2, 0));
    }

    #[test]
    fn a_launch_that_keeps_nothing_is_one_call_for_work() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        let (stream, mut sum) = (device.stream().unwrap(), device.output().unwrap());
        let mut launch = || {
            let on = reducer.on(&stream);
            // SAFETY: all of these live until the stream has been waited for.
            unsafe { on.launch_into(crate::op::Sum, &values, &mut sum, None) }.unwrap();
        };
        // Allocates the stream's slots.
        launch();
        let log = warpfold_sim_driver::record_calls();
        launch();
        let made = ["cuLaunchKernel", "cuEventRecord", "cuEventQuery"].map(|call| log.count(call));
        assert_eq!(made, [1, 0, 0]);
        stream.synchronize().unwrap();
        assert_eq!(sum.read().unwrap(), 3);
        assert!(reducer.core().detached.lock().unwrap().is_empty());
    }

    /// A sum is observed in host memory without a wait: the poll's query makes the simulator run the
    /// kernel. Results in device memory need a wait.
    #[test]
    fn an_observed_result_needs_no_wait() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, stream) = (Reducer::new(&device).unwrap(), device.stream().unwrap());
        let values = device.upload(&[1_i32, 2, -7]).unwrap();
        let waits = |call: &mut dyn FnMut()| {
            let log = warpfold_sim_driver::record_calls();
            call();
            log.count("cuStreamSynchronize") + log.count("cuEventSynchronize")
        };
        let mut of_a_buffer = || assert_eq!(reducer.sum(&values).unwrap(), -4);
        // The first call loads the kernel and creates a workspace.
        of_a_buffer();
        assert_eq!((0..3).map(|_| waits(&mut of_a_buffer)).sum::<u64>(), 0);
        let mut on_a_stream = || {
            let sum =
                reducer.on(&stream).reduce(crate::op::ArgMin, &values).unwrap().wait().unwrap().unwrap();
            assert_eq!((sum.index, sum.value), (2, -7));
        };
        assert_eq!(waits(&mut on_a_stream), 0);
        let mut of_many = || {
            let (sum, max) = reducer.reduce((crate::op::Sum, crate::op::Max), &values).unwrap();
            assert_eq!((sum, max), (-4, Some(2)));
        };
        assert_eq!(waits(&mut of_many), 0);
        let mut of_rows = || {
            let rows = values.rows(1).unwrap();
            assert_eq!(reducer.reduce(crate::op::Max, &rows).unwrap(), [1, 2, -7]);
        };
        assert_ne!(waits(&mut of_rows), 0);
    }

    /// Kernels are unloaded after their launches have finished, not before.
    #[test]
    fn dropping_a_reducer_waits_for_observed_launches() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        assert_eq!(reducer.sum(&values).unwrap(), 3);
        let log = warpfold_sim_driver::record_calls();
        drop(reducer);
        assert_eq!(log.count("cuStreamSynchronize"), 1);
    }
}
