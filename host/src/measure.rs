//! Timing on a GPU.
//!
//! Device events surround every run, and warm-up runs come first. Inputs are rotated, so that none is
//! still in the L2 cache when it is reused. The result is the median of many runs, with quartiles and
//! extremes. The time between two events includes the launch overhead, which dominates for small inputs.
//!
//! This module times one kernel. `contest` of the package `warpfold-measure` alternates several, with
//! the same events and rotated inputs.

mod clock;
mod rotation;
mod spread;

use std::time::Instant;

use crate::{Data, Device, Kind, Result, Stream, Value, reduction::Reduction, reference::POISON};

pub use clock::time_runs;
pub use rotation::{Rotation, Slot};
pub use spread::Spread;

pub const MAX_ITERATIONS: u32 = 1_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub iterations: u32,
    pub warm_up: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { iterations: 20, warm_up: 3 }
    }
}

/// Returns the offset of a run's output from the address of its input.
pub(crate) fn slot_offset(input: &[u8]) -> u64 {
    rotation::room_offset(input.len() as u64)
}

/// Times runs on rotated inputs; `None` on the simulator, whose times say nothing about a GPU. `run`
/// enqueues one run on a stream. Its input, at the given address, is followed by `room` writable bytes
/// at [`slot_offset`]. The stream is idle when this returns, even after an error.
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

/// Times launches of a caller's kernel, which reads `input` and writes up to `room` bytes; `None` on the
/// simulator. `launch` enqueues one launch on the stream, with the addresses of input and output, which
/// are not in the L2 cache.
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

/// Times a reduction of `data`; `None` on the simulator. The returned value is that of the last run,
/// which the caller must check.
pub fn measure(reduction: &Reduction, data: &Data, options: Options) -> Result<Option<(Spread, Value)>> {
    let mut workspace = reduction.workspace()?;
    // Reused memory may already contain the correct result, which a failing kernel would leave there.
    workspace.poison(POISON)?;
    let run = |stream: &Stream, input| {
        // SAFETY: every slot of the rotation holds the elements. The stream is idle when `times`
        // returns, and runs on one stream use the workspace in order.
        unsafe { reduction.launch(stream, input, &mut workspace) }.map(drop)
    };
    let timing = times(reduction.device(), data.as_bytes(), 0, options, run)?;
    let Some(timing) = timing else { return Ok(None) };
    let value = workspace.value(reduction.request().dtype)?;
    Ok(Some((timing, value)))
}

/// Times runs by the host's clock, because they include host work. Warm-up runs are not timed.
pub(crate) fn host_times(
    options: Options,
    mut run: impl FnMut() -> Result<()>,
) -> Result<Option<Spread>> {
    let [spread] = host_times_in_turn(options, |_: usize| run())?;
    Ok(spread)
}

/// Times several runs, identified by index, in alternation. Clock rates and caches of the host drift,
/// and times are comparable only if the drift affects all of them alike.
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
    fn host_runs_alternate_and_warm_up_is_not_timed() {
        let options = Options { warm_up: 2, iterations: 3 };
        let mut order = Vec::new();
        let times = host_times_in_turn(options, |at| {
            order.push(at);
            // Only timed runs sleep: if a warm-up run were among the times, it would be the minimum.
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
