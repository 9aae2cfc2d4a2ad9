//! The cost of segmented reductions of f32 by 32-bit offsets in device memory, over lengths from 4 to
//! 2^28, equal and ragged, with results left in device memory.
//!
//! `segments [sum | argmax ...] [SEGMENTSxMEAN | SEGMENTSxMEANz ...]`, where `z` means lengths by Zipf's
//! law (the k-th longest is a k-th of the longest), shuffled. Runs on a GPU, or, with `DEVICE=sim`, in
//! the simulator with small default shapes and meaningless times. Prints a line of JSON per operation
//! and shape: microseconds per reduction in a sequence of enqueued reductions; bytes of elements,
//! results and, if lengths differ, offsets per second; each as the median of the rounds with its
//! quartiles; and microseconds of the check of the offsets before the first reduction. Inputs rotate, so
//! that none is in the L2 cache. Times are from the host's clock; below a few microseconds they are
//! those of the calls.

mod common;
mod pieces;

use std::{env, error::Error, time::Instant};

use warpfold::{Buffer, Device, Located, Outputs, Reducer, Segments, Stream, op};

use common::{is_simulated, rotation, spread};
use pieces::{is_sum, value_at, zipf};

const ROUNDS: usize = 11;

#[derive(Clone, Copy)]
struct Shape {
    count: usize,
    mean: usize,
    ragged: bool,
}

fn shapes(simulated: bool) -> Vec<Shape> {
    let of = |total: usize, mean: usize, ragged| Shape { count: total / mean, mean, ragged };
    if simulated {
        return [4, 64, 4096].map(|mean| [of(1 << 13, mean, false), of(1 << 13, mean, true)]).concat();
    }
    let means = [1 << 28, 1 << 24, 1 << 20, 65_536, 4096, 1024, 256, 64, 32, 16, 4];
    let mut shapes = means.map(|mean| of(1 << 28, mean, false)).to_vec();
    shapes.extend([4096, 256, 16].map(|mean| of(1 << 28, mean, true)));
    for total in [1 << 16, 1 << 20, 1 << 24] {
        let means = [65_536, 4096, 256, 16].into_iter();
        shapes.extend(means.flat_map(|mean| [of(total, mean, false), of(total, mean, true)]));
    }
    shapes
}

impl Shape {
    fn elements(self) -> usize {
        self.count * self.mean
    }

    fn offsets(self) -> Vec<u32> {
        let Self { count, mean, ragged } = self;
        if ragged {
            zipf(count, self.elements())
        } else {
            (0..=count).map(|at| (at * mean) as u32).collect()
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum OpKind {
    Sum,
    ArgMax,
}

impl OpKind {
    fn name(self) -> &'static str {
        if self == Self::Sum { "sum" } else { "argmax" }
    }
}

struct Inputs {
    buffers: Vec<Buffer<f32>>,
    runs: usize,
}

impl Inputs {
    fn new(device: &Device, n: usize) -> warpfold::Result<Self> {
        let (copies, runs) = rotation(device, 4 * n);
        let values: Vec<f32> = (0..n).map(value_at).collect();
        let buffers = (0..copies).map(|_| device.upload(&values)).collect::<Result<_, _>>()?;
        Ok(Self { buffers, runs })
    }
}

struct Contest<'a> {
    reducer: &'a Reducer,
    stream: Stream,
    offsets: Vec<u32>,
    segments: Vec<Segments<f32>>,
    op: OpKind,
    sums: Outputs<f32>,
    places: Outputs<Located<f32>>,
    runs: usize,
    check: f64,
}

impl<'a> Contest<'a> {
    fn new(reducer: &'a Reducer, inputs: &Inputs, op: OpKind, shape: Shape) -> warpfold::Result<Self> {
        let (device, offsets) = (reducer.device(), shape.offsets());
        let given = inputs.buffers.iter().map(|_| device.upload(&offsets));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let both = inputs.buffers.iter().zip(&given);
        let mut check = 0.0;
        let segments = both.map(|(values, offsets)| {
            let start = Instant::now();
            let segments = reducer.segments(values, offsets);
            // Keeps the last time, because the first check loads the kernel.
            check = start.elapsed().as_secs_f64() * 1e6;
            segments
        });
        let segments = segments.collect::<Result<_, _>>()?;
        let of = |wanted: OpKind| if op == wanted { shape.count } else { 0 };
        Ok(Self {
            stream: device.stream()?,
            offsets,
            segments,
            op,
            sums: device.outputs(of(OpKind::Sum))?,
            places: device.outputs(of(OpKind::ArgMax))?,
            runs: inputs.runs,
            check,
            reducer,
        })
    }

    /// Returns the microseconds per reduction.
    fn round(&mut self) -> warpfold::Result<f64> {
        let on = self.reducer.on(&self.stream);
        let start = Instant::now();
        for run in 0..self.runs {
            let segments = &self.segments[run % self.segments.len()];
            match self.op {
                OpKind::Sum => on.reduce_into(op::Sum, segments, &mut self.sums)?,
                OpKind::ArgMax => on.reduce_into(op::ArgMax, segments, &mut self.places)?,
            }
        }
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.runs as f64)
    }

    fn is_right(&self) -> warpfold::Result<bool> {
        let segments = || self.offsets.windows(2).map(|ends| (ends[0] as usize, ends[1] as usize));
        Ok(match self.op {
            OpKind::Sum => {
                let mut sums = self.sums.read()?.into_iter().zip(segments());
                sums.all(|(sum, (begin, end))| is_sum(sum, [begin, end]))
            }
            OpKind::ArgMax => {
                self.places.read()?.into_iter().zip(segments()).all(|(place, (begin, end))| {
                    let largest = (begin..end.min(begin + 4)).max_by_key(|index| index % 4);
                    let index = largest.map_or(u64::MAX, |index| (index - begin) as u64);
                    place.index == index && largest.is_none_or(|index| place.value == value_at(index))
                })
            }
        })
    }

    /// Returns the bytes of elements and results, and of offsets unless lengths are equal: segments of
    /// equal length are reduced as rows, without reading offsets.
    fn bytes(&self, ragged: bool) -> f64 {
        let written = 4 * self.sums.len() + 16 * self.places.len();
        let elements = self.segments[0].elements() as usize;
        let offsets = if ragged { 4 * self.offsets.len() } else { 0 };
        (4 * elements + offsets + written) as f64
    }
}

fn measure(reducer: &Reducer, inputs: &Inputs, op: OpKind, shape: Shape) -> Result<(), Box<dyn Error>> {
    let mut contest = Contest::new(reducer, inputs, op, shape)?;
    let (mut times, mut rates) = (vec![], vec![]);
    let rounds = if reducer.device().info().simulated { 1 } else { ROUNDS };
    let Shape { count, mean, ragged } = shape;
    for round in 0..=rounds {
        let time = contest.round()?;
        if (round == 0 || round == rounds) && !contest.is_right()? {
            return Err(format!("{} of {count} segments of {mean} is wrong", op.name()).into());
        }
        // The first round loads the kernels.
        if round > 0 {
            times.push(time);
            rates.push(contest.bytes(shape.ragged) / time / 1e3);
        }
    }
    println!(
        "{{\"device\":\"{}\",\"op\":\"{}\",\"segments\":{count},\"mean\":{mean},\"ragged\":{ragged},\
         \"us\":{},\"gb_per_s\":{},\"check_us\":{:.1}}}",
        reducer.device().info().name,
        op.name(),
        spread(times),
        spread(rates),
        contest.check,
    );
    Ok(())
}

/// Parses the operations and shapes, without the flags that `cargo bench` adds.
fn arguments() -> Result<(Vec<OpKind>, Vec<Shape>), Box<dyn Error>> {
    let (mut ops, mut shapes) = (Vec::new(), Vec::new());
    for given in env::args().skip(1).filter(|given| !given.starts_with("--")) {
        match (given.as_str(), given.split_once('x')) {
            ("sum", _) => ops.push(OpKind::Sum),
            ("argmax", _) => ops.push(OpKind::ArgMax),
            (_, Some((count, mean))) => {
                let ragged = mean.ends_with('z');
                let mean = mean.trim_end_matches('z').parse()?;
                shapes.push(Shape { count: count.parse()?, mean, ragged });
            }
            _ => return Err(format!("`{given}` is neither sum, argmax nor SEGMENTSxMEAN[z]").into()),
        }
    }
    if ops.is_empty() {
        ops.push(OpKind::Sum);
    }
    Ok((ops, shapes))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (ops, mut wanted) = arguments()?;
    let Some(device) = common::open()? else { return Ok(()) };
    if wanted.is_empty() {
        wanted = shapes(is_simulated());
    }
    let reducer = Reducer::new(&device)?;
    let mut inputs: Option<(usize, Inputs)> = None;
    for shape in wanted {
        let n = shape.elements();
        if inputs.as_ref().is_none_or(|(of, _)| *of != n) {
            // Frees the previous inputs' memory first.
            drop(inputs.take());
            inputs = Some((n, Inputs::new(&device, n)?));
        }
        let (_, inputs) = inputs.as_ref().expect("they were made above");
        for &op in &ops {
            measure(&reducer, inputs, op, shape)?;
        }
    }
    Ok(())
}
