//! The cost of finding the k largest elements of a buffer, or of every row of a matrix, relative to the
//! index of the largest one.
//!
//! `top [TYPE ...] [k=K ...] [n=EXPONENT ...] [rows] [buffers] [ascending]` measures the inputs of the
//! types `f32`, `f16`, `i8` and `f64`, searches for K elements, buffers of 2^EXPONENT elements, and
//! the kinds of inputs that are given; of what is not given, all. Runs on a GPU, or, with
//! `DEVICE=sim`, in the simulator with small buffers and meaningless times. Prints a line of JSON per
//! input and operation; each figure is the median of the rounds with its quartiles: microseconds per
//! search in a sequence of enqueued searches, with the result left in device memory, and the bytes
//! read per second. Elements are random, or ascending `f32`, each the largest so far. Inputs rotate,
//! so that none is in the L2 cache, except small ones, whose times are those of the host's calls.
//! Times are from the host's clock.

mod common;

use std::{env, error::Error, iter, time::Instant};

use warpfold::{Buffer, Element, Located, OnStream, Outputs, Reducer, f16, op};

use common::{is_simulated, rotation, spread};

const ROUNDS: usize = 11;

/// The searches: `None` for the index of the largest element, `Some(k)` for the k largest.
const ENTRANTS: [Option<usize>; 7] =
    [None, Some(1), Some(8), Some(32), Some(100), Some(1000), Some(4096)];

struct Input<'a, T> {
    dtype: &'a str,
    order: &'a str,
    values: Vec<T>,
    /// Length of a row, if rows are searched separately.
    row: Option<usize>,
}

impl<T: Element> Input<'_, T> {
    fn rows(&self) -> usize {
        self.row.map_or(1, |row| self.values.len() / row)
    }

    /// Returns whether these are the indices of the `k` largest elements of the last row, in order.
    fn has(&self, found: &[u64], k: usize) -> bool {
        let row = &self.values[self.values.len() - self.row.unwrap_or(self.values.len())..];
        let Some(last) = found.last().and_then(|&last| row.get(last as usize)) else { return false };
        let in_order = |pair: &[u64]| {
            let [a, b] = [pair[0], pair[1]].map(|at| row[at as usize]);
            a > b || (a == b && pair[0] < pair[1])
        };
        // No other element precedes the last one.
        let comes_first = |(at, value): (usize, &T)| {
            value > last || (value == last && at as u64 <= found[found.len() - 1])
        };
        found.len() == k
            && found.windows(2).all(in_order)
            && row.iter().enumerate().filter(|&element| comes_first(element)).count() == k
    }

    fn run(
        &self,
        k: Option<usize>,
        on: OnStream<'_>,
        values: &Buffer<T>,
        outputs: &mut Outputs<Located<T>>,
    ) -> warpfold::Result<()> {
        // A buffer is searched as one row.
        let rows = values.rows(self.row.unwrap_or(values.len()))?;
        match k {
            None => on.reduce_into(op::ArgMax, &rows, outputs),
            Some(k) => on.reduce_into(op::Largest(k), &rows, outputs),
        }
    }
}

fn contest<T: Element>(
    reducer: &Reducer,
    input: &Input<'_, T>,
    chosen: &Chosen,
) -> Result<(), Box<dyn Error>> {
    let Input { dtype, order, values, row } = input;
    let longest = row.unwrap_or(values.len());
    let entrants: Vec<Option<usize>> = chosen.entrants(longest);
    let (device, bytes) = (reducer.device(), size_of_val(&**values));
    let (copies, calls) = rotation(device, bytes);
    // Long calls vary little.
    let calls = calls.min(200);
    let rounds = if is_simulated() { 1 } else { ROUNDS };
    let buffers = (0..copies).map(|_| device.upload(values)).collect::<warpfold::Result<Vec<_>>>()?;
    let stream = device.stream()?;
    let results = |k: Option<usize>| device.outputs(input.rows() * k.unwrap_or(1));
    let mut outputs = entrants.iter().copied().map(results).collect::<warpfold::Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); entrants.len()];
    for round in 0..=rounds {
        for ((&k, outputs), times) in entrants.iter().zip(&mut outputs).zip(&mut times) {
            let start = Instant::now();
            for call in 0..calls {
                input.run(k, reducer.on(&stream), &buffers[call % copies], outputs)?;
            }
            stream.synchronize()?;
            let took = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            // The first round loads the kernels.
            if round > 0 {
                times.push(took);
            }
        }
    }
    for ((k, outputs), times) in entrants.into_iter().zip(outputs).zip(times) {
        let (found, each) = (outputs.read()?, k.unwrap_or(1));
        let found: Vec<u64> = found[found.len() - each..].iter().map(|one| one.index).collect();
        if !input.has(&found, each) {
            return Err(format!("{each} of {} {dtype} are at {found:?}", values.len()).into());
        }
        let op = k.map_or("argmax".to_owned(), |k| format!("largest {k}"));
        let rates = times.iter().map(|time| bytes as f64 / time / 1e3).collect();
        println!(
            "{{\"device\":\"{}\",\"dtype\":\"{dtype}\",\"order\":\"{order}\",\"n\":{},\"row\":{},\
             \"op\":\"{op}\",\"us\":{},\"gb_per_s\":{}}}",
            device.info().name,
            values.len(),
            row.unwrap_or(values.len()),
            spread(times),
            spread(rates),
        );
    }
    Ok(())
}

/// Returns pseudo-random bits, deterministically.
fn random() -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    iter::repeat_with(move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 32
    })
}

/// The chosen cases, from the arguments.
struct Chosen(Vec<String>);

impl Chosen {
    /// Returns whether an argument of a kind, which `is_of` recognizes, is given, or none of the kind
    /// is.
    fn has(&self, name: &str, is_of: impl Fn(&str) -> bool) -> bool {
        let mut given = self.0.iter().filter(|given| is_of(given)).peekable();
        given.peek().is_none() || given.any(|given| given == name)
    }

    fn has_type(&self, name: &str) -> bool {
        self.has(name, |given| ["f32", "f16", "i8", "f64"].contains(&given))
    }

    fn has_exponent(&self, exponent: u32) -> bool {
        self.has(&format!("n={exponent}"), |given| given.starts_with("n="))
    }

    fn has_input(&self, name: &str) -> bool {
        self.has(name, |given| ["buffers", "rows", "ascending"].contains(&given))
    }

    /// Returns the searches in rows of `len` elements.
    fn entrants(&self, len: usize) -> Vec<Option<usize>> {
        let given = self.0.iter().filter_map(|given| given.strip_prefix("k=")?.parse().ok());
        let mut given: Vec<Option<usize>> = given.map(Some).collect();
        if given.is_empty() {
            given = ENTRANTS.to_vec();
        }
        given.retain(|k| k.is_none_or(|k| k <= len));
        given
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let chosen = Chosen(env::args().skip(1).filter(|given| !given.starts_with("--")).collect());
    let Some(device) = common::open()? else { return Ok(()) };
    let reducer = Reducer::new(&device)?;
    let exponents: &[u32] = if is_simulated() { &[10, 14] } else { &[10, 16, 20, 24, 28] };
    macro_rules! each {
        ($($ty:ident: $of:expr;)*) => {$(
            let is_chosen = chosen.has_input("buffers") && chosen.has_type(stringify!($ty));
            for exponent in exponents.iter().filter(|exponent| is_chosen && chosen.has_exponent(**exponent)) {
                let of: fn(u64) -> $ty = $of;
                let values = random().take(1 << exponent).map(of).collect();
                let dtype = stringify!($ty);
                let input = Input { dtype, order: "random", values, row: None };
                contest(&reducer, &input, &chosen)?;
            }
        )*};
    }
    // Elements are uniform from 0 to 1, or over all integers.
    each! {
        f32: |bits| (bits as u32 >> 8) as f32 / (1 << 24) as f32;
        f16: |bits| f16::from_f32((bits as u32 >> 8) as f32 / (1 << 24) as f32);
        i8: |bits| bits as i8;
        f64: |bits| (bits >> 11) as f64 / (1_u64 << 53) as f64;
    }
    if chosen.has_type("f32") && chosen.has_input("rows") {
        let shapes: &[[usize; 2]] = if is_simulated() {
            &[[64, 256]]
        } else {
            &[[1 << 18, 1024], [4096, 65_536], [16, 1 << 24]]
        };
        for &[rows, row] in shapes {
            let values = random().take(rows * row).map(|bits| (bits >> 40) as f32).collect();
            let input = Input { dtype: "f32", order: "random", values, row: Some(row) };
            contest(&reducer, &input, &chosen)?;
        }
    }
    if chosen.has_type("f32") && chosen.has_input("ascending") {
        let n = if is_simulated() { 1 << 14 } else { 1 << 24 };
        let values = (0..n).map(|at| at as f32).collect();
        let input = Input { dtype: "f32", order: "ascending", values, row: None };
        contest(&reducer, &input, &chosen)?;
    }
    Ok(())
}
