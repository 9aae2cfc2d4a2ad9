//! Several that do the same work, timed in turn: A B C, then C B A, so that whatever drifts drifts for
//! all and each pair can be compared round by round.
//!
//! All run on one stream and read the same inputs, which are rotated past the L2 cache: every run finds
//! its own cold. Device events stand around each run. Everything a contender needs is allocated before.
//! Each gives a right result before it is timed, and its last timed run must be right again.
//!
//! A small input is done before the host has launched the next run: the time between two events is then
//! the host's. [`Contest::run_graphs`] records many runs of a contender in one CUDA graph and divides.

mod cub;
mod entrants;
mod laps;
mod matrix;
mod own;
mod schedule;
mod timing;

use warpfold_suite::{
    Buffer, Device, Dtype, Error, Kind, Result, Stream,
    measure::{Rotation, Slot},
};

pub use cub::{Cub, CubReduction, CubRows, Segments, depth as cub_depth};
pub use entrants::{Moving, Reducing, ReducingRows};
pub use laps::{Laps, Ratio};
pub use matrix::{Layout, MOST_ELEMENTS, Matrix};
pub use own::Empty;
pub use schedule::{LEAST_ROUNDS, Options};
use timing::REHEARSED_GRAPH_RUNS;
pub use timing::{GRAPH_RUNS, Score, WORTH_A_GRAPH};
pub use warpfold_suite::measure::Spread;

use own::Sweep;
use timing::Track;

/// One that competes: enqueues runs of the same work, one after the other.
///
/// # Safety
/// A run must read nothing but as many elements as [`input`](Self::input) says at its slot's input, and
/// write nothing but [`room`](Self::room) bytes at its slot's output; beside these it may use memory
/// that the contender owns.
pub unsafe trait Contender {
    /// The device that it runs on.
    fn device(&self) -> &Device;

    /// Type and number of the elements that a run reads; none where it reads nothing.
    fn input(&self) -> Option<(Dtype, u64)>;

    /// Bytes that a run writes to its slot.
    fn room(&self) -> u64 {
        0
    }

    /// Enqueues one run. It allocates nothing and does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Safety
    /// The slot must hold the elements and have the room; it and the contender must live until `stream`
    /// was synchronised, and all runs since the last time be on this stream.
    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()>;

    /// Sets what a run writes to what no right result consists of. Nothing runs meanwhile.
    ///
    /// # Errors
    /// [`Error::Driver`] when the memory cannot be set.
    fn poison(&mut self, slot: &Slot<'_>) -> Result<()>;

    /// Whether the last run, which had this slot, gave the right result. It is over.
    ///
    /// # Errors
    /// [`Error::Driver`] when the result cannot be read; [`Error::Blind`] when it cannot be told right
    /// from wrong.
    fn check(&self, slot: &Slot<'_>) -> Result<bool>;
}

/// Contenders for one work on one input.
pub struct Contest<'c> {
    stream: Stream,
    input: Buffer,
    room: u64,
    entrants: Vec<Entrant<'c>>,
    /// The slots, made for the first timing.
    track: Option<Track>,
    sweep: Option<Sweep>,
    /// Whether the cache is swept before every run.
    cold: bool,
    /// Whether all runs read one copy of the elements.
    warm: bool,
    /// Runs that a graph records.
    graph_runs: u32,
}

struct Entrant<'c> {
    contender: Box<dyn Contender + 'c>,
    /// Members of a team run in the same rounds.
    team: usize,
    /// Whether every result so far was right.
    right: bool,
    /// Microseconds of a run, as the warm-up had it.
    estimate: f64,
    /// The slot of its last run.
    last: u64,
}

impl<'c> Contest<'c> {
    /// A contest on the elements of a buffer, in which a run may write `room` bytes.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for the simulator, which has no times; [`Error::Driver`].
    pub fn new(input: &Buffer, room: u64) -> Result<Self> {
        let device = input.device();
        if device.info().kind != Kind::Cuda {
            let reason = format!("a contest needs the times of a GPU, this is {}", device.info().name);
            return Err(Error::Mismatch { what: "device", reason });
        }
        Ok(Self { graph_runs: GRAPH_RUNS, ..Self::rehearsal(input, room)? })
    }

    /// The same on any device, with short graphs: on the simulator everything but the times, each of
    /// which is one microsecond.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn rehearsal(input: &Buffer, room: u64) -> Result<Self> {
        let (stream, input) = (input.device().stream()?, input.clone());
        Ok(Self {
            stream,
            input,
            room,
            entrants: vec![],
            track: None,
            sweep: None,
            cold: false,
            warm: false,
            graph_runs: REHEARSED_GRAPH_RUNS,
        })
    }

    /// Sweeps the cache before every timed run. Then no run finds what its neighbour in the order left
    /// there, as large inputs otherwise do, of which there is one copy for all; and the GPU is busy
    /// until the host has handed a run over, so that times are the GPU's own however small the input.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn cold(mut self) -> Result<Self> {
        self.cold = true;
        self.sweep = Some(Sweep::new(self.stream.device())?);
        Ok(self)
    }

    /// Lets all runs read one copy of the elements, in place of copies in turn: a run finds of them what
    /// the one before it has left in the cache, which are all where the cache has room.
    #[must_use]
    pub fn warm(mut self) -> Self {
        self.warm = true;
        self
    }

    /// Adds a contender. Those of a team run in the same rounds, so that they can be compared pair by
    /// pair however slow they are.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when it reads other elements, writes more than there is room for, or is of
    /// another device.
    pub fn enter(&mut self, contender: impl Contender + 'c, team: usize) -> Result<()> {
        accept(&self.input, self.room, &contender)?;
        let contender = Box::new(contender);
        self.entrants.push(Entrant { contender, team, right: true, estimate: 0.0, last: 0 });
        // How many slots there are depends on the number of contenders.
        self.track = None;
        Ok(())
    }

    /// Bytes of device memory that timing takes beside the input and the contenders' own.
    pub fn memory(device: &Device, bytes: u64, room: u64, options: Options, entrants: u64) -> u64 {
        let l2 = device.info().l2_bytes;
        Rotation::bytes(bytes, room, l2, runs(options, entrants), entrants) + 4 * l2
    }

    /// How many runs read copies of the elements, of how many contenders.
    fn takers(&self, options: Options, entrants: u64) -> (u64, u64) {
        if self.warm { (1, 1) } else { (runs(options, entrants), entrants) }
    }
}

/// Runs of all contenders together.
fn runs(options: Options, entrants: u64) -> u64 {
    (u64::from(options.rounds) + u64::from(options.warm_up)) * entrants
}

/// A contender must fit what the slots have.
fn accept(input: &Buffer, room: u64, contender: &impl Contender) -> Result<()> {
    let refused = |reason| Err(Error::Mismatch { what: "contender", reason });
    if !contender.device().same(input.device()) {
        return refused("it and the input must be of one device".to_owned());
    }
    let has = (input.dtype(), input.len());
    match contender.input() {
        Some(needs) if needs != has => {
            refused(format!("there are {} {}, it reads {} {}", has.1, has.0, needs.1, needs.0))
        }
        _ if contender.room() > room => {
            refused(format!("there is room for {room} bytes, it writes {}", contender.room()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;
    use warpfold_suite::{Data, Selection};

    #[test]
    fn the_simulator_holds_no_contests() {
        let device = Device::open(Selection::Sim).unwrap();
        let input = device.upload(&Data::F32(vec![1.0])).unwrap();
        let error = Contest::new(&input, 0).err().unwrap().to_string();
        assert!(error.contains("needs the times of a GPU"), "{error}");
    }

    type Log = Rc<RefCell<Vec<(&'static str, u64)>>>;

    /// Writes down when it runs and where, and is wrong from the run of a number on.
    struct Scribe {
        device: Device,
        name: &'static str,
        input: (Dtype, u64),
        room: u64,
        wrong_from: usize,
        runs: usize,
        poisoned: usize,
        log: Log,
    }

    impl Scribe {
        fn new(device: &Device, name: &'static str, log: &Log) -> Self {
            let (device, log) = (device.clone(), log.clone());
            let input = (Dtype::F32, 100);
            Self { device, name, input, room: 0, wrong_from: usize::MAX, runs: 0, poisoned: 0, log }
        }
    }

    // SAFETY: it touches no device memory.
    unsafe impl Contender for Scribe {
        fn device(&self) -> &Device {
            &self.device
        }
        fn input(&self) -> Option<(Dtype, u64)> {
            Some(self.input)
        }
        fn room(&self) -> u64 {
            self.room
        }
        unsafe fn enqueue(&mut self, _: &Stream, slot: &Slot<'_>) -> Result<()> {
            self.runs += 1;
            self.log.borrow_mut().push((self.name, slot.input()));
            Ok(())
        }
        fn poison(&mut self, _: &Slot<'_>) -> Result<()> {
            self.poisoned += 1;
            Ok(())
        }
        fn check(&self, _: &Slot<'_>) -> Result<bool> {
            assert_eq!(self.poisoned, 1, "before the first run, and never again");
            Ok(self.runs < self.wrong_from)
        }
    }

    fn simulated() -> (Device, Buffer) {
        let device = Device::open(Selection::Sim).unwrap();
        let input = device.upload(&Data::F32(vec![1.0; 100])).unwrap();
        (device, input)
    }

    #[test]
    fn who_does_other_work_is_refused() {
        let (device, input) = simulated();
        assert!(accept(&input, 0, &Empty::new(&device).unwrap()).is_ok());
        let other = Device::isolated(Selection::Sim).unwrap();
        assert!(accept(&input, 0, &Empty::new(&other).unwrap()).is_err());
        let accepts = |dtype, n, room| {
            let scribe = Scribe::new(&device, "", &Log::default());
            accept(&input, 8, &Scribe { input: (dtype, n), room, ..scribe }).is_ok()
        };
        assert!(accepts(Dtype::F32, 100, 8));
        assert!(!accepts(Dtype::F32, 101, 8) && !accepts(Dtype::F32, 99, 8));
        assert!(!accepts(Dtype::I32, 100, 8) && !accepts(Dtype::F32, 100, 9));
    }

    #[test]
    fn all_run_in_turn_and_who_is_wrong_is_not_timed() {
        let (device, input) = simulated();
        let log = Log::default();
        let mut contest = Contest::rehearsal(&input, 0).unwrap();
        for (team, (name, wrong_from)) in
            [("a", usize::MAX), ("b", usize::MAX), ("never", 1), ("later", 5)].into_iter().enumerate()
        {
            contest.enter(Scribe { wrong_from, ..Scribe::new(&device, name, &log) }, team).unwrap();
        }
        let options = Options { rounds: 6, warm_up: 2, slices: 2, ..Options::default() };
        let mut slices = Vec::new();
        let scores = contest.run(options, |rounds| slices.push((rounds, log.borrow().len()))).unwrap();
        assert_eq!(
            scores.iter().map(|score| score.right).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        assert_eq!(scores[0].laps, Laps(vec![Some(1.0); 6]));
        assert_eq!((scores[2].laps.runs(), scores[3].laps.runs()), (0, 0));

        let log = log.borrow();
        let names: String = log.iter().map(|(name, _)| &name[..1]).collect();
        // Each is checked, all that are right are warmed up twice and timed in six rounds.
        assert_eq!(names, "abnl".to_owned() + "ablabl" + "abllbaabl" + "lbaabllba");
        assert_eq!(slices, [(3, 10), (3, 19)]);
    }

    #[test]
    fn all_runs_of_a_warm_contest_read_one_copy() {
        let (_, input) = simulated();
        let l2 = 60 << 20;
        let copies = |contest: Contest<'_>| {
            let (runs, runners) = contest.takers(Options::default(), 3);
            Rotation::bytes(4096, 0, l2, runs, runners) / 4096
        };
        let contest = || Contest::rehearsal(&input, 0).unwrap();
        assert_eq!(copies(contest().warm()), 0, "the input itself");
        assert!(copies(contest()) > 300, "elsewhere copies take turns");
    }

    /// Waits for its stream, which a stream that records does not allow.
    struct Impatient(Empty);

    // SAFETY: as the empty kernel, which is all that it launches.
    unsafe impl Contender for Impatient {
        fn device(&self) -> &Device {
            self.0.device()
        }
        fn input(&self) -> Option<(Dtype, u64)> {
            self.0.input()
        }
        unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
            // SAFETY: the caller's contract.
            unsafe { self.0.enqueue(stream, slot) }?;
            stream.synchronize()
        }
        fn poison(&mut self, slot: &Slot<'_>) -> Result<()> {
            self.0.poison(slot)
        }
        fn check(&self, slot: &Slot<'_>) -> Result<bool> {
            self.0.check(slot)
        }
    }

    #[test]
    fn a_graph_that_cannot_be_recorded_is_one_contenders_error() {
        let (device, input) = simulated();
        let mut contest = Contest::rehearsal(&input, 0).unwrap();
        contest.enter(Empty::new(&device).unwrap(), 0).unwrap();
        contest.enter(Impatient(Empty::new(&device).unwrap()), 1).unwrap();
        let options = Options { rounds: 5, ..Options::default() };
        contest.run(options, |_| ()).unwrap();
        let graphs = contest.run_graphs(options).unwrap();
        let [Some(Ok(recorded)), Some(Err(Error::Driver { .. }))] = &graphs[..] else {
            panic!("{graphs:?}");
        };
        assert_eq!(recorded.laps, Laps(vec![Some(0.5); 5]));
    }
}
