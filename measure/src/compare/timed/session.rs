//! Runs cases and returns their times.

mod matrix;

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use crate::contest::{Contest, CubReduction, Empty, Moving, Options, Reducing, RoundTimes, Score};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use warpfold_suite::{
    Buffer, Data, Device, Dtype, Error, Op, Plan, PtxStore, Reducer, Reduction, Request, Tuning,
    catalogue::{Completion, Variant, Work},
    cpu,
    memory::{self, Movement, Pattern},
    plan,
    reducer::Measured,
    reference::Expected,
    say,
};

use crate::elements::Elements;

use super::{
    cases::{Case, Task},
    inputs::Inputs,
    peers::{Peer, Peers},
    record::Time,
    rows::{Entry, Judge, limits},
    sizes::show,
    torch,
};

/// Cases with at most this many elements are also timed as CUDA graphs.
const GRAPHS: u64 = 1 << 20;

/// Number of contenders besides the variants: an empty launch and CUB.
const OTHERS: usize = 2;

/// Bytes of a reducer's workspace: more than the slots of any device's resident blocks need.
const REDUCER_WORKSPACE: u64 = 1 << 20;

/// Bytes that a PyTorch process takes on a GPU besides its tensors.
const TORCH_CONTEXT: u64 = 1 << 30;

pub(super) struct Session<'a> {
    device: &'a Device,
    peers: &'a mut Peers,
    options: Options,
    contest: NewContest,
    /// Set in a comparison by states of the L2 cache.
    inputs: Option<Inputs>,
    /// One reducer per compiler, created once, so that the driver compiles each kernel once.
    reducers: Vec<(Peer, Reducer)>,
    /// Makes a kernel that is missing from a compiler's PTX an error.
    pub(super) strict: bool,
    /// A line for each omission.
    pub(super) notes: BTreeSet<String>,
}

/// [`Contest::new`], or [`Contest::rehearsal`] for tests in the simulator.
pub(crate) type NewContest = fn(&Buffer, u64) -> warpfold_suite::Result<Contest<'static>>;

impl<'a> Session<'a> {
    pub(super) fn new(
        device: &'a Device,
        peers: &'a mut Peers,
        options: Options,
        contest: NewContest,
    ) -> Self {
        let (reducers, notes) = (Vec::new(), BTreeSet::new());
        Self { device, peers, options, contest, inputs: None, reducers, strict: false, notes }
    }

    pub(super) fn require_memory(&self, cases: &[Case]) -> Result<()> {
        for &dtype in &dtypes(cases) {
            let cases = || cases.iter().filter(|case| case.dtype == dtype);
            let input = cases().map(Case::bytes).max().unwrap_or(0);
            let rest = cases().map(|case| self.memory_of(case)).max().unwrap_or(0);
            self.device.require_memory(input.saturating_add(rest))?;
            // The host holds the elements, and the expected and the actual output of a move.
            let moved = cases().map(Case::room).max().unwrap_or(0);
            cpu::require_memory(input.saturating_add(moved.saturating_mul(2)))?;
        }
        Ok(())
    }

    fn memory_of(&self, case: &Case) -> u64 {
        let sides = self.peers.kernels.len() as u64;
        let entrants = case.variants.len() as u64 * sides + OTHERS as u64;
        let workspaces = case.variants.iter().map(|variant| match case.work {
            Task::Reduce { .. } if variant.work == Work::Reducer => REDUCER_WORKSPACE,
            Task::Reduce { op, n } => {
                let request = request(variant, op, case.dtype, n, None);
                Plan::new(&request, self.device.info()).map_or(0, |plan| plan.workspace_bytes())
            }
            Task::Move(Pattern::Random { n, .. }) => n * 4,
            Task::Move(_) => 0,
        });
        let torch = match (&self.peers.torch, case.op()) {
            (Some(_), Some(op)) => {
                let inputs = case.bytes().saturating_mul(self.torch_inputs(case.bytes()));
                inputs.saturating_add(torch_copy(case, op)).saturating_add(TORCH_CONTEXT)
            }
            _ => 0,
        };
        let slots = Contest::memory(self.device, case.bytes(), case.room(), self.options, entrants);
        slots.saturating_add(sides * workspaces.sum::<u64>()).saturating_add(torch)
    }

    fn torch_inputs(&self, bytes: u64) -> u64 {
        let past_the_cache = (6 * self.device.info().l2_bytes).div_ceil(bytes.max(1));
        past_the_cache.clamp(1, u64::from(self.options.rounds) + 8)
    }

    /// Runs all cases. A wrong result is not an error.
    pub(super) fn run(&mut self, cases: &[Case], progress: &ProgressBar) -> Result<Vec<Time>> {
        let mut times = Vec::new();
        for dtype in dtypes(cases) {
            let cases: Vec<&Case> = cases.iter().filter(|case| case.dtype == dtype).collect();
            let len = cases.iter().map(|case| case.input_len()).max().unwrap_or(0);
            progress.set_message(format!("{} {dtype}", show(len)));
            // Each case uses a prefix of the same elements, whose last one is a marker during the case.
            let mut elements = Elements::new(self.device, dtype, usize::try_from(len)?);
            let mut done: Vec<(usize, Vec<Time>)> = Vec::new();
            let mut order: Vec<(usize, &Case)> = cases.into_iter().enumerate().collect();
            order.sort_by_key(|(_, case)| case.op().is_some_and(Elements::order));
            for (at, case) in order {
                let name = format!("{} {dtype} {}", case.op().map_or("move", Op::name), show(case.n()));
                progress.set_message(name.clone());
                let start = Instant::now();
                done.push((at, self.case(case, &mut elements).with_context(|| name.clone())?));
                progress.inc(1);
                // If the progress bar is hidden, the log shows the progress.
                if progress.is_hidden() {
                    say!("{name}: {:.1} s", start.elapsed().as_secs_f32());
                }
            }
            done.sort_by_key(|(at, _)| *at);
            times.extend(done.into_iter().flat_map(|(_, times)| times));
        }
        limits(&mut times);
        Ok(times)
    }

    pub(super) fn run_by_inputs(
        &mut self,
        cases: &[Case],
        inputs: &[Inputs],
        progress: &ProgressBar,
    ) -> Result<Vec<Time>> {
        let mut all = Vec::new();
        for &inputs in inputs {
            self.inputs = Some(inputs);
            let times = self.run(cases, progress)?;
            let named = |time| Time { inputs: Some(inputs.name().to_owned()), ..time };
            all.extend(times.into_iter().map(named));
        }
        self.inputs = None;
        Ok(all)
    }

    fn case(&mut self, case: &Case, elements: &mut Elements) -> Result<Vec<Time>> {
        match case.work {
            Task::Reduce { op, n } => elements.marked((op, n), |expected, input| {
                let (mut contest, mut entries) = self.open(case, &input)?;
                self.enter_reductions(case, (op, n), expected, &mut contest, &mut entries)?;
                self.contend(case, contest, &entries)
            }),
            Task::Move(pattern) => {
                let (data, input) = elements.plain()?;
                let (mut contest, mut entries) = self.open(case, &input.slice(0..case.input_len())?)?;
                let expected = Arc::new(pattern.expected(data));
                self.enter_movements(case, pattern, &expected, &mut contest, &mut entries)?;
                self.contend(case, contest, &entries)
            }
        }
    }

    fn open(&self, case: &Case, input: &Buffer) -> Result<(Contest<'static>, Vec<Entry>)> {
        let contest = (self.contest)(input, case.room())?;
        let mut contest = self.inputs.unwrap_or(Inputs::Rotated).of(contest)?;
        contest.enter(Empty::new(self.device)?, 0)?;
        Ok((contest, vec![Entry::empty()]))
    }

    fn contend(
        &mut self,
        case: &Case,
        mut contest: Contest<'static>,
        entries: &[Entry],
    ) -> Result<Vec<Time>> {
        let mut torch = self.prepare_torch(case);
        let scores = contest.run(self.options, |rounds| {
            if let Some(torch) = &mut torch {
                torch.time(self.peers, rounds);
            }
        })?;
        let scores: Vec<Option<Score>> = scores.into_iter().map(Some).collect();
        let mut times = self.judge(case).times(entries, &scores, false);
        times.extend(torch.and_then(|torch| self.torch_time(case, torch)));
        // Graphs are not timed by cache state: only their first run would start in that state.
        if self.inputs.is_none() && case.n() <= GRAPHS && case.op().is_some() {
            let scores = self.graph_scores(&mut contest, entries.iter())?;
            times.extend(self.judge(case).times(entries, &scores, true));
        }
        Ok(times)
    }

    /// Runs a contest's graphs. Contenders that cannot be recorded are noted and have no score.
    fn graph_scores<'e>(
        &mut self,
        contest: &mut Contest<'static>,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<Vec<Option<Score>>> {
        let graphs = contest.run_graphs(self.options)?;
        let mut scores = Vec::new();
        for (entry, score) in entries.zip(graphs) {
            scores.push(match score {
                Some(Err(error)) => {
                    let (variant, peer) = (entry.variant, entry.peer);
                    self.notes.insert(format!("no graph of {variant} by {peer}: {error}"));
                    None
                }
                score => score.transpose()?,
            });
        }
        Ok(scores)
    }

    fn judge<'c>(&self, case: &'c Case) -> Judge<'c> {
        Judge { case, peak_bandwidth: self.device.info().peak_bandwidth }
    }

    fn enter_reductions(
        &mut self,
        case: &Case,
        (op, n): (Op, u64),
        expected: Expected,
        contest: &mut Contest<'static>,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        if let Some(cub) = &self.peers.cub {
            contest.enter(CubReduction::new(cub, self.device, (op, case.dtype, n), expected)?, 1)?;
            entries.push(Entry::library(Peer::Cub));
        }
        for (team, &variant) in case.variants.iter().enumerate() {
            if variant.work == Work::Reducer {
                for (peer, contender) in self.reducers((op, case.dtype, n), expected)? {
                    let launch = contender.plan()?;
                    entries.push(Entry {
                        variant: variant.id,
                        peer: peer.name(),
                        block: Some(launch.block),
                        grid: Some(launch.blocks.into()),
                        kernel: Some(launch.kernel.name()),
                    });
                    contest.enter(contender, OTHERS + team)?;
                }
                continue;
            }
            for (peer, reduction) in self.sides(variant, op, case.dtype, n)? {
                entries.push(Entry {
                    variant: variant.id,
                    peer: peer.name(),
                    block: Some(reduction.request().block),
                    grid: Some(reduction.plan().grid().into()),
                    kernel: None,
                });
                contest.enter(Reducing::new(reduction, expected)?, OTHERS + team)?;
            }
        }
        Ok(())
    }

    fn load_reducers(&mut self) -> Result<()> {
        if !self.reducers.is_empty() {
            return Ok(());
        }
        for (peer, store) in self.peers.rust() {
            let tuning = Tuning::of(self.device.info());
            self.notes.extend(tuning.warning().map(str::to_owned));
            self.reducers.push((*peer, Reducer::with(self.device, store, tuning)?));
        }
        Ok(())
    }

    fn reducers(&mut self, case: (Op, Dtype, u64), expected: Expected) -> Result<Vec<(Peer, Measured)>> {
        self.load_reducers()?;
        let made =
            self.reducers.iter().map(|(peer, one)| (*peer, Measured::new(one, case, None, expected)));
        let made = made.collect();
        self.there(made)
    }

    fn sides(
        &mut self,
        variant: &'static Variant,
        op: Op,
        dtype: Dtype,
        n: u64,
    ) -> Result<Vec<(Peer, Reduction)>> {
        let made = |grid| {
            let request = request(variant, op, dtype, n, grid);
            move |device: &Device, store: &PtxStore| Reduction::new(device, store, &request)
        };
        let sides = self.each(made(None))?;
        let grids = || sides.iter().map(|(_, reduction)| u64::from(reduction.plan().grid()));
        let (least, most) = (grids().min(), grids().max());
        let cooperative =
            variant.shape().is_some_and(|shape| shape.completion == Completion::GridBarrier);
        // The number of resident blocks limits a cooperative grid and depends on the compiler: all sides
        // use the smallest grid.
        if cooperative && least != most { self.each(made(least)) } else { Ok(sides) }
    }

    fn enter_movements(
        &mut self,
        case: &Case,
        pattern: Pattern,
        expected: &Arc<Data>,
        contest: &mut Contest<'static>,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        for (team, &variant) in case.variants.iter().enumerate() {
            let sides = self.each(|device, store| {
                Movement::new(device, store, variant, case.dtype, pattern, memory::DEFAULT_BLOCK)
            })?;
            for (peer, movement) in sides {
                let geometry = movement.geometry();
                entries.push(Entry {
                    variant: variant.id,
                    peer: peer.name(),
                    block: Some(geometry.block.iter().product()),
                    grid: Some(geometry.grid.map(u64::from).iter().product()),
                    kernel: None,
                });
                contest.enter(Moving::new(movement, expected.clone()), OTHERS + team)?;
            }
        }
        Ok(())
    }

    fn each<T>(
        &mut self,
        make: impl Fn(&Device, &PtxStore) -> warpfold_suite::Result<T>,
    ) -> Result<Vec<(Peer, T)>> {
        let kernels = self.peers.kernels.iter();
        let made = kernels.map(|(peer, store)| (*peer, make(self.device, store))).collect();
        self.there(made)
    }

    /// Returns the successes. A missing kernel is noted; it is an error under `strict` or if no Rust
    /// kernel is left.
    fn there<T>(&mut self, made: Vec<(Peer, warpfold_suite::Result<T>)>) -> Result<Vec<(Peer, T)>> {
        let has_rust =
            |(peer, made): &(Peer, warpfold_suite::Result<T>)| Peer::RUST.contains(peer) && made.is_ok();
        let required = self.strict || !made.iter().any(has_rust);
        let mut there = Vec::new();
        for (peer, made) in made {
            match made {
                Ok(one) => there.push((peer, one)),
                Err(Error::PtxMissing { what, .. }) if !required => {
                    self.notes.insert(format!("skipped: {peer} has no {what}"));
                }
                Err(error) => return Err(anyhow::Error::new(error).context(format!("{peer}"))),
            }
        }
        Ok(there)
    }

    /// Prepares PyTorch for a case; `None` if it is unavailable or cannot run the case, which is noted.
    fn prepare_torch(&mut self, case: &Case) -> Option<TorchCase> {
        let (slots, op) = (self.torch_inputs(case.bytes()), case.op()?);
        let torch = self.peers.torch.as_mut()?;
        let (dtype, n) = (case.dtype.name(), case.n());
        let wanted = torch::Case { op: op.name(), dtype, n, rows: None, slots };
        match torch.prepare(wanted) {
            Ok(right) => Some(TorchCase { right, times: Vec::new(), failed: None }),
            Err(error) => {
                self.notes.insert(format!("torch: {error}"));
                None
            }
        }
    }

    fn torch_time(&mut self, case: &Case, torch: TorchCase) -> Option<Time> {
        if let Some(failed) = torch.failed {
            self.notes.insert(format!("torch: {} {}: {failed}", case.dtype, show(case.n())));
            return None;
        }
        let laps = RoundTimes(torch.times.into_iter().map(Some).collect());
        let laps = if torch.right { laps } else { RoundTimes::default() };
        Some(self.judge(case).time(
            &Entry::library(Peer::Torch),
            &Score { right: torch.right, laps },
            false,
        ))
    }
}

struct TorchCase {
    right: bool,
    times: Vec<f64>,
    failed: Option<anyhow::Error>,
}

impl TorchCase {
    fn time(&mut self, peers: &mut Peers, runs: u32) {
        if self.failed.is_some() || !self.right || runs == 0 {
            return;
        }
        let torch = peers.torch.as_mut().expect("it has prepared");
        match torch.time(runs) {
            Ok(times) => self.times.extend(times),
            Err(error) => self.failed = Some(error),
        }
    }
}

/// Returns the size of PyTorch's copy of 8- and 16-bit integers, which it makes before it sums them.
fn torch_copy(case: &Case, op: Op) -> u64 {
    match (op, case.dtype) {
        (Op::Sum, Dtype::I8 | Dtype::U8 | Dtype::I16) => {
            case.n().saturating_mul(size_of::<i64>() as u64)
        }
        _ => 0,
    }
}

fn dtypes(cases: &[Case]) -> Vec<Dtype> {
    let mut dtypes: Vec<Dtype> = cases.iter().map(|case| case.dtype).collect();
    dtypes.dedup();
    dtypes
}

fn request(variant: &'static Variant, op: Op, dtype: Dtype, n: u64, grid: Option<u64>) -> Request {
    Request { variant, op, dtype, n, block: plan::DEFAULT_BLOCK, grid }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
