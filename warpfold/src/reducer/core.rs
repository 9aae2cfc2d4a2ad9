//! The shared core of a reducer, and how it launches tasks.

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

/// The kernels and the memory of a reducer, which every reduction in flight keeps alive.
pub(crate) struct Core {
    kernels: Kernels,
    pool: Pool,
    detached: Mutex<VecDeque<InFlight>>,
    /// The ring of the last streamed reduction, kept for the next one.
    ring: Mutex<Option<Ring>>,
}

/// The resources of a reduction on a stream, held until it has finished.
pub(crate) struct InFlight {
    cell: Cell,
    /// The words of the cell that kernels write; none if the results go to an output.
    layout: Layout,
    /// If the host may poll for the results: the mark that they replace, and the bytes of the input.
    awaited: Option<(Mark, u64)>,
    /// The elements and the output.
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
    /// Enqueues a non-empty task after the work that `precede` makes the stream wait for. Its output is
    /// the workspace.
    ///
    /// # Safety
    /// [`seen`](Self::seen) or [`finish`](Self::finish) must be called afterwards, even after an error.
    /// Until then, or forever if `finish` fails with work that may still run, the elements must be
    /// readable on this device, nothing may write them, and the memory of the task's meeting must be
    /// reachable and used by this reduction alone. The kernels must be [prepared](Task::prepare).
    pub(super) unsafe fn launch(
        &self,
        task: &dyn Task,
        precede: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        precede(self.lease.stream())?;
        // SAFETY: the slots are ready, and each task leaves them zero. The workspace is kept until the
        // wait for it has ended, or forever; the caller's contract.
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

/// A task for a stream, and the memory that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Not empty.
    pub(crate) task: &'a dyn Task,
    pub(crate) memory: &'a Arc<Memory>,
    /// The second elements of pairs.
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

    /// Reduces a non-empty task, waits, and passes the results to `read`. The host must know the number
    /// of elements.
    ///
    /// # Safety
    /// The task must have single results. Its elements must be readable on this device, and nothing may
    /// write them until this returns, or ever if it fails with work that may still run.
    pub(crate) unsafe fn reduce<R>(
        &self,
        task: &dyn Task,
        read: impl FnOnce(HostResults<'_>) -> R,
    ) -> Result<R, Failed<Error>> {
        // SAFETY: the caller's contract.
        let lease = unsafe { self.run(task, None) }?;
        let results = read(lease.take(task.layout()));
        lease.used();
        Ok(results)
    }

    /// Reduces a task as [`reduce`](Self::reduce) does, to any number of results in device memory.
    ///
    /// # Safety
    /// As [`reduce`](Self::reduce). `output` must have room for the results, and nothing else may use it
    /// until this returns, or ever if it fails with work that may still run.
    pub(crate) unsafe fn reduce_into(&self, task: &dyn Task, output: u64) -> Result<(), Failed<Error>> {
        // SAFETY: the caller's contract.
        unsafe { self.run(task, Some(output)) }?.used();
        Ok(())
    }

    /// Enqueues a task on the stream of a workspace, waits for it, and returns the workspace, which
    /// holds the results if there is no `output`.
    ///
    /// # Safety
    /// As [`reduce_into`](Self::reduce_into), or as [`reduce`](Self::reduce) without `output`.
    unsafe fn run(&self, task: &dyn Task, output: Option<u64>) -> Result<Lease<'_>, Failed<Error>> {
        task.prepare(&self.kernels).map_err(Failed::not_begun)?;
        let mut lease = self.pool.lease(None).map_err(Failed::not_begun)?;
        // SAFETY: the workspace is leased, and its stream is used by its holder alone.
        let ready = unsafe { lease.make_ready(None) };
        let bytes = task.seen_at_end().filter(|_| output.is_none());
        let awaited = bytes.map(|bytes| (lease.awaited(task.layout()), bytes));
        let output = output.unwrap_or_else(|| lease.output());
        // SAFETY: the slots are ready. The workspace is kept until the wait for it has ended, or
        // forever; the caller answers for the elements and the output.
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
        let context = LaunchContext::new(lease.slots(), output, lease.stream().raw());
        // SAFETY: the caller's contract.
        unsafe { task.enqueue(&self.kernels, &context) }
    }

    /// Leases a workspace for tasks that must be waited for. A caller that leases from several reducers
    /// does so in the order of [`place`](Self::place), which rules out a deadlock.
    pub(super) fn begin(&self) -> Result<Submission<'_>> {
        let mut lease = self.pool.lease(None)?;
        // SAFETY: the workspace is leased, and its stream is used by its holder alone.
        unsafe { lease.make_ready(None) }?;
        Ok(Submission { core: self, lease })
    }

    /// Returns the position in a total order of all cores.
    pub(super) fn place(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Enqueues a non-empty task. Its results go to `output`, or without one to a cell in host memory.
    ///
    /// # Safety
    /// - The stream and the task's count must be of this device.
    /// - The task's elements and offsets must be those of `inputs`, and nothing may write them until the
    ///   returned reduction has finished.
    /// - `output` must have room for the results, and only later work on the stream may use it. Without
    ///   `output` the task must have single results.
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
        let bytes = task.seen_at_end().filter(|_| output.is_none());
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
        // SAFETY: `in_flight` keeps the inputs and the output until the task has finished; the caller's
        // contract.
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

    /// Enqueues a clear of `output`, where zero is the result of no elements.
    ///
    /// # Safety
    /// The stream must be of this device, and only later work on it may use `output`.
    pub(crate) unsafe fn enqueue_zero(
        self: &Arc<Self>,
        stream: &Stream,
        output: &Arc<Memory>,
    ) -> Result<InFlight> {
        let in_flight = self.holding(output)?;
        // SAFETY: `in_flight` keeps the memory until this has finished; the caller's contract.
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

    /// Returns the resources of a reduction that holds nothing but a cell and `memory`.
    fn holding(&self, memory: &Arc<Memory>) -> Result<InFlight> {
        let _memories = [Some(memory.clone()), None, None];
        Ok(InFlight { _memories, ..InFlight::until_end_of(self.pool.cell()?) })
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

    /// Enqueues a task with a leased workspace, and records its end in `cell`, which also receives the
    /// number of elements that a counted kernel finds.
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
        // SAFETY: the workspace is leased until its use on this stream is marked or waited for below.
        let ready = unsafe { lease.make_ready(Some(stream)) };
        let context = LaunchContext::new(lease.slots(), output, stream.raw());
        let context = LaunchContext { found: Some(cell.found_address()), ..context };
        // SAFETY: the slots are ready, and the workspace is kept as stated above; the caller's contract.
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

    /// Waits for an enqueued reduction, and passes its results to `read`, with the number of elements
    /// that the kernel found if it has a count.
    pub(crate) fn finish<R>(
        self: &Arc<Self>,
        in_flight: InFlight,
        read: impl FnOnce(HostResults<'_>, Option<u64>) -> R,
    ) -> Result<R> {
        // A forked child may have neither the host words nor the thread that unlocks the pool.
        if let Err(error) = self.device().require_process() {
            return Err(self.lose(in_flight, Failed { error, ended: false }));
        }
        if in_flight.poll_results() {
            let read = read(in_flight.cell.take(in_flight.layout), None);
            // The kernels only have to exit. No caller waits for that, and they use no memory any more.
            self.detach(InFlight { _codes: in_flight._codes, ..InFlight::until_end_of(in_flight.cell) });
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

    /// Keeps the resources of a reduction that no caller waits for until it has finished.
    pub(crate) fn detach(&self, in_flight: InFlight) {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner).push_back(in_flight);
    }

    /// Releases the resources of detached reductions that have finished. A call stops at the first that
    /// is in flight, and moves it to the back: it costs one query however many are in flight, and a long
    /// reduction does not hold up the others.
    pub(crate) fn reclaim_finished(&self) {
        while self.device().is_of_this_process() {
            let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = detached.pop_front() else { return };
            if !next.has_ended() {
                detached.push_back(next);
                return;
            }
            // Dropping the memory can run an owner's code, which may use this reducer.
            drop(detached);
            self.pool.give(next.cell);
        }
    }
}

impl InFlight {
    /// Returns the resources of a reduction that holds nothing but a cell.
    fn until_end_of(cell: Cell) -> Self {
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

    /// Polls for the results for a while if the host may, and returns whether they have arrived.
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

    /// Returns whether it has finished, successfully or not.
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

    /// A sweep queries one reduction in flight and leaves it; the workspace in use on the stream is
    /// leased without a query.
    #[test]
    fn a_sweep_queries_one_reduction_and_waits_for_none() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        let (stream, mut sum) = (device.stream().unwrap(), device.output().unwrap());
        let in_flight = || reducer.core().detached.lock().unwrap().len();
        for queries in [0, 1] {
            let log = warpfold_sim_driver::record_calls();
            reducer.on(&stream).reduce_into(crate::op::Sum, &values, &mut sum).unwrap();
            let asked =
                ["cuEventQuery", "cuStreamQuery", "cuStreamWaitEvent"].map(|call| log.count(call));
            // The earlier write of the sum is on the same stream.
            assert_eq!(asked, [queries, 0, 0]);
        }
        assert_eq!(in_flight(), 2);
        stream.synchronize().unwrap();
        let log = warpfold_sim_driver::record_calls();
        reducer.core().reclaim_finished();
        assert_eq!((log.count("cuEventQuery"), in_flight()), (2, 0));
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
        // Loads the kernel and creates a workspace.
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
    fn what_was_seen_and_not_waited_for_is_so_in_the_end() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        assert_eq!(reducer.sum(&values).unwrap(), 3);
        let log = warpfold_sim_driver::record_calls();
        drop(reducer);
        assert_eq!(log.count("cuStreamSynchronize"), 1);
    }
}
