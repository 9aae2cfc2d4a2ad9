//! How long a reduction takes on a GPU.
//!
//! Device events around every run; warm-up runs first; inputs rotated so that none is still in the
//! L2 cache when its turn comes; the median of many runs, with the smallest and the largest. The time
//! between two events includes what a launch costs, which small inputs are ruled by.

use serde::Serialize;

use crate::{
    Data, Result, Stream,
    device::{Allocation, Event},
    reduction::{Outcome, Reduction},
};

/// How to time.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Runs that are timed.
    pub iterations: u32,
    /// Runs before those.
    pub warm_up: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { iterations: 20, warm_up: 3 }
    }
}

/// Times of the timed runs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// Half of the runs were faster.
    pub median: f64,
    /// The fastest run.
    pub min: f64,
    /// The slowest run.
    pub max: f64,
}

impl Timing {
    /// Median and extremes of the times of single runs, in microseconds. None without a run.
    pub fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let (min, max) = (*times.first()?, *times.last()?);
        let half = times.len() / 2;
        let median =
            if times.len() % 2 == 1 { times[half] } else { (times[half - 1] + times[half]) / 2.0 };
        Some(Self { median, min, max })
    }

    /// Bytes per second in units of 10^9, when the median run moved this many bytes.
    pub fn gigabytes_per_second(&self, bytes: u64) -> f64 {
        bytes as f64 / self.median / 1e3
    }
}

/// Copies of the input, each at its turn the one that was touched longest ago.
struct Rotation {
    memory: Allocation,
    stride: u64,
    slots: u64,
}

impl Rotation {
    fn new(reduction: &Reduction, data: &Data, options: Options) -> Result<Self> {
        let device = reduction.device();
        let (bytes, l2) = (data.as_bytes().len() as u64, device.info().l2_bytes);
        let stride = bytes.next_multiple_of(256).max(256);
        let runs = u64::from(options.iterations) + u64::from(options.warm_up);
        // Beyond three times the cache a slot has left it by the time it comes round again.
        let fits = (device.free_memory()? / 2 / stride).max(1);
        let slots = (3 * l2).div_ceil(stride).clamp(1, runs.max(1)).min(fits);
        let memory = device.allocate(slots * stride)?;
        for slot in 0..slots {
            memory.write(slot * stride, data.as_bytes())?;
        }
        // The copies have just gone through the cache: push them out.
        let flush = device.allocate(2 * l2)?;
        flush.fill(0, 0, 2 * l2)?;
        Ok(Self { memory, stride, slots })
    }

    fn address(&self, run: u32) -> u64 {
        self.memory.address() + u64::from(run) % self.slots * self.stride
    }
}

/// Times a reduction of `data`. None on the simulator, whose times would say nothing of a GPU's.
/// The outcome is the last run's, to be checked like any other.
///
/// # Errors
/// Those of [`Reduction::run`].
pub fn measure(
    reduction: &Reduction,
    data: &Data,
    options: Options,
) -> Result<Option<(Timing, Outcome)>> {
    let device = reduction.device();
    if device.event()?.is_none() || options.iterations == 0 {
        return Ok(None);
    }
    let rotation = Rotation::new(reduction, data, options)?;
    let stream = device.stream()?;
    let mut workspace = reduction.workspace()?;
    let times = timed_runs(reduction, &rotation, &stream, &mut workspace, options);
    // Whatever happened, nothing may run any more when the memory is freed.
    let waited = stream.synchronize();
    let pairs = times?;
    waited?;
    let times: Result<Vec<f64>> = pairs.iter().map(|(a, b)| b.microseconds_since(a)).collect();
    let outcome = workspace.collect(reduction.request().dtype, None)?;
    Ok(Timing::of(times?).map(|timing| (timing, outcome)))
}

fn timed_runs(
    reduction: &Reduction,
    rotation: &Rotation,
    stream: &Stream,
    workspace: &mut crate::Workspace,
    options: Options,
) -> Result<Vec<(Event, Event)>> {
    let event = || Ok(reduction.device().event()?.expect("checked: a GPU has events"));
    let pairs: Result<Vec<_>> = (0..options.iterations).map(|_| Ok((event()?, event()?))).collect();
    let pairs = pairs?;
    let run = |index: u32, workspace: &mut crate::Workspace| {
        // SAFETY: every slot of the rotation holds the elements; `measure` waits for the stream
        // before it lets go of rotation and workspace, and runs on one stream follow each other.
        unsafe { reduction.launch(stream, rotation.address(index), workspace) }
    };
    for index in 0..options.warm_up {
        run(index, workspace)?;
    }
    for (index, (start, end)) in (options.warm_up..).zip(&pairs) {
        start.record(stream)?;
        run(index, workspace)?;
        end.record(stream)?;
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = Timing::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(Timing::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Timing::of(Vec::new()), None);
    }

    #[test]
    fn bandwidth_is_bytes_over_the_median() {
        let timing = Timing { median: 10.0, min: 1.0, max: 100.0 };
        assert_eq!(timing.gigabytes_per_second(40_000_000), 4000.0);
    }
}
