//! The cost of reductions by key: sums of f32 by u32 keys, over runs of equal keys from 1 key each to
//! 2^20, and over runs with lengths by Zipf's law.
//!
//! `by_key [KEYSxMEAN | KEYSxMEANz ...]`, where `z` means Zipf's lengths. Runs on a GPU, or, with
//! `DEVICE=sim`, in the simulator with small default shapes and meaningless times. Prints a line of JSON
//! per shape; each figure is the median of the rounds with its quartiles: microseconds of a call that
//! allocates its results, of one into existing outputs, and of the search for runs alone; and, for a
//! call into existing outputs, bytes per second of keys, values and results. Calls wait for completion,
//! one after the other, and are timed by the host's clock. Inputs rotate, so that none is in the L2
//! cache.

mod common;
mod pieces;

use std::{env, error::Error, time::Instant};

use warpfold::{Buffer, Outputs, Reducer, op};

use common::{is_simulated, rotation, spread};
use pieces::{is_sum, value_at, zipf};

const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
struct Shape {
    keys: usize,
    mean: usize,
    ragged: bool,
}

fn shapes(simulated: bool) -> Vec<Shape> {
    let sizes: &[usize] = if simulated { &[1 << 13] } else { &[1 << 16, 1 << 20, 1 << 24, 1 << 28] };
    let of = |keys: usize| {
        let means = [1, 4, 32, 1024, 1 << 20].into_iter().filter(move |&mean| mean <= keys);
        let equal = means.map(move |mean| Shape { keys, mean, ragged: false });
        equal.chain([Shape { keys, mean: 256, ragged: true }])
    };
    sizes.iter().flat_map(|&keys| of(keys)).collect()
}

impl Shape {
    fn offsets(self) -> Vec<u32> {
        let Self { keys, mean, ragged } = self;
        if !ragged {
            return (0..=keys / mean).map(|run| (run * mean) as u32).collect();
        }
        // The shortest of Zipf's lengths may round to zero.
        let mut offsets = zipf(keys / mean, keys);
        offsets.dedup();
        offsets
    }
}

struct Contest<'a> {
    reducer: &'a Reducer,
    inputs: Vec<(Buffer<u32>, Buffer<f32>)>,
    calls: usize,
    offsets: Vec<u32>,
    of: Outputs<u32>,
    sums: Outputs<f32>,
}

#[derive(Clone, Copy)]
enum Call {
    New,
    Into,
    Runs,
}

impl<'a> Contest<'a> {
    fn new(reducer: &'a Reducer, shape: Shape) -> warpfold::Result<Self> {
        let (device, offsets) = (reducer.device(), shape.offsets());
        let (copies, calls) = rotation(device, 8 * shape.keys);
        let lens = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let keys: Vec<u32> =
            (0..).zip(lens).flat_map(|(key, len)| std::iter::repeat_n(key, len)).collect();
        let values: Vec<f32> = (0..shape.keys).map(value_at).collect();
        let input = |_| Ok((device.upload(&keys)?, device.upload(&values)?));
        let inputs = (0..copies).map(input).collect::<warpfold::Result<_>>()?;
        let (of, sums) = (device.outputs(offsets.len() - 1)?, device.outputs(offsets.len() - 1)?);
        Ok(Self { reducer, inputs, calls, offsets, of, sums })
    }

    /// Returns the microseconds per call.
    fn round(&mut self, call: Call) -> warpfold::Result<f64> {
        let start = Instant::now();
        for turn in 0..self.calls {
            let (keys, values) = &self.inputs[turn % self.inputs.len()];
            match call {
                Call::New => drop(self.reducer.reduce(op::Sum, values.by_key(keys))?),
                Call::Into => {
                    let (of, sums) = (&mut self.of, &mut self.sums);
                    self.reducer.reduce(op::Sum, values.by_key(keys).into_outputs(of, sums))?;
                }
                Call::Runs => drop(self.reducer.runs::<_, u32>(keys)?),
            }
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.calls as f64)
    }

    fn is_right(&self) -> warpfold::Result<bool> {
        let keys = self.of.read()?.into_iter().eq(0..self.offsets.len() as u32 - 1);
        let mut sums = self.sums.read()?.into_iter().zip(self.offsets.windows(2));
        Ok(keys && sums.all(|(sum, ends)| is_sum(sum, [ends[0] as usize, ends[1] as usize])))
    }
}

fn measure(reducer: &Reducer, shape: Shape) -> Result<(), Box<dyn Error>> {
    let mut contest = Contest::new(reducer, shape)?;
    let rounds = if reducer.device().info().simulated { 1 } else { ROUNDS };
    let mut times = [Call::New, Call::Into, Call::Runs].map(|call| (call, Vec::new()));
    let Shape { keys, mean, ragged } = shape;
    for round in 0..=rounds {
        for (call, times) in &mut times {
            let time = contest.round(*call)?;
            // The first round loads the kernels.
            if round > 0 {
                times.push(time);
            }
        }
        if (round == 0 || round == rounds) && !contest.is_right()? {
            return Err(format!("{keys} keys in runs of {mean} are reduced wrong").into());
        }
    }
    let [new, into, runs] = times.map(|(_, times)| times);
    let count = contest.sums.len();
    let rates = into.iter().map(|time| (8 * keys + 8 * count) as f64 / time / 1e3).collect();
    println!(
        "{{\"device\":\"{}\",\"keys\":{keys},\"runs\":{count},\"ragged\":{ragged},\"us\":{},\
         \"into_us\":{},\"runs_us\":{},\"gb_per_s\":{}}}",
        reducer.device().info().name,
        spread(new),
        spread(into),
        spread(runs),
        spread(rates),
    );
    Ok(())
}

/// Parses the shapes, without the flags that `cargo bench` adds.
fn arguments() -> Result<Vec<Shape>, Box<dyn Error>> {
    let given = env::args().skip(1).filter(|given| !given.starts_with("--"));
    let shape = |given: String| {
        let (keys, mean) = given.split_once('x').ok_or(format!("`{given}` is not KEYSxMEAN[z]"))?;
        let (ragged, mean) = (mean.ends_with('z'), mean.trim_end_matches('z'));
        Ok(Shape { keys: keys.parse()?, mean: mean.parse()?, ragged })
    };
    given.map(shape).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut wanted = arguments()?;
    let Some(device) = common::open()? else { return Ok(()) };
    if wanted.is_empty() {
        wanted = shapes(is_simulated());
    }
    let reducer = Reducer::new(&device)?;
    wanted.into_iter().try_for_each(|shape| measure(&reducer, shape))
}
