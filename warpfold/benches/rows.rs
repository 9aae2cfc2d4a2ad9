//! The cost of reductions of every row or every column of a matrix of f32, over shapes from one row or
//! column to 2^26, with results left in device memory, in turns with the sum of the whole buffer.
//!
//! `rows [sum | argmax | spread | mean | l2 ...] [ROWSxLEN | MATRICESxROWSxCOLUMNS ...]` runs on a GPU,
//! or, with `DEVICE=sim`, in the simulator with small default shapes and meaningless times. Prints a
//! line of JSON per operation and shape: microseconds per reduction in a sequence of enqueued
//! reductions, bytes read and written per second, and their ratios to the device's peak and to the
//! buffer's sum in the same round, each as the median of the rounds with its quartiles. Inputs rotate,
//! so that none is in the L2 cache. Times are from the host's clock; below a few microseconds they are
//! those of the calls.

use std::{env, error::Error, time::Instant};

use warpfold::{
    Axis, Buffer, Device, Located, Output, Outputs, Reducer, Selection, Spread, Stream,
    internal::{AxisLaunch, RowsLaunch, axis_launch, rows_launch},
    op,
};
use warpfold_driver::{Driver, sys};

/// Total bytes of the rotated inputs: more than twice the L2 cache of any GPU.
const ROTATED: usize = 256 << 20;
const ROUNDS: usize = 15;
const ROUND_BYTES: usize = 8 << 30;
const SIMULATED: (usize, usize) = (2, 3);

/// Number of matrices, length of their columns, and number of columns of each. With one column each, the
/// columns are the rows of a single matrix.
type Shape = [usize; 3];

fn shapes(simulated: bool) -> Vec<Shape> {
    let lens = [1 << 28, 1 << 24, 1 << 20, 65_536, 4096, 1024, 256, 64, 32, 16, 4];
    let of = |total: usize, lens: &[usize]| -> Vec<Shape> {
        lens.iter().filter(|&&len| len <= total).map(|&len| [total / len, len, 1]).collect()
    };
    if simulated {
        let rows = [of(1 << 13, &lens[3..]), of(1 << 13, &[3, 5, 100, 1000, 8192])].concat();
        return [rows, vec![[1, 2048, 4], [1, 64, 100], [4, 16, 128]]].concat();
    }
    let odd = of(1 << 28, &[3, 5, 100, 1000, 1001, 10_001]);
    [of(1 << 28, &lens), odd, of(1 << 24, &lens), of(1 << 20, &lens)].concat()
}

#[derive(Clone, Copy, PartialEq)]
enum OpKind {
    Sum,
    ArgMax,
    Spread,
    Mean,
    L2,
}

impl OpKind {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::ArgMax => "argmax",
            Self::Spread => "spread",
            Self::Mean => "mean",
            Self::L2 => "l2",
        }
    }
}

/// Returns the value of all elements of a row or column, so that its results are known.
fn value_of(result: usize) -> f32 {
    (result % 5 + 1) as f32
}

struct Contest {
    reducer: Reducer,
    stream: Stream,
    inputs: Vec<Buffer<f32>>,
    shape: Shape,
    op: OpKind,
    sums: Outputs<f32>,
    places: Outputs<Located<f32>>,
    spreads: Outputs<Spread>,
    numbers: Outputs<f64>,
    whole: Output<f32>,
    runs: usize,
}

impl Contest {
    fn new(device: &Device, op: OpKind, shape: Shape) -> warpfold::Result<Self> {
        let [matrices, len, width] = shape;
        let (n, results) = (matrices * len * width, matrices * width);
        let (inputs, runs) = if device.info().simulated {
            SIMULATED
        } else {
            ((ROTATED / (4 * n)).clamp(2, 64), (ROUND_BYTES / (4 * n)).clamp(16, 2000))
        };
        let values: Vec<f32> =
            (0..n).map(|index| value_of(index / (len * width) * width + index % width)).collect();
        let of = |wanted: &[OpKind]| if wanted.contains(&op) { results } else { 0 };
        Ok(Self {
            reducer: Reducer::new(device)?,
            stream: device.stream()?,
            inputs: (0..inputs).map(|_| device.upload(&values)).collect::<Result<_, _>>()?,
            shape,
            op,
            sums: device.outputs(of(&[OpKind::Sum]))?,
            places: device.outputs(of(&[OpKind::ArgMax]))?,
            spreads: device.outputs(of(&[OpKind::Spread]))?,
            numbers: device.outputs(of(&[OpKind::Mean, OpKind::L2]))?,
            whole: device.output()?,
            runs,
        })
    }

    /// Returns the microseconds per reduction, along the axis if `of_all`, else of the whole buffer.
    fn round(&mut self, of_all: bool) -> warpfold::Result<f64> {
        let on = self.reducer.on(&self.stream);
        let start = Instant::now();
        for run in 0..self.runs {
            let input = &self.inputs[run % self.inputs.len()];
            if !of_all {
                on.reduce_into(op::Sum, input, &mut self.whole)?;
                continue;
            }
            let axis = input.axis(&self.shape, 1)?;
            match self.op {
                OpKind::Sum => on.reduce_into(op::Sum, &axis, &mut self.sums)?,
                OpKind::ArgMax => on.reduce_into(op::ArgMax, &axis, &mut self.places)?,
                OpKind::Spread => on.reduce_into(op::MeanAndVariance, &axis, &mut self.spreads)?,
                OpKind::Mean => on.reduce_into(op::Mean, &axis, &mut self.numbers)?,
                OpKind::L2 => on.reduce_into(op::L2Norm, &axis, &mut self.numbers)?,
            }
        }
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / self.runs as f64)
    }

    fn is_right(&self) -> warpfold::Result<bool> {
        let close = |found: f32, expected: f32| (found - expected).abs() <= expected * 1e-5;
        Ok(match self.op {
            OpKind::Sum => {
                let sums = self.sums.read()?.into_iter().enumerate();
                sums.fold(true, |right, (row, sum)| {
                    right & close(sum, value_of(row) * self.shape[1] as f32)
                })
            }
            OpKind::ArgMax => {
                let places = self.places.read()?.into_iter().enumerate();
                places.fold(true, |right, (row, place)| {
                    right & (place == Located { value: value_of(row), index: 0 })
                })
            }
            OpKind::Spread => {
                let spreads = self.spreads.read()?.into_iter().enumerate();
                let of = |row| Spread { mean: value_of(row).into(), variance: 0.0 };
                spreads.fold(true, |right, (row, spread)| right & (spread == of(row)))
            }
            OpKind::Mean | OpKind::L2 => {
                let factor = if self.op == OpKind::Mean { 1.0 } else { (self.shape[1] as f32).sqrt() };
                let numbers = self.numbers.read()?.into_iter().enumerate();
                numbers.fold(true, |right, (row, number)| {
                    right & close(number as f32, value_of(row) * factor)
                })
            }
        })
    }

    fn bytes(&self) -> f64 {
        let pairs = self.places.len() + self.spreads.len();
        let written = 4 * self.sums.len() + 8 * self.numbers.len() + 16 * pairs;
        (4 * self.inputs[0].len() + written) as f64
    }
}

/// Returns the median and quartiles, or `null` if there is a NaN, which JSON cannot represent.
fn quartiles(mut values: Vec<f64>) -> String {
    if values.iter().any(|value| value.is_nan()) {
        return "null".to_owned();
    }
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    format!("{{\"median\":{:.4},\"q1\":{:.4},\"q3\":{:.4}}}", at(2), at(1), at(3))
}

/// Formats the library's launch, or `null` for a single row, which is reduced as a buffer.
fn launch(axis: &Axis<'_, f32>, [matrices, len, width]: Shape) -> warpfold::Result<String> {
    if matrices * width == 1 {
        return Ok("null".to_owned());
    }
    if width == 1 {
        let RowsLaunch { kernel, share, block, blocks, tile, .. } =
            rows_launch(&axis.buffer().rows(len)?)?;
        return Ok(format!(
            "{{\"kernel\":\"{kernel}\",\"share\":{share},\"block\":{block},\"blocks\":{blocks},\
             \"tile\":{tile}}}"
        ));
    }
    let AxisLaunch { kernel, share, across, block, blocks } = axis_launch(axis)?;
    Ok(format!(
        "{{\"kernel\":\"{kernel}\",\"share\":{share},\"across\":{across},\"block\":{block},\
         \"blocks\":{blocks}}}"
    ))
}

/// Returns the peak bytes per second, from the memory's clock rate and bus width.
fn peak(device: &Device) -> Result<f64, Box<dyn Error>> {
    let driver = Driver::load()?;
    let ordinal = driver.device_get(device.info().ordinal)?;
    let get = |attribute| driver.device_get_attribute(ordinal, attribute).map(f64::from);
    let kilohertz = get(sys::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bits = get(sys::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
    Ok(2.0 * kilohertz * 1e3 * bits / 8.0)
}

fn measure(device: &Device, op: OpKind, shape: Shape, peak: f64) -> Result<(), Box<dyn Error>> {
    let mut contest = Contest::new(device, op, shape)?;
    let (mut times, mut rates, mut of_peak, mut of_sum) = (vec![], vec![], vec![], vec![]);
    let rounds = if device.info().simulated { 1 } else { ROUNDS };
    for round in 0..=rounds {
        let whole = contest.round(false)?;
        let rows = contest.round(true)?;
        if round == 0 && !contest.is_right()? {
            return Err(format!("{} along {shape:?} is wrong", op.name()).into());
        }
        // The first round loads the kernels.
        if round > 0 {
            let rate = contest.bytes() / rows * 1e6;
            times.push(rows);
            rates.push(rate / 1e9);
            of_peak.push(rate / peak);
            of_sum.push(rate / (4e6 * contest.inputs[0].len() as f64 / whole));
        }
    }
    if !contest.is_right()? {
        return Err(format!("{} along {shape:?} is wrong at last", op.name()).into());
    }
    println!(
        "{{\"device\":\"{}\",\"op\":\"{}\",\"rows\":{},\"len\":{},{}\"launch\":{},\
         \"us\":{},\"gb_per_s\":{},\"of_peak\":{},\"of_sum\":{}}}",
        device.info().name,
        op.name(),
        shape[0],
        shape[1],
        if shape[2] > 1 { format!("\"columns\":{},", shape[2]) } else { String::new() },
        launch(&contest.inputs[0].axis(&shape, 1)?, shape)?,
        quartiles(times),
        quartiles(rates),
        quartiles(of_peak),
        quartiles(of_sum)
    );
    Ok(())
}

/// Parses the operations and shapes, without the flags that `cargo bench` adds.
fn arguments() -> Result<(Vec<OpKind>, Vec<Shape>), Box<dyn Error>> {
    let (mut ops, mut shapes) = (Vec::new(), Vec::new());
    for given in env::args().skip(1).filter(|given| !given.starts_with("--")) {
        let lens: Vec<&str> = given.split('x').collect();
        match (given.as_str(), &lens[..]) {
            ("sum", _) => ops.push(OpKind::Sum),
            ("argmax", _) => ops.push(OpKind::ArgMax),
            ("spread", _) => ops.push(OpKind::Spread),
            ("mean", _) => ops.push(OpKind::Mean),
            ("l2", _) => ops.push(OpKind::L2),
            (_, [rows, len]) => shapes.push([rows.parse()?, len.parse()?, 1]),
            (_, [matrices, len, width]) => {
                shapes.push([matrices.parse()?, len.parse()?, width.parse()?]);
            }
            _ => {
                let known = "sum, argmax, spread, mean, l2, ROWSxLEN nor MATRICESxROWSxCOLUMNS";
                return Err(format!("`{given}` is neither {known}").into());
            }
        }
    }
    if ops.is_empty() {
        ops.push(OpKind::Sum);
    }
    Ok((ops, shapes))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (ops, mut wanted) = arguments()?;
    let simulated = env::var("DEVICE").is_ok_and(|device| device == "sim");
    let device = match Device::open(if simulated { Selection::Sim } else { Selection::Cuda }) {
        Ok(device) => device,
        Err(error) if !simulated => {
            println!("no GPU, nothing is measured: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let peak = if simulated { f64::NAN } else { peak(&device)? };
    if wanted.is_empty() {
        wanted = shapes(simulated);
    }
    for op in ops {
        for &shape in &wanted {
            measure(&device, op, shape, peak)?;
        }
    }
    Ok(())
}
