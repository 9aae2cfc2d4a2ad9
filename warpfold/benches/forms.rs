//! What other launches of a sum cost, beside the sum of the same buffer: of the elements that lie in an
//! interval, with the same bits everywhere too, of elements that come piece by piece, and with a result
//! that blocks add up as they arrive, which is no form of the library's: it is made of the kernel of the
//! sum here, and timed by itself and with the clearing of its result, without which it adds to what is
//! there. Of rust-cuda's kernels none is made.
//!
//! `forms [TYPE ...]`, of `f32`, `f16`, `bf16`, `i8`, `i16`, `u16` and `f64`; on a GPU, or in the
//! simulator with `DEVICE=sim`, where buffers are small and the times say nothing. A line of JSON per
//! type, number of elements and form, each number the median of the rounds with its quartiles:
//! microseconds per launch that is enqueued behind others, with its result left in device memory, its
//! ratio to the sum's in the same round, and the bytes that it reads per second. Inputs are rotated past
//! the L2 cache. The host's clock measures.

mod common;

use std::{collections::HashMap, env, error::Error, sync::Arc, time::Instant};

use common::{is_simulated, rotation, spread};
use warpfold::{
    Buffer, Device, Element, Output, Reducer, Running, Within, bf16, f16,
    internal::{Find, PtxSource, ptx, reducer_of_ptx, shape},
    op,
};

const ROUNDS: usize = 15;

/// The sum of `f32`.
const SUM: &str = "reducer_sum_f32";

/// The kernel of a sum whose blocks, the last one too, add their values to the result, in the order in
/// which they arrive.
fn in_arrival(text: &str) -> Result<String, Box<dyn Error>> {
    let (head, grid) =
        text.split_at(text.find(".visible .entry reducer_sum_f32_grid(").ok_or("no grid")?);
    // Braces are in its assembly, too.
    let end = grid[1..].find(".visible .entry ").map_or(grid.len(), |next| next + 1);
    let (grid, rest) = grid.split_at(end);
    let operands = |line: &str| -> Vec<String> {
        let words = line.trim().trim_end_matches(';').split_once(char::is_whitespace);
        words.map_or_else(Vec::new, |(_, rest)| {
            rest.split(',').map(|word| word.trim().to_owned()).collect()
        })
    };
    // What each register is made of, the publishing store, and the place of the result.
    let mut made = HashMap::new();
    let (mut published, mut output, mut comparison) = (None, None, None);
    let lines: Vec<&str> = grid.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let operands = operands(line);
        let code = line.trim();
        if code.starts_with("cvt.u64.u32") || code.starts_with("or.b64") {
            made.insert(operands[0].clone(), operands.clone());
        }
        // Cells are emptied by the same instruction, of a register that is made otherwise.
        if code.starts_with("st.relaxed.gpu.global.b64") && made.contains_key(&operands[1]) {
            published = Some((at, made[&made[&operands[1]][1]][1].clone()));
        }
        if code.starts_with("st.global.b32") {
            output = Some(operands[0].clone());
        }
        // Whether a block is in front of the last one.
        if code.starts_with("setp.lt.u32") && lines[at - 1].trim().ends_with(", -1;") {
            comparison.get_or_insert(at);
        }
    }
    let (Some((publish, value)), Some(output), Some(comparison)) = (published, output, comparison)
    else {
        return Err("the kernel of the sum is not as this bench expects it".into());
    };
    let lines = lines.iter().enumerate().map(|(at, line)| match at {
        at if at == publish => format!("red.relaxed.gpu.global.add.f32 {output}, {value};\n"),
        at if at == comparison => line.replace("setp.lt.u32", "setp.le.u32") + "\n",
        _ => format!("{line}\n"),
    });
    Ok(format!("{head}{}{rest}", lines.collect::<String>()))
}

/// A reducer with that kernel, if that of the sum is rustc's.
fn arrival(device: &Device) -> Result<Option<Reducer>, Box<dyn Error>> {
    let source = PtxSource::from_environment();
    let text = ptx(&source, SUM, shape(device).arch)?.text;
    if text.lines().any(|line| line == "// codegen: nvvm") {
        eprintln!("forms: the kernels are rust-cuda's; those by atomics are left out");
        return Ok(None);
    }
    let changed = in_arrival(&text)?;
    let find: Arc<Find> = Arc::new(move |name, arch| {
        let mut found = ptx(&source, name, arch)?;
        if name == SUM {
            found.text = changed.clone().into();
        }
        Ok(found)
    });
    Ok(Some(reducer_of_ptx(device, PtxSource::Given(find))))
}

/// The forms that take turns.
const FORMS: [&str; 6] =
    ["sum", "within", "within, everywhere", "running", "arrival", "arrival, cleared"];

/// An element type: its name, the elements of 0 to 3, and its sums.
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

fn contest<T: Element>(
    reducer: &Reducer,
    arrival: Option<&Reducer>,
    kind: &Kind<T>,
    n: usize,
) -> Result<(), Box<dyn Error>> {
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
    let arrival = arrival.filter(|_| *dtype == "f32");
    // Of integers there is one kernel for intervals.
    let is_taken = |form: &str| match form {
        "within, everywhere" => dtype.starts_with(['f', 'b']),
        "sum" | "within" | "running" => true,
        _ => arrival.is_some(),
    };
    let forms: Vec<&str> = FORMS.into_iter().filter(|form| is_taken(form)).collect();
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
                            op::Everywhere(op::Sum),
                            input.filter(of(1)..=of(2)),
                            &mut places.within,
                        )?;
                    }
                    "running" => places.running.push(&stream, input)?,
                    form => {
                        let arrival = arrival.expect("it is there for these forms");
                        if form.ends_with("cleared") {
                            arrival.on(&stream).reduce_into(
                                op::Sum,
                                &input.slice(..0)?,
                                &mut places.sum,
                            )?;
                        }
                        arrival.on(&stream).reduce_into(op::Sum, input, &mut places.sum)?;
                    }
                }
            }
            stream.synchronize()?;
            let took = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            // The elements are 0, 1, 2 and 3 in turn.
            let (found, expected) = match form {
                "sum" | "arrival, cleared" => (to_f64(places.sum.read()?), 1.5),
                "within" | "within, everywhere" => (to_f64(places.within.read()?.sum), 0.75),
                "running" => (to_f64(places.running.result()?), 1.5 * calls as f64),
                // It adds to what is there.
                _ => (0.0, 0.0),
            };
            let expected = expected * n as f64;
            if (found - expected).abs() > expected * 1e-3 {
                return Err(format!("{form} of {n} {dtype} is {found}, not {expected}").into());
            }
            // The first one loads the kernels.
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

/// The first result of the changed kernel, in a cleared place, is the sum.
fn check(arrival: &Reducer) -> Result<(), Box<dyn Error>> {
    let device = arrival.device();
    let (stream, mut output) = (device.stream()?, device.output::<f32>()?);
    let n = if is_simulated() { 5000 } else { 1 << 22 };
    arrival.on(&stream).reduce_into(op::Sum, &device.upload(&vec![1.0_f32; n])?, &mut output)?;
    let found = output.read()?;
    if found == n as f32 { Ok(()) } else { Err(format!("{found} in place of {n}").into()) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).filter(|given| !given.starts_with("--")).collect();
    let Some(device) = common::open()? else { return Ok(()) };
    let (reducer, arrival) = (Reducer::new(&device)?, arrival(&device)?);
    arrival.as_ref().map_or(Ok(()), check)?;
    let exponents: &[u32] = if is_simulated() { &[10, 14] } else { &[16, 20, 22, 24, 26, 28] };
    macro_rules! each {
        ($($ty:ident: $of:expr, $to_f64:expr;)*) => {$(
            if given.is_empty() || given.iter().any(|name| name == stringify!($ty)) {
                let kind = Kind::<$ty> { dtype: stringify!($ty), of: $of, to_f64: $to_f64 };
                for &exponent in exponents {
                    contest(&reducer, arrival.as_ref(), &kind, 1 << exponent)?;
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
