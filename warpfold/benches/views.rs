//! The cost of reductions along any axes of views: sums of f32, left in device memory.
//!
//! `views [NAME ...] [LOG2 ...]`: views by name, of 2^LOG2 elements; by default all of them, of 2^28 and
//! 2^20. Runs on a GPU, or, with `DEVICE=sim`, in the simulator with views of 2^13 elements and
//! meaningless times. Prints a line of JSON per view: its shape, strides and reduced axes, the launch if
//! a view kernel is used, microseconds per reduction in a sequence of enqueued reductions, and bytes of
//! elements and results per second, each as the median of the rounds with its quartiles. Only reduced
//! elements are counted, not the gaps between them. Inputs rotate, so that none is in the L2 cache.
//! Times are from the host's clock; below a few microseconds they are those of the calls.

mod common;

use std::{env, error::Error, time::Instant};

use warpfold::{Buffer, Device, Outputs, Reducer, Stream, View, internal::view_launch, op};

use common::{is_simulated, rotation, spread};

const ROUNDS: usize = 11;

/// The shape, strides and reduced axes of a view with a given number of elements.
type Case = fn(usize) -> (Vec<usize>, Vec<isize>, &'static [usize]);

/// Returns the left part of a matrix that is a quarter wider than the part.
fn part(n: usize, width: usize, axes: &'static [usize]) -> (Vec<usize>, Vec<isize>, &'static [usize]) {
    (vec![n / width, width], vec![(width + width / 4) as isize, 1], axes)
}

/// Returns a three-dimensional array with its axes reversed; its contiguous axis has 1024 positions and
/// its middle one 512, if there are enough elements.
fn turned(n: usize, axes: &'static [usize]) -> (Vec<usize>, Vec<isize>, &'static [usize]) {
    let (inner, middle) = (1024.min(n / 64), 512.min(n / 512));
    let outer = n / (inner * middle);
    (vec![inner, middle, outer], vec![1, inner as isize, (inner * middle) as isize], axes)
}

/// Returns rows that consist of every second element.
fn stepped(n: usize, axes: &'static [usize]) -> (Vec<usize>, Vec<isize>, &'static [usize]) {
    let len = 4096.min(n / 4);
    (vec![n / len, len], vec![2 * len as isize, 2], axes)
}

const CASES: &[(&str, Case)] = &[
    ("all", |n| (vec![n], vec![1], &[0])),
    ("first_and_last", |n| {
        let (first, last) = (64.min(n / 1024), 1024.min(n / 64));
        let middle = n / (first * last);
        (vec![first, middle, last], vec![(middle * last) as isize, last as isize, 1], &[0, 2])
    }),
    ("first_and_last_odd", |n| {
        let (first, last) = (64.min(n / 1024), 1001.min(n / 64));
        let middle = n / (first * last);
        (vec![first, middle, last], vec![(middle * last) as isize, last as isize, 1], &[0, 2])
    }),
    ("rows_of_part", |n| part(n, 4096.min(n / 4), &[1])),
    ("short_rows_of_part", |n| part(n, 64, &[1])),
    ("columns_of_part", |n| part(n, 4096.min(n / 4), &[0])),
    ("narrow_columns_of_part", |n| part(n, 64, &[0])),
    ("all_of_part", |n| part(n, 4096.min(n / 4), &[0, 1])),
    ("turned_0", |n| turned(n, &[0])),
    ("turned_1", |n| turned(n, &[1])),
    ("turned_2", |n| turned(n, &[2])),
    ("turned_0_2", |n| turned(n, &[0, 2])),
    ("stepped_rows", |n| stepped(n, &[1])),
    ("stepped_columns", |n| stepped(n, &[0])),
];

fn value_at(index: usize) -> f32 {
    (index % 4) as f32
}

fn reference(view: &View<'_, f32>, axes: &[usize]) -> Vec<f64> {
    let places = |reduced: bool| -> Vec<usize> {
        let chosen = (0..view.shape().len()).filter(|axis| axes.contains(axis) == reduced);
        chosen.fold(vec![view.offset()], |at, axis| {
            let along = |place: &usize| {
                let (place, stride) = (*place, view.strides()[axis]);
                (0..view.shape()[axis]).map(move |position| place + position * stride)
            };
            at.iter().flat_map(along).collect()
        })
    };
    let (kept, reduced) = (places(false), places(true));
    let sum = |first: &usize| reduced.iter().map(|at| f64::from(value_at(first + at))).sum();
    kept.iter().map(sum).collect()
}

struct Contest<'a> {
    reducer: &'a Reducer,
    stream: Stream,
    views: Vec<View<'a, f32>>,
    axes: &'static [usize],
    sums: Outputs<f32>,
    runs: usize,
}

impl Contest<'_> {
    /// Returns the microseconds per reduction.
    fn round(&mut self) -> warpfold::Result<f64> {
        let on = self.reducer.on(&self.stream);
        let start = Instant::now();
        for run in 0..self.runs {
            let view = &self.views[run % self.views.len()];
            on.reduce_into(op::Sum, view.along(self.axes)?, &mut self.sums)?;
        }
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.runs as f64)
    }

    fn is_right(&self) -> warpfold::Result<bool> {
        let expected = reference(&self.views[0], self.axes);
        let close = |(sum, expected): (f32, f64)| (f64::from(sum) - expected).abs() <= expected * 1e-5;
        Ok(self.sums.read()?.into_iter().zip(expected).all(close))
    }
}

fn measure(
    reducer: &Reducer,
    buffers: &[Buffer<f32>],
    n: usize,
    (name, case): (&str, Case),
) -> Result<(), Box<dyn Error>> {
    let (device, (shape, strides, axes)) = (reducer.device(), case(n));
    let views = buffers.iter().map(|buffer| buffer.view_strided(0, &shape, &strides));
    let views = views.collect::<Result<Vec<_>, _>>()?;
    let (view, runs) = (views[0], rotation(device, 4 * n).1);
    let results = view.along(axes)?.count();
    let (stream, sums) = (device.stream()?, device.outputs(results)?);
    let mut contest = Contest { reducer, stream, views, axes, sums, runs };
    let (mut times, mut rates) = (vec![], vec![]);
    let rounds = if device.info().simulated { 1 } else { ROUNDS };
    for round in 0..=rounds {
        let time = contest.round()?;
        if round == 0 && !contest.is_right()? {
            return Err(format!("{name} of 2^{} elements is wrong", n.ilog2()).into());
        }
        // The first round loads the kernels.
        if round > 0 {
            times.push(time);
            rates.push(4.0 * (view.len() + results) as f64 / time / 1e3);
        }
    }
    let launch = view_launch(&view, axes)?.map(|launch| format!("{launch:?}"));
    println!(
        "{{\"device\":\"{}\",\"view\":\"{name}\",\"shape\":{shape:?},\"strides\":{strides:?},\
         \"axes\":{axes:?},\"launch\":\"{}\",\"us\":{},\"gb_per_s\":{}}}",
        device.info().name,
        launch.as_deref().unwrap_or("rows or an axis"),
        spread(times),
        spread(rates),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(device) = common::open()? else { return Ok(()) };
    let given: Vec<String> = env::args().skip(1).filter(|given| !given.starts_with("--")).collect();
    let (mut sizes, mut names) = (vec![], vec![]);
    for given in &given {
        match given.parse::<u32>() {
            Ok(log2 @ 13..=28) => sizes.push(log2),
            _ if CASES.iter().any(|(name, _)| name == given) => names.push(given.as_str()),
            _ => return Err(format!("`{given}` is neither a view's name nor 13 to 28").into()),
        }
    }
    if sizes.is_empty() {
        sizes = if is_simulated() { vec![13] } else { vec![28, 20] };
    }
    let reducer = Reducer::new(&device)?;
    for log2 in sizes {
        let buffers = inputs(&device, 1 << log2)?;
        let wanted = CASES.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
        wanted.copied().try_for_each(|case| measure(&reducer, &buffers, 1 << log2, case))?;
    }
    Ok(())
}

/// Uploads the rotated inputs, with twice the elements of a view, because its strides reach that far.
fn inputs(device: &Device, n: usize) -> warpfold::Result<Vec<Buffer<f32>>> {
    let values: Vec<f32> = (0..2 * n).map(value_at).collect();
    (0..rotation(device, 4 * n).0).map(|_| device.upload(&values)).collect()
}
