//! The cost of sums over the elements of several devices, relative to the sum of one device's part.
//!
//! `group [LOG2 ...]`: 2^`LOG2` elements of f32 on each device. Runs on all GPUs, or, with `DEVICE=sim`,
//! in the simulator with `WARPFOLD_SIM_DEVICES` devices, small buffers and meaningless times. Prints a
//! line of JSON for each number of devices, transport of the group and size; each figure is the median
//! of the rounds with its quartiles: microseconds of a call that waits for the result (`us`) and of one
//! in a sequence of enqueued calls that leaves it on every device (`into_us`); `alone_us` and
//! `alone_into_us` are those of a reducer of the first device on its own part, in turn with the group's;
//! `recorded_us`, for peers only, is that of one of 64 reductions in a recording. The bytes read per
//! second by all devices are from `into_us`. Inputs rotate, so that none is in the L2 cache. Times are
//! from the host's clock.

mod common;

use std::{env, error::Error, time::Instant};

use warpfold::{
    Buffer, Device, Group, GroupOutputs, Output, Reducer, Selection, Sharded, Stream, Way, op,
};

use common::{is_simulated, rotation, spread};

const ROUNDS: usize = 11;
const RECORDED: usize = 64;

/// The sum of four neighbouring elements; the value of each is its index modulo 4.
const OF_FOUR: f32 = 6.0;

struct Contest<'g> {
    group: &'g Group,
    /// Elements per device.
    n: usize,
    inputs: Vec<Sharded<f32>>,
    outputs: GroupOutputs<f32>,
    stream: Stream,
    output: Output<f32>,
}

#[derive(Default)]
struct Times {
    group: Vec<f64>,
    group_into: Vec<f64>,
    alone: Vec<f64>,
    alone_into: Vec<f64>,
    recorded: Vec<f64>,
}

impl Contest<'_> {
    fn first(&self) -> &Reducer {
        self.group.reducers().next().expect("a group has a device")
    }

    fn part(&self, input: usize) -> &Buffer<f32> {
        &self.inputs[input].parts()[0]
    }

    /// Returns the mean microseconds per call, [`settle`](Self::settle) included.
    fn timed(
        &mut self,
        runs: usize,
        mut call: impl FnMut(&mut Self, usize) -> warpfold::Result<()>,
    ) -> warpfold::Result<f64> {
        let start = Instant::now();
        for run in 0..runs {
            let input = run % self.inputs.len();
            call(self, input)?;
        }
        self.settle()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / runs as f64)
    }

    fn settle(&self) -> warpfold::Result<()> {
        self.stream.synchronize()?;
        self.outputs.each().iter().try_for_each(|output| output.read().map(drop))
    }

    fn round(&mut self, runs: usize, times: &mut Times) -> warpfold::Result<()> {
        let group = self.group.clone();
        let all = OF_FOUR / 4.0 * self.n as f32 * group.reducers().len() as f32;
        let alone = OF_FOUR / 4.0 * self.n as f32;
        times.group.push(self.timed(runs, |contest, input| {
            assert_eq!(group.reduce(op::Sum, &contest.inputs[input])?, all);
            Ok(())
        })?);
        times.alone.push(self.timed(runs, |contest, input| {
            assert_eq!(contest.first().reduce(op::Sum, contest.part(input))?, alone);
            Ok(())
        })?);
        times.group_into.push(self.timed(runs, |contest, input| {
            group.reduce_into(op::Sum, &contest.inputs[input], &mut contest.outputs)
        })?);
        times.alone_into.push(self.timed(runs, |contest, input| {
            let Contest { inputs, stream, output, .. } = contest;
            let first = group.reducers().next().expect("a group has a device");
            first.on(stream).reduce_into(op::Sum, &inputs[input].parts()[0], output)
        })?);
        for output in self.outputs.each() {
            assert_eq!(output.read()?, all, "left on {:?}", output.device());
        }
        assert_eq!(self.output.read()?, alone);
        Ok(())
    }
}

fn contest(group: &Group, n: usize) -> Result<(), Box<dyn Error>> {
    let devices: Vec<&Device> = group.reducers().map(Reducer::device).collect();
    let (inputs, runs) = rotation(devices[0], n * size_of::<f32>());
    let values: Vec<f32> = (0..n).map(|at| (at % 4) as f32).collect();
    let upload = |_| {
        let parts = devices.iter().map(|device| device.upload(&values)).collect::<Result<_, _>>()?;
        group.sharded(parts)
    };
    let mut contest = Contest {
        group,
        n,
        inputs: (0..inputs).map(upload).collect::<Result<_, _>>()?,
        outputs: group.outputs()?,
        stream: devices[0].stream()?,
        output: devices[0].output()?,
    };
    let mut times = Times::default();
    // The first round loads the kernels.
    contest.round(2, &mut Times::default())?;
    for _ in 0..ROUNDS {
        contest.round(runs, &mut times)?;
    }
    if group.way() == Way::Peers {
        let inputs: Vec<_> = contest.inputs.iter().cycle().take(RECORDED).collect();
        let mut recording = group.record(op::Sum, &inputs)?;
        for round in 0..=ROUNDS {
            let start = Instant::now();
            recording.run()?;
            // The first run uploads the graph to the devices.
            if round > 0 {
                times.recorded.push(start.elapsed().as_secs_f64() * 1e6 / RECORDED as f64);
            }
        }
    }
    let Times { group: waited, group_into, alone, alone_into, recorded } = times;
    let bytes = (n * size_of::<f32>() * devices.len()) as f64;
    let rates = group_into.iter().map(|us| bytes / us / 1e3).collect();
    let recorded = match recorded.is_empty() {
        true => String::new(),
        false => format!("\"recorded_us\":{},", spread(recorded)),
    };
    println!(
        "{{\"device\":\"{}\",\"devices\":{},\"way\":\"{:?}\",\"n\":{n},\"us\":{},\"into_us\":{},\
         \"alone_us\":{},\"alone_into_us\":{},{recorded}\"gb_per_s\":{}}}",
        devices[0].info().name,
        devices.len(),
        group.way(),
        spread(waited),
        spread(group_into),
        spread(alone),
        spread(alone_into),
        spread(rates),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(first) = common::open()? else { return Ok(()) };
    let mut sizes = Vec::new();
    for given in env::args().skip(1).filter(|given| !given.starts_with("--")) {
        match given.parse::<u32>() {
            Ok(log2 @ 2..=32) => sizes.push(log2),
            _ => return Err(format!("`{given}` is not 2 to 32").into()),
        }
    }
    if sizes.is_empty() {
        sizes = if is_simulated() { vec![10] } else { vec![10, 16, 20, 24, 28, 30] };
    }
    let mut reducers = vec![Reducer::new(&first)?];
    let of = |ordinal| match is_simulated() {
        true => Selection::SimOrdinal(ordinal),
        false => Selection::CudaOrdinal(ordinal),
    };
    // The first ordinal that cannot be opened ends the list.
    while let Ok(device) = Device::open(of(reducers.len() as u32)) {
        reducers.push(Reducer::new(&device)?);
    }
    let counts = [1, 2, 4, 8].into_iter().filter(|count| *count <= reducers.len());
    for count in counts {
        for way in [Way::Peers, Way::Nccl, Way::Copies] {
            let Ok(group) = Group::by(way, &reducers[..count]) else { continue };
            sizes.iter().try_for_each(|log2| contest(&group, 1 << log2))?;
        }
    }
    Ok(())
}
