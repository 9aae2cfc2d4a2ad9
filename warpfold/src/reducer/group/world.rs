//! Several processes as one, each with a device.

use std::{
    any::type_name,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use warpfold_abi::meeting::CELL_BYTES;

use super::{
    Member, Shared, Way, kind_of,
    meeting::Meeting,
    passing::{Note, Passing, agree},
};
use crate::{
    Buffer, Device, Error, Plain, Result, Selection,
    input::buffer::together,
    op::{Operation, Operations},
    reducer::{
        Code, HostResults, Reducer, Running, core::Underway, host_results::Layout, running::MOST,
    },
    world::{Rendezvous, Wire},
};

/// Most bytes that a rank may tell the others at a time.
const MOST_BYTES: usize = 16 << 10;

/// Several processes as one, each with a device of its own: on one host, or on several. A launcher that
/// is there starts them, as `mpirun`, `srun` or `torchrun`.
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
/// What is said to be *of all ranks* each of them calls, in the same order; it returns when all have.
/// Each reduces what it has by one launch, and what passes between them is one partial result of each:
/// by NCCL where each rank has it and a GPU of its own, else by connections with rank 0, as
/// [`way`](Self::way) says. Rank 0 listens in either case where the [`Rendezvous`] says. Nobody asks
/// there who connects, so that it is for networks whose hosts trust each other.
///
/// # Results
/// The elements are those of rank 0, then those of rank 1, and so on, as those of a
/// [`Group`](crate::Group) are; every rank has the same result, bit by bit.
///
/// # Errors
/// Where one rank cannot do its part, [`Error::World`] says so in all others, and where they do not do
/// the same; then nothing of the result is there, and they go on. A rank that ends, or does not come in
/// time, ends the world: [`Error::Lost`] names it in all others, now and ever after.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    rank: u32,
    size: u32,
    way: Way,
    member: Member,
    /// For one call at a time.
    state: Mutex<State>,
}

pub(super) struct State {
    wire: Wire,
    /// What [`Way::Nccl`] passes values by.
    passing: Option<Passing>,
    /// What reductions use until one fails.
    meeting: Option<Arc<Meeting>>,
}

/// Elements of which each rank of a [`World`] has some, of any number, in the order of the ranks. They
/// never change.
pub struct Distributed<T> {
    world: World,
    part: Buffer<T>,
    before: u64,
    len: u64,
}

impl World {
    /// The processes that the launcher of this one has started, as [`Rendezvous::from_env`] finds out,
    /// each with the GPU of its number on its host, or the simulator where there is none. Of all ranks.
    ///
    /// # Errors
    /// Those of [`Rendezvous::from_env`], of [`Device::open`] and of [`join`](Self::join).
    pub fn from_env() -> Result<Self> {
        let rendezvous = Rendezvous::from_env()?;
        let device = match Device::open(Selection::CudaOrdinal(rendezvous.local_rank())) {
            Err(Error::NoDriver { .. }) => Device::open(Selection::Auto),
            opened => opened,
        }?;
        Self::join(&rendezvous, &Reducer::new(&device)?)
    }

    /// The processes that meet at a place, each with a reducer's device. Of all ranks.
    ///
    /// # Errors
    /// [`Error::World`] where not all come in time, where two are the same rank, do not agree how many
    /// they are or have devices of different kinds, where rank 0 cannot listen, and where values cannot
    /// pass by the [way](Rendezvous::with_way) that is asked for; [`Error::Driver`] when the driver
    /// refuses.
    pub fn join(rendezvous: &Rendezvous, reducer: &Reducer) -> Result<Self> {
        let stream = reducer.device().stream()?;
        let mut wire = Wire::join(rendezvous, kind_of(reducer.device()))?;
        let passing = Passing::agreed(&mut wire, rendezvous, reducer)?;
        let (rank, size) = (rendezvous.rank(), rendezvous.size());
        let way = if passing.is_some() { Way::Nccl } else { Way::Copies };
        log::info!("warpfold is rank {rank} of {size}");
        let member = Member { reducer: reducer.clone(), stream };
        let state = Mutex::new(State { wire, passing, meeting: None });
        Ok(Self(Arc::new(Inner { rank, size, way, member, state })))
    }

    /// How the ranks pass values: by NCCL, or by [`Way::Copies`], which is by connections with rank 0.
    /// The log says why.
    pub fn way(&self) -> Way {
        self.0.way
    }

    /// Which one this process is.
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// How many there are.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// The reducer of this process: for what it has by itself, as whole rows.
    pub fn reducer(&self) -> &Reducer {
        &self.0.member.reducer
    }

    /// Waits until all ranks are here. Of all ranks.
    ///
    /// # Errors
    /// [`Error::World`] or [`Error::Lost`].
    pub fn barrier(&self) -> Result<()> {
        self.numbers(&mut self.state(), "a barrier", Ok(0)).map(drop)
    }

    /// Whether all ranks are there still, as far as is known by now: for one that computes for long
    /// before it needs the others. It takes microseconds and waits for nobody; any rank may ask as often
    /// as it likes.
    ///
    /// # Errors
    /// [`Error::Lost`] with what has become of a rank.
    pub fn check(&self) -> Result<()> {
        // Whoever has the state for himself waits for the others, and hears of their end.
        let Ok(mut state) = self.0.state.try_lock() else { return Ok(()) };
        state.wire.lost_by_now().map_or(Ok(()), Err)
    }

    /// Ends the world, because this rank cannot do its part: all others are told why at once, those that
    /// wait, and those that [check](Self::check).
    pub fn fail(&self, reason: &str) {
        let State { wire, passing, .. } = &mut *self.state();
        wire.fails(reason);
        if let Some(passing) = passing {
            passing.leave(wire);
        }
    }

    /// A few bytes of each rank, in their order: what a program has to tell the others. Of all ranks.
    ///
    /// # Errors
    /// [`Error::World`] for more than 16 KiB; [`Error::Lost`].
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let given = match bytes.len() {
            ..=MOST_BYTES => Ok(bytes.to_vec()),
            len => Err(Error::World {
                reason: format!("{len} bytes of a rank for the others; give {MOST_BYTES} or fewer"),
            }),
        };
        self.tell(&mut self.state(), "bytes", given)
    }

    /// What each rank has, as elements of all. Of all ranks.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for a buffer of another device than this rank's, then [`Error::World`] in
    /// all others; [`Error::World`] where ranks have elements of different types;
    /// [`Error::TooManyElements`] for more than 2^48 of all ranks; [`Error::Lost`].
    pub fn distributed<T: Plain>(&self, part: Buffer<T>) -> Result<Distributed<T>> {
        let given = self.reducer().device().require("buffer", part.device());
        let what = format!("elements of {}", short(type_name::<T>()));
        let lengths = self.numbers(&mut self.state(), &what, given.map(|()| part.len() as u64))?;
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
        let given = self.begin(state, &op.code(), values);
        self.together(state, "", op, given, &|| values.part.slice(..0))
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
            let given = self.begin(state, code, values);
            let what = format!("launch {launch}: {code}");
            let none = || values.part.slice(..0);
            self.bring(state, &what, (code, launch), given, of_none.is_some(), &none)?;
        }
        if let Some(of_none) = of_none.filter(|_| values.is_empty()) {
            return Ok(of_none);
        }
        let meeting = self.meeting(state)?;
        let results = HostResults::new(&meeting.results, 0, layout).take();
        Ok(O::decode(results.of_none_if(values.is_empty())))
    }

    /// The result of what each rank has pushed to a running reduction of its own, on each of them; more
    /// may be pushed behind. Places are those that the reductions have: begin each
    /// [at the index](Running::starting_at) that its first element has among all. Of all ranks.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); those of [`Running::result`]; [`Error::OtherDevice`] for one of
    /// another device than this rank's.
    pub fn result<T: Plain, O: Operation<T>>(&self, running: &Running<T, O>) -> Result<O::Output> {
        let state = &mut *self.state();
        let device = self.reducer().device();
        let own = || device.require("running reduction", running.device());
        let cell = own().and_then(|()| running.cell());
        let given = cell.and_then(|cell| self.put(state, running.len(), cell));
        self.together(state, "running ", running.op(), given, &|| device.upload::<T>(&[]))
    }

    pub(super) fn require<T>(&self, values: &Distributed<T>) -> Result<()> {
        if Arc::ptr_eq(&self.0, &values.world.0) {
            return Ok(());
        }
        Err(Error::World { reason: "elements of another world; make them by this one".to_owned() })
    }

    /// Enqueues that this rank's elements, if it has any, become a partial result, in its cell.
    fn begin<T: Plain>(&self, state: &mut State, code: &Code, values: &Distributed<T>) -> Result<Mine> {
        self.require(values)?;
        let elements = values.part.len() as u64;
        // Nothing is launched where it would be in vain.
        if elements == 0 || values.len > most(code) {
            return Ok(Mine { elements, value: Value::None });
        }
        let meeting = self.meeting(state)?;
        let shared = Arc::new(Shared::of(meeting.clone()));
        let (part, place) = (&values.part, meeting.alone(0));
        let launched = self.0.member.launch(code.clone(), part, values.before, place, &shared);
        let launched = launched.map_err(|error| self.abandon(state, shared.clone(), error))?;
        Ok(Mine { elements, value: Value::Launched(launched, shared) })
    }

    /// Puts what was made of the elements until now, if there are any, in this rank's cell.
    fn put(&self, state: &mut State, elements: u64, cell: Vec<u8>) -> Result<Mine> {
        if cell.is_empty() {
            return Ok(Mine { elements, value: Value::None });
        }
        if state.passing.is_some() {
            self.meeting(state)?.put_own(&cell)?;
        }
        Ok(Mine { elements, value: Value::Here(cell) })
    }

    /// The result of what ranks have. `none` gives a buffer without elements.
    fn together<T: Plain, O: Operation<T>>(
        &self,
        state: &mut State,
        how: &str,
        op: O,
        given: Result<Mine>,
        none: &dyn Fn() -> Result<Buffer<T>>,
    ) -> Result<O::Output> {
        let (code, of_none) = (op.code(), O::of_none());
        let what = format!("{how}{code}");
        let n = self.bring(state, &what, (&code, 0), given, of_none.is_some(), none)?;
        if let Some(of_none) = of_none.filter(|_| n == 0) {
            return Ok(of_none);
        }
        let layout = Layout::of_one(code.result_bytes());
        Ok(HostResults::new(&self.meeting(state)?.results, 0, layout).take().result::<T, O>(0))
    }

    /// Leaves the result of what ranks have in the words of the host, as that of a launch of several,
    /// unless it is known of no elements and there are none. Says how many elements they have.
    fn bring<T: Plain>(
        &self,
        state: &mut State,
        what: &str,
        launch: (&Code, usize),
        given: Result<Mine>,
        is_known_of_none: bool,
        none: &dyn Fn() -> Result<Buffer<T>>,
    ) -> Result<u64> {
        let cells = match state.passing {
            Some(_) => self.cells_passed(state, what, given),
            None => self.cells_told(state, what, given),
        }?;
        let (n, most) = (cells.elements, most(launch.0));
        if n > most {
            return Err(Error::TooManyElements { n, most });
        }
        if is_known_of_none && n == 0 {
            return Ok(n);
        }
        let (meeting, member) = (self.meeting(state)?, &self.0.member);
        let made = match cells.told {
            Some(told) => member.together(&meeting, launch, &told, &none()?),
            None => member.over_all(&meeting, launch, self.0.size, &none()?),
        };
        made.map(|()| n).map_err(|(error, shared)| self.abandon(state, shared, error))
    }

    /// What ranks have, by their connections.
    fn cells_told(&self, state: &mut State, what: &str, given: Result<Mine>) -> Result<Cells> {
        let given = given.and_then(|mine| {
            let (len, cell) = (mine.elements.to_le_bytes(), self.told(state, mine.value)?);
            Ok([len.to_vec(), cell].concat())
        });
        let (mut elements, mut told) = (0_u64, Vec::new());
        for given in state.wire.gather(what, given)? {
            let Some((len, cell)) = given.split_first_chunk() else { return Err(other_version()) };
            elements = elements.saturating_add(u64::from_le_bytes(*len));
            match cell.len() as u64 {
                0 => {}
                CELL_BYTES => told.push(cell.to_vec()),
                _ => return Err(other_version()),
            }
        }
        Ok(Cells { elements, told: Some(told) })
    }

    /// This rank's cell, on the host.
    fn told(&self, state: &mut State, value: Value) -> Result<Vec<u8>> {
        match value {
            Value::None => Ok(Vec::new()),
            Value::Here(cell) => Ok(cell),
            Value::Launched(launch, shared) => {
                self.finish(state, launch, shared)?;
                self.meeting(state)?.value(0)
            }
        }
    }

    /// What ranks have, by NCCL: of all it is on this device, unless one has none.
    fn cells_passed(&self, state: &mut State, what: &str, given: Result<Mine>) -> Result<Cells> {
        let with_value = |mine: &Mine| (mine.elements, !matches!(mine.value, Value::None));
        let note = Note::new(what, given.as_ref().map(with_value));
        let notes = self.pass(state, note);
        // The launch has ended by now, or never will.
        let finished = match given {
            Ok(Mine { value: Value::Launched(launch, shared), .. }) => {
                self.finish(state, launch, shared)
            }
            given => given.map(drop),
        };
        let notes = notes?;
        if !agree(&notes) {
            // All come to this, and each is told what the others are at.
            state.wire.gather(what, finished.map(|()| Vec::new()))?;
            return Err(other_version());
        }
        if let Err(error) = finished {
            let State { wire, passing, .. } = state;
            let passing = passing.as_mut().expect("it has passed them");
            return Err(passing.end(wire, &self.0.member.stream, error));
        }
        let elements = notes.iter().fold(0_u64, |all, note| all.saturating_add(note.elements));
        if notes.iter().all(|note| note.has_value == 1) {
            return Ok(Cells { elements, told: None });
        }
        let all = self.meeting(state)?.values(self.0.size)?;
        let cells = std::iter::zip(all.chunks(CELL_BYTES as usize), &notes);
        let told = cells.filter(|(_, note)| note.has_value == 1).map(|(cell, _)| cell.to_vec());
        Ok(Cells { elements, told: Some(told.collect()) })
    }

    /// Passes what this rank is at, and its cell, to all.
    fn pass(&self, state: &mut State, note: Note) -> Result<Vec<Note>> {
        let meeting = match self.meeting(state) {
            Ok(meeting) => meeting,
            Err(error) => {
                let State { wire, passing, .. } = state;
                let passing = passing.as_mut().expect("the world is by NCCL");
                return Err(passing.end(wire, &self.0.member.stream, error));
            }
        };
        let State { wire, passing, .. } = state;
        let passing = passing.as_mut().expect("the world is by NCCL");
        // SAFETY: the meeting's memory has a cell, and room for those of all; what uses it is enqueued
        // on this stream, or waited for. It is kept below while something of it may be under way.
        let passed = unsafe { passing.exchange(wire, &self.0.member.stream, note, meeting.passage(0)) };
        passed.map_err(|error| self.abandon(state, Arc::new(Shared::of(meeting)), error))
    }

    /// A few bytes of each rank, in their order. All name what they are about, alike.
    pub(super) fn tell(
        &self,
        state: &mut State,
        what: &str,
        given: Result<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        if state.passing.is_some() {
            let note = Note::new(what, given.as_ref().map(|_| (0, false)));
            self.pass(state, note)?;
        }
        // It says as well where ranks did not agree.
        state.wire.gather(what, given)
    }

    /// A number of each rank, in their order. All name what it is about, alike.
    fn numbers(&self, state: &mut State, what: &str, given: Result<u64>) -> Result<Vec<u64>> {
        if state.passing.is_some() {
            let note = Note::new(what, given.as_ref().map(|&number| (number, false)));
            let notes = self.pass(state, note)?;
            if agree(&notes) {
                return Ok(notes.iter().map(|note| note.elements).collect());
            }
        }
        let told = state.wire.gather(what, given.map(|number| number.to_le_bytes().to_vec()))?;
        let number = |bytes: &Vec<u8>| bytes.as_slice().try_into().map(u64::from_le_bytes);
        told.iter().map(number).collect::<Result<_, _>>().map_err(|_| other_version())
    }

    /// Waits for a launch.
    fn finish(&self, state: &mut State, launch: Underway, shared: Arc<Shared>) -> Result<()> {
        let done = self.0.member.reducer.core().finish(launch, |_, _| ());
        done.map_err(|error| self.abandon(state, shared, error))
    }

    /// Has nobody use the meeting of a launch that failed, whose counter may be anything, and which may
    /// still run.
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

/// What a rank has.
struct Mine {
    elements: u64,
    value: Value,
}

/// A partial result, by its kind.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Value {
    None,
    /// In this rank's cell when a launch has ended.
    Launched(Underway, Arc<Shared>),
    /// On the host, and of [`Way::Nccl`] in the cell, too.
    Here(Vec<u8>),
}

/// What all ranks have.
struct Cells {
    elements: u64,
    /// The cells of those that have any; if they are not here, those of all are where NCCL has put them.
    told: Option<Vec<Vec<u8>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let State { wire, passing, .. } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(passing) = passing {
            passing.leave(wire);
        }
    }
}

impl<T: Plain> Distributed<T> {
    /// The world whose ranks have them.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Those of this rank.
    pub fn part(&self) -> &Buffer<T> {
        &self.part
    }

    /// How many the ranks before this one have.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// How many all ranks have.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no rank has any.
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

/// Most elements of all ranks.
fn most(code: &Code) -> u64 {
    code.most_running().unwrap_or(MOST)
}

pub(super) fn other_version() -> Error {
    Error::World { reason: "a rank is of another version of warpfold; build all of one".to_owned() }
}

/// A type's name without the modules that it lies in, and those of its parameters.
pub(super) fn short(name: &str) -> String {
    let mut said = String::new();
    for part in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        said.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_of_types_have_no_paths() {
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
