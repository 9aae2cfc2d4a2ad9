//! What launches write besides results of the user's: slots through which blocks hand on their values,
//! and words for results. Both come from a pool, so that any number of threads may reduce at once.
//!
//! A workspace, with its slots, is somebody's for the length of a call. A call that enqueues leaves the
//! workspace in use on the device; the next one may have it all the same, on any stream, and makes that
//! stream wait for the end of the use before. So whoever waits here waits for a call of another thread,
//! never for something that a user still holds, and nobody waits forever: a call that has workspaces of
//! several devices at once takes one of each, in the same order as all others.
//!
//! Words for results are small, and belong to a [`Pending`](super::Pending) as long as it is there.

use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use warpfold_abi::reducer::WIDE_SLOT_BYTES;

use super::host_results::{Awaited, HostResults, Layout, Mark};
use crate::{
    Device, Error, Result, Stream,
    context::Failed,
    input::axis::AxisLaunch,
    memory::{HostWords, Memory},
    names::KernelKind,
    stream::Event,
};

/// Cells that are made at once: what a page of locked memory holds many of.
const CELLS: usize = 32;

/// What one launch after the other may use.
pub(crate) struct Workspace {
    slots: Memory,
    /// For a call that waits: where it enqueues, and its results.
    stream: Stream,
    results: HostWords,
    /// The end of its last use on a stream of somebody's, if that may still be under way.
    end: Option<Arc<Event>>,
    /// Whether something on its own stream may not have ended that nobody waits for: a launch whose
    /// results were seen to be there.
    ending: bool,
    /// Whether slots may be something other than zero, because a launch failed.
    unsettled: bool,
}

impl Workspace {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            slots: slots(device)?,
            stream: Stream::new(device)?,
            results: HostWords::new(device, Layout::MOST_WORDS)?,
            end: None,
            ending: false,
            unsettled: false,
        })
    }

    /// Blocks that there are slots for: as many as a device can hold.
    pub(crate) fn most_blocks(device: &Device) -> u32 {
        device.info().shape().resident_blocks(KernelKind::Grid.block_sizes()[0])
    }

    /// Waits for launches whose results are there, or says that their end is not known.
    fn settle(&mut self) -> bool {
        let has_ended = !self.ending || self.stream.has_ended();
        self.ending = !has_ended;
        has_ended
    }

    /// Whether a stream is where it was used last: what is enqueued there comes behind that use.
    fn is_in_use_on(&self, stream: &Stream) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_on(stream))
    }

    /// Whether no use of it is under way.
    fn is_free(&self) -> bool {
        // What cannot be asked counts as under way.
        self.end.as_ref().is_none_or(|end| end.is_done().unwrap_or(false))
    }
}

/// Slots of a workspace's size, all zero.
pub(crate) fn slots(device: &Device) -> Result<Memory> {
    let bytes = u64::from(Workspace::most_blocks(device)) * WIDE_SLOT_BYTES;
    let slots = Memory::new(device, bytes.max(AxisLaunch::SLOTS))?;
    device.clear(&slots)?;
    Ok(slots)
}

/// Words of a cell: results, and the count of elements that a kernel has found.
const CELL_WORDS: usize = Layout::MOST_WORDS + 1;

/// Words for the results of a task, and an event for its end.
pub(crate) struct Cell {
    words: Arc<HostWords>,
    first: usize,
    pub(super) end: Arc<Event>,
}

impl Cell {
    /// Where kernels put the results.
    pub(super) fn address(&self) -> u64 {
        self.words.address(self.first)
    }

    /// Where a kernel that counts puts how many elements it was to take.
    pub(super) fn found_address(&self) -> u64 {
        self.words.address(self.first + Layout::MOST_WORDS)
    }

    /// Marks where results go that are to be seen when they come.
    pub(super) fn mark(&self, layout: Layout) -> Mark {
        Awaited::new(&self.words, self.first, layout).mark()
    }

    /// The results that were marked so.
    pub(super) fn awaited(&self, mark: Mark, layout: Layout) -> Awaited<'_> {
        Awaited::marked(&self.words, self.first, layout, mark)
    }

    /// Takes the results of launches that have ended well, or whose results have come.
    pub(super) fn take(&self, layout: Layout) -> HostResults<'_> {
        HostResults::new(&self.words, self.first, layout).take()
    }

    /// The number of elements that such a launch was to take, if it counts.
    pub(super) fn found(&self) -> u64 {
        self.words.take(self.first + Layout::MOST_WORDS, size_of::<u64>());
        self.words.get(self.first + Layout::MOST_WORDS)
    }
}

/// The workspaces and cells of a reducer.
pub(crate) struct Pool {
    device: Device,
    /// Most workspaces that there are at once.
    bound: usize,
    state: Mutex<State>,
    /// A workspace was returned, or one may be made in the place of one that was lost.
    returned: Condvar,
}

#[derive(Default)]
struct State {
    /// Those that are nobody's, the last one used at the end.
    workspaces: Vec<Workspace>,
    /// Workspaces that there are, with those that are somebody's.
    made: usize,
    cells: Vec<Cell>,
}

impl Pool {
    pub(super) fn new(device: &Device, bound: usize) -> Self {
        assert!(bound > 0, "a pool of nothing gives nothing");
        let (device, state, returned) = (device.clone(), Mutex::default(), Condvar::default());
        Self { device, bound, state, returned }
    }

    /// A panic while the lock was held can have lost a workspace, never have broken one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A workspace, for a stream or else its own: one that is in use on that stream, for which nobody is
    /// asked, else one that is not in use on the device, else a new one, else the one whose use began
    /// first; and where all are somebody's, the first that is returned.
    ///
    /// # Errors
    /// Those of making one.
    pub(super) fn lease(&self, stream: Option<&Stream>) -> Result<Lease<'_>> {
        self.device.require_process()?;
        let mut state = self.state();
        loop {
            let mut workspaces = state.workspaces.iter();
            if let Some(stream) = stream
                && let Some(at) = workspaces.rposition(|workspace| workspace.is_in_use_on(stream))
            {
                let workspace = state.workspaces.remove(at);
                return Ok(self.leased(workspace));
            }
            // From the end: what was used last is in the caches.
            if let Some(at) = state.workspaces.iter().rposition(|workspace| workspace.is_free()) {
                let mut workspace = state.workspaces.remove(at);
                workspace.end = None;
                return Ok(self.leased(workspace));
            }
            if state.made < self.bound {
                state.made += 1;
                drop(state);
                return self.make();
            }
            if !state.workspaces.is_empty() {
                let workspace = state.workspaces.remove(0);
                return Ok(self.leased(workspace));
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn leased(&self, workspace: Workspace) -> Lease<'_> {
        Lease { pool: self, workspace: Some(workspace) }
    }

    fn make(&self) -> Result<Lease<'_>> {
        match Workspace::new(&self.device) {
            Ok(workspace) => Ok(self.leased(workspace)),
            Err(error) => {
                self.lose();
                Err(error)
            }
        }
    }

    /// Counts a workspace less.
    fn lose(&self) {
        self.state().made -= 1;
        self.returned.notify_one();
    }

    /// A cell, which goes back by [`give`](Self::give).
    ///
    /// # Errors
    /// Those of making some.
    pub(super) fn cell(&self) -> Result<Cell> {
        self.device.require_process()?;
        if let Some(cell) = self.state().cells.pop() {
            return Ok(cell);
        }
        let words = Arc::new(HostWords::new(&self.device, CELLS * CELL_WORDS)?);
        let made = (0..CELLS).map(|at| {
            let (words, end) = (words.clone(), Arc::new(Event::new(&self.device)?));
            Ok(Cell { words, first: at * CELL_WORDS, end })
        });
        let mut made: Vec<Cell> = made.collect::<Result<_>>()?;
        let cell = made.pop().expect("there are some");
        self.state().cells.append(&mut made);
        Ok(cell)
    }

    /// Waits for launches whose results are there, or says that the end of one is not known.
    pub(super) fn settle(&mut self) -> bool {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Each of them is asked.
        state.workspaces.iter_mut().fold(true, |all, workspace| all & workspace.settle())
    }

    /// Leaves all workspaces for good where they are: they may still be in use.
    pub(super) fn keep_for_good(&mut self) {
        mem::forget(mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Takes a cell back that nothing on the device uses any more.
    pub(super) fn give(&self, cell: Cell) {
        self.state().cells.push(cell);
    }
}

/// A workspace that is the caller's, until this is dropped.
pub(super) struct Lease<'p> {
    pool: &'p Pool,
    workspace: Option<Workspace>,
}

impl Lease<'_> {
    fn workspace(&self) -> &Workspace {
        self.workspace.as_ref().expect("it is there until the end")
    }

    fn workspace_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("it is there until the end")
    }

    /// The stream for a call that waits.
    pub(super) fn stream(&self) -> &Stream {
        &self.workspace().stream
    }

    /// Where the slots are.
    pub(super) fn slots(&self) -> u64 {
        self.workspace().slots.address()
    }

    /// Where kernels put the results of a call that waits.
    pub(super) fn output(&self) -> u64 {
        self.workspace().results.address(0)
    }

    /// The results of a call that waits, before it has enqueued what writes them.
    pub(super) fn awaited(&self, layout: Layout) -> Awaited<'_> {
        Awaited::new(&self.workspace().results, 0, layout)
    }

    /// Takes the results of a call that has waited.
    pub(super) fn take(&self, layout: Layout) -> HostResults<'_> {
        HostResults::new(&self.workspace().results, 0, layout).take()
    }

    /// Makes the slots good for what is enqueued from now on, on its own stream or another of the pool's
    /// device.
    ///
    /// # Safety
    /// The slots must be used by what is enqueued on that stream alone, until
    /// [`used_until`](Self::used_until), or until it was waited for.
    pub(super) unsafe fn make_ready(&mut self, other: Option<&Stream>) -> Result<()> {
        let Workspace { slots, stream: own, end, ending, unsettled, .. } = self.workspace_mut();
        let stream = other.unwrap_or(own);
        if let Some(end) = end {
            end.precede(stream)?;
        }
        if other.is_some() && *ending {
            if !own.is_done()? {
                stream.wait_for(own)?;
            }
            *ending = false;
        }
        if *unsettled {
            // SAFETY: what used the slots before is done before this begins; the caller's contract.
            unsafe { slots.clear_on(stream) }?;
            *unsettled = false;
            // Whoever gives it back without having used it has not waited for that.
            *ending |= other.is_none();
        }
        Ok(())
    }

    /// Leaves it in use on the device until an event, which was recorded behind that use.
    pub(super) fn used_until(mut self, end: &Arc<Event>) {
        self.workspace_mut().end = Some(end.clone());
    }

    /// Returns it after a use that was waited for.
    pub(super) fn used(mut self) {
        self.workspace_mut().end = None;
    }

    /// Whether all on its own stream has ended, well or not.
    pub(super) fn is_done(&self) -> bool {
        self.stream().is_done().unwrap_or(true)
    }

    /// Notes that results on its own stream are there of a launch that was not waited for.
    pub(super) fn seen(&mut self) {
        self.workspace_mut().ending = true;
    }

    /// Waits for what was launched on its own stream, if all went well.
    pub(super) fn outlast(mut self, launched: Result<()>) -> Result<Self, Failed<Error>> {
        let waited = self.stream().wait_out();
        if launched.is_ok() && waited.is_ok() {
            self.workspace_mut().ending = false;
            return Ok(self);
        }
        Err(self.fail(launched, waited))
    }

    /// Returns it after a use in which something failed; but if a launch may still use it, never.
    pub(super) fn fail(
        mut self,
        launched: Result<()>,
        waited: Result<(), Failed<Error>>,
    ) -> Failed<Error> {
        let ended = waited.as_ref().map_or_else(|failed| failed.ended, |()| true);
        if ended {
            // Kernels leave the slots at zero only if they come to their end.
            self.workspace_mut().unsettled = true;
        } else {
            mem::forget(self.workspace.take());
            self.pool.lose();
        }
        let error = launched.and(waited.map_err(|failed| failed.error));
        Failed { error: error.expect_err("something failed"), ended }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            self.pool.state().workspaces.push(workspace);
            self.pool.returned.notify_one();
        }
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use warpfold_driver::sys;

    use super::*;
    use crate::Selection;

    fn pool(bound: usize) -> Pool {
        Pool::new(&Device::open(Selection::Sim).unwrap(), bound)
    }

    #[test]
    fn who_finds_all_workspaces_taken_waits_for_the_first_that_is_returned() {
        let pool = pool(2);
        let (first, second) = (pool.lease(None).unwrap(), pool.lease(None).unwrap());
        let taken = [first.slots(), second.slots()];
        assert_ne!(taken[0], taken[1]);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let pool = &pool;
            scope.spawn(move || sender.send(pool.lease(None).unwrap().slots()).unwrap());
            // It waits as long as nothing is returned.
            receiver.recv_timeout(Duration::from_millis(100)).unwrap_err();
            first.used();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), taken[0]);
        });
        assert_eq!(pool.state().made, 2);
    }

    #[test]
    fn what_is_lost_or_cannot_be_made_leaves_its_place_to_another() {
        let pool = pool(1);
        let lost = pool.lease(None).unwrap();
        let slots = lost.slots();
        let error = || Error::NoSimulator;
        let failed = lost.fail(Err(error()), Err(Failed { error: error(), ended: false }));
        assert!(!failed.ended);
        let fault = warpfold_sim_driver::inject(warpfold_sim_driver::Fault {
            function: "cuMemAlloc_v2",
            call: 1,
            code: sys::CUDA_ERROR_OUT_OF_MEMORY,
            sticky: false,
        });
        assert!(pool.lease(None).is_err() && fault.has_struck());
        drop(fault);
        assert_ne!(pool.lease(None).unwrap().slots(), slots);
    }

    /// A use on a stream that was not waited for orders the next one behind it; one that is over is for
    /// nobody to wait for.
    #[test]
    fn a_workspace_in_use_on_the_device_goes_to_the_next_call_behind_that_use() {
        let pool = pool(1);
        let device = pool.device.clone();
        let (stream, cell) = (Stream::new(&device).unwrap(), pool.cell().unwrap());
        let lease = pool.lease(None).unwrap();
        // SAFETY: the slots are used by this stream alone, which is waited for below.
        unsafe { lease.workspace().slots.clear_on(&stream) }.unwrap();
        cell.end.record(&stream).unwrap();
        lease.used_until(&cell.end);
        // Waits that are enqueued, on the workspace's own stream.
        let waits = |mut lease: Lease<'_>| {
            let log = warpfold_sim_driver::record_calls();
            // SAFETY: nothing is enqueued.
            unsafe { lease.make_ready(None) }.unwrap();
            log.count("cuStreamWaitEvent")
        };
        assert_eq!(waits(pool.lease(None).unwrap()), 1);
        // So it is where nobody knows whether that use is over.
        let fault = warpfold_sim_driver::inject(warpfold_sim_driver::Fault {
            function: "cuEventQuery",
            call: 1,
            code: sys::CUDA_ERROR_INVALID_VALUE,
            sticky: false,
        });
        assert_eq!(waits(pool.lease(None).unwrap()), 1);
        assert!(fault.has_struck());
        stream.synchronize().unwrap();
        drop(fault);
        assert_eq!(waits(pool.lease(None).unwrap()), 0);
        pool.give(cell);
    }

    /// What is under way on a workspace's own stream, for which nobody waits, comes before what another
    /// stream does with it: a launch whose results were seen, and zeros for a call that then failed.
    #[test]
    fn a_workspace_goes_to_another_stream_behind_what_is_under_way_on_its_own() {
        let pool = pool(1);
        let other = Stream::new(&pool.device).unwrap();
        let waits = |mut lease: Lease<'_>| {
            let log = warpfold_sim_driver::record_calls();
            // SAFETY: nothing is enqueued.
            unsafe { lease.make_ready(Some(&other)) }.unwrap();
            log.count("cuStreamWaitEvent")
        };
        let mut lease = pool.lease(None).unwrap();
        // SAFETY: nothing else uses the slots.
        unsafe { lease.workspace().slots.clear_on(lease.stream()) }.unwrap();
        lease.seen();
        lease.used();
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 1);
        // It is waited for once.
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 0);
        let mut lease = pool.lease(None).unwrap();
        lease.workspace_mut().unsettled = true;
        // SAFETY: as above.
        unsafe { lease.make_ready(None) }.unwrap();
        drop(lease);
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 1);
    }

    /// The event goes on to another reduction, whose end is none of this workspace's.
    #[test]
    fn a_use_that_was_waited_for_leaves_no_end_behind() {
        let pool = pool(1);
        let (cell, mut lease) = (pool.cell().unwrap(), pool.lease(None).unwrap());
        lease.workspace_mut().end = Some(cell.end.clone());
        lease.used();
        assert!(pool.state().workspaces[0].end.is_none());
    }

    #[test]
    fn a_cell_that_is_given_back_is_the_next_one() {
        let pool = pool(1);
        let (cell, other) = (pool.cell().unwrap(), pool.cell().unwrap());
        let (address, others) = (cell.address(), other.address());
        // Results and a count each, and no more between them.
        assert_eq!(address.abs_diff(others), (CELL_WORDS * 8) as u64);
        pool.give(cell);
        assert_eq!(pool.cell().unwrap().address(), address);
    }
}
