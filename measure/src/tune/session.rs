//! Measures every operation and type at every size: all candidates of a size in one contest.

use std::time::Instant;

use crate::contest::{Contest, Options, Score};
use anyhow::{Context, Result};
use warpfold_suite::{
    Buffer, Device, Dtype, Error, Op, Reducer, cpu,
    reducer::{Choice, Launch, Measured},
    reference::Expected,
    say,
};

use crate::{compare::timed::NewContest, elements::Elements, suite};

use super::{
    brackets::{Point, Trial},
    candidates::candidates,
    show,
};

/// Largest size in bytes at which graphs decide ties.
const GRAPHS: u64 = 4 << 20;

/// Number of timed rounds of graphs: few, because each graph consists of many runs.
const GRAPH_ROUNDS: u32 = 8;

#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) op: Op,
    pub(super) dtype: Dtype,
    pub(super) points: Vec<Point>,
}

pub(super) struct Session<'a> {
    pub(super) reducer: &'a Reducer,
    pub(super) options: Options,
    pub(super) contest: NewContest,
    pub(super) wrong: Vec<String>,
}

impl Session<'_> {
    fn device(&self) -> &Device {
        self.reducer.device()
    }

    /// Removes sizes that do not fit in the device's memory. Returns a line that names them.
    pub(super) fn fit(&self, sizes: &mut Vec<u64>) -> Result<Option<String>> {
        let free = self.device().free_memory()?;
        let entrants = 32;
        let fits = |bytes: u64| {
            let slots = Contest::memory(self.device(), bytes, 0, self.options, entrants);
            bytes.saturating_add(slots) <= free
        };
        let (some, others): (Vec<u64>, Vec<u64>) = sizes.iter().partition(|&&bytes| fits(bytes));
        *sizes = some;
        let others: Vec<String> = others.into_iter().map(show).collect();
        let line = || format!("left out, too large for this GPU: {}", others.join(", "));
        Ok((!others.is_empty()).then(line))
    }

    /// Measures these operations of a type. `sizes` are in bytes.
    pub(super) fn run(&mut self, ops: &[Op], dtype: Dtype, sizes: &[u64]) -> Result<Vec<Tuned>> {
        let progress = suite::progress(ops.len() * sizes.len());
        progress.set_message(dtype.name());
        // Every size is a prefix of one input, whose last element is a marker during the measurement.
        let size = dtype.size() as u64;
        let largest = sizes.iter().max().copied().unwrap_or(0);
        cpu::require_memory(largest)?;
        let mut elements = Elements::new(self.device(), dtype, usize::try_from(largest / size)?);
        let mut tuned = Vec::new();
        let mut order = ops.to_vec();
        order.sort_by_key(|&op| Elements::order(op));
        for op in order {
            let start = Instant::now();
            let mut points = Vec::new();
            for &bytes in sizes {
                let name = format!("{op} {dtype} {}", show(bytes));
                progress.set_message(name.clone());
                let n = bytes / size;
                let point =
                    elements.marked((op, n), |expected, input| self.point((op, n), expected, &input));
                points.extend(point.context(name)?);
                progress.inc(1);
            }
            if progress.is_hidden() {
                say!("{op} {dtype}: {:.1} s", start.elapsed().as_secs_f32());
            }
            tuned.push(Tuned { op, dtype, points });
        }
        progress.finish_and_clear();
        tuned.sort_by_key(|tuned| ops.iter().position(|&op| op == tuned.op));
        Ok(tuned)
    }

    fn point(
        &mut self,
        (op, n): (Op, u64),
        expected: Expected,
        input: &Buffer,
    ) -> Result<Option<Point>> {
        let dtype = input.dtype();
        let bytes = n * dtype.size() as u64;
        let mut contest = (self.contest)(input, 0)?.cold()?;
        let Entered { launches, choices } = self.enter((op, dtype, n), expected, &mut contest)?;
        let scores = contest.run(self.options, |_| {})?;
        let mut point = Point { bytes, ..Point::default() };
        let mut kept = Vec::new();
        for (at, score) in scores.iter().enumerate() {
            let Some(time) = score.laps.spread().filter(|_| score.right) else {
                let (launch, size) = (launches[at], show(bytes));
                self.wrong.push(format!("{op} {dtype} {size}: wrong result by {launch:?}"));
                continue;
            };
            point
                .choices
                .extend(choices.iter().filter(|(_, of)| *of == at).map(|&(c, _)| (c, kept.len())));
            point.trials.push(Trial { launch: launches[at], time, graph: None });
            kept.push(at);
        }
        if bytes <= GRAPHS && point.has_ties() {
            let options = Options { rounds: GRAPH_ROUNDS, ..self.options };
            let graphs = contest.run_graphs(options)?;
            for (trial, at) in point.trials.iter_mut().zip(&kept) {
                trial.graph = graphs[*at].as_ref().and_then(right).and_then(|score| score.laps.spread());
            }
        }
        Ok((!point.trials.is_empty()).then_some(point))
    }

    fn enter(
        &self,
        case: (Op, Dtype, u64),
        expected: Expected,
        contest: &mut Contest<'static>,
    ) -> Result<Entered> {
        let (_, dtype, n) = case;
        let mut entered = Entered::default();
        for choice in candidates(n * dtype.size() as u64, self.device().info()) {
            let Some(contender) = contender(self.reducer, case, choice, expected)? else { continue };
            let launch = contender.plan()?;
            let known = entered.launches.iter().position(|other| *other == launch);
            let at = known.unwrap_or(entered.launches.len());
            entered.choices.push((choice, at));
            if known.is_none() {
                entered.launches.push(launch);
                contest.enter(contender, at)?;
            }
        }
        Ok(entered)
    }
}

#[derive(Default)]
struct Entered {
    launches: Vec<Launch>,
    choices: Vec<(Choice, usize)>,
}

/// Returns a score; `None` if the graph could not be recorded, or gave a wrong result.
fn right(score: &warpfold_suite::Result<Score>) -> Option<&Score> {
    score.as_ref().ok().filter(|score| score.right)
}

/// Creates a contender; `None` if the PTX lacks the kernel, as PTX for an older GPU does.
fn contender(
    reducer: &Reducer,
    case: (Op, Dtype, u64),
    choice: Choice,
    expected: Expected,
) -> Result<Option<Measured>> {
    match Measured::new(reducer, case, Some(choice), expected) {
        Ok(contender) => Ok(Some(contender)),
        Err(Error::Mismatch { what: "choice", .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
