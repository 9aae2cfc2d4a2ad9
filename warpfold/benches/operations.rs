//! The cost of every operation relative to the sum, with results left in device memory. Operations
//! alternate in every round.
//!
//! `operations [--normal | --nan=N] [type ...]` runs on a GPU. Prints a line of JSON per type, number of
//! elements and operation: microseconds per reduction in a sequence of enqueued reductions, and their
//! ratio to the sum's in the same round, as the median of the rounds with the minimum and maximum.
//! Inputs rotate, so that none is in the L2 cache. Times are from the host's clock; below a few
//! microseconds they are those of the calls.
//!
//! All elements are 1, so that the results are known. With `--normal` they are normally distributed, for
//! operations whose time may depend on the elements: the reproducible ones, whose bits are compared with
//! the CPU's. With `--nan=N` about one in N of such elements is NaN, for operations that skip NaN,
//! beside the sum of the numbers.

use std::{
    cell::RefCell, env, error::Error, f64::consts::TAU, iter, num::NonZero, rc::Rc, time::Instant,
};

use warpfold::{
    Buffer, Device, Element, Float, Integer, OnStream, Reducer, Selection, Spread, bf16, cpu, f16,
    op::{self, Operation, RowsOperation, SumIn},
};

/// Total bytes of the rotated inputs: more than twice the L2 cache of any GPU.
const ROTATED: usize = 256 << 20;
/// Bytes of an input. Device memory, the L2 cache and the host's calls limit the speed of these sizes.
const BYTES: [usize; 3] = [1 << 30, 1 << 22, 1 << 18];
const ROUNDS: usize = 11;
const ROUND_BYTES: usize = 8 << 30;

type Run<T> = Box<dyn Fn(OnStream<'_>, &Buffer<T>) -> warpfold::Result<()>>;

struct Entrant<T> {
    name: &'static str,
    run: Run<T>,
    is_right: Box<dyn Fn() -> warpfold::Result<bool>>,
}

fn entrant<T: Element, O: Operation<T> + 'static>(
    device: &Device,
    name: &'static str,
    op: O,
    is_right: impl Fn(O::Left) -> bool + 'static,
) -> warpfold::Result<Entrant<T>> {
    let output = Rc::new(RefCell::new(device.output::<O::Left>()?));
    let read = output.clone();
    Ok(Entrant {
        name,
        run: Box::new(move |on, values| on.reduce_into(op, values, &mut output.borrow_mut())),
        is_right: Box::new(move || Ok(is_right(read.borrow().read()?))),
    })
}

fn of_ones(spread: Spread) -> bool {
    spread.mean == 1.0 && spread.variance == 0.0
}

fn of_all<T: Element<Sum: Into<Number>> + Into<Number>>(
    device: &Device,
    n: usize,
) -> warpfold::Result<Vec<Entrant<T>>> {
    let is = move |value: T::Sum, expected: usize| value.into().0 == expected as f64;
    let one = |value: T| value.into().0 == 1.0;
    Ok(vec![
        entrant(device, "sum", op::Sum, move |left| is(left, n))?,
        entrant(device, "sum of squares", op::SumOfSquares, move |left| is(left, n))?,
        entrant(device, "sum of magnitudes", op::SumOfMagnitudes, move |left| is(left, n))?,
        entrant(device, "product", op::Product, move |left| is(left, 1))?,
        entrant(device, "min", op::Min, one)?,
        entrant(device, "min and max", op::MinMax, move |left| one(left.min) && one(left.max))?,
        entrant(device, "arg max", op::ArgMax, |left| left.index == 0)?,
        entrant(device, "count of non-zeros", op::CountNonZero, move |left| left == n as u64)?,
        entrant(device, "mean and variance", op::MeanAndVariance, of_ones)?,
        entrant(device, "mean", op::Mean, |left| left == 1.0)?,
        entrant(device, "L2 norm", op::L2Norm, move |left| left == (n as f64).sqrt())?,
    ])
}

fn of_floats<T: Float<Sum: Into<Number>>>(
    device: &Device,
    n: usize,
) -> warpfold::Result<Vec<Entrant<T>>> {
    let is_n = move |value: T::Sum| value.into().0 == n as f64;
    Ok(vec![
        entrant(device, "sum everywhere", op::Sum.reproducible(), is_n)?,
        entrant(device, "sum of squares everywhere", op::SumOfSquares.reproducible(), is_n)?,
        entrant(device, "sum of magnitudes everywhere", op::SumOfMagnitudes.reproducible(), is_n)?,
        entrant(device, "log of the sum of exponentials", op::LogSumExp, move |left: T::Sum| {
            (left.into().0 - 1.0 - (n as f64).ln()).abs() < 1e-4
        })?,
        entrant(device, "sum of numbers everywhere", op::Sum.skip_nan().reproducible(), is_n)?,
        entrant(
            device,
            "sum of squares of numbers everywhere",
            op::SumOfSquares.skip_nan().reproducible(),
            is_n,
        )?,
        entrant(
            device,
            "sum of magnitudes of numbers everywhere",
            op::SumOfMagnitudes.skip_nan().reproducible(),
            is_n,
        )?,
        entrant(device, "sum of numbers", op::Sum.skip_nan(), is_n)?,
        entrant(device, "sum of squares of numbers", op::SumOfSquares.skip_nan(), is_n)?,
        entrant(device, "sum of magnitudes of numbers", op::SumOfMagnitudes.skip_nan(), is_n)?,
        entrant(device, "L2 norm of numbers", op::L2Norm.skip_nan(), move |left| {
            left == (n as f64).sqrt()
        })?,
        entrant(device, "product of numbers", op::Product.skip_nan(), |left: T::Sum| {
            left.into().0 == 1.0
        })?,
        entrant(device, "min of numbers", op::Min.skip_nan(), |left: T| left > T::zeroed())?,
        entrant(device, "min and max of numbers", op::MinMax.skip_nan(), |left| {
            left.min == left.max && left.max > T::zeroed()
        })?,
        entrant(device, "arg max of numbers", op::ArgMax.skip_nan(), |left| left.index == 0)?,
        entrant(device, "mean and variance of numbers", op::MeanAndVariance.skip_nan(), of_ones)?,
        entrant(device, "mean and variance everywhere", op::MeanAndVariance.reproducible(), of_ones)?,
        spread_of_numbers_everywhere(device, of_ones)?,
        entrant(device, "count of NaN", op::CountNan, |left| left == 0)?,
    ])
}

/// Returns whether two results over millions of elements differ only by rounding.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-3
}

fn spread_of_numbers_everywhere<T: Float>(
    device: &Device,
    is_right: impl Fn(Spread) -> bool + 'static,
) -> warpfold::Result<Entrant<T>> {
    let op = op::MeanAndVariance.skip_nan().reproducible();
    entrant(device, "mean and variance of numbers everywhere", op, is_right)
}

fn spread_of_numbers<T: Float>(values: &[T]) -> warpfold::Result<Spread> {
    let spread = cpu::reduce(op::MeanAndVariance.skip_nan().reproducible(), values)?;
    Ok(spread.unwrap_or(Spread { mean: f64::NAN, variance: f64::NAN }))
}

/// Returns the operations whose time may depend on the elements. `values` has no NaN.
fn of_normal<T: Float<Sum: Into<Number>>>(
    device: &Device,
    values: &[T],
) -> warpfold::Result<Vec<Entrant<T>>> {
    let number = |sum: T::Sum| sum.into().0;
    let sum = number(cpu::reduce(op::Sum.reproducible(), values)?);
    let squares = number(cpu::reduce(op::SumOfSquares.reproducible(), values)?);
    let Spread { mean, variance } = spread_of_numbers(values)?;
    let same = move |left: Spread| left.mean == mean && left.variance == variance;
    let n = values.len() as f64;
    Ok(vec![
        entrant(device, "sum", op::Sum, move |left| near(number(left) / n, sum / n))?,
        entrant(device, "mean and variance", op::MeanAndVariance, move |left| {
            near(left.mean, mean) && near(left.variance, variance)
        })?,
        entrant(device, "sum everywhere", op::Sum.reproducible(), move |left| number(left) == sum)?,
        entrant(device, "sum of squares everywhere", op::SumOfSquares.reproducible(), move |left| {
            number(left) == squares
        })?,
        entrant(device, "mean and variance everywhere", op::MeanAndVariance.reproducible(), same)?,
        spread_of_numbers_everywhere(device, same)?,
    ])
}

fn of_some_nan<T: Float<Sum: Into<Number>>>(
    device: &Device,
    values: &[T],
) -> warpfold::Result<Vec<Entrant<T>>> {
    let number = |sum: T::Sum| sum.into().0;
    let sum = number(cpu::reduce(op::Sum.skip_nan().reproducible(), values)?);
    let squares = number(cpu::reduce(op::SumOfSquares.skip_nan().reproducible(), values)?);
    let Spread { mean, variance } = spread_of_numbers(values)?;
    let same = move |left: Spread| left.mean == mean && left.variance == variance;
    let n = values.len() as f64;
    Ok(vec![
        entrant(device, "sum of numbers", op::Sum.skip_nan(), move |left| {
            near(number(left) / n, sum / n)
        })?,
        entrant(device, "mean and variance of numbers", op::MeanAndVariance.skip_nan(), move |left| {
            near(left.mean, mean) && near(left.variance, variance)
        })?,
        entrant(device, "sum of numbers everywhere", op::Sum.skip_nan().reproducible(), move |left| {
            number(left) == sum
        })?,
        entrant(
            device,
            "sum of squares of numbers everywhere",
            op::SumOfSquares.skip_nan().reproducible(),
            move |left| number(left) == squares,
        )?,
        spread_of_numbers_everywhere(device, same)?,
    ])
}

/// Replaces about one in `one_in` elements by NaN, deterministically.
fn put_nan<T>(values: &mut [T], one_in: u64, nan: impl Fn() -> T) {
    for (at, value) in (0_u64..).zip(values) {
        if (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(one_in) {
            *value = nan();
        }
    }
}

/// Returns normally distributed elements, deterministically.
fn normal<T: Copy>(n: usize, nearest: impl Fn(f64) -> T) -> Vec<T> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / 2_f64.powi(53)
    };
    let element = || nearest((-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos());
    let some: Vec<T> = iter::repeat_with(element).take(n.min(1 << 20)).collect();
    some.iter().copied().cycle().take(n).collect()
}

fn of_widened<T: Element, A: Copy + PartialEq + 'static>(
    device: &Device,
    sum: A,
) -> warpfold::Result<Vec<Entrant<T>>>
where
    SumIn<A>: Operation<T, Left = A>,
{
    let op = op::Sum.accumulate_in::<A>();
    Ok(vec![entrant(device, "sum in a wider type", op, move |left| left == sum)?])
}

fn of_integers<T: Integer + Into<Number>>(
    device: &Device,
    _n: usize,
) -> warpfold::Result<Vec<Entrant<T>>> {
    Ok(vec![
        entrant(device, "and", op::BitAnd, |left: T| left.into().0 == 1.0)?,
        entrant(device, "xor", op::BitXor, |left: T| left.into().0 == 0.0)?,
    ])
}

fn of_long_integers<T: Integer + Into<Number>>(
    device: &Device,
    n: usize,
) -> warpfold::Result<Vec<Entrant<T>>>
where
    op::L1Norm: RowsOperation<T, Left = f64>,
{
    let mut entrants = of_integers(device, n)?;
    entrants.push(entrant(device, "L1 norm", op::L1Norm, move |left| left == n as f64)?);
    Ok(entrants)
}

struct Number(f64);

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Number {
            #[allow(clippy::cast_lossless)]
            fn from(value: $ty) -> Self {
                Self(value as f64)
            }
        }
    )*};
}

numbers!(i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);

impl From<f16> for Number {
    fn from(value: f16) -> Self {
        Self(value.into())
    }
}

impl From<bf16> for Number {
    fn from(value: bf16) -> Self {
        Self(value.into())
    }
}

fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let [least, median, most] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{{\"median\":{median:.4},\"min\":{least:.4},\"max\":{most:.4}}}")
}

fn contest<T: Element>(
    device: &Device,
    (dtype, elements): (&str, &str),
    values: &[T],
    entrants: &[Entrant<T>],
) -> Result<(), Box<dyn Error>> {
    let (reducer, stream) = (Reducer::new(device)?, device.stream()?);
    let (n, bytes) = (values.len(), size_of_val(values));
    let inputs = (ROTATED / bytes).clamp(2, 1024);
    let inputs: Vec<Buffer<T>> = (0..inputs).map(|_| device.upload(values)).collect::<Result<_, _>>()?;
    let runs = (ROUND_BYTES / bytes).clamp(8, 2000);
    let mut times = vec![Vec::new(); entrants.len()];
    let mut ratios = times.clone();
    for round in 0..=ROUNDS {
        let mut of_sum = 0.0;
        for (at, entrant) in entrants.iter().enumerate() {
            let start = Instant::now();
            for run in 0..runs {
                (entrant.run)(reducer.on(&stream), &inputs[run % inputs.len()])?;
            }
            stream.synchronize()?;
            let took = start.elapsed().as_secs_f64() * 1e6 / runs as f64;
            if !(entrant.is_right)()? {
                return Err(format!(
                    "the {} of {n} elements of {dtype}, {elements}, is wrong",
                    entrant.name
                )
                .into());
            }
            of_sum = if at == 0 { took } else { of_sum };
            // The first round loads the kernels.
            if round > 0 {
                times[at].push(took);
                ratios[at].push(took / of_sum);
            }
        }
    }
    for ((entrant, times), ratios) in entrants.iter().zip(&mut times).zip(&mut ratios) {
        let (name, of_sum, us) = (entrant.name, spread(ratios), spread(times));
        println!(
            "{{\"device\":\"{}\",\"dtype\":\"{dtype}\",\"elements\":\"{elements}\",\"n\":{n},\"op\":\"{name}\",\
             \"us\":{us},\"gb_per_s\":{:.0},\"of_sum\":{of_sum}}}",
            device.info().name,
            bytes as f64 / times[times.len() / 2] / 1e3,
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let takes = |dtype: &str| given.is_empty() || given.iter().any(|name| name == dtype);
    let Ok(device) = Device::open(Selection::Cuda) else {
        println!("no GPU: nothing is measured");
        return Ok(());
    };
    macro_rules! each {
        ($($ty:ty: $one:expr, $more:ident $(, in $wide:ty)?;)*) => {$(
            if takes(stringify!($ty)) {
                for bytes in BYTES {
                    let n = bytes / size_of::<$ty>();
                    let mut entrants = of_all::<$ty>(&device, n)?;
                    entrants.extend($more::<$ty>(&device, n)?);
                    $(entrants.extend(of_widened::<$ty, $wide>(&device, n as $wide)?);)?
                    contest(&device, (stringify!($ty), "ones"), &vec![$one; n], &entrants)?;
                }
            }
        )*};
    }
    let nan = env::args().find_map(|arg| arg.strip_prefix("--nan=").map(str::to_owned));
    let nan = nan.map(|one_in| one_in.parse::<NonZero<u64>>()).transpose()?.map(NonZero::get);
    macro_rules! each_normal {
        ($($ty:ident: $nearest:expr;)*) => {$(
            if takes(stringify!($ty)) {
                for bytes in BYTES {
                    let mut values = normal::<$ty>(bytes / size_of::<$ty>(), $nearest);
                    let (elements, entrants) = if let Some(one_in) = nan {
                        put_nan(&mut values, one_in, || ($nearest)(f64::NAN));
                        (format!("normal, NaN one in {one_in}"), of_some_nan(&device, &values)?)
                    } else {
                        ("normal".to_owned(), of_normal(&device, &values)?)
                    };
                    contest(&device, (stringify!($ty), &elements), &values, &entrants)?;
                }
            }
        )*};
    }
    if nan.is_some() || env::args().any(|arg| arg == "--normal") {
        each_normal! {
            f32: |value: f64| value as f32;
            f64: |value: f64| value;
            f16: f16::from_f64;
            bf16: bf16::from_f64;
        }
        return Ok(());
    }
    each! {
        f32: 1.0, of_floats, in f64;
        f64: 1.0, of_floats;
        f16: f16::ONE, of_floats, in f64;
        bf16: bf16::ONE, of_floats, in f64;
        i8: 1, of_integers;
        u8: 1, of_integers;
        i16: 1, of_integers;
        u16: 1, of_integers;
        i32: 1, of_integers;
        u32: 1, of_integers;
        i64: 1, of_long_integers, in i128;
        u64: 1, of_long_integers, in u128;
    }
    Ok(())
}
