//! Converts the scores of a case to times.

use crate::contest::{RoundTimes, Score, Spread};
use warpfold_suite::memory::Pattern;

use super::{
    cases::{Case, Task},
    peers::Peer,
    record::Time,
    table::{EMPTY, LIBRARY},
};

pub(super) struct Entry {
    pub(super) variant: &'static str,
    pub(super) peer: &'static str,
    pub(super) block: Option<u32>,
    pub(super) grid: Option<u64>,
    pub(super) kernel: Option<&'static str>,
}

impl Entry {
    pub(super) const fn library(peer: Peer) -> Self {
        Self { variant: LIBRARY, peer: peer.name(), block: None, grid: None, kernel: None }
    }

    pub(super) const fn empty() -> Self {
        Self { variant: EMPTY, peer: EMPTY, block: Some(1), grid: Some(1), kernel: None }
    }
}

pub(super) struct Judge<'a> {
    pub(super) case: &'a Case,
    /// Peak of the memory in bytes per second, if known.
    pub(super) peak_bandwidth: Option<f64>,
}

impl Judge<'_> {
    /// Returns times with their ratios. Contenders without a score did not run.
    pub(super) fn times(&self, entries: &[Entry], scores: &[Option<Score>], graph: bool) -> Vec<Time> {
        let laps_of = |variant: &str, peer: Peer| {
            let found = entries.iter().position(|e| e.variant == variant && e.peer == peer.name())?;
            scores[found].as_ref().map(|score| &score.laps)
        };
        let mut times = Vec::new();
        for (entry, score) in entries.iter().zip(scores) {
            let Some(score) = score else { continue };
            let over = |other: Option<&RoundTimes>| other.and_then(|other| score.laps.over(other));
            let mut time = self.time(entry, score, graph);
            if entry.variant != EMPTY && entry.variant != LIBRARY {
                let twin = (entry.peer != Peer::CudaC.name())
                    .then(|| laps_of(entry.variant, Peer::CudaC))
                    .flatten();
                time.ratio_to_cuda_c = over(twin);
                let llvm = (entry.peer == Peer::RustNvvm.name())
                    .then(|| laps_of(entry.variant, Peer::RustLlvm))
                    .flatten();
                time.ratio_to_llvm = over(llvm);
                time.ratio_to_cub = over(laps_of(LIBRARY, Peer::Cub));
            }
            times.push(time);
        }
        times
    }

    pub(super) fn time(&self, entry: &Entry, score: &Score, graph: bool) -> Time {
        let case = self.case;
        let spread = score.laps.spread();
        let bandwidth = |spread: &Spread| spread.gigabytes_per_second(case.useful_bytes());
        let bandwidth_gbps = spread.as_ref().filter(|_| entry.variant != EMPTY).map(bandwidth);
        let peak = self.peak_bandwidth;
        let (stride, width, height) = match case.work {
            Task::Move(Pattern::Strided { stride, .. }) => (Some(stride), None, None),
            Task::Move(Pattern::Transpose { width, height }) => (None, Some(width), Some(height)),
            _ => (None, None, None),
        };
        Time {
            inputs: None,
            variant: entry.variant.to_owned(),
            peer: entry.peer.to_owned(),
            op: case.op().map(|op| op.name().to_owned()),
            dtype: case.dtype.name().to_owned(),
            n: case.n(),
            width,
            height,
            stride,
            block: entry.block,
            grid: entry.grid,
            kernel: entry.kernel.map(str::to_owned),
            graph,
            runs: score.laps.runs(),
            time_us: spread,
            bandwidth_gbps,
            percent_of_peak: bandwidth_gbps.zip(peak).map(|(gbps, peak)| gbps * 1e11 / peak),
            ratio_to_cuda_c: None,
            ratio_to_llvm: None,
            ratio_to_cub: None,
            ratio_to_limit: None,
            ratio_to_empty: None,
            ok: score.right,
        }
    }
}

/// Adds two ratios: to the time of an empty launch of the same case, and to that time plus the time to
/// read the bytes at the best bandwidth of any reduction. Kernels that move elements have no such
/// ratios, because their writes may stay in the cache.
pub(super) fn limits(times: &mut [Time]) {
    let reductions = times.iter().filter(|time| time.op.is_some());
    let best = reductions.filter_map(|time| time.bandwidth_gbps).fold(0.0, f64::max);
    let launches: Vec<Time> = times.iter().filter(|time| time.variant == EMPTY).cloned().collect();
    for time in times.iter_mut().filter(|time| time.op.is_some()) {
        let same = |launch: &&Time| {
            let case = |time: &Time| (time.op.clone(), time.dtype.clone(), time.n, time.graph);
            case(launch) == case(time)
        };
        let launch = launches.iter().find(same).and_then(|launch| launch.time_us);
        if let (Some(launch), Some(spread), Some(bandwidth)) =
            (launch, time.time_us, time.bandwidth_gbps)
        {
            // Both bandwidths count the same bytes.
            let reading = spread.median * bandwidth / best;
            time.ratio_to_limit = Some(spread.median / (launch.median + reading));
            time.ratio_to_empty = Some(spread.median / launch.median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_launch_and_the_bytes_at_the_best_bandwidth() {
        let time = |variant: &str, n: u64, median: f64, gbps: Option<f64>| Time {
            variant: variant.into(),
            op: Some("sum".into()),
            n,
            time_us: Spread::of([median]),
            bandwidth_gbps: gbps,
            ..Time::default()
        };
        // 4000 bytes in 1 us are 4 GB/s; the best is 8 GB/s, which reads them in 0.5 us.
        let mut times = [
            time(EMPTY, 1000, 2.0, None),
            time("slow", 1000, 5.0, Some(0.8)),
            time("fast", 4000, 2.0, Some(8.0)),
            time(EMPTY, 4000, 2.0, None),
            time("alone", 5000, 4.0, Some(5.0)),
            Time { op: None, ..time("copy", 1000, 1.0, Some(99.0)) },
        ];
        limits(&mut times);
        let over_empty = times.each_ref().map(|time| time.ratio_to_empty);
        assert_eq!(over_empty, [None, Some(2.5), Some(1.0), None, None, None]);
        let ratios = times.map(|time| time.ratio_to_limit);
        assert_eq!(ratios, [None, Some(5.0 / 2.5), Some(0.5), None, None, None]);
    }
}
