//! The library's benches, in the folder `library` of a machine's results.
//!
//! A file is called `<bench>[.<part>][.rust-cuda].jsonl`. A part is a separate run, of other operations
//! or on a later day. Files with `rust-cuda` in their names were measured with rust-cuda's PTX, all
//! others with rustc's.

use anyhow::{Context, Result, ensure};

use super::record::Case;

pub(super) const FOLDER: &str = "library/";

/// A bench: texts, and the columns of its tables as pairs of a head and the name of a JSON field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bench {
    pub(super) stem: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    /// The columns that identify a case. Several fields in a column are joined by `×`.
    pub(super) columns: &'static [(&'static str, &'static str)],
    /// Each value of the first column has its own table.
    pub(super) split: bool,
    /// The field of the time that the library is judged by.
    pub(super) us: &'static str,
    /// The column of the ratio to a sum that was timed in alternation with the case.
    pub(super) of_sum: Option<(&'static str, &'static str)>,
    pub(super) also: &'static [(&'static str, &'static str)],
}

const BENCH: Bench = Bench {
    stem: "",
    title: "",
    lead: "",
    columns: &[],
    split: true,
    us: "us",
    of_sum: None,
    also: &[],
};

pub(super) const BENCHES: [Bench; 10] = [
    Bench {
        stem: "segments",
        title: "Segments by offsets",
        lead: "f32, a result for every segment of a buffer, left in device memory; medians of calls that \
               are enqueued behind each other. GB/s are of elements, results and, where lengths differ, \
               offsets. The look at the offsets is made once, before the first call.",
        columns: &[
            ("<operation", "op"),
            ("<segments × mean length", "segments mean"),
            ("<lengths", "ragged"),
        ],
        also: &[("the look µs", "check_us")],
        ..BENCH
    },
    Bench {
        stem: "by-key",
        title: "Runs of equal keys",
        lead: "f32 sums by u32 keys, into memory that is there; medians of calls, each of which waits for \
               its end. GB/s are of keys and values that go in and of keys and sums that come out. \
               Besides, a call that makes the memory for its results, and the search for the runs alone.",
        columns: &[("<keys", "keys"), ("<runs", "runs"), ("<lengths", "ragged")],
        split: false,
        us: "into_us",
        also: &[("with memory µs", "us"), ("the search µs", "runs_us")],
        ..BENCH
    },
    Bench {
        stem: "pairs",
        title: "Pairs of buffers",
        lead: "Dot products and squared distances beside the sum of one of the buffers, results left in \
               device memory; medians of calls that are enqueued behind each other. Shifted: the buffers \
               do not begin equally far from a 16-byte boundary. GB/s are of what is read, both buffers \
               counted.",
        columns: &[("<type", "dtype"), ("<n", "n"), ("<operation", "op")],
        ..BENCH
    },
    Bench {
        stem: "top",
        title: "The first k elements",
        lead: "The k largest elements of a buffer, or of every row of a matrix, with their places, beside \
               the place of the largest, left in device memory; medians of calls that are enqueued behind \
               each other. GB/s are of what is read.",
        columns: &[
            ("<type", "dtype"),
            ("<n", "n"),
            ("<in rows of", "row"),
            ("<order", "order"),
            ("<operation", "op"),
        ],
        ..BENCH
    },
    Bench {
        stem: "views",
        title: "Axes of views",
        lead: "f32 sums along axes of views, left in device memory; medians of calls that are enqueued \
               behind each other. GB/s are of the elements that are reduced and of the results: what lies \
               between elements is not counted.",
        columns: &[("<view", "view"), ("<shape", "shape"), ("<reduced axes", "axes")],
        split: false,
        ..BENCH
    },
    Bench {
        stem: "axis",
        title: "An axis that is not the last",
        lead: "f32, a result for every column of every matrix, left in device memory; medians of calls \
               that are enqueued behind each other. GB/s are of elements and results; × the sum's: as a \
               part of those of the sum of the whole buffer, which takes turns with it.",
        columns: &[("<operation", "op"), ("<matrices × rows × columns", "rows len columns")],
        of_sum: Some(("× the sum's GB/s", "of_sum")),
        ..BENCH
    },
    Bench {
        stem: "operations",
        title: "Every operation beside the sum",
        lead: "A result of a buffer, left in device memory; medians of calls that are enqueued behind each \
               other. GB/s are of what is read; × the sum's: the time over that of the sum, which takes \
               turns with it.",
        columns: &[("<type", "dtype"), ("<n", "n"), ("<operation", "op")],
        of_sum: Some(("× the sum's µs", "of_sum")),
        ..BENCH
    },
    Bench {
        stem: "forms",
        title: "Forms of a sum",
        lead: "Within: sums of the elements that lie in an interval; running: of a buffer piece by piece; \
               expressions of x: of their values, for the elements of at most 2; arrival: with a result \
               that blocks add up by atomics as they arrive, by itself and with its clearing, which is no \
               form of the library's. Left in device memory; medians of calls that are enqueued behind \
               each other. GB/s are of what is read; × the sum's: the time over that of the plain sum, \
               which takes turns with it.",
        columns: &[("<type", "dtype"), ("<n", "n"), ("<form", "form")],
        of_sum: Some(("× the sum's µs", "to_sum")),
        ..BENCH
    },
    Bench {
        stem: "tuples",
        title: "Several operations at once",
        lead: "The results of several operations from one launch, written to host memory; medians of calls \
               that are enqueued behind each other. × the sum's: the time over that of the sum, which \
               takes turns with it.",
        columns: &[("<type", "dtype"), ("<n", "n"), ("<operations", "tuple")],
        of_sum: Some(("× the sum's µs", "to_sum")),
        also: &[("a launch each, × the sum's µs", "alone_to_sum")],
        ..BENCH
    },
    Bench {
        stem: "tuples-rows",
        title: "Several operations at once on rows",
        lead: "The results of several operations for every row of a matrix, from one launch, left in device \
               memory; medians of calls that are enqueued behind each other. × the sums': the time over that \
               of the rows' sums, which take turns with it.",
        columns: &[
            ("<type", "dtype"),
            ("<n", "n"),
            ("<elements of a row", "row_len"),
            ("<operations", "tuple"),
        ],
        of_sum: Some(("× the sums' µs", "to_sum")),
        also: &[("a launch each, × the sums' µs", "alone_to_sum")],
        ..BENCH
    },
];

impl Bench {
    /// Returns the bench of a file in [`FOLDER`].
    pub(super) fn of_file(file: &str) -> Result<&'static Self> {
        let stem = file.trim_start_matches(FOLDER).split('.').next().unwrap_or_default();
        BENCHES.iter().find(|bench| bench.stem == stem).with_context(|| {
            let stems = BENCHES.map(|bench| bench.stem).join(", ");
            format!(
                "is not named after a bench of the library; allowed are {stems}, in files named \
                 <bench>[.<part>][.rust-cuda].jsonl"
            )
        })
    }

    pub(super) fn identity(&self, case: &Case) -> Result<Vec<String>> {
        ensure!(
            case.0.get("kind").is_none(),
            "has a kind, which only the first line may have; split a file of two sets"
        );
        let torch = case.0.get("implementation");
        ensure!(torch.is_none() || case.is_torch(), "has an implementation other than PyTorch");
        for field in ["device", self.us, "gb_per_s"] {
            let is_there = case.text(field).is_some() || case.number(field).is_some();
            ensure!(is_there, "lacks the field `{field}`, or its type is wrong");
        }
        self.columns.iter().map(|(_, fields)| case.identity(fields)).collect()
    }
}
