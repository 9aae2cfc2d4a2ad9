//! The speed of the CPU's operations on this machine, by one core and by all of them.
//!
//! `cpu`. Prints a line of JSON per type, operation and number of threads: gigabytes per second read
//! from an input far larger than the caches, as the median of the rounds.

use std::{error::Error, hint::black_box, thread::available_parallelism, time::Instant};

use rayon::ThreadPoolBuilder;
use warpfold::{
    Element, bf16, cpu, f16,
    op::{self, Operation},
};

const BYTES: usize = 256 << 20;
const ROUNDS: usize = 7;

fn measure<T: Element, O: Operation<T> + Sync>(
    threads: usize,
    (dtype, name): (&str, &str),
    op: O,
    values: &[T],
) -> Result<(), Box<dyn Error>> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut speeds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        pool.install(|| cpu::reduce(op, black_box(values)).map(|result| _ = black_box(result)))?;
        speeds.push(size_of_val(values) as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    speeds.sort_by(f64::total_cmp);
    let speed = speeds[ROUNDS / 2];
    println!(
        "{{\"dtype\":\"{dtype}\",\"op\":\"{name}\",\"threads\":{threads},\"gb_per_s\":{speed:.2}}}"
    );
    Ok(())
}

fn of_type<T: Element>(
    threads: usize,
    dtype: &str,
    of: impl Fn(usize) -> T,
) -> Result<(), Box<dyn Error>> {
    let values: Vec<T> = (0..BYTES / size_of::<T>()).map(of).collect();
    measure(threads, (dtype, "sum"), op::Sum, &values)?;
    measure(threads, (dtype, "sum everywhere"), op::Sum.reproducible(), &values)?;
    measure(threads, (dtype, "max"), op::Max, &values)?;
    measure(threads, (dtype, "arg max"), op::ArgMax, &values)?;
    measure(threads, (dtype, "mean and variance"), op::MeanAndVariance, &values)
}

fn main() -> Result<(), Box<dyn Error>> {
    let cores = available_parallelism()?.get();
    for threads in [1, cores] {
        of_type(threads, "f32", |at| (at % 1000) as f32 * 0.001 - 0.3)?;
        of_type(threads, "f64", |at| (at % 1000) as f64 * 0.001 - 0.3)?;
        of_type(threads, "f16", |at| f16::from_f64((at % 1000) as f64 * 0.001 - 0.3))?;
        of_type(threads, "bf16", |at| bf16::from_f64((at % 1000) as f64 * 0.001 - 0.3))?;
        of_type(threads, "i32", |at| at as i32)?;
        of_type(threads, "i8", |at| at as i8)?;
    }
    Ok(())
}
