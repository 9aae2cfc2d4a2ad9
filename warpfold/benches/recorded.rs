//! The cost of a sum in a recording, for several reducers in one run. It shows whether the cost depends
//! on the addresses of a reducer's memory.
//!
//! `recorded [elements ...]` runs on a GPU, or, with `DEVICE=sim`, in the simulator with meaningless
//! times. Prints a line of JSON per reducer and number of `f32` elements: microseconds per sum, from the
//! difference between recordings of many and of few sums, which excludes the recording's own cost.
//! Reducers take turns. Inputs rotate, so that none is in the L2 cache.

mod common;

use std::{env, error::Error, time::Instant};

use common::{is_simulated, open, rotation, spread};
use warpfold::{Buffer, Reducer, op};

const ELEMENTS: [usize; 3] = [1 << 10, 1 << 16, 1 << 20];
const REDUCERS: usize = 12;
const ROUNDS: usize = 41;
const SUMS: [usize; 2] = [64, 576];

fn main() -> Result<(), Box<dyn Error>> {
    let Some(device) = open()? else { return Ok(()) };
    let given: Vec<usize> = env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (reducers, rounds) = if is_simulated() { (2, 1) } else { (REDUCERS, ROUNDS) };
    let stream = device.stream()?;
    for n in if given.is_empty() { ELEMENTS.to_vec() } else { given } {
        let (inputs, _) = rotation(&device, n * size_of::<f32>());
        let inputs: Vec<Buffer<f32>> =
            (0..inputs).map(|_| device.upload(&vec![1.0; n])).collect::<Result<_, _>>()?;
        let mut entrants = Vec::new();
        for _ in 0..reducers {
            let reducer = Reducer::new(&device)?;
            let mut recordings = Vec::new();
            for sums in SUMS {
                let sums = if is_simulated() { sums / 32 } else { sums };
                let mut recorder = reducer.record();
                let found: Vec<_> = (0..sums)
                    .map(|at| recorder.reduce(op::Sum, &inputs[at % inputs.len()]))
                    .collect::<Result<_, _>>()?;
                recordings.push((recorder.finish()?, found));
            }
            entrants.push((reducer, recordings, Vec::new()));
        }
        for round in 0..=rounds {
            for (_, recordings, times) in &mut entrants {
                let mut took = Vec::new();
                for (recording, found) in recordings {
                    let start = Instant::now();
                    let results = recording.launch(&stream)?.wait()?;
                    took.push(start.elapsed().as_secs_f64() * 1e6);
                    if found.iter().any(|sum| results.get(sum) != n as f32) {
                        return Err(format!("a sum of {n} ones is wrong").into());
                    }
                }
                // The first round loads the kernels.
                if round > 0 {
                    times.push((took[1] - took[0]) / (SUMS[1] - SUMS[0]) as f64);
                }
            }
        }
        for (at, (_, _, times)) in entrants.into_iter().enumerate() {
            println!(
                "{{\"device\":\"{}\",\"n\":{n},\"reducer\":{at},\"us\":{}}}",
                device.info().name,
                spread(times),
            );
        }
    }
    Ok(())
}
