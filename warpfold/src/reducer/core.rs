//! What a reducer is made of, and how it launches.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    group::Shared,
    host_results::{HostResults, Layout, Mark},
    job::Codes,
    kernels::{Kernels, Places},
    pool::{Cell, Lease, Pool},
    streamed::Ring,
};
use crate::{
    Count, Device, Error, Result, Stream, context::Failed, input::Task, input::segments::Offsets,
    memory::Memory, stream::Event,
};

/// What a reducer is made of, and a reduction under way keeps alive.
pub(crate) struct Core {
    kernels: Kernels,
    pool: Pool,
    /// Reductions under way that nobody waits for.
    detached: Mutex<VecDeque<Underway>>,
    /// What the last stream of elements has left for the next.
    ring: Mutex<Option<Ring>>,
}

/// What a reduction on somebody's stream uses until its end.
pub(crate) struct Underway {
    cell: Cell,
    /// What kernels write to the cell.
    in_cell: Layout,
    /// What is in the cell until then, and the bytes that are read, if the results can be seen to come.
    awaited: Option<(Mark, u64)>,
    _input: Option<Arc<Memory>>,
    /// What has the second elements of pairs.
    _second: Option<Arc<Memory>>,
    /// Where its segments are.
    _offsets: Option<Arc<Offsets>>,
    /// Where the result goes, if not to the cell.
    _output: Option<Arc<Memory>>,
    /// What says how many elements to take.
    count: Option<Arc<Memory>>,
    /// What it shares with launches on other devices.
    _group: Option<Arc<Shared>>,
    /// What has the kernels, if any are launched.
    _codes: Codes,
}

/// A workspace with whose stream tasks are enqueued that have to be waited for.
pub(super) struct Begun<'c> {
    core: &'c Core,
    lease: Lease<'c>,
}

impl Begun<'_> {
    /// Enqueues a task that is not empty, behind what `precede` has the stream wait for. A result of its
    /// own goes to the workspace.
    ///
    /// # Safety
    /// Whatever this returns, [`seen`](Self::seen) or [`finish`](Self::finish) must be called. Until
    /// then, or for good if that fails with work that may still run, the elements must be readable on
    /// this device, nothing write them, and what the task says of a meeting hold. The kernels are
    /// [prepared](Task::prepare).
    pub(super) unsafe fn launch(
        &self,
        task: &dyn Task,
        precede: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        precede(self.lease.stream())?;
        // SAFETY: the slots are ready, and zero again behind each task. The workspace is kept until its
        // wait is over, or for good; the caller's contract.
        unsafe { self.core.launch(&self.lease, task, self.lease.output()) }
    }

    /// Whether all of it has ended, well or not.
    pub(super) fn is_done(&self) -> bool {
        self.lease.is_done()
    }

    /// Takes it that what the tasks were for was seen to be there.
    pub(super) fn seen(mut self) {
        self.lease.seen();
        self.lease.used();
    }

    /// Waits for the end of all, with what became of enqueueing them.
    pub(super) fn finish(self, launched: Result<()>) -> Result<(), Failed<Error>> {
        self.lease.outlast(launched).map(Lease::used)
    }
}

/// What a reduction on a stream is of.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// The task, which is not empty.
    pub(crate) task: &'a dyn Task,
    /// What has the task's elements.
    pub(crate) memory: &'a Arc<Memory>,
    /// What has the second ones, if they are pairs.
    pub(crate) second: Option<&'a Arc<Memory>>,
    /// What has their segments' offsets, if they have segments.
    pub(crate) offsets: Option<&'a Arc<Offsets>>,
    /// The number of elements to take, if device memory holds it.
    pub(crate) count: Option<&'a Count<'a>>,
    /// What launches on other devices use, too, if it is one of several.
    pub(crate) group: Option<&'a Arc<Shared>>,
}

impl<'a> Inputs<'a> {
    /// Of elements of a single buffer, without offsets.
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

    /// Reduces, waits for the results and reads them. The task is not empty, and the host knows how many
    /// elements it has.
    ///
    /// # Safety
    /// The task must have single results. Its elements must be readable on this device, and nothing
    /// write them until this returns; or ever, where it fails with work that may still run.
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

    /// As [`reduce`](Self::reduce), to any number of results in device memory.
    ///
    /// # Safety
    /// As [`reduce`](Self::reduce); at `output` there must be room for the results, which nothing else
    /// uses until this returns, or ever, where it fails with work that may still run.
    pub(crate) unsafe fn reduce_into(&self, task: &dyn Task, output: u64) -> Result<(), Failed<Error>> {
        // SAFETY: the caller's contract.
        unsafe { self.run(task, Some(output)) }?.used();
        Ok(())
    }

    /// Enqueues a task on the stream of a workspace and waits for it. The workspace, to which the
    /// results go if there is no `output`, is handed back if all went well.
    ///
    /// # Safety
    /// As [`reduce_into`](Self::reduce_into), or as [`reduce`](Self::reduce) without `output`.
    unsafe fn run(&self, task: &dyn Task, output: Option<u64>) -> Result<Lease<'_>, Failed<Error>> {
        task.prepare(&self.kernels).map_err(Failed::not_begun)?;
        let mut lease = self.pool.lease(None).map_err(Failed::not_begun)?;
        // SAFETY: the workspace is ours, and its stream is used by its holder alone.
        let ready = unsafe { lease.make_ready(None) };
        let bytes = task.seen_at_end().filter(|_| output.is_none());
        let awaited = bytes.map(|bytes| (lease.awaited(task.layout()), bytes));
        let output = output.unwrap_or_else(|| lease.output());
        // SAFETY: the slots are ready; the workspace is kept until its wait is over, or for good; the
        // caller answers for the elements and the output.
        let launched = ready.and_then(|()| unsafe { self.launch(&lease, task, output) });
        let is_done = || lease.is_done();
        if launched.is_ok() && awaited.is_some_and(|(results, bytes)| results.come(is_done, bytes)) {
            lease.seen();
            return Ok(lease);
        }
        lease.outlast(launched)
    }

    /// Enqueues a task on the stream of a workspace, which is ready.
    ///
    /// # Safety
    /// The workspace must be kept until the task has ended; otherwise as [`run`](Self::run).
    unsafe fn launch(&self, lease: &Lease<'_>, task: &dyn Task, output: u64) -> Result<()> {
        let places = Places::new(lease.slots(), output, lease.stream().raw());
        // SAFETY: the caller's contract.
        unsafe { task.enqueue(&self.kernels, &places) }
    }

    /// A workspace for tasks that have to be waited for. Whoever takes one of several reducers each
    /// takes them in the order of [`place`](Self::place), so that nobody waits for somebody who waits
    /// for him.
    pub(super) fn begin(&self) -> Result<Begun<'_>> {
        let mut lease = self.pool.lease(None)?;
        // SAFETY: the workspace is ours, and its stream is used by its holder alone.
        unsafe { lease.make_ready(None) }?;
        Ok(Begun { core: self, lease })
    }

    /// Where it is in an order of all that there are.
    pub(super) fn place(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Enqueues a task that is not empty. Its results go to `output`, or else to a cell of the
    /// library's.
    ///
    /// # Safety
    /// The stream and the task's count must be of this device. The task's elements and offsets must be
    /// those of the inputs, and nothing write them until the end of what is returned; `output` must have
    /// room for the results, and nothing else but later work on the stream use it. Without `output` the
    /// task must have single results. Nothing may enqueue what writes the count before this has
    /// returned.
    pub(crate) unsafe fn enqueue(
        self: &Arc<Self>,
        stream: &Stream,
        inputs: Inputs<'_>,
        output: Option<&Arc<Memory>>,
    ) -> Result<Underway> {
        let Inputs { task, memory, second, offsets, count, group } = inputs;
        task.prepare(&self.kernels)?;
        if let Some(count) = count {
            count.precede(stream)?;
        }
        let (cell, layout) = (self.pool.cell()?, task.layout());
        let bytes = task.seen_at_end().filter(|_| output.is_none());
        let underway = Underway {
            awaited: bytes.map(|bytes| (cell.mark(layout), bytes)),
            cell,
            in_cell: if output.is_some() { Layout::default() } else { layout },
            _input: Some(memory.clone()),
            _second: second.cloned(),
            _offsets: offsets.cloned(),
            _output: output.cloned(),
            count: count.map(|count| count.memory().clone()),
            _group: group.cloned(),
            _codes: task.kept_codes(),
        };
        let address = output.map_or_else(|| underway.cell.address(), |output| output.address());
        // SAFETY: what is named is kept by `underway` until it has ended; the caller's contract.
        match unsafe { self.enqueue_to(stream, task, address, &underway.cell) } {
            Ok(()) => {
                if let Some(count) = count {
                    count.read_until(&underway.cell.end);
                }
                Ok(underway)
            }
            Err(failed) => Err(self.lose(underway, failed)),
        }
    }

    /// Enqueues zeros where the result of no elements goes.
    ///
    /// # Safety
    /// The stream must be of this device; nothing but later work on it uses `output`.
    pub(crate) unsafe fn enqueue_zero(
        self: &Arc<Self>,
        stream: &Stream,
        output: &Arc<Memory>,
    ) -> Result<Underway> {
        let underway = self.nothing(output)?;
        // SAFETY: the memory is kept by `underway` until this has ended; the caller's contract.
        let enqueued = unsafe { output.clear_on(stream) };
        self.ended_by(stream, underway, enqueued)
    }

    /// Keeps what a group's launches use, and memory, until what is enqueued on a stream of this device
    /// now has ended.
    pub(super) fn keep_on(
        self: &Arc<Self>,
        stream: &Stream,
        memory: &Arc<Memory>,
        group: &Arc<Shared>,
    ) -> Result<Underway> {
        let underway = Underway { _group: Some(group.clone()), ..self.nothing(memory)? };
        self.ended_by(stream, underway, Ok(()))
    }

    /// What is under way where nothing is, but for some memory.
    fn nothing(&self, memory: &Arc<Memory>) -> Result<Underway> {
        Ok(Underway { _input: Some(memory.clone()), ..Underway::until_end_of(self.pool.cell()?) })
    }

    /// Records the end of what was enqueued on a stream, if it was.
    fn ended_by(
        self: &Arc<Self>,
        stream: &Stream,
        underway: Underway,
        enqueued: Result<()>,
    ) -> Result<Underway> {
        match enqueued.and_then(|()| underway.cell.end.record(stream)) {
            Ok(()) => Ok(underway),
            Err(error) => Err(self.lose(underway, Failed { error, ended: stream.has_ended() })),
        }
    }

    /// Enqueues a task with a workspace, and records its end in a cell, which also has the place for
    /// what a count has said.
    ///
    /// # Safety
    /// The stream must be of this device. What the task reads, `output` and the cell, which nothing else
    /// uses, must live until the task has ended; otherwise as [`enqueue`](Self::enqueue).
    unsafe fn enqueue_to(
        &self,
        stream: &Stream,
        task: &dyn Task,
        output: u64,
        cell: &Cell,
    ) -> Result<(), Failed<Error>> {
        let mut lease = self.pool.lease(Some(stream)).map_err(Failed::not_begun)?;
        // SAFETY: the workspace is ours until its use on this stream is marked or waited for below.
        let ready = unsafe { lease.make_ready(Some(stream)) };
        let places = Places::new(lease.slots(), output, stream.raw());
        let places = Places { found: Some(cell.found_address()), ..places };
        // SAFETY: the slots are ready, and the workspace is kept as said above; the caller's contract.
        let enqueue = |places: &Places| unsafe { task.enqueue(&self.kernels, places) };
        match ready.and_then(|()| enqueue(&places)).and_then(|()| cell.end.record(stream)) {
            Ok(()) => {
                lease.used_until(&cell.end);
                Ok(())
            }
            // The launch may be under way even so.
            Err(error) => Err(lease.fail(Err(error), stream.wait_out())),
        }
    }

    /// Waits for what was enqueued here, and reads its results and what it has found for a count, if it
    /// has one.
    pub(crate) fn finish<R>(
        self: &Arc<Self>,
        underway: Underway,
        read: impl FnOnce(HostResults<'_>, Option<u64>) -> R,
    ) -> Result<R> {
        // A child of the process may have neither the words nor who unlocks the pool.
        if let Err(error) = self.device().require_process() {
            return Err(self.lose(underway, Failed { error, ended: false }));
        }
        if underway.results_come() {
            let read = read(underway.cell.take(underway.in_cell), None);
            // Of it nothing is left but its end, for which nobody waits, and no memory is kept.
            self.detach(Underway { _codes: underway._codes, ..Underway::until_end_of(underway.cell) });
            return Ok(read);
        }
        match underway.cell.end.wait_out() {
            Ok(()) => {
                let results = underway.cell.take(underway.in_cell);
                let found = underway.count.is_some().then(|| underway.cell.found());
                let read = read(results, found);
                self.pool.give(underway.cell);
                Ok(read)
            }
            Err(failed) => Err(self.lose(underway, failed)),
        }
    }

    /// Lets go of what a failed launch uses, or keeps it for good if that may still run.
    fn lose(self: &Arc<Self>, underway: Underway, failed: Failed<Error>) -> Error {
        if failed.ended {
            self.pool.give(underway.cell);
        } else {
            mem::forget((self.clone(), underway));
        }
        failed.error
    }

    /// Keeps what nobody waits for until it has ended.
    pub(crate) fn detach(&self, underway: Underway) {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner).push_back(underway);
    }

    /// Lets go of what has ended since. A call asks about one that has not, another one each time: so
    /// many that are under way cost it no more than one, and one that takes long holds up no others.
    pub(crate) fn sweep(&self) {
        while self.device().is_of_this_process() {
            let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = detached.pop_front() else { return };
            if !next.has_ended() {
                detached.push_back(next);
                return;
            }
            // Whoever owned the elements may use the reducer while he gives them up.
            drop(detached);
            self.pool.give(next.cell);
        }
    }
}

impl Underway {
    /// What uses nothing but a cell.
    fn until_end_of(cell: Cell) -> Self {
        Self {
            cell,
            in_cell: Layout::default(),
            awaited: None,
            _input: None,
            _second: None,
            _offsets: None,
            _output: None,
            count: None,
            _group: None,
            _codes: Codes::default(),
        }
    }

    /// Whether its results can be seen to come, and have come within a while.
    fn results_come(&self) -> bool {
        let is_done = || self.cell.end.is_done().unwrap_or(true);
        self.awaited
            .is_some_and(|(mark, bytes)| self.cell.awaited(mark, self.in_cell).come(is_done, bytes))
    }

    /// Whether its end is known without waiting.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        self.cell.end.is_done()
    }

    pub(crate) fn end(&self) -> &Arc<Event> {
        &self.cell.end
    }

    /// Whether it runs no more, well or not.
    fn has_ended(&self) -> bool {
        self.is_ready().unwrap_or_else(|error| error.is_sticky())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let detached = self.detached.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut all_ended = true;
        for underway in detached.drain(..) {
            if let Err(Failed { ended: false, .. }) = underway.cell.end.wait_out() {
                all_ended = false;
                mem::forget(underway);
            }
        }
        // All other uses of the pool were by reductions that have a share of this, and so are over, but
        // for the very end of those whose results were seen.
        all_ended &= self.pool.settle();
        if !all_ended {
            // What still runs needs its slots, its code and its context.
            self.pool.keep_for_good();
            self.kernels.keep_for_good();
        }
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use super::*;
    use crate::{Reducer, Selection};

    /// What is under way is left alone, one asked a call, and the workspace that is in use on the stream
    /// is taken without asking.
    #[test]
    fn who_sweeps_waits_for_nothing() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        let (stream, mut sum) = (device.stream().unwrap(), device.output().unwrap());
        let underway = || reducer.core().detached.lock().unwrap().len();
        for queries in [0, 1] {
            let log = warpfold_sim_driver::record_calls();
            reducer.on(&stream).reduce_into(crate::op::Sum, &values, &mut sum).unwrap();
            let asked =
                ["cuEventQuery", "cuStreamQuery", "cuStreamWaitEvent"].map(|call| log.count(call));
            // What writes the sum comes before on the stream.
            assert_eq!(asked, [queries, 0, 0]);
        }
        assert_eq!(underway(), 2);
        stream.synchronize().unwrap();
        let log = warpfold_sim_driver::record_calls();
        reducer.core().sweep();
        assert_eq!((log.count("cuEventQuery"), underway()), (2, 0));
    }

    /// The words of the host say that a sum is there before anything waits for its kernel, which a query
    /// makes the simulator run; kernels of whose end more is needed are waited for.
    #[test]
    fn a_result_that_comes_is_not_waited_for() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, stream) = (Reducer::new(&device).unwrap(), device.stream().unwrap());
        let values = device.upload(&[1_i32, 2, -7]).unwrap();
        let waits = |call: &mut dyn FnMut()| {
            let log = warpfold_sim_driver::record_calls();
            call();
            log.count("cuStreamSynchronize") + log.count("cuEventSynchronize")
        };
        let mut of_a_buffer = || assert_eq!(reducer.sum(&values).unwrap(), -4);
        // This loads the kernel, and makes a workspace.
        of_a_buffer();
        // Its own stream, again and again.
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

    /// Kernels go when their launches have ended, and not before.
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
