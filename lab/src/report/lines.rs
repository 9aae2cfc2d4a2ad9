//! Lines of a results file: a machine, a time of a comparison, a single run, or machine code.
//!
//! Times and machines are parsed with the types that write them. Runs and machine code are written by
//! types with catalogue rows, which cannot be deserialized; the types here have the fields that the
//! report shows.

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

pub(super) enum Line {
    Machine(Box<Machine>),
    Point {
        /// The time was taken in turns with peers.
        compared: bool,
        ok: bool,
        point: Option<Box<Point>>,
    },
    Code(Box<Code>),
}

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
    pub(super) inputs: Option<String>,
    pub(super) graph: bool,
    /// The variant ran alone, not in turns with others.
    pub(super) single: bool,
    pub(super) gpu: Option<String>,
    /// The median in microseconds.
    pub(super) median: f64,
    /// The quartiles; for single runs the fastest and the slowest.
    pub(super) spread: (f64, f64),
    pub(super) fastest: f64,
    pub(super) gbps: Option<f64>,
    pub(super) percent: Option<f64>,
    pub(super) over_cuda_c: Option<Ratio>,
    pub(super) over_llvm: Option<Ratio>,
    pub(super) over_cub: Option<Ratio>,
    pub(super) over_limit: Option<f64>,
    pub(super) over_empty: Option<f64>,
    pub(super) launch: Option<String>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) copy_us: Option<f64>,
    pub(super) copy_spread: Option<(f64, f64)>,
    pub(super) reduce_us: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Code {
    pub(super) entry: String,
    pub(super) variant: String,
    pub(super) op: Option<String>,
    pub(super) dtype: String,
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

/// Identity of the work: operation, type, elements, extent and graph.
pub(super) type Case<'a> = (Option<&'a str>, &'a str, u64, [Option<u64>; 3], bool);

impl Point {
    pub(super) fn case(&self) -> Case<'_> {
        let extent = [self.width, self.height, self.stride];
        (self.op.as_deref(), &self.dtype, self.n, extent, self.graph)
    }

    pub(super) fn times_cub(&self) -> Option<f64> {
        self.over_cub.map(|ratio| 1.0 / ratio.median)
    }

    pub(super) fn place(&self) -> usize {
        catalogue::ids().position(|id| id == self.variant).unwrap_or(usize::MAX)
    }

    pub(super) fn is_reducer(&self) -> bool {
        self.variant == REDUCER
    }

    /// Returns whether the point reduces the rows of a matrix to a result each.
    pub(super) fn is_of_rows(&self) -> bool {
        self.op.is_some() && self.height.is_some()
    }

    pub(super) fn is_llvm(&self) -> bool {
        self.peer == "rust-llvm"
    }

    pub(super) fn is_nvvm(&self) -> bool {
        self.peer == "rust-nvvm"
    }

    pub(super) fn is_rust(&self) -> bool {
        self.peer.starts_with("rust-")
    }
}

/// Parses a line.
///
/// # Errors
/// A truncated line, no JSON, or an unknown kind of line.
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

/// Parses a line as JSON that is safe to show.
///
/// # Errors
/// A truncated line, no JSON, or control characters.
pub(super) fn value(line: &str) -> Result<Value> {
    let value: Value = serde_json::from_str(line).map_err(|error| match error.is_eof() {
        true => anyhow!("is cut off; measure the set again"),
        false => anyhow!("is no JSON: {error}"),
    })?;
    trusted::require_text(&value)?;
    Ok(value)
}

/// Parses a machine; missing fields are empty. Writers with a single line about the GPU append the
/// driver to its name, after a comma.
///
/// # Errors
/// Fields of wrong types.
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
