//! Errors of parsing and of running. Every message is one lower-case line that names the value and what
//! is allowed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::location::Location;
use crate::memory::Space;
use crate::names::readable;
use crate::tensor_map::{TensorElement, TensorMapError};

/// Maximum characters of the module's text that a message quotes in one piece.
const SHOWN: usize = 300;

/// Shortens a text of the module for a message, because names and instructions may be of any length.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// PTX text that cannot be parsed or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ptx line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The problem, and what is allowed.
    pub message: String,
}

/// Failure of a device operation or of a launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A thread's error, which ended the launch.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// The module has no such entry.
    #[error("module has no entry `{}`; it has {}", shortened(.name), shortened(.available))]
    UnknownEntry {
        /// The requested name.
        name: String,
        /// The entries that exist, quoted and separated by commas.
        available: String,
    },
    /// The entry exists, but uses PTX that is not supported.
    #[error("entry `{}` is broken: {reason}", readable(.name))]
    BrokenEntry {
        /// The name of the entry.
        name: String,
        /// The location and the reason of the failure.
        reason: ParseError,
    },
    /// The shape of the launch is outside the device's limits.
    #[error("launch of `{}`: {what} is {value}, allowed is {allowed}", readable(.kernel))]
    InvalidLaunch {
        /// The name of the entry.
        kernel: String,
        /// The quantity that is out of range.
        what: &'static str,
        /// The given value.
        value: u64,
        /// The allowed values.
        allowed: String,
    },
    /// The parameter bytes do not fit the entry's parameters.
    #[error(
        "launch of `{}`: {given} parameter bytes given, its {params} parameters take {expected}",
        readable(.kernel)
    )]
    ParameterBytes {
        /// The name of the entry.
        kernel: String,
        /// Number of bytes that were given.
        given: usize,
        /// Number of bytes that the parameters take.
        expected: usize,
        /// Number of parameters.
        params: usize,
    },
    /// An allocation or the blocks of a launch do not fit the memory limit.
    #[error("{} needs {requested} bytes; {in_use} of the limit of {limit} bytes are in use", shortened(.what))]
    MemoryLimit {
        /// The allocation, block or cluster that needs the memory.
        what: String,
        /// Number of bytes requested.
        requested: u64,
        /// Number of bytes in use at the request.
        in_use: u64,
        /// The limit of [`Config::memory_limit`](crate::Config::memory_limit).
        limit: u64,
    },
    /// The host has no memory for an allocation within the limits.
    #[error(
        "{} needs {requested} bytes, which the host cannot allocate; free memory or allocate less",
        shortened(.what)
    )]
    HostMemory {
        /// The object that needs the memory, such as an allocation.
        what: String,
        /// Number of bytes requested.
        requested: u64,
    },
    /// Host memory that cannot be [lent](crate::GlobalMemory::lend) to the device: it has no whole
    /// 64-bit word, or overlaps memory that is lent.
    #[error(
        "{bytes} bytes of host memory at {address:#x} cannot be lent; allowed are 8 or more bytes that \
         are not lent already"
    )]
    Lent {
        /// The address on the host.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A host copy, fill or free names bytes outside the live allocations.
    #[error("{operation} of {bytes} bytes at {address:#x} is outside of every live allocation{nearest}")]
    InvalidPointer {
        /// `read`, `write`, `fill`, `copy` or `free`.
        operation: &'static str,
        /// The address on the device.
        address: u64,
        /// Number of bytes of the operation.
        bytes: u64,
        /// A description of the nearest allocation, or an empty string.
        nearest: String,
    },
}

/// A thread's error, with its location in the source, in the PTX text and in the grid.
///
/// The displayed text starts with the user's source line, like a compiler's message, if the PTX text has
/// line information.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The text of the instruction.
    pub text: String,
    /// Source location of the instruction, if the text has line information.
    pub location: Option<Arc<Location>>,
    /// The loop that the thread was in when a limit stopped it; the instruction is then the branch at
    /// the loop's end.
    pub looping: Option<Loop>,
    /// The name of the entry.
    pub kernel: String,
    /// The block in x, y and z.
    pub block: [u32; 3],
    /// The first faulting thread in x, y and z.
    pub thread: [u32; 3],
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{}: ", location.user().here())?;
        }
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "kernel `{}`, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), ptx line {}, `{}`",
            readable(&self.kernel),
            self.line,
            shortened(&self.text)
        )?;
        if let Some(location) = &self.location {
            write!(f, "{}", location.around())?;
        }
        write!(f, ": {}", self.kind)?;
        match self.looping {
            Some(Loop { first_line, last_line }) if first_line == last_line => {
                write!(f, "; the thread loops in ptx line {first_line}")
            }
            Some(Loop { first_line, last_line }) => {
                write!(f, "; the thread loops in ptx lines {first_line} to {last_line}")
            }
            None => Ok(()),
        }
    }
}

/// A loop, by lines of the PTX text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// First line, from 1.
    pub first_line: u32,
    /// Last line, from 1.
    pub last_line: u32,
}

impl std::error::Error for Fault {}

/// A problem with the texture or surface of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextureProblem {
    /// No object has this handle.
    #[error(
        "{handle:#x} is not a {what} of the device; allowed is the handle of a {what} that is not \
         destroyed"
    )]
    NoObject {
        /// The expected object: `texture` or `surface`.
        what: &'static str,
        /// The given handle.
        handle: u64,
    },
    /// The object has another geometry.
    #[error(
        "`.{named}` does not match {}{}; allowed is the geometry that it was created with",
        shape(*.dimensions, *.cube),
        if *.layered { " with layers" } else { "" }
    )]
    Geometry {
        /// The geometry that the instruction names.
        named: &'static str,
        /// Dimensions of the object.
        dimensions: u32,
        /// The object has layers.
        layered: bool,
        /// The object is a cube.
        cube: bool,
    },
}

fn shape(dimensions: u32, cube: bool) -> String {
    if cube { "a cube".to_owned() } else { format!("a texture or surface of {dimensions} dimensions") }
}

/// An access outside a surface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{access} of {bytes} bytes at byte {}, row {}, plane {} is outside of the surface, which has {} \
     bytes, {} rows, {} planes",
    .at[0], .at[1], .at[2], .extent[0], .extent[1], .extent[2]
)]
pub struct SurfacePlace {
    /// `load`, `store` or `atomic`.
    pub access: &'static str,
    /// Bytes of the access.
    pub bytes: u32,
    /// Position of the access: byte within the row, row within the plane, plane.
    pub at: [i32; 3],
    /// Size of the surface: bytes of a row, rows of a plane, planes.
    pub extent: [u32; 3],
}

/// A problem with a matrix product of a warpgroup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarpgroupProblem {
    /// The block ends within the warpgroup.
    #[error(
        "the block has {warps} of the 4 warps of the warpgroup that starts at warp {first}; allowed are \
         blocks with all 4"
    )]
    Incomplete {
        /// Index of the first warp of the warpgroup in the block.
        first: u32,
        /// Warps of the warpgroup that the block has.
        warps: u32,
    },
    /// An operand that must be the same in all threads.
    #[error(
        "{operand} is {first:#x} in lane 0 and {other:#x} in lane {lane}; all threads of the warpgroup \
         must pass the same value"
    )]
    Differs {
        /// The operand.
        operand: &'static str,
        /// The value of lane 0.
        first: u64,
        /// The first lane with another value.
        lane: u32,
        /// The value of that lane.
        other: u64,
    },
}

/// A problem with the tensor map of a copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapProblem {
    /// Other bytes than those of an encoded map.
    #[error(
        "does not hold a tensor map; allowed are 128 bytes of cuTensorMapEncodeTiled or tensormap.replace"
    )]
    Foreign,
    /// An argument that a kernel has set to a value out of range.
    #[error("is invalid: {0}")]
    Invalid(TensorMapError),
    /// A map of a tensor with another number of dimensions.
    #[error("has {rank} dimensions, and the instruction {needed}; both must be the same")]
    Rank {
        /// The dimensions of the map.
        rank: u32,
        /// The dimensions that the instruction states.
        needed: u32,
    },
    /// Elements that the reduction does not support.
    #[error("has elements of type {element:?}, for which this reduction is not supported")]
    Element {
        /// The type of the map's elements.
        element: TensorElement,
    },
}

/// Calls that are nested too deeply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "call of `{name}` within {depth} calls needs {end} bytes of local memory; allowed are {most} calls \
     and {bytes} bytes"
)]
pub struct CallDepth {
    /// The name of the called function.
    pub name: String,
    /// Nesting depth of the thread's calls.
    pub depth: u32,
    /// Maximum nesting depth.
    pub most: u32,
    /// Bytes of local memory that the thread would need.
    pub end: u64,
    /// Maximum bytes of local memory.
    pub bytes: u64,
}

/// The kinds of error that a thread can cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside the memory of the state space.
    #[error("{access} of {bytes} bytes at {space} address {address:#x} is out of bounds; {allowed}")]
    OutOfBounds {
        /// The kind of access, such as `load`, `atomic`, `copy` or `tensor map`.
        access: &'static str,
        /// The state space of the address.
        space: Space,
        /// The address within the space.
        address: u64,
        /// Bytes of the access.
        bytes: u32,
        /// A description of the bounds.
        allowed: String,
    },
    /// An access whose address is not a multiple of its size.
    #[error(
        "{access} of {bytes} bytes at {space} address {address:#x} is misaligned; the address must be a multiple of {bytes}"
    )]
    Misaligned {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// The state space of the address.
        space: Space,
        /// The address within the space.
        address: u64,
        /// Bytes of the access, which are also the required alignment.
        bytes: u32,
    },
    /// A store or atomic to a read-only space.
    #[error("{access} to {space} memory, which is read-only")]
    ReadOnly {
        /// The access: `store` or `atomic`.
        access: &'static str,
        /// The state space of the address.
        space: Space,
    },
    /// A call by an address that belongs to none of the call's possible targets.
    #[error(
        "call of address {address:#x}, which is not a possible target of the call; allowed are {allowed}"
    )]
    NoFunction {
        /// The called address.
        address: u64,
        /// The possible targets, quoted and separated by commas.
        allowed: String,
    },
    /// `cudaGraphSetConditional` with a handle that belongs to no graph.
    #[error(
        "cudaGraphSetConditional of {handle:#x}, which is not a conditional handle of a graph of the \
         context"
    )]
    NoCondition {
        /// The handle of the condition.
        handle: u64,
    },
    /// `free` of an address that `malloc` has not returned.
    #[error("free of {address:#x}, which is not memory that a kernel has allocated and not yet freed")]
    InvalidFree {
        /// The address passed to `free`.
        address: u64,
    },
    /// A texture or surface that does not exist, or has another geometry than the instruction expects.
    #[error(transparent)]
    Texture(TextureProblem),
    /// An access outside a surface.
    #[error(transparent)]
    Surface(SurfacePlace),
    /// Calls that are nested too deeply.
    #[error(transparent)]
    CallDepth(CallDepth),
    /// An `alloca` that exceeds the local memory of a thread.
    #[error(
        "alloca of {bytes} bytes with {in_use} bytes in use exceeds the thread's local memory; allowed \
         are {limit} bytes"
    )]
    StackOverflow {
        /// The requested bytes.
        bytes: u64,
        /// Bytes of local memory in use.
        in_use: u32,
        /// Maximum bytes of local memory.
        limit: u64,
    },
    /// A `stackrestore` of a pointer that `stacksave` cannot have returned.
    #[error(
        "stackrestore of {pointer:#x}; allowed are pointers from stacksave in the same function, at \
         present {least:#x} to {top:#x}"
    )]
    StackPointer {
        /// The given pointer.
        pointer: u64,
        /// End of the function's own variables.
        least: u32,
        /// The stack pointer.
        top: u32,
    },
    /// Metadata of a sparse matrix with invalid indices.
    #[error(
        "metadata of chunk {chunk} of row {row} of the sparse matrix is {indices:#06b}; allowed are \
         {allowed}"
    )]
    InvalidMetadata {
        /// The four bits of the chunk.
        indices: u32,
        /// The row of the matrix.
        row: u32,
        /// Index of the chunk within the row.
        chunk: u32,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A `wgmma` instruction that its warpgroup cannot execute.
    #[error(transparent)]
    Warpgroup(WarpgroupProblem),
    /// A barrier that only some of a warp's threads reach.
    #[error("barrier {id} in divergent flow: warp {warp} misses {missing}; all threads of the warp that have not exited must execute it together", missing = Lanes(*.missing))]
    DivergentBarrier {
        /// The number of the barrier.
        id: u32,
        /// The warp within the block.
        warp: u32,
        /// Mask of the missing lanes.
        missing: u32,
    },
    /// No warp of the block can make progress.
    #[error("deadlock: every live warp of the block waits at a barrier: {waits}")]
    BarrierDeadlock {
        /// A description of the waiting warps and their barriers.
        waits: String,
    },
    /// No warp of the cluster can make progress.
    #[error("deadlock: every live warp of the cluster waits: {waits}")]
    ClusterDeadlock {
        /// A description of the waiting warps of each block.
        waits: String,
    },
    /// A cluster barrier that only some of a warp's threads reach.
    #[error("{operation} in divergent flow: warp {warp} misses {missing}; all threads of the warp that have not exited must execute it together", missing = Lanes(*.missing))]
    DivergentClusterBarrier {
        /// The operation: `barrier.cluster.arrive` or `barrier.cluster.wait`.
        operation: &'static str,
        /// The warp within the block.
        warp: u32,
        /// Mask of the missing lanes.
        missing: u32,
    },
    /// A cluster barrier whose arrivals and waits do not alternate.
    #[error("{operation} {problem}")]
    ClusterBarrierOrder {
        /// The operation: `barrier.cluster.arrive` or `barrier.cluster.wait`.
        operation: &'static str,
        /// The violation of the order.
        problem: &'static str,
    },
    /// An access to the shared memory of a block that has exited.
    #[error(
        "{access} at shared address {address:#x} of block rank {rank} of the cluster, which has exited; \
         a block must wait for the last access by other blocks before it exits, for example at \
         barrier.cluster"
    )]
    ExitedBlock {
        /// `load`, `store`, `atomic`, `copy` or `mbarrier`.
        access: &'static str,
        /// The address within the block's shared memory.
        address: u64,
        /// The block's rank in its cluster.
        rank: u32,
    },
    /// A shared address of a rank that the cluster does not have.
    #[error(
        "{access} at shared address {address:#x} of block rank {rank}; the cluster has {blocks} blocks"
    )]
    NoSuchBlock {
        /// `load`, `store`, `atomic`, `copy` or `mbarrier`.
        access: &'static str,
        /// The address within the block's shared memory.
        address: u64,
        /// The given rank.
        rank: u64,
        /// Number of blocks of the cluster.
        blocks: u32,
    },
    /// An operation that an mbarrier does not allow.
    #[error("mbarrier at shared address {address:#x} {problem}")]
    Mbarrier {
        /// The address of the mbarrier.
        address: u64,
        /// The problem.
        problem: MbarrierProblem,
    },
    /// An operand that an asynchronous copy does not allow.
    #[error("{what} of the copy is {value:#x}; allowed is {allowed}")]
    InvalidCopy {
        /// The operand.
        what: &'static str,
        /// The value of the operand.
        value: u64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A tensor map that a copy cannot use.
    #[error("the tensor map at {space} address {address:#x} {problem}")]
    TensorMap {
        /// The state space.
        space: Space,
        /// The address of the map.
        address: u64,
        /// The problem.
        problem: TensorMapProblem,
    },
    /// A copy of a tensor's box whose rows do not begin at a multiple of 16 bytes.
    #[error(
        "copy of a tensor at inner coordinate {coordinate}, which is byte {byte} of a row; allowed are \
         multiples of 16 bytes"
    )]
    InnerCoordinate {
        /// The coordinate in elements.
        coordinate: i32,
        /// The offset in bytes from the first element.
        byte: i64,
    },
    /// A store or reduction of a tensor's box that begins before the tensor.
    #[error(
        "{access} of a tensor at coordinate {coordinate} of dimension {axis}; allowed are coordinates from 0"
    )]
    NegativeCoordinate {
        /// `store` or `reduction`.
        access: &'static str,
        /// The dimension; 0 is the inner one.
        axis: u32,
        /// The coordinate in elements.
        coordinate: i32,
    },
    /// A block that exits while a bulk copy accesses its shared memory.
    #[error(
        "bulk copy of {bytes} bytes still {uses} the shared memory of block rank {rank} of the cluster \
         as the block exits; {wait} must come first"
    )]
    CopyUnderWay {
        /// Bytes of the copy.
        bytes: u32,
        /// The block's rank in its cluster.
        rank: u32,
        /// The access: `reads` or `writes`.
        uses: &'static str,
        /// The wait that is missing.
        wait: &'static str,
    },
    /// A barrier number or thread count that the hardware does not have.
    #[error("barrier {what} is {value}; allowed is {allowed}")]
    InvalidBarrier {
        /// `number` or `thread count`.
        what: &'static str,
        /// The given value.
        value: u64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A warp-wide instruction whose member mask names inactive lanes.
    #[error("member mask {mask:#010x} names {lanes} not active here; the active mask is {active:#010x}", lanes = Lanes(*.inactive))]
    MemberInactive {
        /// The mask of the members.
        mask: u32,
        /// The members that are not active.
        inactive: u32,
        /// The lanes that are active.
        active: u32,
    },
    /// A warp-wide instruction whose member mask names lanes that have exited or do not exist.
    #[error("member mask {mask:#010x} names {lanes} that exited or never existed; the active mask is {active:#010x}", lanes = Lanes(*.exited))]
    MemberExited {
        /// The mask of the members.
        mask: u32,
        /// The members that have exited, or are past the block's last thread.
        exited: u32,
        /// The lanes that are active.
        active: u32,
    },
    /// A warp-wide instruction executed by lanes that its member mask does not name.
    #[error("member mask {mask:#010x} does not name the executing {lanes}", lanes = Lanes(*.outside))]
    NotMember {
        /// The mask of the members.
        mask: u32,
        /// The executing lanes outside the mask.
        outside: u32,
    },
    /// A `brx.idx` whose index is past the end of its table.
    #[error("branch index {index} is outside of the table of {targets} targets")]
    BranchIndex {
        /// The given index.
        index: u32,
        /// Number of entries of the table.
        targets: u32,
    },
    /// The kernel has executed `trap`.
    #[error("trap executed")]
    Trap,
    /// An `assert` of CUDA C failed. Its texts are missing if the kernel has not passed them.
    #[error("assertion failed{}", .0.as_ref().map_or(String::new(), |failed| format!(": {failed}")))]
    Assertion(Option<Box<FailedAssertion>>),
    /// A thread executed more instructions than allowed.
    #[error("limit of {limit} steps of one thread reached")]
    ThreadStepLimit {
        /// The limit of [`Config::thread_step_limit`](crate::Config::thread_step_limit).
        limit: u64,
    },
    /// The launch took longer than allowed.
    #[error("limit of {} s for a launch reached", .limit.as_secs_f64())]
    TimeLimit {
        /// The limit of [`Config::time_limit`](crate::Config::time_limit).
        limit: Duration,
    },
    /// The launch executed more warp instructions than allowed.
    #[error("step limit of {limit} warp instructions reached")]
    StepLimit {
        /// The limit of [`Config::step_limit`](crate::Config::step_limit).
        limit: u64,
    },
}

/// A failed `assert` of CUDA C.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{message}` at {file}:{line} in {function}")]
pub struct FailedAssertion {
    /// The condition.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The line in the file.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// A problem with the use of an mbarrier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MbarrierProblem {
    /// There is no mbarrier at the address.
    #[error("is not initialised; mbarrier.init must come first")]
    Uninitialised,
    /// The mbarrier was invalidated by `mbarrier.inval`.
    #[error("is invalidated; mbarrier.init must make a new one first")]
    Invalidated,
    /// `mbarrier.init` of an mbarrier that is in use.
    #[error("is initialised already; mbarrier.inval must come before another mbarrier.init")]
    InUse,
    /// The bytes of the mbarrier were overwritten.
    #[error("holds {bytes:#x}, which is not the state of an mbarrier; its bytes were overwritten")]
    Overwritten {
        /// The current contents of the bytes.
        bytes: u64,
    },
    /// A generic address outside shared memory.
    #[error("is not in shared memory")]
    NotShared,
    /// An operand out of range.
    #[error("gets {what} {value}; allowed is {allowed}")]
    Operand {
        /// The operand.
        what: &'static str,
        /// The value of the operand.
        value: i64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// More arrivals than the phase expects.
    #[error("gets {arrivals} arrivals; its phase waits for {pending} more")]
    Arrivals {
        /// The number of arrivals.
        arrivals: u32,
        /// Arrivals that the phase still waits for.
        pending: u32,
    },
    /// An arrival with `.noComplete` that completes the phase.
    #[error("completes its phase by an arrival with .noComplete")]
    Completes,
    /// A transaction count out of range.
    #[error("has a transaction count of {count} bytes; allowed is -1048575 to 1048575")]
    Transactions {
        /// The resulting count.
        count: i64,
    },
}

/// Displays a lane mask as `lane 3` or `lanes 0-15, 31`.
struct Lanes(u32);

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.count_ones() == 1 { "lane " } else { "lanes " })?;
        let (mut rest, mut separator) = (self.0, "");
        while rest != 0 {
            let first = rest.trailing_zeros();
            let length = (!(rest >> first)).trailing_zeros().min(32 - first);
            let run = if length == 32 { u32::MAX } else { ((1 << length) - 1) << first };
            match length {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", first + length - 1)?,
            }
            rest &= !run;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn lane_masks_read_as_ranges() {
        assert_eq!(Lanes(0x8).to_string(), "lane 3");
        assert_eq!(Lanes(0x8000_ffff).to_string(), "lanes 0-15, 31");
        assert_eq!(Lanes(u32::MAX).to_string(), "lanes 0-31");
        assert_eq!(Lanes(0xffff_fffe).to_string(), "lanes 1-31");
    }
}
