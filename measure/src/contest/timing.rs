//! Timed rounds, measured by device events.

use std::ops::Range;

use super::{
    Contest, Entrant, Sweep,
    round_times::RoundTimes,
    schedule::{Options, order, takes_part},
};
use warpfold_suite::{
    Result, Stream,
    device::Graph,
    measure::{Rotation, Slot, time_runs},
};

/// Runs per graph. A rehearsal needs only 2 to execute the same code.
pub const GRAPH_RUNS: u32 = 64;
pub(super) const REHEARSED_GRAPH_RUNS: u32 = 2;

/// Microseconds per run above which the cost of a launch is negligible, so that no graph is recorded.
pub const WORTH_A_GRAPH: f64 = 100.0;

/// Cache sweeps before each graph. They take about 100 microseconds, longer than the host takes to
/// launch the graph.
const SWEEPS: u32 = 3;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Score {
    /// True if the first and the last timed results were correct. Otherwise there are no laps.
    pub right: bool,
    /// Microseconds of each round.
    pub laps: RoundTimes,
}

impl Contest<'_> {
    /// Checks every contender, times those whose results are correct, and checks them again. Before
    /// every slice, while the device is idle, calls `between` with the slice's number of rounds. Scores
    /// are in the order in which the contenders entered. A wrong result is not an error.
    pub fn run(&mut self, options: Options, mut between: impl FnMut(u32)) -> Result<Vec<Score>> {
        let count = self.entrants.len() as u64;
        if self.track.is_none() {
            let (runs, runners) = self.takers(options, count);
            let rotation = Rotation::of(&self.input, self.room, runs, runners)?;
            self.track = Some(Track { rotation, runs: 0 });
        }
        self.verify()?;
        self.warm_up(options)?;
        let mut laps = vec![RoundTimes(vec![None; options.rounds as usize]); self.entrants.len()];
        for slice in 0..options.slices.max(1) {
            between(options.slice(slice).len() as u32);
            let rounds = self.rounds(options, options.slice(slice), 1);
            let plan: Vec<(u32, usize)> = rounds.collect();
            let runners: Vec<usize> = plan.iter().map(|&(_, index)| index).collect();
            for ((round, index), time) in plan.into_iter().zip(self.timed(&runners)?) {
                laps[index].0[round as usize] = Some(time);
            }
        }
        self.check_last()?;
        let score = |(entrant, laps): (&Entrant<'_>, RoundTimes)| Score::of(entrant, laps);
        Ok(self.entrants.iter().zip(laps).map(score).collect())
    }

    /// Times graphs of [`GRAPH_RUNS`] runs each, in microseconds per run; `None` for contenders that
    /// were wrong or take longer than [`WORTH_A_GRAPH`], and an error for those that cannot be recorded.
    ///
    /// # Panics
    /// Panics if called before [`run`](Self::run).
    pub fn run_graphs(&mut self, options: Options) -> Result<Vec<Option<Result<Score>>>> {
        let mut graphs = Vec::new();
        for entrant in &mut self.entrants {
            let worth = entrant.right && entrant.estimate < WORTH_A_GRAPH;
            let track = self.track.as_mut().expect("after `run`");
            graphs.push(worth.then(|| record(&mut self.stream, track, entrant, self.graph_runs)));
        }
        if self.sweep.is_none() {
            self.sweep = Some(Sweep::new(self.stream.device())?);
        }
        let laps = self.launch_graphs(options, &graphs)?;
        self.check_last()?;
        let score = |((graph, laps), entrant): ((Option<Result<Graph>>, RoundTimes), &Entrant<'_>)| {
            graph.map(|graph| graph.map(|_| Score::of(entrant, laps)))
        };
        Ok(graphs.into_iter().zip(laps).zip(&self.entrants).map(score).collect())
    }

    /// Launches every graph once untimed, then the rounds.
    fn launch_graphs(
        &mut self,
        options: Options,
        graphs: &[Option<Result<Graph>>],
    ) -> Result<Vec<RoundTimes>> {
        let track = self.track.as_ref().expect("after `run`");
        for entrant in &mut self.entrants {
            entrant.contender.poison(&track.rotation.slot(entrant.last))?;
        }
        let graph = |index: usize| graphs[index].as_ref().and_then(|graph| graph.as_ref().ok());
        let mut laps = vec![RoundTimes(vec![None; options.rounds as usize]); self.entrants.len()];
        let all = (0..graphs.len()).map(|index| (None, index));
        let rounds = self.rounds(options, 0..options.rounds, self.graph_runs);
        let plan: Vec<_> =
            all.chain(rounds.map(|(round, index)| (Some(round), index))).collect::<Vec<_>>();
        for (round, index) in plan {
            let Some(graph) = graph(index) else { continue };
            // SAFETY: `self` owns the graph's slots and contenders until `time_runs` has waited.
            let launch = |_| unsafe { graph.launch(&self.stream) };
            // Each graph is timed alone: it runs for longer than the host takes to launch the next one.
            let times = time_runs(&self.stream, 1, || self.clear_cache(), launch)?;
            if let Some(round) = round {
                laps[index].0[round as usize] = Some(times[0] / f64::from(self.graph_runs));
            }
        }
        Ok(laps)
    }

    /// Evicts the cache, and keeps the GPU busy until the host has launched the graph, so that the
    /// graph's time starts with its first run.
    fn clear_cache(&self) -> Result<()> {
        let sweep = self.sweep.as_ref().expect("made by `cold` or `run_graphs`");
        // SAFETY: `self` owns the sweep, and `time_runs`, which calls this function, waits for it.
        (0..SWEEPS).try_for_each(|_| unsafe { sweep.enqueue(&self.stream) })
    }

    /// Runs each contender once into poisoned memory, and checks the result before the next one runs.
    fn verify(&mut self) -> Result<()> {
        for index in 0..self.entrants.len() {
            let track = self.track.as_ref().expect("made by `run`");
            self.entrants[index].contender.poison(&track.slot())?;
            self.timed(&[index])?;
            self.check(index)?;
        }
        Ok(())
    }

    /// Checks the last timed runs. Outputs in slots may have been overwritten, so that contenders with
    /// slot outputs are run once more.
    fn check_last(&mut self) -> Result<()> {
        if self.room > 0 {
            return self.verify();
        }
        (0..self.entrants.len()).try_for_each(|index| self.check(index))
    }

    fn check(&mut self, index: usize) -> Result<()> {
        let track = self.track.as_ref().expect("made by `run`");
        let entrant = &mut self.entrants[index];
        entrant.right &= entrant.contender.check(&track.rotation.slot(entrant.last))?;
        Ok(())
    }

    /// Runs the untimed rounds. The last one gives the estimate of each contender's time.
    fn warm_up(&mut self, options: Options) -> Result<()> {
        let right = |&index: &usize| self.entrants[index].right;
        let all: Vec<usize> = (0..self.entrants.len()).filter(right).collect();
        for _ in 0..options.warm_up.max(1) {
            for (&index, time) in all.iter().zip(self.timed(&all)?) {
                self.entrants[index].estimate = time;
            }
        }
        Ok(())
    }

    /// Returns the round and the contender of each run, in order. A contender takes `times` runs in a
    /// round.
    fn rounds(
        &self,
        options: Options,
        rounds: Range<u32>,
        times: u32,
    ) -> impl Iterator<Item = (u32, usize)> + use<> {
        let runners: Vec<(usize, u32)> = (0..self.entrants.len())
            .filter(|&index| self.entrants[index].right)
            .map(|index| (index, options.rounds_for(self.slowest(index) * f64::from(times))))
            .collect();
        rounds.flat_map(move |round| {
            let part = |&&(_, some): &&(usize, u32)| takes_part(round, some, options.rounds);
            let present: Vec<usize> = runners.iter().filter(part).map(|&(index, _)| index).collect();
            order(round, present.len()).map(move |place| (round, present[place]))
        })
    }

    /// Returns the microseconds per run of the slowest member of a contender's team.
    fn slowest(&self, index: usize) -> f64 {
        let team = self.entrants[index].team;
        let members = self.entrants.iter().filter(|entrant| entrant.team == team && entrant.right);
        members.map(|entrant| entrant.estimate).fold(0.0, f64::max)
    }

    /// Runs contenders one after the other and returns the microseconds of each run. The stream is idle
    /// when this returns, even after an error.
    fn timed(&mut self, runners: &[usize]) -> Result<Vec<f64>> {
        let track = self.track.as_mut().expect("made by `run`");
        let (stream, entrants) = (&self.stream, &mut self.entrants);
        let sweep = self.sweep.as_ref().filter(|_| self.cold);
        time_runs(
            stream,
            runners.len(),
            // SAFETY: `self` owns the sweep, and `time_runs` waits for it.
            || sweep.map_or(Ok(()), |sweep| unsafe { sweep.enqueue(stream) }),
            // SAFETY: `self` owns the track and the entrants, and `time_runs` waits for their runs.
            |index| unsafe { enqueue(stream, track, &mut entrants[runners[index]]) },
        )
    }
}

pub(super) struct Track {
    rotation: Rotation,
    runs: u64,
}

impl Track {
    fn slot(&self) -> Slot<'_> {
        self.rotation.slot(self.runs)
    }
}

/// Enqueues a run on the next slot.
///
/// # Safety
/// Track and entrant must live until the stream, the only one of the contest, has been synchronised.
unsafe fn enqueue(stream: &Stream, track: &mut Track, entrant: &mut Entrant<'_>) -> Result<()> {
    entrant.last = track.runs;
    track.runs += 1;
    // SAFETY: `Contest::enter` has checked that the slots hold the contender's input and have room for
    // its output. By this function's contract, track and entrant outlive the run.
    unsafe { entrant.contender.enqueue(stream, &track.rotation.slot(entrant.last)) }
}

/// Records a graph of runs on consecutive slots.
fn record(
    stream: &mut Stream,
    track: &mut Track,
    entrant: &mut Entrant<'_>,
    runs: u32,
) -> Result<Graph> {
    Graph::capture(stream, |stream| {
        // SAFETY: a capture runs nothing. The contest, which launches the graph, owns track and entrant.
        (0..runs).try_for_each(|_| unsafe { enqueue(stream, track, entrant) })
    })
}

impl Score {
    fn of(entrant: &Entrant<'_>, laps: RoundTimes) -> Self {
        if entrant.right { Self { right: true, laps } } else { Self::default() }
    }
}
