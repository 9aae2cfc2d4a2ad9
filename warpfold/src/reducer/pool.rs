//! The workspaces and result cells of a reducer, in a pool that lets any number of threads reduce at
//! once.
//!
//! A workspace has the slots through which blocks publish their partial results. It is leased for the
//! duration of a call. A call that only enqueues returns the workspace while the device still uses it;
//! the next call may lease it even so, for any stream, and makes that stream wait for the end of the
//! previous use. A lease therefore waits for calls of other threads only, never for a result that a user
//! holds. There is no deadlock: a call that leases workspaces of several devices leases one of each, in
//! the same order as all other calls.
//!
//! A cell is page-locked host memory for the results of one reduction. It is small, and belongs to a
//! [`Pending`](super::Pending) as long as that lives.

use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use warpfold_abi::reducer::{OUTPUT_BYTES, WIDE_SLOT_BYTES};

use super::host_results::{Awaited, HostResults, Layout, Mark};
use crate::{
    Device, Error, Result, Stream,
    context::Failed,
    input::{axis::AxisLaunch, top::SelectLaunch},
    memory::{HostWords, Memory},
    names::KernelKind,
    stream::Event,
};

/// [`Cell`]s per allocation: a page has room for several.
const CELLS: usize = 32;

/// Memory for one launch at a time, and a stream for calls that wait for their launch.
pub(crate) struct Workspace {
    slots: Memory,
    stream: Stream,
    results: HostWords,
    /// The end of the last use on a caller's stream, if that use may be in flight.
    end: Option<Arc<Event>>,
    /// True if `stream` may have unfinished work that no call waits for, such as the exit of a launch
    /// whose results were observed.
    ending: bool,
    /// True if slots may be nonzero because a launch failed.
    needs_clear: bool,
}

impl Workspace {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            slots: slots(device)?,
            stream: Stream::new(device)?,
            results: HostWords::new(device, Layout::MOST_WORDS)?,
            end: None,
            ending: false,
            needs_clear: false,
        })
    }

    /// Returns the number of blocks that have slots: the maximum that is resident on the device at once.
    pub(crate) fn most_blocks(device: &Device) -> u32 {
        device.info().shape().resident_blocks(KernelKind::Grid.block_sizes()[0])
    }

    fn wait_idle(&mut self) -> bool {
        let has_ended = !self.ending || self.stream.has_ended();
        self.ending = !has_ended;
        has_ended
    }

    /// Returns whether the last use was on `stream`, whose later work is ordered after it.
    fn is_in_use_on(&self, stream: &Stream) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_on(stream))
    }

    fn is_free(&self) -> bool {
        // If the query fails, the use counts as in flight.
        self.end.as_ref().is_none_or(|end| end.is_done().unwrap_or(false))
    }
}

/// Returns the number of bytes of a workspace's slots.
pub(crate) fn slot_bytes(device: &Device) -> u64 {
    let bytes = u64::from(Workspace::most_blocks(device)) * WIDE_SLOT_BYTES;
    bytes.max(AxisLaunch::SLOTS).next_multiple_of(OUTPUT_BYTES)
}

/// Returns the number of bytes of a workspace's slots and of the scratch memory that follows them, which
/// launches need not leave zero.
pub(crate) fn workspace_bytes(device: &Device) -> u64 {
    slot_bytes(device) + SelectLaunch::SCRATCH
}

/// Returns the address of the scratch memory that follows slots.
pub(crate) fn scratch_of(slots: u64, device: &Device) -> u64 {
    slots + slot_bytes(device)
}

/// Allocates the slots of a workspace, which are zero, and the scratch memory, which is not.
pub(crate) fn slots(device: &Device) -> Result<Memory> {
    let slots = Memory::new(device, workspace_bytes(device))?;
    device.clear_first(&slots, slot_bytes(device))?;
    Ok(slots)
}

/// Words per cell: the results, and a [count](crate::Counted) that the kernel has read.
const CELL_WORDS: usize = Layout::MOST_WORDS + 1;

/// Page-locked host memory for the results of a task, and an event for the task's end.
pub(crate) struct Cell {
    words: Arc<HostWords>,
    first: usize,
    pub(super) end: Arc<Event>,
}

impl Cell {
    pub(super) fn address(&self) -> u64 {
        self.words.address(self.first)
    }

    pub(super) fn found_address(&self) -> u64 {
        self.words.address(self.first + Layout::MOST_WORDS)
    }

    pub(super) fn mark(&self, layout: Layout) -> Mark {
        Awaited::new(&self.words, self.first, layout).mark()
    }

    pub(super) fn awaited(&self, mark: Mark, layout: Layout) -> Awaited<'_> {
        Awaited::marked(&self.words, self.first, layout, mark)
    }

    pub(super) fn take(&self, layout: Layout) -> HostResults<'_> {
        HostResults::new(&self.words, self.first, layout).take()
    }

    pub(super) fn found(&self) -> u64 {
        self.words.take(self.first + Layout::MOST_WORDS, size_of::<u64>());
        self.words.get(self.first + Layout::MOST_WORDS)
    }
}

pub(crate) struct Pool {
    device: Device,
    bound: usize,
    state: Mutex<State>,
    /// Notified when a workspace is returned, or was lost so that another may be made.
    returned: Condvar,
}

#[derive(Default)]
struct State {
    /// Workspaces that are not leased, the last used at the end.
    workspaces: Vec<Workspace>,
    /// The number of workspaces, including leased ones.
    made: usize,
    cells: Vec<Cell>,
    /// Ids of streams, and the slots that only work of the stream uses, in its order.
    of_streams: Vec<(u64, Memory)>,
}

/// The maximum number of streams that have slots of their own.
const MOST_STREAMS: usize = 16;

impl Pool {
    pub(super) fn new(device: &Device, bound: usize) -> Self {
        assert!(bound > 0, "a pool of nothing gives nothing");
        let (device, state, returned) = (device.clone(), Mutex::default(), Condvar::default());
        Self { device, bound, state, returned }
    }

    /// Locks the state, ignoring poisoning: a panic under the lock can lose a workspace, not break one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leases a workspace for `stream`, or for the workspace's own stream if `stream` is `None`. Prefers
    /// a workspace in use on `stream`, which takes no query of the driver; then one that is not in use
    /// on the device; then a new one; then the one that was returned first. If all are leased, waits.
    pub(super) fn lease(&self, stream: Option<&Stream>) -> Result<Lease<'_>> {
        self.device.require_process()?;
        let mut state = self.state();
        loop {
            let mut workspaces = state.workspaces.iter();
            if let Some(stream) = stream
                && let Some(at) = workspaces.rposition(|workspace| workspace.is_in_use_on(stream))
            {
                return Ok(self.leased(state.workspaces.remove(at)));
            }
            // Searches from the end, because the workspace that was used last is still in the caches.
            if let Some(at) = state.workspaces.iter().rposition(Workspace::is_free) {
                let mut workspace = state.workspaces.remove(at);
                workspace.end = None;
                return Ok(self.leased(workspace));
            }
            if state.made < self.bound {
                state.made += 1;
                drop(state);
                let made = Workspace::new(&self.device).inspect_err(|_| self.lose());
                return made.map(|workspace| self.leased(workspace));
            }
            if !state.workspaces.is_empty() {
                return Ok(self.leased(state.workspaces.remove(0)));
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn leased(&self, workspace: Workspace) -> Lease<'_> {
        Lease { pool: self, workspace: Some(workspace) }
    }

    /// Decrements the number of workspaces, so that another may be made.
    fn lose(&self) {
        self.state().made -= 1;
        self.returned.notify_one();
    }

    /// Returns slots that only work of `stream` uses: at its first use new ones, which stay with the
    /// stream. Returns `None` if [`MOST_STREAMS`] others have some, if the stream has no id, or if there
    /// is no memory.
    pub(super) fn slots_of(&self, stream: &Stream) -> Result<Option<u64>> {
        self.device.require_process()?;
        let Some(id) = stream.known_id() else { return Ok(None) };
        let find = |state: &State| {
            let mut of_streams = state.of_streams.iter();
            of_streams.find(|(of, _)| *of == id).map(|(_, slots)| slots.address())
        };
        let state = self.state();
        let found = find(&state);
        if found.is_some() || state.of_streams.len() >= MOST_STREAMS {
            return Ok(found);
        }
        drop(state);
        let Ok(slots) = slots(&self.device) else { return Ok(None) };
        let mut state = self.state();
        // Another thread may have been faster.
        if let Some(found) = find(&state) {
            return Ok(Some(found));
        }
        let address = slots.address();
        state.of_streams.push((id, slots));
        Ok(Some(address))
    }

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

    /// Waits for launches whose results were observed, and returns whether all have finished.
    pub(super) fn wait_idle(&mut self) -> bool {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Not `all`, which would skip the workspaces after the first that fails.
        state.workspaces.iter_mut().fold(true, |all, workspace| all & workspace.wait_idle())
    }

    /// Leaks all workspaces, which may still be in use.
    pub(super) fn keep_for_good(&mut self) {
        mem::forget(mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Takes back a cell that the device no longer uses.
    pub(super) fn give(&self, cell: Cell) {
        self.state().cells.push(cell);
    }
}

/// A leased workspace. Dropping it returns it to the pool.
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

    pub(super) fn stream(&self) -> &Stream {
        &self.workspace().stream
    }

    pub(super) fn slots(&self) -> u64 {
        self.workspace().slots.address()
    }

    pub(super) fn output(&self) -> u64 {
        self.workspace().results.address(0)
    }

    pub(super) fn awaited(&self, layout: Layout) -> Awaited<'_> {
        Awaited::new(&self.workspace().results, 0, layout)
    }

    pub(super) fn take(&self, layout: Layout) -> HostResults<'_> {
        HostResults::new(&self.workspace().results, 0, layout).take()
    }

    /// Prepares the slots for work that is enqueued from now on, on `other`, a stream of the pool's
    /// device, or else on the workspace's own stream.
    ///
    /// # Safety
    /// Only work on the chosen stream may use the slots until [`used_until`](Self::used_until), or until
    /// the work was waited for.
    pub(super) unsafe fn make_ready(&mut self, other: Option<&Stream>) -> Result<()> {
        let Workspace { slots, stream: own, end, ending, needs_clear, .. } = self.workspace_mut();
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
        if *needs_clear {
            // SAFETY: the waits enqueued above order the clear after earlier uses of the slots. The
            // caller ensures that only work on this stream uses the slots until the clear has finished.
            unsafe { slots.clear_on(stream) }?;
            *needs_clear = false;
            // If the lease is returned unused, the clear is still pending.
            *ending |= other.is_none();
        }
        Ok(())
    }

    /// Returns the workspace to the pool while the device may still use it. `end` was recorded after the
    /// last use.
    pub(super) fn used_until(mut self, end: &Arc<Event>) {
        self.workspace_mut().end = Some(end.clone());
    }

    /// Returns the workspace to the pool. The caller has waited for its work on the workspace's stream,
    /// or has observed the results and called [`seen`](Self::seen).
    pub(super) fn used(mut self) {
        self.workspace_mut().end = None;
    }

    /// Returns whether all work on the workspace's stream has finished, successfully or not.
    pub(super) fn is_done(&self) -> bool {
        self.stream().is_done().unwrap_or(true)
    }

    /// Records that the results of a launch on the workspace's stream were observed before its end.
    pub(super) fn seen(&mut self) {
        self.workspace_mut().ending = true;
    }

    /// Waits for the workspace's stream. If `launched` or the wait is an error, returns the workspace to
    /// the pool, or leaks it if a launch may still use it.
    pub(super) fn wait_or_leak(mut self, launched: Result<()>) -> Result<Self, Failed<Error>> {
        let waited = self.stream().wait_out();
        if launched.is_ok() && waited.is_ok() {
            self.workspace_mut().ending = false;
            return Ok(self);
        }
        Err(self.fail(launched, waited))
    }

    /// Returns the workspace to the pool after a failure, or leaks it if a launch may still use it.
    pub(super) fn fail(
        mut self,
        launched: Result<()>,
        waited: Result<(), Failed<Error>>,
    ) -> Failed<Error> {
        let ended = waited.as_ref().map_or_else(|failed| failed.ended, |()| true);
        if ended {
            // Only kernels that finish leave the slots at zero.
            self.workspace_mut().needs_clear = true;
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
    fn a_lease_waits_for_the_first_returned_workspace_if_all_are_leased() {
        let pool = pool(2);
        let (first, second) = (pool.lease(None).unwrap(), pool.lease(None).unwrap());
        let taken = [first.slots(), second.slots()];
        assert_ne!(taken[0], taken[1]);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let pool = &pool;
            scope.spawn(move || sender.send(pool.lease(None).unwrap().slots()).unwrap());
            receiver.recv_timeout(Duration::from_millis(100)).unwrap_err();
            first.used();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), taken[0]);
        });
        assert_eq!(pool.state().made, 2);
    }

    #[test]
    fn a_lost_or_failed_workspace_can_be_replaced() {
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

    /// A stream waits for an unfinished use of the workspace by another stream, not for a finished one.
    #[test]
    fn next_lease_waits_for_an_unfinished_use_on_another_stream() {
        let pool = pool(1);
        let device = pool.device.clone();
        let (stream, cell) = (Stream::new(&device).unwrap(), pool.cell().unwrap());
        let lease = pool.lease(None).unwrap();
        // SAFETY: the slots are used by this stream alone, which is waited for below.
        unsafe { lease.workspace().slots.clear_on(&stream) }.unwrap();
        cell.end.record(&stream).unwrap();
        lease.used_until(&cell.end);
        let waits = |mut lease: Lease<'_>| {
            let log = warpfold_sim_driver::record_calls();
            // SAFETY: nothing that uses the slots is enqueued.
            unsafe { lease.make_ready(None) }.unwrap();
            log.count("cuStreamWaitEvent")
        };
        assert_eq!(waits(pool.lease(None).unwrap()), 1);
        // After a failed query of its event, the use counts as in flight.
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

    /// The other stream waits for unfinished work on the workspace's own stream: the exit of a launch
    /// whose results were observed, and a clear for a call that then failed.
    #[test]
    fn other_streams_wait_for_work_on_the_workspace_stream() {
        let pool = pool(1);
        let other = Stream::new(&pool.device).unwrap();
        let waits = |mut lease: Lease<'_>| {
            let log = warpfold_sim_driver::record_calls();
            // SAFETY: nothing that uses the slots is enqueued.
            unsafe { lease.make_ready(Some(&other)) }.unwrap();
            log.count("cuStreamWaitEvent")
        };
        let mut lease = pool.lease(None).unwrap();
        // SAFETY: nothing else uses the slots.
        unsafe { lease.workspace().slots.clear_on(lease.stream()) }.unwrap();
        lease.seen();
        lease.used();
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 1);
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 0);
        let mut lease = pool.lease(None).unwrap();
        lease.workspace_mut().needs_clear = true;
        // SAFETY: nothing else uses the slots.
        unsafe { lease.make_ready(None) }.unwrap();
        drop(lease);
        assert_eq!(waits(pool.lease(Some(&other)).unwrap()), 1);
    }

    /// An event left in `end` would make the workspace wait for the next reduction that records it.
    #[test]
    fn waited_for_use_clears_the_end_event() {
        let pool = pool(1);
        let (cell, mut lease) = (pool.cell().unwrap(), pool.lease(None).unwrap());
        lease.workspace_mut().end = Some(cell.end.clone());
        lease.used();
        assert!(pool.state().workspaces[0].end.is_none());
    }

    #[test]
    fn returned_cells_are_reused() {
        let pool = pool(1);
        let (cell, other) = (pool.cell().unwrap(), pool.cell().unwrap());
        let (address, others) = (cell.address(), other.address());
        // Each cell has results and a count, and no padding.
        assert_eq!(address.abs_diff(others), (CELL_WORDS * 8) as u64);
        pool.give(cell);
        assert_eq!(pool.cell().unwrap().address(), address);
    }
}
