//! Errors, each with a one-line message: the given value, what is allowed, what to do.

use std::{borrow::Cow, path::PathBuf};

use thiserror::Error as ThisError;
use warpfold::internal::BadArch;
use warpfold_abi::BLOCK_SIZES;
use warpfold_driver::CallError;

use crate::{Arch, Dtype, Op, Statistic, Value};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A check that would accept a wrong result.
    #[error(
        "the check of {case} cannot detect a wrong result: a kernel that {planted} gives {given}, \
         {expected} is expected, and an error of {allowed} is allowed; take fewer elements, or a wider \
         type"
    )]
    Blind {
        /// Operation and number of elements.
        case: String,
        /// The fault of the wrong kernel, as a verb with its object.
        planted: &'static str,
        given: Value,
        expected: Value,
        allowed: f64,
    },
    #[error("unknown {what} `{given}`{}; {see}", suggestion(.nearest))]
    UnknownName { what: &'static str, given: String, nearest: Option<String>, see: Cow<'static, str> },
    #[error(transparent)]
    BadArch(#[from] BadArch),
    #[error("{variant} has no {op}; it has {}", join(.has))]
    UnsupportedOp { variant: &'static str, op: Op, has: &'static [Op] },
    #[error("{variant} has no {dtype}; it has {}", join(.has))]
    UnsupportedDtype { variant: &'static str, dtype: Dtype, has: &'static [Dtype] },
    #[error("{variant} has no preset `{given}`; it has {}", if .has.is_empty() { "none".to_owned() } else { join(.has) })]
    UnknownPreset {
        variant: &'static str,
        /// The name as given.
        given: String,
        has: Vec<&'static str>,
    },
    /// A variant of another family, where a reduction kernel is needed.
    #[error("{variant} is not a reduction kernel; `cargo xtask run --list` lists the reduction kernels")]
    NoReduction {
        /// The requested variant.
        variant: &'static str,
    },
    /// A variant or pattern of another kind, where a kernel that moves elements is needed.
    #[error(
        "{variant} does not move elements in this pattern; `cargo xtask run --list` lists the variants \
         that do"
    )]
    NoMovement { variant: &'static str },
    #[error("{given} threads for {variant}; allowed are 1 to {most}")]
    BadThreads {
        variant: &'static str,
        /// The requested threads.
        given: usize,
        /// The largest number of threads.
        most: usize,
    },
    /// The system could not create threads.
    #[error("the system cannot create the threads: {0}; give fewer --threads")]
    Threads(String),
    #[error("{what} is {given}; allowed are 1 to {most}")]
    BadSize { what: &'static str, given: u64, most: u64 },
    #[error(
        "block is {given}; allowed are the powers of two from {} to {}",
        BLOCK_SIZES.start(),
        BLOCK_SIZES.end()
    )]
    BadBlock { given: u32 },
    #[error("grid is {given}; allowed are 1 to {} blocks", crate::plan::MAX_GRID)]
    BadGrid { given: u64 },
    #[error(
        "grid is {given}, but that of {variant} is fixed: n and its elements per thread make {needed} \
         blocks here; leave --grid out"
    )]
    FixedGrid { variant: &'static str, given: u64, needed: u64 },
    #[error(
        "grid is {given}, but {variant} runs in clusters of {cluster} blocks; take a multiple of {cluster}"
    )]
    PartialCluster { variant: &'static str, given: u64, cluster: u64 },
    #[error(
        "grid is {given}, but {variant} has a grid-wide barrier and at most {largest} of its blocks fit \
         on this device at once; leave --grid out or give at most {largest}"
    )]
    GridNotResident { variant: &'static str, given: u64, largest: u32 },
    #[error(
        "{n} elements need {needed} blocks of {block} threads; at most {} can be launched; take a larger block",
        crate::plan::MAX_GRID
    )]
    TooManyBlocks {
        /// The number of elements.
        n: u64,
        /// Threads of a block.
        block: u32,
        /// The blocks that this requires.
        needed: u64,
    },
    /// Minimum, maximum or mean of an empty input.
    #[error(
        "{statistic} of 0 elements has no value; give at least 1 element (the sum of 0 elements is 0)"
    )]
    NoValue {
        /// The requested statistic.
        statistic: Statistic,
    },
    /// A statistic of integers whose sum may wrap around.
    #[error(
        "{statistic} of {n} {dtype} up to {largest}: the sum may exceed the type's range; take 64-bit \
         or floating-point elements"
    )]
    MayWrap { statistic: Statistic, n: u64, dtype: Dtype, largest: u64 },
    #[error("{variant} needs {needed} or newer; {device} is {arch}")]
    ArchTooOld { variant: &'static str, needed: Arch, device: String, arch: Arch },
    #[error("no CUDA device: {reason}; `--device sim` runs on the simulator")]
    NoCuda { reason: String },
    #[error(
        "the {wanted} was requested, but this process already uses the {bound}, and cust binds one \
         driver per process; use the {wanted} in another process"
    )]
    OtherDriver { wanted: &'static str, bound: &'static str },
    #[error("{device}: {call} failed: {reason}")]
    Driver { device: String, call: &'static str, reason: String },
    #[error("{needed} bytes are needed, {free} bytes are free on {device}; take a smaller --n")]
    OutOfMemory { device: String, needed: u64, free: u64 },
    #[error("no PTX for {what} under {}; build it with `cargo xtask build-ptx`", .path.display())]
    PtxMissing { what: String, path: PathBuf },
    #[error("{}: {reason}", .path.display())]
    PtxRejected { path: PathBuf, reason: String },
    #[error(
        "{}: `{entry}` takes {takes}, but is launched with {passes}; build the file again with \
         `cargo xtask build-ptx`, or a CUDA C twin with `cargo xtask build-twins`",
        .path.display()
    )]
    WrongParameters { path: PathBuf, entry: String, takes: String, passes: String },
    #[error("{}: {reason}", .path.display())]
    BadInput {
        path: PathBuf,
        /// The problem and what is allowed.
        reason: String,
    },
    /// More elements than one reduction supports.
    #[error("{n} elements were given; a reducer takes at most {most}; reduce slices of the buffer")]
    TooManyElements {
        /// The elements of the buffer.
        n: u64,
        /// The largest number of elements.
        most: u64,
    },
    /// Two waits for a device have failed without proof that its work has ended.
    #[error(
        "{device} can no longer be used: a wait failed, and the work that it waited for may still run; \
         restart the program"
    )]
    Abandoned { device: String },
    #[error("{what}: {reason}")]
    Mismatch { what: &'static str, reason: String },
}

impl Error {
    pub(crate) fn of_call(device: &str, CallError { call, text, name, .. }: CallError) -> Self {
        Self::Driver { device: device.to_owned(), call, reason: format!("{text} ({name})") }
    }
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

fn join<T: ToString>(items: &[T]) -> String {
    let names: Vec<_> = items.iter().map(T::to_string).collect();
    names.join(", ")
}
