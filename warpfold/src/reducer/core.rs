//! What a reducer is made of, and how it launches.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    group::Shared,
    host_results::{HostResults, Layout},
    kernels::{Kernels, Places},
    many::Codes,
    pool::{Cell, Lease, Pool},
    streamed::Ring,
    task::Task,
};
use crate::{
    Device, Error, Result, Stream, context::Failed, memory::Memory, segments::Offsets, stream::Event,
};

/// What a reducer is made of, and a reduction under way keeps alive.
pub(crate) struct Core {
    kernels: Kernels,
    pool: Pool,
    /// Reductions under way that nobody waits for.
    detached: Mutex<Vec<Underway>>,
    /// What the last stream of elements has left for the next.
    ring: Mutex<Option<Ring>>,
}

/// What a reduction on somebody's stream uses until its end.
pub(crate) struct Underway {
    cell: Cell,
    /// What kernels write to the cell.
    in_cell: Layout,
    _input: Arc<Memory>,
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

/// What a reduction on a stream is of.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// The task, which is not empty.
    pub(crate) task: &'a Task<'a>,
    /// What has the task's elements.
    pub(crate) memory: &'a Arc<Memory>,
    /// What has the second ones, if they are pairs.
    pub(crate) second: Option<&'a Arc<Memory>>,
    /// What has their segments' offsets, if they have segments.
    pub(crate) offsets: Option<&'a Arc<Offsets>>,
    /// What launches on other devices use, too, if it is one of several.
    pub(crate) group: Option<&'a Arc<Shared>>,
}

impl<'a> Inputs<'a> {
    /// Of elements of a single buffer, without offsets.
    pub(crate) fn of(task: &'a Task<'a>, memory: &'a Arc<Memory>) -> Self {
        Self { task, memory, second: None, offsets: None, group: None }
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
        task: &Task<'_>,
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
    pub(crate) unsafe fn reduce_into(&self, task: &Task<'_>, output: u64) -> Result<(), Failed<Error>> {
        // SAFETY: the caller's contract.
        unsafe { self.run(task, Some(output)) }?.used();
        Ok(())
    }

    /// Enqueues a task on the stream of a workspace and waits for it. The workspace, to which the
    /// results go if there is no `output`, is handed back if all went well.
    ///
    /// # Safety
    /// As [`reduce_into`](Self::reduce_into), or as [`reduce`](Self::reduce) without `output`.
    unsafe fn run(&self, task: &Task<'_>, output: Option<u64>) -> Result<Lease<'_>, Failed<Error>> {
        task.prepare(&self.kernels).map_err(Failed::not_begun)?;
        let mut lease = self.pool.lease().map_err(Failed::not_begun)?;
        // SAFETY: the workspace is ours, and its stream is used by its holder alone.
        let ready = unsafe { lease.make_ready(None) };
        let stream = lease.stream();
        let output = output.unwrap_or_else(|| lease.output());
        let places = Places::new(lease.slots(), output, stream.raw());
        // SAFETY: the slots are ready; the workspace is kept until its wait is over, or for good; the
        // caller answers for the elements and the output.
        let launched = ready.and_then(|()| unsafe { task.enqueue(&self.kernels, &places) });
        let waited = stream.wait_out();
        if launched.is_ok() && waited.is_ok() {
            return Ok(lease);
        }
        Err(lease.fail(launched, waited))
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
        let Inputs { task, memory, second, offsets, group } = inputs;
        let count = task.count();
        task.prepare(&self.kernels)?;
        if let Some(count) = count {
            count.precede(stream)?;
        }
        let underway = Underway {
            cell: self.pool.cell()?,
            in_cell: if output.is_some() { Layout::default() } else { task.layout() },
            _input: memory.clone(),
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
        Ok(Underway {
            cell: self.pool.cell()?,
            in_cell: Layout::default(),
            _input: memory.clone(),
            _second: None,
            _offsets: None,
            _output: None,
            count: None,
            _group: None,
            _codes: Codes::default(),
        })
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
        task: &Task<'_>,
        output: u64,
        cell: &Cell,
    ) -> Result<(), Failed<Error>> {
        let mut lease = self.pool.lease().map_err(Failed::not_begun)?;
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
        self.detached.lock().unwrap_or_else(PoisonError::into_inner).push(underway);
    }

    /// Lets go of what has ended since. Each is asked once, and nothing is allocated.
    pub(crate) fn sweep(&self) {
        let mut at = 0;
        loop {
            let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
            while detached.get(at).is_some_and(|underway| !underway.has_ended()) {
                at += 1;
            }
            if at >= detached.len() {
                return;
            }
            let ended = detached.swap_remove(at);
            // Whoever owned the elements may use the reducer while he gives them up.
            drop(detached);
            self.pool.give(ended.cell);
        }
    }
}

impl Underway {
    /// Whether that is known without waiting.
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
        // All other uses of the pool were by reductions that have a share of this, and so are over.
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

    /// What is under way is left alone, each asked once: a query of the simulator leaves work as it is,
    /// and the next one runs it.
    #[test]
    fn who_sweeps_waits_for_nothing() {
        let device = Device::open(Selection::Sim).unwrap();
        let (reducer, values) = (Reducer::new(&device).unwrap(), device.upload(&[1_u8, 2]).unwrap());
        let streams = [(); 3].map(|()| device.stream().unwrap());
        let mut sums = [(); 3].map(|()| device.output().unwrap());
        let core = reducer.core();
        let underway = || core.detached.lock().unwrap().len();
        for (stream, sum) in streams.iter().zip(&mut sums) {
            reducer.on(stream).sum_into(&values, sum).unwrap();
        }
        // Each call behind the first has swept: the first of them was asked twice, and so has run.
        assert_eq!(underway(), 2);
        let log = warpfold_sim_driver::record_calls();
        streams[2].synchronize().unwrap();
        core.sweep();
        assert_eq!((log.count("cuEventQuery"), underway()), (2, 0));
    }
}
