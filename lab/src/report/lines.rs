//! A line of a results file: a machine, a time of a comparison, a single run, or machine code.
//!
//! Times and machines are read by the types that write them. Runs and machine code are written by types
//! that hold catalogue rows and cannot be read back; of those there is what the report shows.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value};
use warpfold_bench::Ratio;
use warpfold_suite::catalogue;

use super::trusted;
use crate::compare::timed::{
    record::{Machine, Time},
    reducer::{self, REDUCER},
    targets::{self, Verdict},
};

/// What a line says.
pub(super) enum Line {
    /// What measured the set.
    Machine(Box<Machine>),
    /// A time, or a run.
    Point {
        /// Whether it was taken in turns with peers.
        compared: bool,
        /// Whether the result was right.
        ok: bool,
        /// None where nothing was timed.
        point: Option<Box<Point>>,
    },
    /// The machine code of an entry.
    Code(Box<Code>),
}

/// A time of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Point {
    pub(super) variant: String,
    /// As in [`Time::peer`], or `cpu`.
    pub(super) peer: String,
    pub(super) op: Option<String>,
    pub(super) dtype: String,
    pub(super) n: u64,
    pub(super) width: Option<u64>,
    pub(super) height: Option<u64>,
    pub(super) stride: Option<u64>,
    pub(super) chunks: Option<u64>,
    pub(super) threads: Option<u64>,
    /// What the cache had of the elements, where that was compared.
    pub(super) inputs: Option<String>,
    pub(super) graph: bool,
    /// Whether it was run alone, not in turns with others.
    pub(super) single: bool,
    /// The GPU that it names.
    pub(super) gpu: Option<String>,
    /// The median in microseconds.
    pub(super) median: f64,
    /// The middle half of the runs; of single runs the fastest and the slowest.
    pub(super) spread: (f64, f64),
    /// The time of the fastest run.
    pub(super) fastest: f64,
    pub(super) gbps: Option<f64>,
    pub(super) percent: Option<f64>,
    pub(super) over_cuda_c: Option<Ratio>,
    pub(super) over_llvm: Option<Ratio>,
    pub(super) over_cub: Option<Ratio>,
    pub(super) over_limit: Option<f64>,
    pub(super) over_empty: Option<f64>,
    /// Kernel, blocks and threads, of the reducer.
    pub(super) launch: Option<String>,
    /// The verdicts on its targets.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) copy_us: Option<f64>,
    /// The fastest and the slowest of those copies.
    pub(super) copy_spread: Option<(f64, f64)>,
    pub(super) reduce_us: Option<f64>,
}

/// The machine code of an entry, as far as it is shown.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Code {
    pub(super) entry: String,
    pub(super) variant: String,
    pub(super) op: Option<String>,
    pub(super) dtype: String,
    /// Which of the reducer's kernels.
    pub(super) kernel: Option<String>,
    pub(super) compiler: String,
    pub(super) arch: String,
    pub(super) tools: String,
    pub(super) resources: Resources,
    pub(super) instructions: Instructions,
    pub(super) executed: Option<Executed>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Resources {
    pub(super) registers: u64,
    pub(super) static_shared_bytes: u64,
    pub(super) spill_store_bytes: u64,
    pub(super) spill_load_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Instructions {
    pub(super) total: u64,
    pub(super) global_loads: BTreeMap<String, u64>,
    pub(super) shared_loads: BTreeMap<String, u64>,
    pub(super) shared_stores: BTreeMap<String, u64>,
    pub(super) block_barriers: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Executed {
    pub(super) warp_instructions: u64,
}

/// A line of `cargo xtask run --json`.
#[derive(Deserialize)]
struct Run {
    variant: String,
    op: Option<String>,
    dtype: String,
    n: u64,
    stride: Option<u64>,
    width: Option<u64>,
    height: Option<u64>,
    threads: Option<u64>,
    chunks: Option<u64>,
    copy_us: Option<Timing>,
    reduce_us: Option<Timing>,
    device: String,
    device_name: String,
    codegen: Option<String>,
    ok: bool,
    time_us: Option<Timing>,
    bandwidth_gbps: Option<f64>,
    percent_of_peak: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
struct Timing {
    median: f64,
    min: f64,
    max: f64,
}

/// What tells work on one input from other work.
pub(super) type Case<'a> = (Option<&'a str>, &'a str, u64, [Option<u64>; 3], bool);

impl Point {
    /// What was to be done.
    pub(super) fn case(&self) -> Case<'_> {
        let extent = [self.width, self.height, self.stride];
        (self.op.as_deref(), &self.dtype, self.n, extent, self.graph)
    }

    /// How many times as fast as CUB it was, by the median of the rounds.
    pub(super) fn times_cub(&self) -> Option<f64> {
        self.over_cub.map(|ratio| 1.0 / ratio.median)
    }

    /// Where the variant stands in the catalogue; behind it what is not of the suite.
    pub(super) fn place(&self) -> usize {
        catalogue::ids().position(|id| id == self.variant).unwrap_or(usize::MAX)
    }

    /// Whether it is of the reducer.
    pub(super) fn is_reducer(&self) -> bool {
        self.variant == REDUCER
    }

    /// Whether it is of the rows of a matrix, with a result for each.
    pub(super) fn is_of_rows(&self) -> bool {
        self.op.is_some() && self.height.is_some()
    }

    /// Whether it is a kernel in Rust by the stock compiler.
    pub(super) fn is_llvm(&self) -> bool {
        self.peer == "rust-llvm"
    }

    /// Whether it is a kernel in Rust by rust-cuda.
    pub(super) fn is_nvvm(&self) -> bool {
        self.peer == "rust-nvvm"
    }

    /// Whether it is a kernel in Rust.
    pub(super) fn is_rust(&self) -> bool {
        self.peer.starts_with("rust-")
    }
}

/// Understands a line.
///
/// # Errors
/// What is cut off or no JSON, and a kind of line that is not known.
pub(super) fn read(line: &str) -> Result<Line> {
    let value = value(line)?;
    let object = value.as_object().context("is no JSON object")?;
    let line = match object.get("kind").map(|kind| kind.as_str().unwrap_or_default()) {
        Some("machine") => Line::Machine(Box::new(machine(object)?)),
        Some("time") => time(Time::deserialize(&value)?),
        Some(other) => bail!("has an unknown kind, `{other}`: there are machine and time"),
        None if object.contains_key("compiler") => Line::Code(Box::new(Code::deserialize(&value)?)),
        None if object.contains_key("device") => run(Run::deserialize(&value)?),
        None => bail!("has no kind, and is neither a run nor machine code"),
    };
    match &line {
        Line::Point { point: Some(point), .. } => trusted::require_point(point)?,
        Line::Code(code) => trusted::require_code(code)?,
        Line::Machine(_) | Line::Point { point: None, .. } => {}
    }
    Ok(line)
}

/// A line as JSON that may be shown.
///
/// # Errors
/// What is cut off or no JSON, and control characters.
pub(super) fn value(line: &str) -> Result<Value> {
    let value: Value = serde_json::from_str(line).map_err(|error| match error.is_eof() {
        true => anyhow!("is cut off; measure the set again"),
        false => anyhow!("is no JSON: {error}"),
    })?;
    trusted::require_text(&value)?;
    Ok(value)
}

/// A machine; fields that are missing are empty. What writes only one line about the GPU puts its
/// driver behind the name, with a comma.
///
/// # Errors
/// Fields that are not what they must be.
pub(super) fn machine(given: &Map<String, Value>) -> Result<Machine> {
    let mut all = serde_json::to_value(Machine::default())?;
    let fields = all.as_object_mut().context("a machine is an object")?;
    let there = given.iter().filter(|(name, value)| *name != "kind" && !value.is_null());
    fields.extend(there.map(|(name, value)| (name.clone(), value.clone())));
    let mut machine = Machine::deserialize(&all)?;
    let named = machine.gpu.clone();
    let mut parts = named.split(", ");
    machine.gpu = parts.next().unwrap_or_default().to_owned();
    machine.driver = machine.driver.or_else(|| parts.next().map(str::to_owned));
    Ok(machine)
}

fn time(time: Time) -> Line {
    let ok = time.ok;
    let is_reducer = time.variant == REDUCER;
    let verdicts = if is_reducer { targets::verdicts(&time) } else { Vec::new() };
    let launch = is_reducer.then(|| reducer::launch(&time));
    let point = time.time_us.map(|spread| {
        Box::new(Point {
            variant: time.variant,
            peer: time.peer,
            op: time.op,
            dtype: time.dtype,
            n: time.n,
            width: time.width,
            height: time.height,
            stride: time.stride,
            inputs: time.inputs,
            graph: time.graph,
            median: spread.median,
            spread: (spread.q1, spread.q3),
            fastest: spread.min,
            gbps: time.bandwidth_gbps,
            percent: time.percent_of_peak,
            over_cuda_c: time.ratio_to_cuda_c,
            over_llvm: time.ratio_to_llvm,
            over_cub: time.ratio_to_cub,
            over_limit: time.ratio_to_limit,
            over_empty: time.ratio_to_empty,
            launch,
            verdicts,
            ..Point::default()
        })
    });
    Line::Point { compared: true, ok, point }
}

fn run(run: Run) -> Line {
    let peer = match run.codegen.as_deref() {
        Some("cuda-c") => "cuda-c".to_owned(),
        Some(codegen) => format!("rust-{codegen}"),
        None => "cpu".to_owned(),
    };
    let is_gpu = run.device == "cuda";
    let point = run.time_us.map(|time| {
        Box::new(Point {
            variant: run.variant,
            peer,
            op: run.op,
            dtype: run.dtype,
            n: run.n,
            width: run.width,
            height: run.height,
            stride: run.stride,
            chunks: run.chunks,
            threads: run.threads,
            single: true,
            gpu: is_gpu.then_some(run.device_name),
            median: time.median,
            spread: (time.min, time.max),
            fastest: time.min,
            gbps: run.bandwidth_gbps,
            percent: run.percent_of_peak,
            copy_us: run.copy_us.map(|time| time.median),
            copy_spread: run.copy_us.map(|time| (time.min, time.max)),
            reduce_us: run.reduce_us.map(|time| time.median),
            ..Point::default()
        })
    });
    Line::Point { compared: false, ok: run.ok, point }
}
