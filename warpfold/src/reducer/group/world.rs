//! Several processes as one, each with a device.

use std::{
    any::type_name,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use warpfold_abi::meeting::CELL_BYTES;

use super::{Member, Shared, Way, kind_of, meeting::Meeting};
use crate::{
    Buffer, Device, Error, Plain, Result, Selection,
    op::Operation,
    reducer::{Code, Reducer, Running, job::Place, running::MOST},
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
/// Each reduces what it has by one launch, and what passes between them is one partial result of each: by
/// connections with rank 0, which listens where the [`Rendezvous`] says. Nobody asks there who connects,
/// so that it is for networks whose hosts trust each other.
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
    member: Member,
    /// For one call at a time.
    state: Mutex<State>,
}

struct State {
    wire: Wire,
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
    /// they are or have devices of different kinds, and where rank 0 cannot listen; [`Error::Driver`]
    /// when the driver refuses.
    pub fn join(rendezvous: &Rendezvous, reducer: &Reducer) -> Result<Self> {
        let stream = reducer.device().stream()?;
        let wire = Wire::join(rendezvous, kind_of(reducer.device()))?;
        let (rank, size) = (rendezvous.rank(), rendezvous.size());
        log::info!("warpfold is rank {rank} of {size}, by connections with rank 0");
        let member = Member { reducer: reducer.clone(), stream };
        let state = Mutex::new(State { wire, meeting: None });
        Ok(Self(Arc::new(Inner { rank, size, member, state })))
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
        self.state().wire.gather("a barrier", Ok(Vec::new())).map(|_| ())
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
        self.state().wire.gather("bytes", given)
    }

    /// What each rank has, as elements of all. Of all ranks.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for a buffer of another device than this rank's, then [`Error::World`] in
    /// all others; [`Error::World`] where ranks have elements of different types; [`Error::Lost`].
    pub fn distributed<T: Plain>(&self, part: Buffer<T>) -> Result<Distributed<T>> {
        let given = self.reducer().device().require("buffer", part.device());
        let given = given.map(|()| (part.len() as u64).to_le_bytes().to_vec());
        let what = format!("elements of {}", short(type_name::<T>()));
        let lengths = self.state().wire.gather(&what, given)?;
        let number = |bytes: &Vec<u8>| bytes.as_slice().try_into().map(u64::from_le_bytes);
        let lengths: Vec<u64> =
            lengths.iter().map(number).collect::<Result<_, _>>().map_err(|_| other_version())?;
        let before = lengths[..self.0.rank as usize].iter().sum();
        Ok(Distributed { world: self.clone(), part, before, len: lengths.iter().sum() })
    }

    /// The result of any [operation](crate::op) on the elements of all ranks, on each of them. Of all
    /// ranks.
    ///
    /// # Errors
    /// [`Error::World`] for elements of another world, where another rank fails, and where ranks ask for
    /// different operations; [`Error::TooManyElements`] as [`Group::reduce`](crate::Group::reduce);
    /// those of [`Reducer::sum`](crate::Reducer::sum); [`Error::Lost`].
    pub fn reduce<T: Plain, O: Operation<T>>(
        &self,
        op: O,
        values: &Distributed<T>,
    ) -> Result<O::Output> {
        let state = &mut *self.state();
        let given = self.value(state, &op.code(), values).map(|cell| (values.part.len() as u64, cell));
        self.together(state, "", op, given, || values.part.slice(..0))
    }

    /// The result of what each rank has pushed to a running reduction of its own, on each of them; more
    /// may be pushed behind. Places are those that the reductions have: begin each
    /// [at the index](Reducer::running_from) that its first element has among all. Of all ranks.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce); those of [`Running::result`]; [`Error::OtherDevice`] for one of another
    /// device than this rank's.
    pub fn result<T: Plain, O: Operation<T>>(&self, running: &Running<T, O>) -> Result<O::Output> {
        let state = &mut *self.state();
        let device = self.reducer().device();
        let required = device.require("running reduction", running.device());
        let given = required.and_then(|()| Ok((running.len(), running.cell()?)));
        self.together(state, "running ", running.op(), given, || device.upload::<T>(&[]))
    }

    /// The partial result of this rank's elements, if it has any.
    fn value<T: Plain>(
        &self,
        state: &mut State,
        code: &Code,
        values: &Distributed<T>,
    ) -> Result<Vec<u8>> {
        if !Arc::ptr_eq(&self.0, &values.world.0) {
            let reason = "elements of another world; make them by this one".to_owned();
            return Err(Error::World { reason });
        }
        // Nothing is launched where it would be in vain.
        if values.part.is_empty() || values.len > most(code) {
            return Ok(Vec::new());
        }
        let meeting = self.meeting(state)?;
        let place = meeting.alone(0);
        self.launch(state, &meeting, code.clone(), (&values.part, values.before), place)?;
        meeting.value(0)
    }

    /// The result of what ranks have: of how many elements, and a partial result if there are any. `none`
    /// is a buffer without elements.
    fn together<T: Plain, O: Operation<T>>(
        &self,
        state: &mut State,
        how: &str,
        op: O,
        given: Result<(u64, Vec<u8>)>,
        none: impl FnOnce() -> Result<Buffer<T>>,
    ) -> Result<O::Output> {
        let what = format!("{how}{} of {}", short(type_name::<O>()), short(type_name::<T>()));
        let given = given.map(|(len, cell)| [len.to_le_bytes().to_vec(), cell].concat());
        let given = state.wire.gather(&what, given)?;
        let (mut n, mut cells) = (0_u64, Vec::new());
        for given in given {
            let Some((len, cell)) = given.split_first_chunk() else { return Err(other_version()) };
            n = n.saturating_add(u64::from_le_bytes(*len));
            match cell.len() as u64 {
                0 => {}
                CELL_BYTES => cells.push(cell.to_vec()),
                _ => return Err(other_version()),
            }
        }
        let code = op.code();
        let most = most(&code);
        if n > most {
            return Err(Error::TooManyElements { n, most });
        }
        if let Some(of_none) = O::of_none().filter(|_| n == 0) {
            return Ok(of_none);
        }
        let (meeting, member) = (self.meeting(state)?, &self.0.member);
        let made = member.together(&meeting, op, &cells, &none()?);
        made.map_err(|(error, shared)| self.abandon(state, shared, error))
    }

    /// Has a launch done.
    fn launch<T: Plain>(
        &self,
        state: &mut State,
        meeting: &Arc<Meeting>,
        code: Code,
        (part, before): (&Buffer<T>, u64),
        place: Place,
    ) -> Result<()> {
        let member = &self.0.member;
        let shared = Arc::new(Shared::of(meeting.clone()));
        let launched = member.launch(code, part, before, place, &shared);
        let done = launched.and_then(|launch| member.reducer.core().finish(launch, |_, _| ()));
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let Inner { rank, size, .. } = *self.0;
        let device = self.reducer().device();
        f.debug_struct("World")
            .field("rank", &rank)
            .field("size", &size)
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

fn other_version() -> Error {
    Error::World { reason: "a rank is of another version of warpfold; build all of one".to_owned() }
}

/// A type's name without the modules that it lies in, and those of its parameters.
fn short(name: &str) -> String {
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
            ("warpfold::op::Everywhere<warpfold::op::Sum>", "Everywhere<Sum>"),
            ("f32", "f32"),
            ("a::B<c::D, (e::F, g::H)>", "B<D, (F, H)>"),
        ];
        for (name, expected) in cases {
            assert_eq!(short(name), expected);
        }
    }
}
