//! Times contenders for the same work in alternating order: A B C, then C B A. Drift then affects all
//! alike, and each pair can be compared round by round.
//!
//! All contenders run on one stream and read the same inputs, which are rotated past the L2 cache, so
//! that every run starts cold. Each run is timed by device events. All memory of a contender is
//! allocated in advance. Its result must be correct before it is timed, and its last timed run is
//! checked again.
//!
//! A small input is reduced before the host has launched the next run, so that the time between two
//! events is the host's. [`Contest::run_graphs`] therefore records many runs of a contender in one CUDA
//! graph and divides its time by their number.

mod cub;
mod entrants;
mod matrix;
mod own;
mod round_times;
mod schedule;
mod timing;

use warpfold_suite::{
    Buffer, Device, Dtype, Error, Kind, Result, Stream,
    measure::{Rotation, Slot},
};

pub use cub::{Cub, CubReduction, CubRows, Segments, depth as cub_depth};
pub use entrants::{Moving, Reducing, ReducingRows};
pub use matrix::{Layout, MOST_ELEMENTS, Matrix};
pub use own::Empty;
pub use round_times::{Ratio, RoundTimes};
pub use schedule::{LEAST_ROUNDS, Options};
use timing::REHEARSED_GRAPH_RUNS;
pub use timing::{GRAPH_RUNS, Score, WORTH_A_GRAPH};
pub use warpfold_suite::measure::Spread;

use own::Sweep;
use timing::Track;

/// A contender, which enqueues runs of the same work.
///
/// # Safety
/// A run may read only as many elements as [`input`](Self::input) says at its slot's input, write only
/// [`room`](Self::room) bytes at its slot's output, and use memory that the contender owns.
pub unsafe trait Contender {
    fn device(&self) -> &Device;

    /// Returns the type and number of the elements that a run reads; `None` if it reads nothing.
    fn input(&self) -> Option<(Dtype, u64)>;

    /// Returns the number of bytes that a run writes to its slot.
    fn room(&self) -> u64 {
        0
    }

    /// Enqueues one run, without allocating or waiting.
    ///
    /// # Safety
    /// The slot must hold the elements and have the room. It and the contender must live until `stream`
    /// has been synchronised, and all runs since the last synchronisation must be on this stream.
    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()>;

    /// Overwrites a run's output with values that no correct result has. No run may be in progress.
    fn poison(&mut self, slot: &Slot<'_>) -> Result<()>;

    /// Returns whether the last run gave the correct result. The run must have completed, and must have
    /// used this slot. Fails with [`Error::Blind`] if the check could not detect a wrong result.
    fn check(&self, slot: &Slot<'_>) -> Result<bool>;
}

pub struct Contest<'c> {
    stream: Stream,
    input: Buffer,
    room: u64,
    entrants: Vec<Entrant<'c>>,
    /// Allocated for the first timing.
    track: Option<Track>,
    sweep: Option<Sweep>,
    cold: bool,
    warm: bool,
    graph_runs: u32,
}

struct Entrant<'c> {
    contender: Box<dyn Contender + 'c>,
    /// Members of a team run in the same rounds.
    team: usize,
    right: bool,
    estimate: f64,
    last: u64,
}

impl<'c> Contest<'c> {
    /// Creates a contest on the elements of a buffer, in which a run may write `room` bytes. Fails in
    /// the simulator, which has no times.
    pub fn new(input: &Buffer, room: u64) -> Result<Self> {
        let device = input.device();
        if device.info().kind != Kind::Cuda {
            let reason = format!("a contest needs the times of a GPU, this is {}", device.info().name);
            return Err(Error::Mismatch { what: "device", reason });
        }
        Ok(Self { graph_runs: GRAPH_RUNS, ..Self::rehearsal(input, room)? })
    }

    /// Creates a contest on any device, with short graphs. In the simulator only the times differ from a
    /// contest on a GPU: each is one microsecond.
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

    /// Sweeps the cache before every timed run. Without a sweep, runs on a large input, which has a
    /// single copy, may find data in the cache from the preceding run. The sweep also keeps the GPU busy
    /// until the host has enqueued the run, whose time then does not include the host's.
    pub fn cold(mut self) -> Result<Self> {
        self.cold = true;
        self.sweep = Some(Sweep::new(self.stream.device())?);
        Ok(self)
    }

    /// Makes all runs read one copy of the elements instead of rotated copies. A run then finds the data
    /// in the cache that the preceding run has left there: all elements, if they fit.
    #[must_use]
    pub fn warm(mut self) -> Self {
        self.warm = true;
        self
    }

    /// Adds a contender. Members of a team run in the same rounds, so that they can be compared pair by
    /// pair, however slow they are.
    pub fn enter(&mut self, contender: impl Contender + 'c, team: usize) -> Result<()> {
        accept(&self.input, self.room, &contender)?;
        let contender = Box::new(contender);
        self.entrants.push(Entrant { contender, team, right: true, estimate: 0.0, last: 0 });
        // The number of slots depends on the number of contenders.
        self.track = None;
        Ok(())
    }

    /// Returns the bytes of device memory that timing needs in addition to the input and the contenders.
    pub fn memory(device: &Device, bytes: u64, room: u64, options: Options, entrants: u64) -> u64 {
        let l2 = device.info().l2_bytes;
        Rotation::bytes(bytes, room, l2, runs(options, entrants), entrants) + 4 * l2
    }

    /// Returns the numbers of runs and contenders that the copies of the input must suffice for.
    fn takers(&self, options: Options, entrants: u64) -> (u64, u64) {
        if self.warm { (1, 1) } else { (runs(options, entrants), entrants) }
    }
}

fn runs(options: Options, entrants: u64) -> u64 {
    (u64::from(options.rounds) + u64::from(options.warm_up)) * entrants
}

fn accept(input: &Buffer, room: u64, contender: &impl Contender) -> Result<()> {
    let refused = |reason| Err(Error::Mismatch { what: "contender", reason });
    if !contender.device().same(input.device()) {
        return refused("it and the input must be on the same device".to_owned());
    }
    let has = (input.dtype(), input.len());
    match contender.input() {
        Some(needs) if needs != has => {
            refused(format!("the input has {} {}, but it reads {} {}", has.1, has.0, needs.1, needs.0))
        }
        _ if contender.room() > room => {
            refused(format!("there is room for {room} bytes, but it writes {}", contender.room()))
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
    fn contest_requires_a_gpu() {
        let device = Device::open(Selection::Sim).unwrap();
        let input = device.upload(&Data::F32(vec![1.0])).unwrap();
        let error = Contest::new(&input, 0).err().unwrap().to_string();
        assert!(error.contains("needs the times of a GPU"), "{error}");
    }

    type Log = Rc<RefCell<Vec<(&'static str, u64)>>>;

    /// A contender that logs its runs and slots, and gives wrong results from run `wrong_from` on.
    struct Logger {
        device: Device,
        name: &'static str,
        input: (Dtype, u64),
        room: u64,
        wrong_from: usize,
        runs: usize,
        poisoned: usize,
        log: Log,
    }

    impl Logger {
        fn new(device: &Device, name: &'static str, log: &Log) -> Self {
            let (device, log) = (device.clone(), log.clone());
            let input = (Dtype::F32, 100);
            Self { device, name, input, room: 0, wrong_from: usize::MAX, runs: 0, poisoned: 0, log }
        }
    }

    // SAFETY: a `Logger` accesses no device memory.
    unsafe impl Contender for Logger {
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
    fn mismatched_contenders_are_refused() {
        let (device, input) = simulated();
        assert!(accept(&input, 0, &Empty::new(&device).unwrap()).is_ok());
        let other = Device::isolated(Selection::Sim).unwrap();
        assert!(accept(&input, 0, &Empty::new(&other).unwrap()).is_err());
        let accepts = |dtype, n, room| {
            let contender = Logger::new(&device, "", &Log::default());
            accept(&input, 8, &Logger { input: (dtype, n), room, ..contender }).is_ok()
        };
        assert!(accepts(Dtype::F32, 100, 8));
        assert!(!accepts(Dtype::F32, 101, 8) && !accepts(Dtype::F32, 99, 8));
        assert!(!accepts(Dtype::I32, 100, 8) && !accepts(Dtype::F32, 100, 9));
    }

    #[test]
    fn runs_alternate_and_wrong_contenders_are_not_timed() {
        let (device, input) = simulated();
        let log = Log::default();
        let mut contest = Contest::rehearsal(&input, 0).unwrap();
        for (team, (name, wrong_from)) in
            [("a", usize::MAX), ("b", usize::MAX), ("never", 1), ("later", 5)].into_iter().enumerate()
        {
            contest.enter(Logger { wrong_from, ..Logger::new(&device, name, &log) }, team).unwrap();
        }
        let options = Options { rounds: 6, warm_up: 2, slices: 2, ..Options::default() };
        let mut slices = Vec::new();
        let scores = contest.run(options, |rounds| slices.push((rounds, log.borrow().len()))).unwrap();
        assert_eq!(
            scores.iter().map(|score| score.right).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        assert_eq!(scores[0].laps, RoundTimes(vec![Some(1.0); 6]));
        assert_eq!((scores[2].laps.runs(), scores[3].laps.runs()), (0, 0));

        let log = log.borrow();
        let names: String = log.iter().map(|(name, _)| &name[..1]).collect();
        // Each contender is checked. Those that are right are warmed up twice and timed in six rounds.
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

    /// A contender that waits for its stream, which is not allowed during capture.
    struct WaitingContender(Empty);

    // SAFETY: like [`Empty`], it launches a kernel that reads and writes nothing.
    unsafe impl Contender for WaitingContender {
        fn device(&self) -> &Device {
            self.0.device()
        }
        fn input(&self) -> Option<(Dtype, u64)> {
            self.0.input()
        }
        unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
            // SAFETY: the contract of `Empty::enqueue` is that of this function.
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
        contest.enter(WaitingContender(Empty::new(&device).unwrap()), 1).unwrap();
        let options = Options { rounds: 5, ..Options::default() };
        contest.run(options, |_| ()).unwrap();
        let graphs = contest.run_graphs(options).unwrap();
        let [Some(Ok(recorded)), Some(Err(Error::Driver { .. }))] = &graphs[..] else {
            panic!("{graphs:?}");
        };
        assert_eq!(recorded.laps, RoundTimes(vec![Some(0.5); 5]));
    }
}
