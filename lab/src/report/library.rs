//! Results of the library's benches, in the folder `library` of a machine's results: one or more files
//! per bench, of JSON lines after a machine line.
//!
//! A file is called `<bench>[.<part>][.rust-cuda].jsonl`. A part is a separate run, of other operations
//! or on a later day; files with `rust-cuda` in their names were measured with rust-cuda's PTX, all
//! others with rustc's.

use std::iter;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::{format::count, lines, trusted};
use crate::compare::timed::record::Machine;

pub(super) const FOLDER: &str = "library";

#[derive(Debug)]
pub(super) struct Bench {
    pub(super) stem: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    /// The columns that identify a case.
    pub(super) columns: &'static [Column],
    pub(super) split: bool,
    /// The field of the time that the library is judged by.
    us: &'static str,
    /// Further times: column heads and fields.
    pub(super) also: &'static [(&'static str, &'static str)],
    /// The ratio to the sum that took turns with the case: column head and field.
    pub(super) of_sum: Option<(&'static str, &'static str)>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    field: &'static str,
    written: Written,
}

#[derive(Debug)]
enum Written {
    Name,
    Count,
    /// A product of numbers of elements, in the field and in these: 64 × 4 096.
    Times(&'static [&'static str]),
    /// A product of numbers of elements, all in the field.
    Shape,
    /// Several numbers, such as 0 and 2.
    List,
    /// A flag, with its texts for true and false.
    Flag(&'static str, &'static str),
}

const fn column(head: &'static str, field: &'static str, written: Written) -> Column {
    Column { head, field, written }
}

const TYPE: Column = column("type", "dtype", Written::Name);
const OP: Column = column("operation", "op", Written::Name);
const N: Column = column("n", "n", Written::Count);
const LENGTHS: Column = column("lengths", "ragged", Written::Flag("Zipf's", "equal"));

pub(super) const BENCHES: [Bench; 8] = [
    Bench {
        stem: "segments",
        title: "Segments by offsets",
        lead: "f32, a result for every segment of a buffer, left in device memory; medians of calls that \
               are enqueued behind each other. GB/s are of elements, results and, where lengths differ, \
               offsets. The look at the offsets is made once, before the first call.",
        columns: &[OP, column("segments × mean length", "segments", Written::Times(&["mean"])), LENGTHS],
        split: true,
        us: "us",
        also: &[("the look µs", "check_us")],
        of_sum: None,
    },
    Bench {
        stem: "by-key",
        title: "Runs of equal keys",
        lead: "f32 sums by u32 keys, into memory that is there; medians of calls, each of which waits for \
               its end. GB/s are of keys and values that go in and of keys and sums that come out. \
               Besides, a call that makes the memory for its results, and the search for the runs alone.",
        columns: &[
            column("keys", "keys", Written::Count),
            column("runs", "runs", Written::Count),
            LENGTHS,
        ],
        split: false,
        us: "into_us",
        also: &[("with memory µs", "us"), ("the search µs", "runs_us")],
        of_sum: None,
    },
    Bench {
        stem: "pairs",
        title: "Pairs of buffers",
        lead: "Dot products and squared distances beside the sum of one of the buffers, results left in \
               device memory; medians of calls that are enqueued behind each other. Shifted: the buffers \
               do not begin equally far from a 16-byte boundary. GB/s are of what is read, both buffers \
               counted.",
        columns: &[TYPE, N, OP],
        split: true,
        us: "us",
        also: &[],
        of_sum: None,
    },
    Bench {
        stem: "top",
        title: "The first k elements",
        lead: "The k largest elements of a buffer, or of every row of a matrix, with their places, beside \
               the place of the largest, left in device memory; medians of calls that are enqueued behind \
               each other. GB/s are of what is read.",
        columns: &[
            TYPE,
            N,
            column("in rows of", "row", Written::Count),
            column("order", "order", Written::Name),
            OP,
        ],
        split: true,
        us: "us",
        also: &[],
        of_sum: None,
    },
    Bench {
        stem: "views",
        title: "Axes of views",
        lead: "f32 sums along axes of views, left in device memory; medians of calls that are enqueued \
               behind each other. GB/s are of the elements that are reduced and of the results: what lies \
               between elements is not counted.",
        columns: &[
            column("view", "view", Written::Name),
            column("shape", "shape", Written::Shape),
            column("reduced axes", "axes", Written::List),
        ],
        split: false,
        us: "us",
        also: &[],
        of_sum: None,
    },
    Bench {
        stem: "axis",
        title: "An axis that is not the last",
        lead: "f32, a result for every column of every matrix, left in device memory; medians of calls \
               that are enqueued behind each other. GB/s are of elements and results; × the sum's: as a \
               part of those of the sum of the whole buffer, which takes turns with it.",
        columns: &[OP, column("matrices × rows × columns", "rows", Written::Times(&["len", "columns"]))],
        split: true,
        us: "us",
        also: &[],
        of_sum: Some(("× the sum's GB/s", "of_sum")),
    },
    Bench {
        stem: "operations",
        title: "Every operation beside the sum",
        lead: "A result of a buffer, left in device memory; medians of calls that are enqueued behind each \
               other. GB/s are of what is read; × the sum's: the time over that of the sum, which takes \
               turns with it.",
        columns: &[TYPE, N, OP],
        split: true,
        us: "us",
        also: &[],
        of_sum: Some(("× the sum's µs", "of_sum")),
    },
    Bench {
        stem: "forms",
        title: "Forms of a sum",
        lead: "Within: sums of the elements that lie in an interval; running: of a buffer piece by piece; \
               arrival: with a result that blocks add up by atomics as they arrive, by itself and with \
               its clearing, which is no form of the library's. Left in device memory; medians of calls \
               that are enqueued behind each other. GB/s are of what is read; × the sum's: the time over \
               that of the plain sum, which takes turns with it.",
        columns: &[TYPE, N, column("form", "form", Written::Name)],
        split: true,
        us: "us",
        also: &[],
        of_sum: Some(("× the sum's µs", "to_sum")),
    },
];

#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) bench: &'static Bench,
    pub(super) by_rust_cuda: bool,
    pub(super) cases: Vec<Case>,
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) gpu: String,
    /// PyTorch's time instead of the library's.
    pub(super) by_torch: bool,
    pub(super) identity: Vec<String>,
    /// The number of elements, if the bench names one.
    pub(super) n: Option<u64>,
    pub(super) us: f64,
    pub(super) gbps: f64,
    pub(super) of_sum: Option<f64>,
    pub(super) also: Vec<Option<f64>>,
}

pub(super) fn stems() -> impl Iterator<Item = &'static str> {
    BENCHES.iter().map(|bench| bench.stem)
}

impl Measured {
    /// Creates an empty result for a file name.
    ///
    /// # Errors
    /// A name that does not begin with a bench's.
    pub(super) fn named(file: &str) -> Result<Self> {
        let name = file.strip_suffix(".jsonl").unwrap_or(file);
        let rust_cuda = name.strip_suffix(".rust-cuda");
        let stem = rust_cuda.unwrap_or(name).split('.').next().unwrap_or_default();
        let Some(bench) = BENCHES.iter().find(|bench| bench.stem == stem) else {
            bail!(
                "is of no bench of the library: there are {}; a file is \
                 <bench>[.<part>][.rust-cuda].jsonl",
                stems().collect::<Vec<_>>().join(", ")
            )
        };
        Ok(Self { bench, by_rust_cuda: rust_cuda.is_some(), cases: Vec::new() })
    }
}

/// Parses the first line.
///
/// # Errors
/// The line is not a machine line.
pub(super) fn machine(line: &str) -> Result<Machine> {
    let value = lines::value(line)?;
    let machine =
        value.as_object().filter(|line| line.get("kind").is_some_and(|kind| kind == "machine"));
    lines::machine(machine.context("is no machine line, with which a file of the library's begins")?)
}

/// Parses any other line of a bench.
///
/// # Errors
/// A truncated line, no JSON, missing fields, or numbers that cannot be measurements.
pub(super) fn case(bench: &Bench, line: &str) -> Result<Case> {
    let value = lines::value(line)?;
    let line = value.as_object().context("is no JSON object")?;
    ensure!(
        !line.contains_key("kind"),
        "has a kind, which only the first line has: two sets in one file"
    );
    let by_torch = match line.get("implementation") {
        None => false,
        Some(Value::String(name)) if name.starts_with("PyTorch") => true,
        Some(_) => bail!("is of an implementation that is not PyTorch"),
    };
    let of_sum = bench.of_sum.map(|(_, field)| number(line, field)).transpose()?.flatten();
    let also = bench.also.iter().map(|(_, field)| number(line, field)).collect::<Result<_>>()?;
    Ok(Case {
        gpu: text(line, "device")?,
        by_torch,
        identity: bench.columns.iter().map(|column| column.cell(line)).collect::<Result<_>>()?,
        n: line.get("n").and_then(Value::as_u64),
        us: required(number(line, bench.us)?, bench.us)?,
        gbps: required(number(line, "gb_per_s")?, "gb_per_s")?,
        of_sum,
        also,
    })
}

impl Column {
    fn cell(&self, line: &Map<String, Value>) -> Result<String> {
        let field = self.field;
        match self.written {
            Written::Name => text(line, field),
            Written::Count => Ok(count(whole(line, field)?)),
            Written::Times(others) => {
                let fields = iter::once(&field).chain(others);
                let factors: Result<Vec<_>> =
                    fields.map(|field| Ok(count(whole(line, field)?))).collect();
                Ok(factors?.join(" × "))
            }
            Written::Shape => Ok(numbers(line, field, count)?.join(" × ")),
            Written::List => Ok(numbers(line, field, |axis| axis.to_string())?.join(", ")),
            Written::Flag(yes, no) => {
                let holds = required(line.get(field), field)?.as_bool();
                let holds = holds.with_context(|| format!("has neither true nor false as `{field}`"))?;
                Ok(if holds { yes } else { no }.to_owned())
            }
        }
    }
}

fn required<T>(value: Option<T>, field: &str) -> Result<T> {
    value.with_context(|| format!("has a missing field, `{field}`"))
}

fn whole(line: &Map<String, Value>, field: &str) -> Result<u64> {
    let whole = required(line.get(field), field)?.as_u64();
    whole.with_context(|| format!("has no whole number as `{field}`"))
}

fn numbers(line: &Map<String, Value>, field: &str, show: fn(u64) -> String) -> Result<Vec<String>> {
    let all = required(line.get(field), field)?.as_array();
    let all = all.and_then(|all| all.iter().map(|one| one.as_u64().map(show)).collect());
    all.with_context(|| format!("has no whole numbers as `{field}`"))
}

fn text(line: &Map<String, Value>, field: &str) -> Result<String> {
    let text = required(line.get(field), field)?.as_str().unwrap_or_default();
    ensure!(!text.is_empty(), "has no text as `{field}`");
    Ok(text.to_owned())
}

/// Returns a number, or the median of an object with several; `None` without the field.
fn number(line: &Map<String, Value>, field: &str) -> Result<Option<f64>> {
    let measured = |value: &Value| {
        let number = value.as_f64().with_context(|| format!("has no number as `{field}`"))?;
        trusted::require_measured(number)?;
        Ok(number)
    };
    match line.get(field) {
        None => Ok(None),
        Some(Value::Object(several)) => {
            several.values().try_for_each(|value| measured(value).map(drop))?;
            measured(required(several.get("median"), &format!("{field}.median"))?).map(Some)
        }
        Some(one) => measured(one).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(stem: &str) -> &'static Bench {
        BENCHES.iter().find(|bench| bench.stem == stem).unwrap()
    }

    #[test]
    fn a_files_name_says_the_bench_and_the_compiler() {
        let named = |file: &str| {
            let measured = Measured::named(file).ok()?;
            Some((measured.bench.stem, measured.by_rust_cuda))
        };
        assert_eq!(named("by-key.jsonl"), Some(("by-key", false)));
        assert_eq!(named("operations.numbers.jsonl"), Some(("operations", false)));
        assert_eq!(named("views.rust-cuda.jsonl"), Some(("views", true)));
        assert_eq!(named("top.later.rust-cuda.jsonl"), Some(("top", true)));
        for file in ["rust-cuda.jsonl", "library-top.jsonl", ".jsonl", "Top.jsonl"] {
            assert_eq!(named(file), None, "{file}");
        }
        let refused = format!("{:#}", Measured::named("speed.jsonl").unwrap_err());
        assert!(refused.contains("there are segments, by-key, pairs, "), "{refused}");
    }

    #[test]
    fn a_case_is_what_its_columns_say() {
        let views = r#"{"device": "GPU", "view": "turned", "shape": [64, 4190, 1024], "axes": [0, 2],
            "us": {"median": 2.0, "q1": 1.5, "q3": 2.5}, "gb_per_s": {"median": 10.0}}"#;
        let case = super::case(bench("views"), views).unwrap();
        assert_eq!(case.identity, ["turned", "64 × 4\u{202f}190 × 2¹⁰", "0, 2"]);
        assert_eq!((case.us, case.gbps, case.n, case.by_torch), (2.0, 10.0, None, false));
        // The judged time is that of a call with preallocated memory, to which the bandwidth refers.
        let keys = r#"{"device": "GPU", "keys": 65536, "runs": 100, "ragged": true, "us": {"median": 40.0},
            "into_us": {"median": 30.0}, "runs_us": 20.0, "gb_per_s": 7}"#;
        let case = super::case(bench("by-key"), keys).unwrap();
        assert_eq!(case.identity, ["2¹⁶", "100", "Zipf's"]);
        assert_eq!((case.us, case.gbps, case.also), (30.0, 7.0, vec![Some(40.0), Some(20.0)]));
    }

    #[test]
    fn lines_that_are_no_case_are_refused() {
        let line = |changed: &str, to: &str| {
            let line = r#"{"device": "GPU", "dtype": "f32", "n": 1024, "op": "sum", "us": {"median": 2.0},
                "gb_per_s": 10, "of_sum": {"median": 1.0}}"#;
            assert!(line.contains(changed));
            super::case(bench("operations"), &line.replacen(changed, to, 1))
                .map_err(|e| format!("{e:#}"))
        };
        assert!(line("sum", "sum").is_ok());
        for (changed, to, part) in [
            ("\"device\"", "\"devices\"", "missing field, `device`"),
            ("1024", "-1", "no whole number as `n`"),
            ("\"sum\"", "\"\"", "no text as `op`"),
            ("\"sum\"", "\"a\\u0007\"", "control characters"),
            ("2.0", "0", "must be above 0"),
            ("10,", "1e300,", "must be above 0, up to 1e15"),
            ("\"median\"", "\"middle\"", "missing field, `us.median`"),
            ("1.0", "\"1\"", "no number as `of_sum`"),
            ("\"op\"", "\"implementation\": \"CUB\", \"op\"", "implementation that is not PyTorch"),
            ("\"op\"", "\"kind\": \"time\", \"op\"", "has a kind"),
            ("}}", "", "is cut off"),
        ] {
            let refused = line(changed, to).unwrap_err();
            assert!(refused.contains(part) && refused.lines().count() == 1, "{refused}");
        }
    }
}
