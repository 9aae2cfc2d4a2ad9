//! Several processes, each with a device, whose elements are reduced as one.

use std::{
    any::type_name,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use warpfold_abi::meeting::CELL_BYTES;

use super::{
    Member, Shared, Way, check_len, kind_of,
    meeting::Meeting,
    passing::{NcclExchange, Status, agree},
};
use crate::{
    Buffer, Device, Error, Plain, Result, Selection,
    input::buffer::together,
    op::{Operation, Operations},
    reducer::{Code, Reducer, Running, core::InFlight, host_results::Layout, running::MOST},
    world::{Rendezvous, Wire},
};

pub(super) const MOST_BYTES: usize = 16 << 10;

/// Several processes on one or more hosts, each with its own device, whose elements are reduced as one.
/// An existing launcher starts them, such as `mpirun`, `srun` or `torchrun`. A process is a *rank*, as
/// in MPI, and has a number from 0 on.
///
/// ```
/// use warpfold::{World, op};
///
/// // Each rank has a thousand elements of its own.
/// let world = World::from_env()?;
/// let values = world.reducer().device().upload(&[0.5_f32; 1_000])?;
/// let values = world.distributed(values)?;
/// let sum = world.reduce(op::Sum, &values)?;
/// if world.rank() == 0 {
///     println!("{sum} of {} elements of {} ranks", values.len(), world.size());
/// }
/// # assert_eq!(sum, 500.0);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// All ranks must make the calls that are marked *collective*, in the same order; each returns when all
/// ranks have called it. Each rank reduces its own elements by one launch, and the ranks exchange one
/// partial result each: by NCCL if each rank has it and a GPU of its own, else by connections with rank
/// 0, see [`way`](Self::way). In either case, rank 0 listens at the address of the [`Rendezvous`].
/// Connections are not authenticated, so the network must be one whose hosts trust each other.
///
/// # Results
/// The elements are those of rank 0, then those of rank 1, and so on, as in a [`Group`](crate::Group);
/// every rank has the same result, bit by bit.
///
/// # Errors
/// If a rank cannot do its part, or ranks make different calls, the other ranks return [`Error::World`].
/// There is no result then, and the world can still be used. A rank that ends, or does not make a call
/// in time, ends the world: from then on the other ranks return [`Error::Lost`], which names that rank.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    rank: u32,
    size: u32,
    way: Way,
    member: Member,
    /// Locked for the duration of a collective call.
    state: Mutex<State>,
}

pub(super) struct State {
    wire: Wire,
    nccl: Option<NcclExchange>,
    /// Created at the first use, and again after a failure.
    meeting: Option<Arc<Meeting>>,
}

/// Elements that are distributed over the ranks of a [`World`], from [`World::distributed`]: any number
/// on each, in the order of the ranks. They never change.
pub struct Distributed<T> {
    world: World,
    part: Buffer<T>,
    before: u64,
    len: u64,
}

impl World {
    /// Joins the processes that the same launcher has started, as found by [`Rendezvous::from_env`].
    /// Each uses the GPU whose number is its local rank, or the simulator if there is no driver.
    /// Collective.
    ///
    /// # Errors
    /// The errors of [`Rendezvous::from_env`], [`Device::open`] and [`join`](Self::join).
    pub fn from_env() -> Result<Self> {
        let rendezvous = Rendezvous::from_env()?;
        let device = match Device::open(Selection::CudaOrdinal(rendezvous.local_rank())) {
            Err(Error::NoDriver { .. }) => Device::open(Selection::Auto),
            opened => opened,
        }?;
        Self::join(&rendezvous, &Reducer::new(&device)?)
    }

    /// Joins the processes that meet at `rendezvous`, each with the device of its `reducer`. Collective.
    ///
    /// # Errors
    /// [`Error::World`] if not all ranks join in time, if two have the same number, different sizes or
    /// devices of different kinds, if rank 0 cannot listen, and if the requested
    /// [way](Rendezvous::with_way) is unavailable; [`Error::Driver`] if a driver call fails.
    pub fn join(rendezvous: &Rendezvous, reducer: &Reducer) -> Result<Self> {
        let stream = reducer.device().stream()?;
        let mut wire = Wire::join(rendezvous, kind_of(reducer.device()))?;
        let nccl = NcclExchange::negotiate(&mut wire, rendezvous, reducer)?;
        let (rank, size) = (rendezvous.rank(), rendezvous.size());
        let way = if nccl.is_some() { Way::Nccl } else { Way::Copies };
        log::info!("warpfold is rank {rank} of {size}");
        let member = Member { reducer: reducer.clone(), stream };
        let state = Mutex::new(State { wire, nccl, meeting: None });
        Ok(Self(Arc::new(Inner { rank, size, way, member, state })))
    }

    /// Returns how the ranks exchange partial results: by [`Way::Nccl`], or by [`Way::Copies`] over
    /// connections with rank 0. The log has the reason for the choice.
    pub fn way(&self) -> Way {
        self.0.way
    }

    /// Returns the number of this process.
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// Returns the number of processes.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Returns the reducer of this process, for reductions of its own elements alone, such as whole
    /// rows.
    pub fn reducer(&self) -> &Reducer {
        &self.0.member.reducer
    }

    /// Waits until all ranks have called this. Collective.
    ///
    /// # Errors
    /// [`Error::World`] or [`Error::Lost`].
    pub fn barrier(&self) -> Result<()> {
        self.gather_numbers(&mut self.state(), "a barrier", Ok(0)).map(drop)
    }

    /// Returns an error if a rank is known to be lost, so that a long computation that will need the
    /// other ranks can stop early. Not collective: it takes microseconds, does not wait, and can be
    /// called at any time.
    ///
    /// # Errors
    /// [`Error::Lost`] with the reason.
    pub fn check(&self) -> Result<()> {
        // A call that holds the lock waits for the other ranks, and detects a lost one itself.
        let mut state = match self.0.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        state.wire.lost_so_far().map_or(Ok(()), Err)
    }

    /// Ends the world because this rank cannot do its part. The reason reaches all other ranks at once,
    /// whether they wait or [check](Self::check).
    pub fn fail(&self, reason: &str) {
        let State { wire, nccl, .. } = &mut *self.state();
        wire.fail(reason);
        if let Some(nccl) = nccl {
            nccl.leave(wire);
        }
    }

    /// Sends bytes to all ranks, and returns the bytes of every rank, in the order of the ranks.
    /// Collective.
    ///
    /// # Errors
    /// [`Error::World`] for more than 16 KiB; [`Error::Lost`].
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let own = match bytes.len() {
            ..=MOST_BYTES => Ok(bytes.to_vec()),
            len => Err(Error::World {
                reason: format!("a rank gathers {len} bytes; give {MOST_BYTES} or fewer"),
            }),
        };
        self.gather_bytes(&mut self.state(), "bytes", own)
    }

    /// Returns the buffers of all ranks as elements of the world. Collective.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for a buffer on another device than this rank's, in which case the other
    /// ranks return [`Error::World`]; [`Error::World`] if ranks have elements of different types;
    /// [`Error::TooManyElements`] for more than 2^48 in all; [`Error::Lost`].
    pub fn distributed<T: Plain>(&self, part: Buffer<T>) -> Result<Distributed<T>> {
        let checked = self.reducer().device().require("buffer", part.device());
        let what = format!("elements of {}", short(type_name::<T>()));
        let len = checked.map(|()| part.len() as u64);
        let lengths = self.gather_numbers(&mut self.state(), &what, len)?;
        let n = lengths.iter().fold(0_u64, |all, &len| all.saturating_add(len));
        if n > MOST {
            return Err(Error::TooManyElements { n, most: MOST });
        }
        let before = lengths[..self.0.rank as usize].iter().sum();
        Ok(Distributed { world: self.clone(), part, before, len: n })
    }

    pub(super) fn reduce_one<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        values: &Distributed<T>,
    ) -> Result<O::Output> {
        let state = &mut *self.state();
        let local = self.launch_local(state, &op.code(), values);
        self.reduce_parts(state, "", op, local, &|| values.part.slice(..0))
    }

    pub(super) fn reduce_many<T: Plain, O: Operations<T>>(
        &self,
        ops: O,
        values: &Distributed<T>,
    ) -> Result<O::Output> {
        let state = &mut *self.state();
        let of_none = O::of_none();
        let (codes, layout) = together(&ops.codes(), values.is_empty());
        for (launch, code) in codes.iter().flatten().enumerate() {
            let local = self.launch_local(state, code, values);
            let what = format!("launch {launch}: {code}");
            let empty = || values.part.slice(..0);
            self.combine(state, &what, (code, launch), local, of_none.is_some(), &empty)?;
        }
        if let Some(of_none) = of_none.filter(|_| values.is_empty()) {
            return Ok(of_none);
        }
        let meeting = self.meeting(state)?;
        let results = meeting.take(layout);
        Ok(O::decode(results.of_elements(values.len())))
    }

    /// Returns, on each rank, the combined result of one running reduction of each rank. More elements
    /// may be pushed afterwards. Indices in the result are those of the running reductions, so begin
    /// each [at the index](Running::starting_at) of its first element among all elements. Collective.
    ///
    /// # Errors
    /// The errors of [`reduce`](Self::reduce) and [`Running::result`]; [`Error::OtherDevice`] for a
    /// running reduction on another device than this rank's.
    pub fn result<T: Plain, O: Operation<T>>(&self, running: &Running<T, O>) -> Result<O::Output> {
        let state = &mut *self.state();
        let device = self.reducer().device();
        let checked = device.require("running reduction", running.device());
        let cell = checked.and_then(|()| running.cell());
        let local = cell.and_then(|cell| self.put_local(state, running.len(), cell));
        self.reduce_parts(state, "running ", running.op(), local, &|| device.upload::<T>(&[]))
    }

    pub(super) fn require<T>(&self, values: &Distributed<T>) -> Result<()> {
        if Arc::ptr_eq(&self.0, &values.world.0) {
            return Ok(());
        }
        Err(Error::World {
            reason: "the elements belong to another world; make them by this one".to_owned(),
        })
    }

    fn launch_local<T: Plain>(
        &self,
        state: &mut State,
        code: &Code,
        values: &Distributed<T>,
    ) -> Result<LocalPart> {
        self.require(values)?;
        let elements = values.part.len() as u64;
        // With too many elements `combine` fails on every rank.
        if elements == 0 || check_len(code, values.len).is_err() {
            return Ok(LocalPart { elements, value: PartialResult::None });
        }
        let meeting = self.meeting(state)?;
        let shared = Arc::new(Shared::without_outputs(meeting.clone()));
        let (part, place) = (&values.part, meeting.local_place(0));
        let launched = self.0.member.launch(code.clone(), part, values.before, place, &shared);
        let launched = launched.map_err(|error| self.abandon(state, shared.clone(), error))?;
        Ok(LocalPart { elements, value: PartialResult::Launched(launched, shared) })
    }

    /// Returns `cell` as this rank's [`LocalPart`], after a copy to the device if NCCL needs it there.
    fn put_local(&self, state: &mut State, elements: u64, cell: Vec<u8>) -> Result<LocalPart> {
        if cell.is_empty() {
            return Ok(LocalPart { elements, value: PartialResult::None });
        }
        if state.nccl.is_some() {
            self.meeting(state)?.put_local(&cell)?;
        }
        Ok(LocalPart { elements, value: PartialResult::OnHost(cell) })
    }

    fn reduce_parts<T: Plain, O: Operation<T>>(
        &self,
        state: &mut State,
        how: &str,
        op: O,
        local: Result<LocalPart>,
        empty: &dyn Fn() -> Result<Buffer<T>>,
    ) -> Result<O::Output> {
        let (code, of_none) = (op.code(), O::of_none());
        let what = format!("{how}{code}");
        let n = self.combine(state, &what, (&code, 0), local, of_none.is_some(), empty)?;
        if let Some(of_none) = of_none.filter(|_| n == 0) {
            return Ok(of_none);
        }
        let layout = Layout::of_one(code.result_bytes());
        Ok(self.meeting(state)?.take(layout).result::<T, O>(0))
    }

    /// Combines the partial results of all ranks to a result in host memory, and returns the number of
    /// elements of all ranks.
    fn combine<T: Plain>(
        &self,
        state: &mut State,
        what: &str,
        launch: (&Code, usize),
        local: Result<LocalPart>,
        is_known_of_none: bool,
        empty: &dyn Fn() -> Result<Buffer<T>>,
    ) -> Result<u64> {
        let gathered = match state.nccl {
            Some(_) => self.gather_by_nccl(state, what, local),
            None => self.gather_by_connections(state, what, local),
        }?;
        let n = gathered.elements;
        check_len(launch.0, n)?;
        if is_known_of_none && n == 0 {
            return Ok(n);
        }
        let (meeting, member) = (self.meeting(state)?, &self.0.member);
        let combined = match gathered.cells {
            Some(cells) => member.combine(&meeting, launch, &cells, &empty()?),
            None => member.combine_copied(&meeting, launch, self.0.size, &empty()?),
        };
        combined.map(|()| n).map_err(|(error, shared)| self.abandon(state, shared, error))
    }

    fn gather_by_connections(
        &self,
        state: &mut State,
        what: &str,
        local: Result<LocalPart>,
    ) -> Result<Gathered> {
        let own = local.and_then(|local| {
            let (len, cell) = (local.elements.to_le_bytes(), self.read_cell(state, local.value)?);
            Ok([len.to_vec(), cell].concat())
        });
        let (mut elements, mut cells) = (0_u64, Vec::new());
        for part in state.wire.gather(what, own)? {
            let Some((len, cell)) = part.split_first_chunk() else { return Err(other_version()) };
            elements = elements.saturating_add(u64::from_le_bytes(*len));
            match cell.len() as u64 {
                0 => {}
                CELL_BYTES => cells.push(cell.to_vec()),
                _ => return Err(other_version()),
            }
        }
        Ok(Gathered { elements, cells: Some(cells) })
    }

    fn read_cell(&self, state: &mut State, value: PartialResult) -> Result<Vec<u8>> {
        match value {
            PartialResult::None => Ok(Vec::new()),
            PartialResult::OnHost(cell) => Ok(cell),
            PartialResult::Launched(launch, shared) => {
                self.finish(state, launch, shared)?;
                self.meeting(state)?.local_value(0)
            }
        }
    }

    fn gather_by_nccl(
        &self,
        state: &mut State,
        what: &str,
        local: Result<LocalPart>,
    ) -> Result<Gathered> {
        let summary = |local: &LocalPart| (local.elements, !matches!(local.value, PartialResult::None));
        let statuses = self.exchange(state, Status::new(what, local.as_ref().map(summary)));
        // The exchange follows the launch on the stream, so this wait is short, also after an error.
        let finished = match local {
            Ok(LocalPart { value: PartialResult::Launched(launch, shared), .. }) => {
                self.finish(state, launch, shared)
            }
            local => local.map(drop),
        };
        let statuses = statuses?;
        if !agree(&statuses) {
            // All ranks make this call, which fails with the reason why the statuses do not agree.
            state.wire.gather(what, finished.map(|()| Vec::new()))?;
            return Err(other_version());
        }
        finished.map_err(|error| self.end(state, error))?;
        let elements = statuses.iter().fold(0_u64, |all, status| all.saturating_add(status.elements));
        if statuses.iter().all(|status| status.has_value == 1) {
            return Ok(Gathered { elements, cells: None });
        }
        let all = self.meeting(state)?.gathered_values(self.0.size)?;
        let cells = std::iter::zip(all.chunks(CELL_BYTES as usize), &statuses);
        let cells = cells.filter(|(_, status)| status.has_value == 1).map(|(cell, _)| cell.to_vec());
        Ok(Gathered { elements, cells: Some(cells.collect()) })
    }

    fn exchange(&self, state: &mut State, status: Status) -> Result<Vec<Status>> {
        let meeting = self.meeting(state).map_err(|error| self.end(state, error))?;
        let State { wire, nccl, .. } = state;
        let nccl = nccl.as_mut().expect("the world is by NCCL");
        // SAFETY: the meeting has the partial result of this rank, and space for those of all ranks. Its
        // earlier uses are on this stream or were waited for. `abandon` leaks it if it is still in use.
        let statuses =
            unsafe { nccl.exchange(wire, &self.0.member.stream, status, meeting.gather_addresses(0)) };
        statuses.map_err(|error| self.abandon(state, Arc::new(Shared::without_outputs(meeting)), error))
    }

    /// Aborts NCCL, which ends the world.
    fn end(&self, state: &mut State, error: Error) -> Error {
        let State { wire, nccl, .. } = state;
        nccl.as_mut().expect("the world is by NCCL").end(wire, &self.0.member.stream, error)
    }

    /// Gathers bytes of each rank, in rank order. `what` names the call, the same on all ranks.
    pub(super) fn gather_bytes(
        &self,
        state: &mut State,
        what: &str,
        own: Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        if state.nccl.is_some() {
            self.exchange(state, Status::new(what, own.as_ref().map(|_| (0, false))))?;
        }
        // If the statuses do not agree, this returns an error with the reason.
        state.wire.gather(what, own)
    }

    fn gather_numbers(&self, state: &mut State, what: &str, own: Result<u64>) -> Result<Vec<u64>> {
        if state.nccl.is_some() {
            let status = Status::new(what, own.as_ref().map(|&number| (number, false)));
            let statuses = self.exchange(state, status)?;
            if agree(&statuses) {
                return Ok(statuses.iter().map(|status| status.elements).collect());
            }
        }
        let numbers = state.wire.gather(what, own.map(|number| number.to_le_bytes().to_vec()))?;
        let number = |bytes: &Vec<u8>| bytes.as_slice().try_into().map(u64::from_le_bytes);
        numbers.iter().map(number).collect::<Result<_, _>>().map_err(|_| other_version())
    }

    fn finish(&self, state: &mut State, launch: InFlight, shared: Arc<Shared>) -> Result<()> {
        let done = self.0.member.reducer.core().finish(launch, |_, _| ());
        done.map_err(|error| self.abandon(state, shared, error))
    }

    /// Drops the meeting of a failed launch: its counter may have any value. Leaks it if still in use.
    fn abandon(&self, state: &mut State, shared: Arc<Shared>, error: Error) -> Error {
        state.meeting = None;
        if !self.0.member.stream.has_ended() {
            mem::forget(shared);
        }
        error
    }

    fn meeting(&self, state: &mut State) -> Result<Arc<Meeting>> {
        if let Some(meeting) = &state.meeting {
            return Ok(meeting.clone());
        }
        let made = Meeting::new(&[self.reducer().device()], Way::Copies, self.0.size)?;
        Ok(state.meeting.insert(Arc::new(made)).clone())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LocalPart {
    elements: u64,
    value: PartialResult,
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum PartialResult {
    None,
    /// In device memory when the launch has finished.
    Launched(InFlight, Arc<Shared>),
    /// In host memory. For [`Way::Nccl`], device memory contains a copy.
    OnHost(Vec<u8>),
}

struct Gathered {
    elements: u64,
    /// The partial results, without the ranks that have none. `None` if each rank has one and NCCL has
    /// gathered them in device memory.
    cells: Option<Vec<Vec<u8>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let State { wire, nccl, .. } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(nccl) = nccl {
            nccl.leave(wire);
        }
    }
}

impl<T: Plain> Distributed<T> {
    /// Returns the world of the elements.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the elements of this rank.
    pub fn part(&self) -> &Buffer<T> {
        &self.part
    }

    /// Returns the number of elements of the ranks before this one.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Returns the number of elements of all ranks.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether no rank has elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { rank, size, way, .. } = *self.0;
        let device = self.reducer().device();
        f.debug_struct("World")
            .field("rank", &rank)
            .field("size", &size)
            .field("way", &way)
            .field("device", device)
            .finish_non_exhaustive()
    }
}

impl<T: Plain> fmt::Debug for Distributed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distributed")
            .field("len", &self.len)
            .field("before", &self.before)
            .field("part", &self.part.len())
            .finish_non_exhaustive()
    }
}

pub(super) fn other_version() -> Error {
    Error::World {
        reason: "a rank has another version of warpfold; build all ranks with one version".to_owned(),
    }
}

/// Removes the module paths from the name of a type and of its parameters.
pub(super) fn short(name: &str) -> String {
    let mut shortened = String::new();
    for part in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        shortened.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn short_removes_module_paths() {
        let cases = [
            ("warpfold::op::Sum", "Sum"),
            ("warpfold::op::Reproducible<warpfold::op::Sum>", "Reproducible<Sum>"),
            ("f32", "f32"),
            ("a::B<c::D, (e::F, g::H)>", "B<D, (F, H)>"),
        ];
        for (name, expected) in cases {
            assert_eq!(short(name), expected);
        }
    }
}
