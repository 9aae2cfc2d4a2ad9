//! Errors, each with a one-line message: the given value, what is allowed, what to do.

use std::{borrow::Cow, path::PathBuf};

use thiserror::Error as ThisError;
use warpfold::internal::BadArch;
use warpfold_abi::BLOCK_SIZES;
use warpfold_driver::CallError;

use crate::{Arch, Dtype, Op, Statistic, Value};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of this crate.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A check that would accept a wrong result.
    #[error(
        "{case} cannot tell right from wrong: a kernel that {planted} gives {given}, expected is {expected} and \
         {allowed} off it is allowed; take fewer elements, or a type of more bits"
    )]
    Blind {
        /// Operation and number of elements.
        case: String,
        /// The action of the wrong kernel.
        planted: &'static str,
        /// The wrong kernel's result.
        given: Value,
        /// The correct result.
        expected: Value,
        /// The allowed error.
        allowed: f64,
    },
    /// An unknown name.
    #[error("unknown {what} `{given}`{}; {see}", suggestion(.nearest))]
    UnknownName {
        /// The kind of name.
        what: &'static str,
        /// The name as given.
        given: String,
        /// The closest known name.
        nearest: Option<String>,
        /// Where to find the known names.
        see: Cow<'static, str>,
    },
    /// An architecture that is not written `sm_NN`.
    #[error(transparent)]
    BadArch(#[from] BadArch),
    /// The variant lacks the operation.
    #[error("{variant} has no {op}; it has {}", join(.has))]
    UnsupportedOp {
        /// The requested variant.
        variant: &'static str,
        /// The requested operation.
        op: Op,
        /// The supported operations.
        has: &'static [Op],
    },
    /// The variant lacks the type.
    #[error("{variant} has no {dtype}; it has {}", join(.has))]
    UnsupportedDtype {
        /// The requested variant.
        variant: &'static str,
        /// The requested type.
        dtype: Dtype,
        /// The supported types.
        has: &'static [Dtype],
    },
    /// A preset that the variant does not have.
    #[error("{variant} has no preset `{given}`; it has {}", if .has.is_empty() { "none".to_owned() } else { join(.has) })]
    UnknownPreset {
        /// The requested variant.
        variant: &'static str,
        /// The name as given.
        given: String,
        /// The presets of the variant.
        has: Vec<&'static str>,
    },
    /// A variant of another family, where a reduction kernel is needed.
    #[error("{variant} is no reduction kernel; `cargo xtask list` shows which are")]
    NoReduction {
        /// The requested variant.
        variant: &'static str,
    },
    /// A variant or pattern of another kind, where a kernel that moves elements is needed.
    #[error("{variant} does not move elements in this pattern; `cargo xtask list` shows what does")]
    NoMovement {
        /// The requested variant.
        variant: &'static str,
    },
    /// An invalid number of CPU threads.
    #[error("{given} threads for {variant}; allowed are 1 to {most}")]
    BadThreads {
        /// The requested variant.
        variant: &'static str,
        /// The requested threads.
        given: usize,
        /// The largest number of threads.
        most: usize,
    },
    /// The system could not create threads.
    #[error("no threads: {0}; take fewer --threads")]
    Threads(String),
    /// An invalid size for a kernel that moves elements.
    #[error("{what} is {given}; allowed are 1 to {most}")]
    BadSize {
        /// The name of the size.
        what: &'static str,
        /// The size as given.
        given: u64,
        /// The largest allowed size.
        most: u64,
    },
    /// An invalid block size.
    #[error(
        "block is {given}; allowed are the powers of two from {} to {}",
        BLOCK_SIZES.start(),
        BLOCK_SIZES.end()
    )]
    BadBlock {
        /// The requested threads.
        given: u32,
    },
    /// An invalid grid size.
    #[error("grid is {given}; allowed are 1 to {} blocks", crate::plan::MAX_GRID)]
    BadGrid {
        /// The requested blocks.
        given: u64,
    },
    /// A grid given for a variant with a fixed one.
    #[error(
        "grid is {given}, but {variant} has no choice: its elements per thread and n make {needed} blocks here; \
         leave --grid out"
    )]
    FixedGrid {
        /// The requested variant.
        variant: &'static str,
        /// The requested blocks.
        given: u64,
        /// The blocks that n and the block size require.
        needed: u64,
    },
    /// A grid that is not a whole number of clusters.
    #[error(
        "grid is {given}, but {variant} runs in clusters of {cluster} blocks; take a multiple of {cluster}"
    )]
    PartialCluster {
        /// The requested variant.
        variant: &'static str,
        /// The requested blocks.
        given: u64,
        /// Blocks of a cluster.
        cluster: u64,
    },
    /// A grid that cannot be resident at once, for a variant with a grid-wide barrier.
    #[error(
        "grid is {given}, but {variant} waits for all blocks at once and at most {largest} fit on this device; \
         leave --grid out or take at most that"
    )]
    GridNotResident {
        /// The requested variant.
        variant: &'static str,
        /// The requested blocks.
        given: u64,
        /// The largest number of resident blocks.
        largest: u32,
    },
    /// Too many elements for one element per thread.
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
    #[error("{statistic} of 0 elements has no value; give at least 1 element (the sum of none is 0)")]
    NoValue {
        /// The requested statistic.
        statistic: Statistic,
    },
    /// A statistic of integers whose sum may wrap around.
    #[error(
        "{statistic} of {n} {dtype} up to {largest}: the sum may pass the type's range; take 64-bit or floating-point elements"
    )]
    MayWrap {
        /// The requested statistic.
        statistic: Statistic,
        /// The number of elements.
        n: u64,
        /// The type of the elements.
        dtype: Dtype,
        /// The largest magnitude among them.
        largest: u64,
    },
    /// The GPU is older than the kernel needs.
    #[error("{variant} needs {needed} or newer; {device} is {arch}")]
    ArchTooOld {
        /// The requested variant.
        variant: &'static str,
        /// The oldest supported architecture.
        needed: Arch,
        /// Name of the device.
        device: String,
        /// The architecture of the device.
        arch: Arch,
    },
    /// No usable CUDA driver.
    #[error("no CUDA device: {reason}; `--device sim` runs on the simulator")]
    NoCuda {
        /// The message of the driver or its loader.
        reason: String,
    },
    /// A second driver was requested in one process.
    #[error(
        "the {wanted} is wanted, but this process runs on the {bound}: cust binds one driver per process; run another \
         process"
    )]
    OtherDriver {
        /// The requested driver.
        wanted: &'static str,
        /// The driver that was opened first.
        bound: &'static str,
    },
    /// The driver refused a call.
    #[error("{device}: {call} failed: {reason}")]
    Driver {
        /// Name of the device.
        device: String,
        /// The failed call.
        call: &'static str,
        /// The driver's reason.
        reason: String,
    },
    /// There is not enough memory.
    #[error("{needed} bytes are needed, {free} bytes are free on {device}; take a smaller --n")]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// The requested bytes.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
    /// PTX was not found.
    #[error("no PTX for {what} under {}; build it with `cargo xtask build-ptx`", .path.display())]
    PtxMissing {
        /// The name of the missing PTX.
        what: String,
        /// The path of the file.
        path: PathBuf,
    },
    /// PTX that the device rejects.
    #[error("{}: {reason}", .path.display())]
    PtxRejected {
        /// The path of the file.
        path: PathBuf,
        /// The message of the driver or the simulator.
        reason: String,
    },
    /// An entry with other parameters than the library passes: its PTX was built from other sources.
    #[error(
        "{}: `{entry}` takes {takes}, but is launched with {passes}; build the file anew, with \
         `cargo xtask build-ptx`, or a CUDA C twin with `cargo xtask build-twins`",
        .path.display()
    )]
    WrongParameters {
        /// The path of the file.
        path: PathBuf,
        /// The name of the entry.
        entry: String,
        /// The parameters that the PTX declares.
        takes: String,
        /// The parameters that the library passes.
        passes: String,
    },
    /// A file that could not be read.
    #[error("{}: {reason}", .path.display())]
    BadInput {
        /// The path of the file.
        path: PathBuf,
        /// The problem and what is allowed.
        reason: String,
    },
    /// More elements than one reduction supports.
    #[error("{n} elements; a reducer takes at most {most}; reduce slices of the buffer")]
    TooManyElements {
        /// The elements of the buffer.
        n: u64,
        /// The largest number of elements.
        most: u64,
    },
    /// A wait for a device has failed twice without proof that its work has ended.
    #[error(
        "{device} is used no more: a wait has failed, and what it was for may still run; start the program anew"
    )]
    Abandoned {
        /// The name of the device.
        device: String,
    },
    /// A buffer, workspace or stream that does not match the call.
    #[error("{what}: {reason}")]
    Mismatch {
        /// The name of the argument.
        what: &'static str,
        /// What was given and what is needed.
        reason: String,
    },
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
