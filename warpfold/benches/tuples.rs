//! The cost of several operations at once, relative to the sum of the same buffer, and beside the same
//! operations one after the other.
//!
//! `tuples [TYPE ...]` or `tuples rows [LENGTH ...] [TYPE ...]`, of `f32`, `f16`, `bf16`, `i8`, `i16`,
//! `i32`, `i64` and `f64`. Runs on a GPU, or, with `DEVICE=sim`, in the simulator with small buffers and
//! meaningless times. Prints a line of JSON per type, number of elements and tuple; each figure is the
//! median of the rounds with its quartiles: microseconds per tuple in a sequence of enqueued launches,
//! with the results written to host memory, and its ratio to the sum's in the same round, for one launch
//! and for a launch per operation; and the bytes of the buffer per second. Inputs rotate, so that none
//! is in the L2 cache. Times are from the host's clock.
//!
//! With `rows`, the same for the rows of matrices, of several lengths. Their results stay in device
//! memory: to copy those of short rows takes longer than to reduce them.

mod common;

use std::{cell::RefCell, collections::VecDeque, env, error::Error, time::Instant};

use common::{is_simulated, rotation, spread};
use warpfold::{
    Buffer, Element, Enqueue, Outputs, Pending, Reducer, Result, Rows, Spread, Stream, bf16, f16,
    internal::reduce_rows_into,
    op::{ArgMax, ArgMin, CountNonZero, Describe, Max, MeanAndVariance, Min, MinMax, Sum},
};

const ROUNDS: usize = 15;

/// Default lengths of rows.
const LENS: [usize; 9] = [5, 12, 20, 32, 100, 512, 1000, 4096, 65_536];

/// Launches whose results are not waited for yet.
const IN_FLIGHT: usize = 8;

/// Reduces each input `calls` times in all, and returns the time of a call in microseconds.
fn time<'i, T: Element, R: 'i>(
    inputs: &'i [Buffer<T>],
    calls: usize,
    mut reduce: impl FnMut(&'i Buffer<T>) -> Result<Pending<R>>,
) -> Result<f64> {
    let start = Instant::now();
    let mut pending = VecDeque::new();
    for call in 0..calls {
        pending.push_back(reduce(&inputs[call % inputs.len()])?);
        if pending.len() > IN_FLIGHT {
            pending.pop_front().expect("it is not empty").wait()?;
        }
    }
    pending.into_iter().try_for_each(|pending| pending.wait().map(drop))?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

struct Contest<'a, T> {
    reducer: &'a Reducer,
    stream: &'a Stream,
    inputs: &'a [Buffer<T>],
    calls: usize,
    /// The length of rows and memory for their results, or `None` for buffers.
    rows: Option<(usize, RefCell<Outputs<RowResults>>)>,
}

/// Room for the results of a row: at most four, padded to 64 bytes.
type RowResults = [[u64; 8]; 4];

impl<T: Element> Contest<'_, T> {
    /// Returns the time of an operation, or of a tuple.
    fn of<O: Copy>(&self, op: O) -> Result<f64>
    where
        for<'i> &'i Buffer<T>: Enqueue<O>,
        for<'i> Rows<'i, T>: Enqueue<O>,
    {
        let on = self.reducer.on(self.stream);
        let Some((len, outputs)) = &self.rows else {
            return time(self.inputs, self.calls, |input| on.reduce(op, input));
        };
        let start = Instant::now();
        for call in 0..self.calls {
            let rows = self.inputs[call % self.inputs.len()].rows(*len)?;
            // SAFETY: the outputs have room for the results of up to four operations.
            unsafe { reduce_rows_into(on, op, rows, &mut outputs.borrow_mut()) }?;
        }
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.calls as f64)
    }

    /// Returns the times of the tuples, each in one launch and in a launch for each operation.
    fn round(&self) -> Result<Vec<(&'static str, [f64; 2])>> {
        let sum = self.of(Sum)?;
        let [min_max, spread, count] =
            [self.of(MinMax)?, self.of(MeanAndVariance)?, self.of(CountNonZero)?];
        let places = self.of(ArgMin)? + self.of(ArgMax)?;
        Ok(vec![
            ("sum", [sum; 2]),
            ("sum, min, max", [self.of((Sum, Min, Max))?, sum + min_max]),
            (
                "mean and variance, min, max, count",
                [self.of((MeanAndVariance, Min, Max, CountNonZero))?, spread + min_max + count],
            ),
            ("argmin, argmax", [self.of((ArgMin, ArgMax))?, places]),
            ("describe", [self.of(Describe)?, f64::NAN]),
        ])
    }
}

fn contest<T: Element>(
    reducer: &Reducer,
    dtype: &str,
    of: fn(u8) -> T,
    n: usize,
) -> std::result::Result<(), Box<dyn Error>> {
    let (device, bytes) = (reducer.device(), n * size_of::<T>());
    let (copies, calls) = rotation(device, bytes);
    let values: Vec<T> = (0..n).map(|index| of((index % 7) as u8)).collect();
    let inputs = (0..copies).map(|_| device.upload(&values)).collect::<Result<Vec<Buffer<T>>>>()?;
    let stream = device.stream()?;
    let expected = (0..7.min(n)).fold((of(0), of(0)), |(least, greatest), index| {
        let value = of(index as u8);
        (if value < least { value } else { least }, if value > greatest { value } else { greatest })
    });
    let described = reducer.reduce(Describe, &inputs[0])?;
    let (_, min, max) = reducer.reduce((Sum, Min, Max), &inputs[0])?;
    let (moments, least, _, count) =
        reducer.reduce((MeanAndVariance, Min, Max, CountNonZero), &inputs[0])?;
    let (first, last) = reducer.reduce((ArgMin, ArgMax), &inputs[0])?;
    let ends = [
        (described.min, described.max),
        (min, max),
        (first.map(|first| first.value), last.map(|last| last.value)),
        (least, Some(expected.1)),
    ];
    let means = (moments.map_or(f64::NAN, |moments| moments.mean) - described.mean).abs();
    if ends.iter().any(|ends| *ends != (Some(expected.0), Some(expected.1)))
        || means.is_nan()
        || means > 1e-9
        || count != (n - (n + 3) / 7) as u64
    {
        return Err(format!("{n} {dtype}: {described:?} and {ends:?}, not {expected:?}").into());
    }
    let contest = Contest { reducer, stream: &stream, inputs: &inputs, calls, rows: None };
    print(&contest, dtype, n)
}

/// Times the rows of matrices of `n` elements or slightly fewer.
fn contest_of_rows<T: Element>(
    reducer: &Reducer,
    dtype: &str,
    of: fn(u8) -> T,
    n: usize,
    lens: &[usize],
) -> std::result::Result<(), Box<dyn Error>> {
    let device = reducer.device();
    let stream = device.stream()?;
    for &len in lens {
        let n = n / len * len;
        if n == 0 {
            continue;
        }
        let (copies, calls) = rotation(device, n * size_of::<T>());
        let values: Vec<T> = (0..n).map(|index| of((index % 7) as u8)).collect();
        let inputs = (0..copies).map(|_| device.upload(&values)).collect::<Result<Vec<Buffer<T>>>>()?;
        let rows = inputs[0].rows(len)?;
        let ops = (MeanAndVariance, Min, Max, CountNonZero);
        let (moments, min, max, count) = reducer.reduce(ops, rows)?;
        let means = reducer.reduce(MeanAndVariance, rows)?;
        let is_mean = |(one, other): (&Spread, &Spread)| (one.mean - other.mean).abs() <= 1e-9;
        if min != reducer.reduce(Min, rows)?
            || max != reducer.reduce(Max, rows)?
            || count != reducer.reduce(CountNonZero, rows)?
            || moments.len() != n / len
            || !moments.iter().zip(&means).all(is_mean)
        {
            return Err(format!("{n} {dtype} in rows of {len}: wrong results").into());
        }
        let outputs = RefCell::new(device.outputs(n / len)?);
        let contest =
            Contest { reducer, stream: &stream, inputs: &inputs, calls, rows: Some((len, outputs)) };
        print(&contest, dtype, n)?;
    }
    Ok(())
}

fn print<T: Element>(
    contest: &Contest<'_, T>,
    dtype: &str,
    n: usize,
) -> std::result::Result<(), Box<dyn Error>> {
    let (device, bytes) = (contest.reducer.device(), n * size_of::<T>());
    let rounds = if is_simulated() { 1 } else { ROUNDS };
    let row_len = contest.rows.as_ref().map_or(String::new(), |(len, _)| format!("\"row_len\":{len},"));
    // The first round loads the kernels.
    let warmup = contest.round()?;
    let timed = (0..rounds).map(|_| contest.round()).collect::<Result<Vec<_>>>()?;
    for (at, (name, _)) in warmup.iter().enumerate() {
        let all = |of: fn([f64; 2], f64) -> f64| {
            spread(timed.iter().map(|round| of(round[at].1, round[0].1[0])).collect())
        };
        let alone = match *name {
            "describe" => String::new(),
            _ => format!(",\"alone_to_sum\":{}", all(|[_, alone], sum| alone / sum)),
        };
        println!(
            "{{\"device\":\"{}\",\"dtype\":\"{dtype}\",\"n\":{n},{row_len}\"tuple\":\"{name}\",\"us\":{},\
             \"to_sum\":{}{alone},\"gb_per_s\":{}}}",
            device.info().name,
            all(|[together, _], _| together),
            all(|[together, _], sum| together / sum),
            spread(timed.iter().map(|round| bytes as f64 / round[at].1[0] / 1e3).collect()),
        );
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).filter(|given| !given.starts_with("--")).collect();
    let Some(device) = common::open()? else { return Ok(()) };
    let reducer = Reducer::new(&device)?;
    let (of_rows, dtypes): (Vec<&str>, Vec<&str>) =
        given.iter().map(String::as_str).partition(|given| *given == "rows");
    let lens: Vec<usize> = dtypes.iter().filter_map(|given| given.parse().ok()).collect();
    let dtypes: Vec<&str> = dtypes.into_iter().filter(|given| given.parse::<usize>().is_err()).collect();
    if lens.contains(&0) || of_rows.is_empty() && !lens.is_empty() {
        return Err("lengths must be at least 1, and need the word `rows`".into());
    }
    let lens = if lens.is_empty() { LENS.to_vec() } else { lens };
    let logs: &[u32] = match (is_simulated(), of_rows.is_empty()) {
        (true, _) => &[10],
        (false, true) => &[16, 20, 22, 24, 26, 28],
        (false, false) => &[14, 20, 24, 28],
    };
    let is_asked = |dtype: &str| dtypes.is_empty() || dtypes.contains(&dtype);
    macro_rules! contests {
        ($($dtype:literal: $of:expr;)*) => {$(
            if is_asked($dtype) {
                logs.iter().try_for_each(|log| match of_rows.is_empty() {
                    true => contest(&reducer, $dtype, $of, 1 << log),
                    false => contest_of_rows(&reducer, $dtype, $of, 1 << log, &lens),
                })?;
            }
        )*};
    }
    contests! {
        "f32": |value| f32::from(value) - 3.0;
        "f64": |value| f64::from(value) - 3.0;
        "f16": |value| f16::from_f32(f32::from(value) - 3.0);
        "bf16": |value| bf16::from_f32(f32::from(value) - 3.0);
        "i8": |value| value.cast_signed() - 3;
        "i16": |value| i16::from(value) - 3;
        "i32": |value| i32::from(value) - 3;
        "i64": |value| i64::from(value) - 3;
    }
    Ok(())
}
