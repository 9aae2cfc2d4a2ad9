//! What can go wrong, each in one line. What lies behind it is its
//! [`source`](std::error::Error::source).

use std::{error::Error as StdError, fmt};

use warpfold_driver::{CallError, DriverError, PtxError};

use crate::arch::Arch;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a call of this crate can fail with.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver in this process.
    NoDriver {
        /// What went wrong when it was tried.
        source: DriverError,
    },
    /// There is a driver, but no device as asked for.
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// The devices that there are.
        offered: String,
    },
    /// The process was forked after its parent had used a device, which a child cannot go on with.
    Forked {
        /// The name of the device, or of the driver that does not start for the child.
        device: String,
    },
    /// The library was built without its simulator.
    NoSimulator,
    /// The GPU is older than the kernels need.
    TooOld {
        /// The name of the device.
        device: String,
        /// What it has, major and minor.
        capability: (u32, u32),
    },
    /// A call of the driver failed.
    ///
    /// If `source` [is sticky](CallError::is_sticky) the device is lost to this process: every later
    /// call fails alike.
    Driver {
        /// The device's name, or the driver's where it is about no device.
        device: String,
        /// What the library was about.
        doing: &'static str,
        /// What the driver said.
        source: Box<CallError>,
    },
    /// The device has not so much free memory.
    OutOfMemory {
        /// The name of the device.
        device: String,
        /// How many bytes were asked for.
        bytes: u64,
        /// What the driver said.
        source: Box<CallError>,
    },
    /// There is no PTX for an operation, a type and a device.
    PtxMissing {
        /// The operation and type, as the file is called.
        name: String,
        /// The device's compute capability, major and minor.
        device: (u32, u32),
        /// Why there is none.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The device does not take the PTX of a kernel.
    PtxRejected {
        /// Where the PTX comes from.
        origin: String,
        /// What is wrong with it.
        reason: String,
        /// What the driver said, where it has seen it.
        source: Option<Box<PtxError>>,
    },
    /// A kernel takes other parameters than the library passes.
    WrongParameters {
        /// Where the PTX comes from.
        origin: String,
        /// The name of the kernel.
        entry: String,
        /// What the PTX declares.
        takes: String,
        /// What the library passes.
        passes: String,
    },
    /// Something belongs to another device than what it is used with.
    OtherDevice {
        /// What is used where it does not belong.
        what: &'static str,
        /// The device that it belongs to.
        has: String,
        /// Whose it must be.
        needs: String,
    },
    /// More elements than one reduction takes.
    TooManyElements {
        /// Elements of the buffer.
        n: u64,
        /// Most that there may be.
        most: u64,
    },
    /// A count in device memory that is above what there is.
    CountTooLarge {
        /// What the device memory held.
        count: u64,
        /// Elements of the buffer.
        len: u64,
    },
    /// An extreme of no elements, where there must be one.
    NoElements {
        /// The name of the operation.
        what: &'static str,
    },
    /// A part of a buffer that is not inside it.
    OutOfBounds {
        /// The first element asked for.
        start: usize,
        /// The element behind the last.
        end: usize,
        /// Elements that there are.
        len: usize,
    },
    /// Rows that a buffer does not have, or that cannot be reduced as asked for.
    Rows {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// An axis that an array does not have, or along which it cannot be reduced as asked for.
    Axis {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A view that a buffer does not have, or along whose axes it cannot be reduced as asked for.
    View {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A program's own operation that is not what the program takes it for.
    Custom {
        /// The name of the operation.
        name: &'static str,
        /// What it is, what is allowed, and what to do.
        reason: String,
    },
    /// Offsets that describe no segments, or segments that cannot be reduced as asked for.
    Segments {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// Keys by which values cannot be reduced as asked for, or of which there are more runs than room.
    Runs {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// Two buffers whose elements are no pairs, or that cannot be reduced as asked for.
    Pairs {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// An interval that has an end that is no number, or that cannot be reduced as asked for.
    Interval {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A number of first elements that cannot be found, or not as asked for.
    TopK {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A source that does not give its elements.
    Source {
        /// How many elements came before.
        at: u64,
        /// What the system said of it.
        source: std::io::Error,
    },
    /// Buffers through which elements cannot be streamed.
    Ring {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// Devices that are no group, or what does not belong to one.
    Group {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// Processes that do not find each other, or that do not do the same.
    World {
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// NCCL, where it is not there, too old, or has failed.
    Nccl {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Memory from elsewhere that cannot be reduced in place.
    Foreign {
        /// What was handed in.
        what: &'static str,
        /// What it is and what is allowed.
        reason: String,
    },
    /// Something whose earlier use failed and may still be under way.
    Lost {
        /// What it is that failed.
        what: &'static str,
        /// What became of it and what to do.
        reason: String,
    },
    /// A launch that the kernels do not have; only the suite chooses launches.
    #[doc(hidden)]
    Choice {
        /// What was given and what is allowed.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver { .. } => {
                f.write_str("no CUDA driver; install NVIDIA's, or take the simulator, device `sim`")
            }
            Self::NoDevice { wanted, offered } => write!(f, "no device `{wanted}`; {offered}"),
            Self::Forked { device } => write!(
                f,
                "{device} was used before this process was forked; use it in the child alone, or start a new \
                 program in place of a fork"
            ),
            Self::NoSimulator => {
                f.write_str("this program has no simulator; build warpfold with its feature `simulator`")
            }
            Self::TooOld { device, capability: (major, minor) } => {
                write!(f, "{device} has compute capability {major}.{minor}; it must be 8.0 or newer")
            }
            Self::Driver { device, doing, source } => {
                write!(f, "{device}: {doing} failed with {}", source.name)
            }
            Self::OutOfMemory { device, bytes, .. } => {
                write!(f, "{device} has no {bytes} bytes free; reduce fewer elements at a time")
            }
            Self::PtxMissing { name, device: (major, minor), .. } => {
                write!(f, "no PTX of {name} for {}", Arch::new(*major, *minor))
            }
            Self::PtxRejected { origin, reason, .. } => write!(f, "{origin}: {reason}"),
            Self::WrongParameters { origin, entry, takes, passes } => write!(
                f,
                "{origin}: `{entry}` takes {takes}, but is launched with {passes}; it is of another \
                 version of warpfold"
            ),
            Self::OtherDevice { what, has, needs } => {
                write!(f, "the {what} belongs to {has}, and is used with {needs}; make it there")
            }
            Self::TooManyElements { n, most } => {
                write!(f, "{n} elements; a reduction takes at most {most}; reduce slices of the buffer")
            }
            Self::CountTooLarge { count, len } => {
                write!(f, "the count in device memory is {count}; the buffer has {len} elements")
            }
            Self::Source { at, .. } => write!(f, "the source fails behind {at} elements"),
            Self::NoElements { what } => {
                write!(f, "the {what} of no elements is asked for; give at least one")
            }
            Self::OutOfBounds { start, end, len } => {
                write!(f, "elements {start} to {end} of a buffer that has {len}; end at {len} at most")
            }
            Self::Foreign { what, reason } | Self::Lost { what, reason } => {
                write!(f, "{what}: {reason}")
            }
            Self::Custom { name, reason } => write!(f, "operation `{name}`: {reason}"),
            Self::Rows { reason }
            | Self::Axis { reason }
            | Self::View { reason }
            | Self::Segments { reason }
            | Self::Runs { reason }
            | Self::Group { reason }
            | Self::World { reason }
            | Self::Nccl { reason }
            | Self::Pairs { reason }
            | Self::Interval { reason }
            | Self::TopK { reason }
            | Self::Ring { reason }
            | Self::Choice { reason } => f.write_str(reason),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::NoDriver { source } => Some(source),
            Self::Source { source, .. } => Some(source),
            Self::Driver { source, .. } | Self::OutOfMemory { source, .. } => Some(&**source),
            Self::PtxMissing { source, .. } => Some(&**source),
            Self::PtxRejected { source, .. } => {
                source.as_deref().map(|source| source as &(dyn StdError + 'static))
            }
            _ => None,
        }
    }
}

impl Error {
    /// Whether it is one with which the device is lost, so that nothing runs there any more.
    pub(crate) fn is_sticky(&self) -> bool {
        match self {
            Self::Driver { source, .. } | Self::OutOfMemory { source, .. } => source.is_sticky(),
            _ => false,
        }
    }
}

/// A text of another process as a part of an error's line: without characters that end the line or that
/// a terminal obeys, and not much longer than a line.
#[cfg(feature = "world")]
pub(crate) fn in_one_line(text: &str) -> String {
    const MOST: usize = 1000;
    let mut line = String::new();
    for character in text.chars().take(MOST) {
        let is_mark = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match character.is_control() || is_mark {
            true => line.extend(character.escape_debug()),
            false => line.push(character),
        }
    }
    if text.chars().nth(MOST).is_some() { line + "…" } else { line }
}

/// An error and what lies behind it, in one line.
pub(crate) fn in_full(error: &dyn StdError) -> String {
    let (mut line, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
