//! The cost of dot products and squared distances, relative to the sum of one buffer: of buffers with
//! equal and with different alignments modulo 16 bytes, with and without reproducible bits.
//!
//! `pairs [TYPE ...]`, of `f32`, `f16`, `i8` and `f64`. Runs on a GPU, or, with `DEVICE=sim`, in the
//! simulator with small buffers and meaningless times. Prints a line of JSON per type, number of
//! elements and operation; each figure is the median of the rounds with its quartiles: microseconds per
//! reduction in a sequence of enqueued reductions, with the result left in device memory, and the bytes
//! of both buffers that are read per second. Inputs rotate, so that none is in the L2 cache, except
//! small ones, whose times are those of the host's calls. Times are from the host's clock.

mod common;

use std::{env, error::Error, time::Instant};

use warpfold::{
    Buffer, Element, OnStream, Output, Reducer, f16,
    op::{self, Dot, Reproducible, SquaredDistance},
};

use common::{is_simulated, rotation, spread};

const ROUNDS: usize = 11;

#[derive(Clone, Copy)]
enum Entrant {
    Sum,
    Pairs(Pairs),
}

/// A reduction of two buffers. If `shifted`, their alignments differ.
#[derive(Clone, Copy)]
struct Pairs {
    distance: bool,
    everywhere: bool,
    shifted: bool,
}

/// Returns all entrants, the reproducible ones last and only for floats: integer operations are always
/// reproducible.
fn entrants(floats: bool) -> Vec<Entrant> {
    let each = |everywhere| {
        let kinds = [(false, false), (false, true), (true, false), (true, true)];
        kinds.map(|(distance, shifted)| Entrant::Pairs(Pairs { distance, everywhere, shifted }))
    };
    let everywhere = if floats { &each(true)[..] } else { &[] };
    [&[Entrant::Sum], &each(false)[..], everywhere].concat()
}

impl Entrant {
    fn name(self) -> String {
        let Self::Pairs(Pairs { distance, everywhere, shifted }) = self else { return "sum".to_owned() };
        let of = if distance { "squared distance" } else { "dot product" };
        let everywhere = if everywhere { " everywhere" } else { "" };
        format!("{of}{everywhere}{}", if shifted { ", shifted" } else { "" })
    }

    fn buffers(self) -> usize {
        if matches!(self, Self::Sum) { 1 } else { 2 }
    }

    /// Returns the result of four neighbouring pairs. Element i is i modulo 4 in the first buffer, i + 1
    /// modulo 4 in the second one and i + 2 modulo 4 in the shifted one.
    fn of_four(self) -> f64 {
        match self {
            Self::Sum => 6.0,
            Self::Pairs(Pairs { distance: false, shifted: false, .. }) => 8.0,
            Self::Pairs(Pairs { distance: false, shifted: true, .. }) => 6.0,
            Self::Pairs(Pairs { distance: true, shifted: false, .. }) => 12.0,
            Self::Pairs(Pairs { distance: true, shifted: true, .. }) => 16.0,
        }
    }

    fn run<T: Element>(
        self,
        on: OnStream<'_>,
        [first, second, shifted]: &[Buffer<T>; 3],
        output: &mut Output<T::Sum>,
    ) -> warpfold::Result<()> {
        let Self::Pairs(pairs) = self else { return on.reduce_into(op::Sum, first, output) };
        let other = if pairs.shifted { shifted } else { second };
        match pairs {
            Pairs { distance: false, everywhere: false, .. } => {
                on.reduce_into(op::Dot, (first, other), output)
            }
            Pairs { distance: true, everywhere: false, .. } => {
                on.reduce_into(op::SquaredDistance, (first, other), output)
            }
            Pairs { distance: false, everywhere: true, .. } => {
                on.reduce_into(Reproducible(Dot), (first, other), output)
            }
            Pairs { distance: true, everywhere: true, .. } => {
                on.reduce_into(Reproducible(SquaredDistance), (first, other), output)
            }
        }
    }
}

struct Kind<T: Element> {
    dtype: &'static str,
    is_float: bool,
    of: fn(u8) -> T,
    to_f64: fn(T::Sum) -> f64,
}

fn contest<T: Element>(reducer: &Reducer, kind: &Kind<T>, n: usize) -> Result<(), Box<dyn Error>> {
    let Kind { dtype, of, to_f64, .. } = kind;
    let (device, bytes) = (reducer.device(), n * size_of::<T>());
    let (copies, calls) = rotation(device, 2 * bytes);
    let rounds = if is_simulated() { 1 } else { ROUNDS };
    let values: Vec<T> = (0..n + 2).map(|index| of((index % 4) as u8)).collect();
    let input = |_| {
        let second = device.upload(&values[1..])?;
        Ok([device.upload(&values[..n])?, second.slice(..n)?, second.slice(1..)?])
    };
    let inputs = (0..copies).map(input).collect::<warpfold::Result<Vec<_>>>()?;
    let (stream, mut output) = (device.stream()?, device.output::<T::Sum>()?);
    let entrants = entrants(kind.is_float);
    let mut times = vec![Vec::new(); entrants.len()];
    for round in 0..=rounds {
        for (entrant, times) in entrants.iter().zip(&mut times) {
            let start = Instant::now();
            for call in 0..calls {
                entrant.run(reducer.on(&stream), &inputs[call % inputs.len()], &mut output)?;
            }
            stream.synchronize()?;
            let took = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            let (found, expected) = (to_f64(output.read()?), entrant.of_four() * (n / 4) as f64);
            if (found - expected).abs() > expected * 1e-5 {
                let name = entrant.name();
                return Err(format!("{name} of {n} {dtype} is {found}, not {expected}").into());
            }
            // The first round loads the kernels.
            if round > 0 {
                times.push(took);
            }
        }
    }
    for (entrant, times) in entrants.into_iter().zip(times) {
        let read = (entrant.buffers() * bytes) as f64;
        let rates = times.iter().map(|time| read / time / 1e3).collect();
        println!(
            "{{\"device\":\"{}\",\"dtype\":\"{dtype}\",\"n\":{n},\"op\":\"{}\",\"us\":{},\
             \"gb_per_s\":{}}}",
            device.info().name,
            entrant.name(),
            spread(times),
            spread(rates),
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).filter(|given| !given.starts_with("--")).collect();
    let Some(device) = common::open()? else { return Ok(()) };
    let reducer = Reducer::new(&device)?;
    let exponents: &[u32] = if is_simulated() { &[10, 14] } else { &[10, 16, 20, 24, 28] };
    macro_rules! each {
        ($($ty:ident, a float: $is_float:literal, $of:expr, $to_f64:expr;)*) => {$(
            if given.is_empty() || given.iter().any(|name| name == stringify!($ty)) {
                let kind = Kind::<$ty> { dtype: stringify!($ty), is_float: $is_float, of: $of, to_f64: $to_f64 };
                for exponent in exponents {
                    contest(&reducer, &kind, 1 << exponent)?;
                }
            }
        )*};
    }
    each! {
        f32, a float: true, f32::from, f64::from;
        f16, a float: true, f16::from, f64::from;
        i8, a float: false, |value| value as i8, |sum| sum as f64;
        f64, a float: true, f64::from, |sum| sum;
    }
    Ok(())
}
