//! How long things take on a GPU.
//!
//! Device events around every run; warm-up runs first; inputs rotated so that none is still in the
//! L2 cache when its turn comes; the median of many runs, with the smallest and the largest. The time
//! between two events includes what a launch costs, which small inputs are ruled by.

mod rotation;

use std::time::Instant;

use serde::Serialize;

use crate::{
    Data, Device, Kind, Result, Stream,
    device::Event,
    reduction::{Outcome, Reduction},
    reference::POISON,
};

pub use rotation::{Rotation, Slot};

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

/// Where the room begins that a run may write, counted from its address.
pub(crate) fn slot_offset(input: &[u8]) -> u64 {
    rotation::room_offset(input.len() as u64)
}

/// What is timed: enqueues one run on a stream, which reads its input at an address.
pub(crate) type Run<'r> = &'r mut dyn FnMut(&Stream, u64) -> Result<()>;

/// Times runs that take turns, A B C A B C, so that whatever drifts drifts for all. Gives for each of
/// them the microseconds of every timed run; none on the simulator, whose times would say nothing of a
/// GPU's. Each run finds `input` at its address and `room` bytes to write at [`slot_offset`] behind it.
/// The stream is idle when this returns, whatever happened.
pub(crate) fn times_in_turn(
    device: &Device,
    input: &[u8],
    room: u64,
    options: Options,
    runs: &mut [Run<'_>],
) -> Result<Option<Vec<Vec<f64>>>> {
    if device.info().kind != Kind::Cuda || options.iterations == 0 {
        return Ok(None);
    }
    let rounds = u64::from(options.iterations) + u64::from(options.warm_up);
    let rotation = Rotation::upload(device, input, room, rounds * runs.len() as u64)?;
    let stream = device.stream()?;
    let pairs = enqueue(&rotation, &stream, options, runs);
    // Whatever happened, nothing may run any more when the memory is freed.
    let waited = stream.synchronize();
    let pairs = pairs?;
    waited?;
    let microseconds = |(start, end): &(Event, Event)| end.microseconds_since(start);
    pairs.iter().map(|pairs| pairs.iter().map(microseconds).collect()).collect::<Result<_>>().map(Some)
}

/// The events before and after every timed run, by run.
fn enqueue(
    rotation: &Rotation,
    stream: &Stream,
    options: Options,
    runs: &mut [Run<'_>],
) -> Result<Vec<Vec<(Event, Event)>>> {
    let event = || Ok(stream.device().event()?.expect("checked: a GPU has events"));
    let pair = |_| Ok((event()?, event()?));
    // Made before anything runs, so that making them is not timed.
    let pairs = |_: &Run<'_>| (0..options.iterations).map(pair).collect::<Result<Vec<_>>>();
    let pairs: Vec<Vec<(Event, Event)>> = runs.iter().map(pairs).collect::<Result<_>>()?;
    let mut slot = 0..;
    let mut next = || rotation.slot(slot.next().expect("endless")).input();
    for _ in 0..options.warm_up {
        for run in runs.iter_mut() {
            run(stream, next())?;
        }
    }
    for round in 0..options.iterations as usize {
        for (run, pairs) in runs.iter_mut().zip(&pairs) {
            let (start, end) = &pairs[round];
            start.record(stream)?;
            run(stream, next())?;
            end.record(stream)?;
        }
    }
    Ok(pairs)
}

/// As [`times_in_turn`], of a single run.
pub(crate) fn times(
    device: &Device,
    input: &[u8],
    room: u64,
    options: Options,
    run: Run<'_>,
) -> Result<Option<Timing>> {
    let times = times_in_turn(device, input, room, options, &mut [run])?;
    Ok(times.and_then(|mut times| Timing::of(times.remove(0))))
}

/// Times launches of a kernel of the caller's, which reads `input` and writes up to `room` bytes.
/// `launch` enqueues one on the stream, with the address of the input and that of the room; each finds
/// copies that no cache still has. None on the simulator.
///
/// # Errors
/// Those of `launch`, [`Error::OutOfMemory`](crate::Error::OutOfMemory) and
/// [`Error::Driver`](crate::Error::Driver).
pub fn measure_launches(
    device: &Device,
    input: &[u8],
    room: u64,
    options: Options,
    mut launch: impl FnMut(&Stream, u64, u64) -> Result<()>,
) -> Result<Option<Timing>> {
    let offset = slot_offset(input);
    times(device, input, room, options, &mut |stream, from| launch(stream, from, from + offset))
}

/// Times a reduction of `data`. None on the simulator. The outcome is the last run's, to be checked
/// like any other.
///
/// # Errors
/// Those of [`Reduction::run`].
pub fn measure(
    reduction: &Reduction,
    data: &Data,
    options: Options,
) -> Result<Option<(Timing, Outcome)>> {
    let mut workspace = reduction.workspace()?;
    // Memory that was just given back may come with the right result in it.
    workspace.poison(POISON)?;
    let mut run = |stream: &Stream, input| {
        // SAFETY: every slot of the rotation holds the elements; the stream is idle when `times`
        // returns, and runs on one stream follow each other.
        unsafe { reduction.launch(stream, input, &mut workspace) }.map(drop)
    };
    let timing = times(reduction.device(), data.as_bytes(), 0, options, &mut run)?;
    let Some(timing) = timing else { return Ok(None) };
    let outcome = workspace.collect(reduction.request().dtype, None)?;
    Ok(Some((timing, outcome)))
}

/// Times runs by the host's clock, after the warm-up: for what the host itself takes part in.
///
/// # Errors
/// Those of the run.
pub(crate) fn host_times(
    options: Options,
    mut run: impl FnMut() -> Result<()>,
) -> Result<Option<Timing>> {
    for _ in 0..options.warm_up {
        run()?;
    }
    let timed = (0..options.iterations).map(|_| {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    });
    timed.collect::<Result<_>>().map(Timing::of)
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
