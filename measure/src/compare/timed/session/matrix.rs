//! Runs reductions of the rows of a matrix and returns their times.

use std::{sync::Arc, time::Instant};

use crate::contest::{
    Contest, CubRows, Empty, Layout, Matrix, ReducingRows, RoundTimes, Score, Segments, Spread,
};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use warpfold_suite::{Buffer, Dtype, Error, Op, cpu, say};

use super::{GRAPHS, OTHERS, REDUCER_WORKSPACE, Session, TORCH_CONTEXT, TorchCase};
use crate::{
    compare::timed::{
        matrix::{OFFSETS, ROWS, shape::Shape},
        peers::Peer,
        record::Time,
        rows::Entry,
        table::EMPTY,
        torch,
    },
    elements::SEED,
};

/// Team of the library's kernels by both compilers. Contenders of a team run in the same rounds.
const OWN_TEAM: usize = OTHERS + 1;

/// A contender and the layout of its results, which is `None` for an empty launch.
struct RowsEntry {
    entry: Entry,
    layout: Option<Layout>,
}

struct Work<'m> {
    op: Op,
    matrix: &'m Arc<Matrix>,
    input: Buffer,
}

impl Work<'_> {
    fn shape(&self) -> Shape {
        Shape { rows: self.matrix.rows(), len: self.matrix.row_len() }
    }
}

impl Session<'_> {
    pub(in crate::compare::timed) fn require_memory_of_rows(&self, shapes: &[Shape]) -> Result<()> {
        for shape in shapes {
            let too_large = || format!("--shape {shape} is too large");
            self.device.require_memory(self.memory_of_rows(*shape)).with_context(too_large)?;
            // The host holds the elements and two results per row: a sum, and an index with its element.
            cpu::require_memory(4 * shape.elements() + 16 * shape.rows).with_context(too_large)?;
        }
        Ok(())
    }

    fn memory_of_rows(&self, shape: Shape) -> u64 {
        let (input, rows) = (4 * shape.elements(), shape.rows);
        let own = Layout::Places.bytes() * rows + REDUCER_WORKSPACE;
        let sides = self.peers.kernels.len() as u64;
        let cub = match self.peers.cub {
            // Per row: a result of 8 bytes for each of CUB's two contenders, and an offset of 4 bytes.
            // The rest is for temporary storage.
            Some(_) => 4 * Layout::NarrowPlaces.bytes() * rows,
            None => 0,
        };
        let torch = match self.peers.torch {
            // The inputs, and two copies of the elements in 64 bits for checking a result.
            Some(_) => input * self.torch_inputs(input) + 4 * input + 16 * rows + TORCH_CONTEXT,
            None => 0,
        };
        let entrants = sides + 3;
        let slots = Contest::memory(self.device, input, 0, self.options, entrants);
        [input, slots, sides * own, cub, torch].into_iter().fold(0, u64::saturating_add)
    }

    /// Runs all shapes with every operation. No shape is started after `until`; omissions are noted. A
    /// wrong result is not an error.
    pub(in crate::compare::timed) fn run_rows(
        &mut self,
        shapes: &[Shape],
        ops: &[Op],
        until: Option<Instant>,
        progress: &ProgressBar,
    ) -> Result<Vec<Time>> {
        let mut times = Vec::new();
        for (at, &shape) in shapes.iter().enumerate() {
            if until.is_some_and(|until| Instant::now() >= until) {
                let left: Vec<String> = shapes[at..].iter().map(Shape::to_string).collect();
                self.notes.insert(format!("left out after the limit of --seconds: {}", left.join(", ")));
                break;
            }
            progress.set_message(shape.to_string());
            let start = Instant::now();
            times.extend(self.shape(shape, ops).with_context(|| shape.to_string())?);
            progress.inc(1);
            // If the progress bar is hidden, the log shows the progress.
            if progress.is_hidden() {
                say!("{shape}: {:.1} s", start.elapsed().as_secs_f32());
            }
        }
        Ok(times)
    }

    fn shape(&mut self, shape: Shape, ops: &[Op]) -> Result<Vec<Time>> {
        let (data, matrix) = Matrix::draw(shape.rows, shape.len, SEED)?;
        let input = self.device.upload(&data)?;
        drop(data);
        let mut times = Vec::new();
        for &op in ops {
            let work = Work { op, matrix: &matrix, input: input.clone() };
            times.extend(self.rows(&work).with_context(|| op.to_string())?);
        }
        Ok(times)
    }

    fn rows(&mut self, work: &Work<'_>) -> Result<Vec<Time>> {
        let mut contest = (self.contest)(&work.input, 0)?;
        let mut entries = self.enter_cub_rows(work, &mut contest)?;
        entries.extend(self.enter_own_rows(work, &mut contest)?);
        let mut torch = self.prepare_torch_rows(work);
        let scores = contest.run(self.options, |rounds| {
            if let Some(torch) = &mut torch {
                torch.time(self.peers, rounds);
            }
        })?;
        let scores: Vec<Option<Score>> = scores.into_iter().map(Some).collect();
        let mut times = self.rows_times(work, &entries, &scores, false);
        times.extend(torch.and_then(|torch| self.torch_rows_time(work, torch)));
        if work.matrix.elements() <= GRAPHS {
            let named = entries.iter().map(|entry| &entry.entry);
            let scores = self.graph_scores(&mut contest, named)?;
            times.extend(self.rows_times(work, &entries, &scores, true));
        }
        Ok(times)
    }

    fn enter_cub_rows(
        &mut self,
        work: &Work<'_>,
        contest: &mut Contest<'static>,
    ) -> Result<Vec<RowsEntry>> {
        contest.enter(Empty::new(self.device)?, 0)?;
        let mut entries = vec![RowsEntry { entry: Entry::empty(), layout: None }];
        let Some(cub) = self.peers.cub.clone() else { return Ok(entries) };
        let ways = [(Segments::Equal, Peer::Cub.name()), (Segments::Offsets, OFFSETS)];
        for (team, (segments, peer)) in ways.into_iter().enumerate() {
            match CubRows::new(&cub, self.device, work.op, segments, work.matrix) {
                Ok(made) => {
                    let entry = Entry { peer, ..Entry::library(Peer::Cub) };
                    entries.push(RowsEntry { entry, layout: Some(made.layout()) });
                    contest.enter(made, 1 + team)?;
                }
                Err(error @ Error::Mismatch { what: "CUB", .. }) if !self.strict => {
                    self.notes.insert(format!("skipped: {peer}: {error}"));
                }
                Err(error) => return Err(anyhow::Error::new(error).context(peer)),
            }
        }
        Ok(entries)
    }

    fn enter_own_rows(
        &mut self,
        work: &Work<'_>,
        contest: &mut Contest<'static>,
    ) -> Result<Vec<RowsEntry>> {
        self.load_reducers()?;
        let made = self
            .reducers
            .iter()
            .map(|(peer, one)| (*peer, ReducingRows::new(one, work.op, work.matrix)));
        let made = made.collect();
        let mut entries = Vec::new();
        for (peer, contender) in self.there(made)? {
            let launch = contender.plan();
            let entry = Entry {
                variant: ROWS,
                peer: peer.name(),
                block: launch.map(|launch| launch.block),
                grid: launch.map(|launch| launch.blocks.into()),
                kernel: launch.map(|launch| launch.kernel.name()),
            };
            entries.push(RowsEntry { entry, layout: Some(contender.layout()) });
            contest.enter(contender, OWN_TEAM)?;
        }
        Ok(entries)
    }

    fn prepare_torch_rows(&mut self, work: &Work<'_>) -> Option<TorchCase> {
        let slots = self.torch_inputs(4 * work.matrix.elements());
        let torch = self.peers.torch.as_mut()?;
        let (n, rows) = (work.matrix.elements(), Some(work.matrix.rows()));
        let wanted = torch::Case { op: work.op.name(), dtype: Dtype::F32.name(), n, rows, slots };
        match torch.prepare(wanted) {
            Ok(right) => Some(TorchCase { right, times: Vec::new(), failed: None }),
            Err(error) => {
                self.notes.insert(format!("torch: {} {}: {error}", work.op, work.shape()));
                None
            }
        }
    }

    fn torch_rows_time(&mut self, work: &Work<'_>, torch: TorchCase) -> Option<Time> {
        if let Some(failed) = torch.failed {
            self.notes.insert(format!("torch: {} {}: {failed}", work.op, work.shape()));
            return None;
        }
        // PyTorch returns a 64-bit index without its element.
        let layout = Some(if work.op == Op::Sum { Layout::Sums } else { Layout::NarrowPlaces });
        let entry = RowsEntry { entry: Entry::library(Peer::Torch), layout };
        // PyTorch has no times if its result was wrong.
        let laps = RoundTimes(torch.times.into_iter().map(Some).collect());
        Some(self.rows_time(work, &entry, &Score { right: torch.right, laps }, false))
    }

    /// Returns times with their ratios. Contenders without a score did not run.
    fn rows_times(
        &self,
        work: &Work<'_>,
        entries: &[RowsEntry],
        scores: &[Option<Score>],
        graph: bool,
    ) -> Vec<Time> {
        let laps_of = |peer: &str| {
            let found = entries.iter().position(|entry| entry.entry.peer == peer)?;
            scores[found].as_ref().map(|score| &score.laps)
        };
        let empty = laps_of(EMPTY).and_then(RoundTimes::spread);
        let mut times = Vec::new();
        for (entry, score) in entries.iter().zip(scores) {
            let Some(score) = score else { continue };
            let mut time = self.rows_time(work, entry, score, graph);
            let over = |peer: Peer| laps_of(peer.name()).and_then(|other| score.laps.over(other));
            if time.variant == ROWS {
                time.ratio_to_cub = over(Peer::Cub);
                time.ratio_to_empty =
                    time.time_us.zip(empty).map(|(own, empty)| own.median / empty.median);
            }
            if time.peer == Peer::RustNvvm.name() {
                time.ratio_to_llvm = over(Peer::RustLlvm);
            }
            times.push(time);
        }
        times
    }

    fn rows_time(&self, work: &Work<'_>, entry: &RowsEntry, score: &Score, graph: bool) -> Time {
        let Entry { variant, peer, block, grid, kernel } = entry.entry;
        let spread = score.laps.spread();
        let bytes = entry.layout.map(|layout| work.matrix.bytes(layout));
        let bandwidth = |(spread, bytes): (&Spread, u64)| spread.gigabytes_per_second(bytes);
        let bandwidth_gbps = spread.as_ref().zip(bytes).map(bandwidth);
        let peak = self.device.info().peak_bandwidth;
        Time {
            variant: variant.to_owned(),
            peer: peer.to_owned(),
            op: Some(work.op.name().to_owned()),
            dtype: Dtype::F32.name().to_owned(),
            n: work.matrix.elements(),
            width: Some(work.matrix.row_len()),
            height: Some(work.matrix.rows()),
            block,
            grid,
            kernel: kernel.map(str::to_owned),
            graph,
            runs: score.laps.runs(),
            time_us: spread,
            bandwidth_gbps,
            percent_of_peak: bandwidth_gbps.zip(peak).map(|(gbps, peak)| gbps * 1e11 / peak),
            ok: score.right,
            ..Time::default()
        }
    }
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod tests;
