//! How long things take on a GPU.
//!
//! Device events around every run; warm-up runs first; inputs rotated so that none is still in the L2
//! cache when its turn comes; the median of many runs, with the quartiles, the smallest and the largest.
//! The time between two events includes what a launch costs, which small inputs are ruled by. Here one
//! thing is timed; the package `warpfold-bench` lets several take turns, by the same events and rotated
//! inputs.

mod clock;
mod rotation;
mod spread;

use std::time::Instant;

use crate::{Data, Device, Kind, Result, Stream, Value, reduction::Reduction, reference::POISON};

pub use clock::time_runs;
pub use rotation::{Rotation, Slot};
pub use spread::Spread;

/// Runs that are timed, at most.
pub const MAX_ITERATIONS: u32 = 1_000_000;

/// How the runs are timed.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Runs that are timed.
    pub iterations: u32,
    /// Runs before those, which warm up.
    pub warm_up: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { iterations: 20, warm_up: 3 }
    }
}

/// Where the room begins that a run may write, counted from its address.
pub(crate) fn slot_offset(input: &[u8]) -> u64 {
    rotation::room_offset(input.len() as u64)
}

/// Times the runs of one thing on inputs in turn; none on the simulator, whose times would say nothing
/// of a GPU's. `run` enqueues one run on a stream and is given the address of its input, behind which
/// there are `room` bytes to write at [`slot_offset`]. The stream is idle when this returns, whatever
/// happened.
pub(crate) fn times(
    device: &Device,
    input: &[u8],
    room: u64,
    options: Options,
    mut run: impl FnMut(&Stream, u64) -> Result<()>,
) -> Result<Option<Spread>> {
    if device.info().kind != Kind::Cuda || options.iterations == 0 {
        return Ok(None);
    }
    let runs = u64::from(options.iterations) + u64::from(options.warm_up);
    let rotation = Rotation::upload(device, input, room, runs)?;
    let stream = device.stream()?;
    let times = time_runs(
        &stream,
        runs as usize,
        || Ok(()),
        |index| run(&stream, rotation.slot(index as u64).input()),
    )?;
    Ok(Spread::of(times.into_iter().skip(options.warm_up as usize)))
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
) -> Result<Option<Spread>> {
    let offset = slot_offset(input);
    times(device, input, room, options, |stream, from| launch(stream, from, from + offset))
}

/// Times a reduction of `data`. None on the simulator. The value is the last run's, to be checked like
/// any other.
///
/// # Errors
/// Those of [`Reduction::run`].
pub fn measure(reduction: &Reduction, data: &Data, options: Options) -> Result<Option<(Spread, Value)>> {
    let mut workspace = reduction.workspace()?;
    // Memory that was just given back may come with the right result in it.
    workspace.poison(POISON)?;
    let run = |stream: &Stream, input| {
        // SAFETY: every slot of the rotation holds the elements; the stream is idle when `times`
        // returns, and runs on one stream follow each other.
        unsafe { reduction.launch(stream, input, &mut workspace) }.map(drop)
    };
    let timing = times(reduction.device(), data.as_bytes(), 0, options, run)?;
    let Some(timing) = timing else { return Ok(None) };
    let value = workspace.value(reduction.request().dtype)?;
    Ok(Some((timing, value)))
}

/// Times runs by the host's clock, after the warm-up: for what the host itself takes part in.
///
/// # Errors
/// Those of the run.
pub(crate) fn host_times(
    options: Options,
    mut run: impl FnMut() -> Result<()>,
) -> Result<Option<Spread>> {
    let [spread] = host_times_in_turn(options, |_: usize| run())?;
    Ok(spread)
}

/// Times several runs, which are called by their number and take turns: what the host takes part in
/// drifts with its clock and its caches, and parts of one whole are comparable only where they share the
/// drift.
///
/// # Errors
/// Those of the runs.
pub(crate) fn host_times_in_turn<const RUNS: usize>(
    options: Options,
    mut run: impl FnMut(usize) -> Result<()>,
) -> Result<[Option<Spread>; RUNS]> {
    let mut times = [const { Vec::new() }; RUNS];
    for round in 0..options.warm_up + options.iterations {
        for (at, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            run(at)?;
            if round >= options.warm_up {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    Ok(times.map(Spread::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_on_the_host_take_turns_and_the_first_rounds_are_not_timed() {
        let options = Options { warm_up: 2, iterations: 3 };
        let mut order = Vec::new();
        let times = host_times_in_turn(options, |at| {
            order.push(at);
            // Only what is timed sleeps: a first round among the times would be their least.
            if order.len() > 4 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Ok(())
        });
        let times: [Option<Spread>; 2] = times.unwrap();
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert!(times.iter().all(|spread| spread.unwrap().min >= 2e3), "{times:?}");
        let none = Options { iterations: 0, ..options };
        assert_eq!(host_times_in_turn(none, |_| Ok(())).unwrap(), [None]);
    }
}
