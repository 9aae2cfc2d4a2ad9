//! What can go wrong, each said in one line: what was given, what is allowed, what to do.

use std::{borrow::Cow, path::PathBuf};

use thiserror::Error as ThisError;
use warpfold::internal::BadArch;
use warpfold_abi::BLOCK_SIZES;
use warpfold_driver::CallError;

use crate::{Arch, Dtype, Op, Statistic, Value};

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a call of this crate can fail with.
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
        /// What the wrong kernel does.
        planted: &'static str,
        /// The result that it gives.
        given: Value,
        /// The result that is right.
        expected: Value,
        /// How far off a result may be.
        allowed: f64,
    },
    /// A name that nothing has.
    #[error("unknown {what} `{given}`{}; {see}", suggestion(.nearest))]
    UnknownName {
        /// What kind of name.
        what: &'static str,
        /// The name as given.
        given: String,
        /// The closest that exists.
        nearest: Option<String>,
        /// Where to see what there is.
        see: Cow<'static, str>,
    },
    /// An architecture that is not written `sm_NN`.
    #[error(transparent)]
    BadArch(#[from] BadArch),
    /// The variant lacks the operation.
    #[error("{variant} has no {op}; it has {}", join(.has))]
    UnsupportedOp {
        /// The variant that was asked for.
        variant: &'static str,
        /// The operation asked for.
        op: Op,
        /// The operations it has.
        has: &'static [Op],
    },
    /// The variant lacks the type.
    #[error("{variant} has no {dtype}; it has {}", join(.has))]
    UnsupportedDtype {
        /// The variant that was asked for.
        variant: &'static str,
        /// The type asked for.
        dtype: Dtype,
        /// The types it has.
        has: &'static [Dtype],
    },
    /// A preset that the variant does not have.
    #[error("{variant} has no preset `{given}`; it has {}", if .has.is_empty() { "none".to_owned() } else { join(.has) })]
    UnknownPreset {
        /// The variant that was asked for.
        variant: &'static str,
        /// The name as given.
        given: String,
        /// The names it has.
        has: Vec<&'static str>,
    },
    /// A variant of another family, where a reduction kernel is needed.
    #[error("{variant} is no reduction kernel; `cargo xtask list` shows which are")]
    NoReduction {
        /// The variant that was asked for.
        variant: &'static str,
    },
    /// A variant or pattern of another kind, where a kernel that moves elements is needed.
    #[error("{variant} does not move elements in this pattern; `cargo xtask list` shows what does")]
    NoMovement {
        /// The variant that was asked for.
        variant: &'static str,
    },
    /// A number of CPU threads that cannot be.
    #[error("{given} threads for {variant}; allowed are 1 to {most}")]
    BadThreads {
        /// The variant that was asked for.
        variant: &'static str,
        /// Threads that were asked for.
        given: usize,
        /// Most that it takes.
        most: usize,
    },
    /// The system refuses threads.
    #[error("no threads: {0}; take fewer --threads")]
    Threads(String),
    /// A size that a kernel that moves elements cannot have.
    #[error("{what} is {given}; allowed are 1 to {most}")]
    BadSize {
        /// Which of the sizes it is.
        what: &'static str,
        /// The size as it was given.
        given: u64,
        /// The largest size that is allowed.
        most: u64,
    },
    /// A block size that the kernels do not take.
    #[error(
        "block is {given}; allowed are the powers of two from {} to {}",
        BLOCK_SIZES.start(),
        BLOCK_SIZES.end()
    )]
    BadBlock {
        /// Threads that were asked for.
        given: u32,
    },
    /// A grid that cannot be launched.
    #[error("grid is {given}; allowed are 1 to {} blocks", crate::plan::MAX_GRID)]
    BadGrid {
        /// Blocks that were asked for.
        given: u64,
    },
    /// A grid given to a variant that has no choice.
    #[error(
        "grid is {given}, but {variant} has no choice: its elements per thread and n make {needed} blocks here; \
         leave --grid out"
    )]
    FixedGrid {
        /// The variant that was asked for.
        variant: &'static str,
        /// Blocks that were asked for.
        given: u64,
        /// Blocks that n and the block give.
        needed: u64,
    },
    /// A grid that ends in the middle of a cluster.
    #[error(
        "grid is {given}, but {variant} runs in clusters of {cluster} blocks; take a multiple of {cluster}"
    )]
    PartialCluster {
        /// The variant that was asked for.
        variant: &'static str,
        /// Blocks that were asked for.
        given: u64,
        /// Blocks of a cluster.
        cluster: u64,
    },
    /// A grid whose blocks cannot all be resident, given to a variant that waits for all of them.
    #[error(
        "grid is {given}, but {variant} waits for all blocks at once and at most {largest} fit on this device; \
         leave --grid out or take at most that"
    )]
    GridNotResident {
        /// The variant that was asked for.
        variant: &'static str,
        /// Blocks that were asked for.
        given: u64,
        /// Blocks that fit at once.
        largest: u32,
    },
    /// More elements than one element per thread can reach.
    #[error(
        "{n} elements need {needed} blocks of {block} threads; at most {} can be launched; take a larger block",
        crate::plan::MAX_GRID
    )]
    TooManyBlocks {
        /// How many elements there are.
        n: u64,
        /// Threads of a block.
        block: u32,
        /// Blocks that this makes.
        needed: u64,
    },
    /// Minimum, maximum or mean of nothing.
    #[error("{statistic} of 0 elements has no value; give at least 1 element (the sum of none is 0)")]
    NoValue {
        /// What was asked for.
        statistic: Statistic,
    },
    /// A statistic of integers that cannot be had from a sum that may wrap around.
    #[error(
        "{statistic} of {n} {dtype} up to {largest}: the sum may pass the type's range; take 64-bit or floating-point elements"
    )]
    MayWrap {
        /// What was asked for.
        statistic: Statistic,
        /// How many elements there are.
        n: u64,
        /// The type of the elements.
        dtype: Dtype,
        /// The largest magnitude among them.
        largest: u64,
    },
    /// The GPU is older than the kernel needs.
    #[error("{variant} needs {needed} or newer; {device} is {arch}")]
    ArchTooOld {
        /// The variant that was asked for.
        variant: &'static str,
        /// The oldest architecture that it runs on.
        needed: Arch,
        /// Name of the device.
        device: String,
        /// The architecture of the device.
        arch: Arch,
    },
    /// The driver could not be had.
    #[error("no CUDA device: {reason}; `--device sim` runs on the simulator")]
    NoCuda {
        /// What the driver or its loader said.
        reason: String,
    },
    /// One process, one driver.
    #[error(
        "the {wanted} is wanted, but this process runs on the {bound}: cust binds one driver per process; run another \
         process"
    )]
    OtherDriver {
        /// What was asked for.
        wanted: &'static str,
        /// What was opened first.
        bound: &'static str,
    },
    /// The driver refused a call.
    #[error("{device}: {call} failed: {reason}")]
    Driver {
        /// Name of the device.
        device: String,
        /// What was asked of the driver.
        call: &'static str,
        /// The reason that it gave.
        reason: String,
    },
    /// There is not enough memory.
    #[error("{needed} bytes are needed, {free} bytes are free on {device}; take a smaller --n")]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// No PTX where it was looked for.
    #[error("no PTX for {what} under {}; build it with `cargo xtask build-ptx`", .path.display())]
    PtxMissing {
        /// What was looked for.
        what: String,
        /// The path of the file.
        path: PathBuf,
    },
    /// PTX that the device cannot take.
    #[error("{}: {reason}", .path.display())]
    PtxRejected {
        /// The path of the file.
        path: PathBuf,
        /// What the driver or the simulator said.
        reason: String,
    },
    /// An entry whose parameters are not those that the library passes: its PTX comes from other
    /// sources.
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
        /// What the PTX declares.
        takes: String,
        /// What the library passes.
        passes: String,
    },
    /// A file that could not be read.
    #[error("{}: {reason}", .path.display())]
    BadInput {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it and what is allowed.
        reason: String,
    },
    /// More elements than one reduction takes.
    #[error("{n} elements; a reducer takes at most {most}; reduce slices of the buffer")]
    TooManyElements {
        /// Elements of the buffer.
        n: u64,
        /// Most that there may be.
        most: u64,
    },
    /// A wait for a device has failed, twice, in a way that leaves open what still runs there.
    #[error(
        "{device} is used no more: a wait has failed, and what it was for may still run; start the program anew"
    )]
    Abandoned {
        /// The name of the device.
        device: String,
    },
    /// A buffer, workspace or stream that does not go with the call.
    #[error("{what}: {reason}")]
    Mismatch {
        /// Which of the arguments it is.
        what: &'static str,
        /// What it is and what is needed.
        reason: String,
    },
}

impl Error {
    /// What a call of the driver failed with, on a device of this name.
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
