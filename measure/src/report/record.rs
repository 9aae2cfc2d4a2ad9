//! One line of a results file, and the checks that make it safe to show.
//!
//! Fields have the names of the files: those of a comparison's `Time`, of a row of `cargo xtask run
//! --json`, of machine code, or of a case of the library's benches.

use crate::contest::Ratio;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use warpfold_suite::{catalogue, visible};

use super::format::count;
use crate::compare::timed::{
    record::{Machine, Time},
    reducer::{self, REDUCER},
    targets::{self, Verdict},
};

/// Upper limit of a time, a rate or a ratio.
const MOST: f64 = 1e15;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Point {
    pub(super) variant: String,
    /// The peer by its name in [`Time::peer`], or `cpu`.
    #[serde(default)]
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
    #[serde(default)]
    pub(super) graph: bool,
    pub(super) ok: bool,
    device: Option<String>,
    device_name: Option<String>,
    codegen: Option<String>,
    pub(super) time_us: Option<Timing>,
    pub(super) copy_us: Option<Timing>,
    pub(super) reduce_us: Option<Timing>,
    #[serde(rename = "bandwidth_gbps")]
    pub(super) gbps: Option<f64>,
    #[serde(rename = "percent_of_peak")]
    pub(super) percent: Option<f64>,
    #[serde(rename = "ratio_to_cuda_c")]
    pub(super) over_cuda_c: Option<Ratio>,
    #[serde(rename = "ratio_to_llvm")]
    pub(super) over_llvm: Option<Ratio>,
    #[serde(rename = "ratio_to_cub")]
    pub(super) over_cub: Option<Ratio>,
    #[serde(rename = "ratio_to_limit")]
    pub(super) over_limit: Option<f64>,
    #[serde(rename = "ratio_to_empty")]
    pub(super) over_empty: Option<f64>,
    /// True if the variant ran alone, without alternating contenders.
    #[serde(skip)]
    pub(super) single: bool,
    #[serde(skip)]
    pub(super) median: f64,
    #[serde(skip)]
    pub(super) fastest: f64,
    /// The quartiles; for single runs the fastest and the slowest.
    #[serde(skip)]
    pub(super) spread: (f64, f64),
    #[serde(skip)]
    pub(super) launch: String,
    #[serde(skip)]
    pub(super) verdicts: Vec<Verdict>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Timing {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    q1: Option<f64>,
    q3: Option<f64>,
}

/// A line that is not a [`Point`]: a case of a library bench or of a group of GPUs, or machine code.
#[derive(Debug, Clone)]
pub(super) struct Case(pub(super) Value);

/// The numbers that machine code must have.
const CODE: [&str; 6] = [
    "resources/registers",
    "resources/static_shared_bytes",
    "resources/spill_store_bytes",
    "resources/spill_load_bytes",
    "instructions/total",
    "instructions/block_barriers",
];

/// Identity of the work: operation, type, elements, extent and graph.
pub(super) type Work<'a> = (Option<&'a str>, &'a str, u64, [Option<u64>; 3], bool);

/// Parses a line as JSON that is safe to show.
pub(super) fn parse(line: &str) -> Result<Value> {
    let value: Value = serde_json::from_str(line).map_err(|error| match error.is_eof() {
        true => anyhow!("is cut off; measure the set again"),
        false => anyhow!("is not JSON: {error}"),
    })?;
    ensure!(value.is_object(), "is not a JSON object");
    require(&value, false)?;
    Ok(value)
}

fn require(value: &Value, measured: bool) -> Result<()> {
    // The JSON parser limits the depth of recursion.
    match value {
        Value::String(text) if text.contains(char::is_control) => {
            bail!("has control characters: {}", visible(text))
        }
        Value::String(_) | Value::Bool(_) if measured => {
            bail!("has {value} in place of a time or a rate")
        }
        Value::Number(number) if measured => {
            let number = number.as_f64().unwrap_or_default();
            ensure!(
                number > 0.0 && number <= MOST,
                "has {number} as a time or a rate, which must be above 0, up to {MOST:e}"
            );
        }
        Value::Array(items) => items.iter().try_for_each(|item| require(item, measured))?,
        Value::Object(fields) => {
            for (name, value) in fields {
                ensure!(
                    !name.contains(char::is_control),
                    "has control characters in the name of a field"
                );
                require(value, measured || is_measured(name))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_measured(field: &str) -> bool {
    let ends = ["_us", "_gbps", "gb_per_s", "percent_of_peak", "of_sum", "to_sum"];
    field == "us" || field.starts_with("ratio_to_") || ends.iter().any(|end| field.ends_with(end))
}

fn require_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    ensure!(
        !name.is_empty() && name.chars().all(is_plain),
        "has the name `{name}`; allowed are ASCII letters, digits and _-.+"
    );
    Ok(())
}

fn missing(field: &str) -> String {
    format!("lacks the field `{field}`, or its type is wrong")
}

/// Reads a machine. Missing fields are empty. A driver may follow the GPU's name, after a comma.
pub(super) fn machine(line: &Value) -> Result<Machine> {
    let mut all = serde_json::to_value(Machine::default())?;
    for (name, value) in line.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        all[name] = value.clone();
    }
    let mut machine = Machine::deserialize(&all)?;
    let named = machine.gpu.clone();
    let mut parts = named.split(", ");
    machine.gpu = parts.next().unwrap_or_default().to_owned();
    machine.driver = machine.driver.or_else(|| parts.next().map(str::to_owned));
    Ok(machine)
}

impl Point {
    /// Reads a line of a comparison or, if `single`, of a run.
    pub(super) fn read(line: &Value, single: bool) -> Result<Self> {
        let mut point = Self { single, ..Self::deserialize(line)? };
        if single {
            point.peer = match point.codegen.as_deref() {
                Some("cuda-c") => "cuda-c".to_owned(),
                Some(codegen) => format!("rust-{codegen}"),
                None => "cpu".to_owned(),
            };
        } else if point.is_reducer() {
            let time = Time::deserialize(line)?;
            (point.launch, point.verdicts) = (reducer::launch(&time), targets::verdicts(&time));
        }
        let names = [&point.variant, &point.peer, &point.dtype];
        names.into_iter().chain(&point.op).try_for_each(|name| require_name(name))?;
        let Timing { median, min, max, q1, q3 } = point.time_us.unwrap_or_default();
        let quartiles = q1.zip(q3).filter(|_| !single);
        ensure!(single || point.time_us.is_none() || quartiles.is_some(), missing("q1"));
        let spread = quartiles.unwrap_or((min, max));
        Ok(Self { median, fastest: min, spread, ..point })
    }

    pub(super) fn gpu(&self) -> Option<&str> {
        self.device_name.as_deref().filter(|_| self.device.as_deref() == Some("cuda"))
    }

    pub(super) fn work(&self) -> Work<'_> {
        let extent = [self.width, self.height, self.stride];
        (self.op.as_deref(), &self.dtype, self.n, extent, self.graph)
    }

    pub(super) fn times_cub(&self) -> Option<f64> {
        self.over_cub.map(|ratio| 1.0 / ratio.median)
    }

    pub(super) fn is_reducer(&self) -> bool {
        self.variant == REDUCER
    }

    /// Returns whether each row of a matrix was reduced to its own result.
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

    /// Returns whether the point has a ratio to a CUDA C twin and was not launched in a graph.
    pub(super) fn has_twin(&self) -> bool {
        self.is_rust() && !self.graph && self.over_cuda_c.is_some()
    }

    /// Returns whether the point is a sum of f32, or of i32 for a variant without f32.
    pub(super) fn is_sum(&self) -> bool {
        let variant = catalogue::VARIANTS.iter().find(|variant| variant.id == self.variant);
        let has_f32 = variant.is_none_or(|variant| variant.dtypes.contains(&warpfold_suite::Dtype::F32));
        self.op.as_deref() == Some("sum") && self.dtype == if has_f32 { "f32" } else { "i32" }
    }

    pub(super) fn is_f32_sum(&self) -> bool {
        self.op.as_deref() == Some("sum") && self.dtype == "f32"
    }

    pub(super) fn is_reduction(&self) -> bool {
        catalogue::reductions().any(|variant| variant.id == self.variant)
    }

    pub(super) fn is_missed(&self) -> bool {
        self.verdicts.iter().any(|verdict| !verdict.met)
    }
}

/// Returns a variant's position in the catalogue; `usize::MAX` if the catalogue lacks the variant.
pub(super) fn place(variant: &str) -> usize {
    catalogue::ids().position(|id| id == variant).unwrap_or(usize::MAX)
}

impl Case {
    pub(super) fn code(line: Value) -> Result<Self> {
        let code = Self(line);
        for field in CODE {
            code.whole(field).with_context(|| missing(field))?;
        }
        let names = ["entry", "variant", "dtype", "compiler", "arch"].map(|field| code.name(field));
        names
            .into_iter()
            .chain(code.text("op"))
            .chain(code.text("kernel"))
            .try_for_each(require_name)?;
        Ok(code)
    }

    /// Returns a field by its path, such as `resources/registers`.
    pub(super) fn field(&self, path: &str) -> Option<&Value> {
        self.0.pointer(&format!("/{path}"))
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.field(field)?.as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn name(&self, field: &str) -> &str {
        self.text(field).unwrap_or_default()
    }

    pub(super) fn is_torch(&self) -> bool {
        self.name("implementation").starts_with("PyTorch")
    }

    pub(super) fn whole(&self, field: &str) -> Option<u64> {
        self.field(field)?.as_u64()
    }

    /// Returns the number in a field, or the `median` of the object in it.
    pub(super) fn number(&self, field: &str) -> Option<f64> {
        let value = self.field(field)?;
        value.get("median").unwrap_or(value).as_f64()
    }

    /// Formats fields that identify a case, named in `fields` with spaces between, and joins them by ×.
    pub(super) fn identity(&self, fields: &str) -> Result<String> {
        let counts = |items: &[Value]| {
            items.iter().map(|item| item.as_u64().map(count)).collect::<Option<Vec<_>>>()
        };
        let cell = |field: &str| match self.field(field)? {
            Value::Bool(ragged) => Some(if *ragged { "Zipf's" } else { "equal" }.to_owned()),
            Value::Array(items) => {
                Some(counts(items)?.join(if field == "shape" { " × " } else { ", " }))
            }
            Value::Number(number) => number.as_u64().map(count),
            _ => self.text(field).map(str::to_owned),
        };
        let cells = fields.split(' ').map(|field| cell(field).with_context(|| missing(field)));
        Ok(cells.collect::<Result<Vec<_>>>()?.join(" × "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_numbers_that_no_measurement_gives_are_refused() {
        assert!(parse(r#"{"gpu": "NVIDIA H200", "n": [1, "µs"], "error": 0, "time_us": null}"#).is_ok());
        for (line, part) in [
            (r#"{"gpu": "a\nb"}"#, "control characters"),
            (r#"{"x": [{"y": "\u001b[2J"}]}"#, "control characters"),
            (r#"{"a\u009b": 1}"#, "name of a field"),
            (r#"{"time_us": {"median": 0}}"#, "must be above 0"),
            (r#"{"ratio_to_cub": {"median": 1, "q1": 1e300}}"#, "up to 1e15"),
            (r#"{"of_sum": "1"}"#, "in place of a time or a rate"),
            (r#"{"us": 1.0"#, "is cut off"),
        ] {
            let refused = parse(line).unwrap_err().to_string();
            assert!(refused.contains(part) && refused.lines().count() == 1, "{refused}");
        }
        let point = r#"{"variant": "<script>", "peer": "a", "dtype": "f32", "n": 1, "ok": true}"#;
        assert!(Point::read(&parse(point).unwrap(), false).is_err());
    }

    #[test]
    fn a_case_shows_its_fields() {
        let case = r#"{"op": "sum", "shape": [64, 4190, 1024], "axes": [0, 2], "ragged": true, "rows": 16,
            "mean": 1024, "us": {"median": 2.0, "q1": 1.5}, "runs_us": 20}"#;
        let case = Case(parse(case).unwrap());
        let shown =
            ["op", "shape", "axes", "ragged", "rows mean"].map(|fields| case.identity(fields).unwrap());
        assert_eq!(shown, ["sum", "64 × 4\u{202f}190 × 2¹⁰", "0, 2", "Zipf's", "16 × 2¹⁰"]);
        assert_eq!(
            [case.number("us"), case.number("runs_us"), case.number("n")],
            [Some(2.0), Some(20.0), None]
        );
        assert!(case.identity("op k").unwrap_err().to_string().contains("lacks the field `k`"));
    }
}
