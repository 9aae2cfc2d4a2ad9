//! The cost of other forms of a sum, relative to the sum of the same buffer: sums of the elements in an
//! interval, with and without reproducible bits, sums of elements that are pushed piece by piece, and
//! sums of expressions.
//!
//! `forms [TYPE ...]`, of `f32`, `f16`, `bf16`, `i8`, `i16`, `u16` and `f64`. Runs on a GPU, or, with
//! `DEVICE=sim`, in the simulator with small buffers and meaningless times. Prints a line of JSON per
//! type, number of elements and form; each figure is the median of the rounds with its quartiles:
//! microseconds per launch in a sequence of enqueued launches, with the result left in device memory,
//! its ratio to the sum's in the same round, and the bytes read per second. Inputs rotate, so that none
//! is in the L2 cache. Times are from the host's clock.

mod common;

use std::{env, error::Error, time::Instant};

use common::{is_simulated, rotation, spread};
use warpfold::{Buffer, Element, Output, Reducer, Running, Within, bf16, f16, op};

const ROUNDS: usize = 15;

const FORMS: [&str; 9] = [
    "sum",
    "within",
    "within, everywhere",
    "running",
    "x",
    "2 * x ** 2 + 1",
    "abs(3 - x) * 2",
    "x > 0 ? x + 1 : 0",
    "log(1 + exp(x))",
];

struct Kind<T: Element> {
    dtype: &'static str,
    of: fn(u8) -> T,
    to_f64: fn(T::Sum) -> f64,
}

struct Places<T: Element> {
    sum: Output<T::Sum>,
    within: Output<Within<T::Sum>>,
    running: Running<T, op::Sum>,
}

fn contest<T: Element>(reducer: &Reducer, kind: &Kind<T>, n: usize) -> Result<(), Box<dyn Error>> {
    let Kind { dtype, of, to_f64 } = kind;
    let (device, bytes) = (reducer.device(), n * size_of::<T>());
    let (copies, calls) = rotation(device, bytes);
    let rounds = if is_simulated() { 1 } else { ROUNDS };
    let values: Vec<T> = (0..n).map(|index| of((index % 4) as u8)).collect();
    let inputs =
        (0..copies).map(|_| device.upload(&values)).collect::<warpfold::Result<Vec<Buffer<T>>>>()?;
    let stream = device.stream()?;
    let mut places =
        Places { sum: device.output()?, within: device.output()?, running: reducer.running(op::Sum)? };
    // Integer sums are always reproducible: one kernel serves both forms.
    let is_taken = |form: &str| match form {
        "within, everywhere" | "log(1 + exp(x))" => dtype.starts_with(['f', 'b']),
        _ => true,
    };
    let forms: Vec<&str> = FORMS.into_iter().filter(|form| is_taken(form)).collect();
    let expressions = forms.iter().map(|&form| match form {
        "x" => op::expr(form).sum().ok(),
        _ => op::expr(form).filter("x <= 2").sum().ok(),
    });
    let expressions: Vec<Option<op::ExprReduction<T>>> = expressions.collect();
    let mut times = [const { Vec::new() }; FORMS.len()];
    for round in 0..=rounds {
        for (at, &form) in forms.iter().enumerate() {
            if form == "running" {
                places.running = reducer.running(op::Sum)?;
            }
            let start = Instant::now();
            for call in 0..calls {
                let input = &inputs[call % inputs.len()];
                match form {
                    "sum" => reducer.on(&stream).reduce_into(op::Sum, input, &mut places.sum)?,
                    "within" => {
                        reducer.on(&stream).reduce_into(
                            op::Sum,
                            input.filter(of(1)..=of(2)),
                            &mut places.within,
                        )?;
                    }
                    "within, everywhere" => {
                        reducer.on(&stream).reduce_into(
                            op::Sum.reproducible(),
                            input.filter(of(1)..=of(2)),
                            &mut places.within,
                        )?;
                    }
                    "running" => places.running.push(&stream, input)?,
                    form => {
                        let expression = expressions[at].as_ref().ok_or(form)?;
                        reducer.on(&stream).reduce_into(expression, input, &mut places.sum)?;
                    }
                }
            }
            stream.synchronize()?;
            let took = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            // The elements repeat 0, 1, 2 and 3.
            let (found, expected) = match form {
                "sum" => (to_f64(places.sum.read()?), 1.5),
                "within" | "within, everywhere" => (to_f64(places.within.read()?.sum), 0.75),
                "running" => (to_f64(places.running.result()?), 1.5 * calls as f64),
                "x" => (to_f64(places.sum.read()?), 1.5),
                // Of 0, 1 and 2, as 3 is left out.
                "2 * x ** 2 + 1" => (to_f64(places.sum.read()?), 3.25),
                "abs(3 - x) * 2" => (to_f64(places.sum.read()?), 3.0),
                "x > 0 ? x + 1 : 0" => (to_f64(places.sum.read()?), 1.25),
                _ => (to_f64(places.sum.read()?), 1.033_334),
            };
            let expected = expected * n as f64;
            if (found - expected).abs() > expected * 1e-3 {
                return Err(format!("{form} of {n} {dtype} is {found}, not {expected}").into());
            }
            // The first round loads the kernels.
            if round > 0 {
                times[at].push(took);
            }
        }
    }
    for (form, times_of) in forms.iter().zip(&times) {
        let ratios = times_of.iter().zip(&times[0]).map(|(time, sum)| time / sum).collect();
        let rates = times_of.iter().map(|time| bytes as f64 / time / 1e3).collect();
        println!(
            "{{\"device\":\"{}\",\"dtype\":\"{dtype}\",\"n\":{n},\"form\":\"{form}\",\"us\":{},\
             \"to_sum\":{},\"gb_per_s\":{}}}",
            device.info().name,
            spread(times_of.clone()),
            spread(ratios),
            spread(rates),
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).filter(|given| !given.starts_with("--")).collect();
    let Some(device) = common::open()? else { return Ok(()) };
    let reducer = Reducer::new(&device)?;
    let exponents: &[u32] = if is_simulated() { &[10, 14] } else { &[16, 20, 22, 24, 26, 28] };
    macro_rules! each {
        ($($ty:ident: $of:expr, $to_f64:expr;)*) => {$(
            if given.is_empty() || given.iter().any(|name| name == stringify!($ty)) {
                let kind = Kind::<$ty> { dtype: stringify!($ty), of: $of, to_f64: $to_f64 };
                for &exponent in exponents {
                    contest(&reducer, &kind, 1 << exponent)?;
                }
            }
        )*};
    }
    each! {
        f32: f32::from, f64::from;
        f16: |value| f16::from_f32(value.into()), f64::from;
        bf16: |value| bf16::from_f32(value.into()), f64::from;
        i8: |value| value as i8, |sum| sum as f64;
        i16: i16::from, |sum| sum as f64;
        u16: u16::from, |sum| sum as f64;
        f64: f64::from, |sum| sum;
    }
    Ok(())
}
