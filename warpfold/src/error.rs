//! Errors, each displayed in one line; their causes are their [`source`](std::error::Error::source)s.

use std::{error::Error as StdError, fmt};

use warpfold_driver::{CallError, DriverError, PtxError};

use warpfold_ptx::Arch;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of all calls of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No CUDA driver can be loaded.
    NoDriver {
        /// The failure to load the driver.
        source: DriverError,
    },
    /// There is a driver, but not the selected device.
    NoDevice {
        /// The selected device.
        wanted: String,
        /// The available devices.
        offered: String,
    },
    /// The process is a forked child, which cannot use a device that its parent has used.
    Forked {
        /// The name of the device, or of a driver that does not start in a child.
        device: String,
    },
    /// The library was built without the simulator.
    NoSimulator,
    /// The GPU is older than the kernels need.
    TooOld {
        /// The name of the device.
        device: String,
        /// Its compute capability, major and minor.
        capability: (u32, u32),
    },
    /// A driver call failed.
    ///
    /// If `source` [is sticky](CallError::is_sticky), the device is lost to this process and every later
    /// call fails.
    Driver {
        /// The name of the device, or of the driver if no device is involved.
        device: String,
        /// The action of the library that failed.
        doing: &'static str,
        /// The driver's error.
        source: Box<CallError>,
    },
    /// The device does not have enough free memory.
    OutOfMemory {
        /// The name of the device.
        device: String,
        /// The number of bytes to allocate.
        bytes: u64,
        /// The driver's error.
        source: Box<CallError>,
    },
    /// There is no PTX for this operation, element type and device.
    PtxMissing {
        /// The operation and type, as in the name of the PTX file.
        name: String,
        /// The device's compute capability, major and minor.
        device: (u32, u32),
        /// The reason why there is no PTX.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The driver rejects a kernel's PTX.
    PtxRejected {
        /// The origin of the PTX.
        origin: String,
        /// The defect.
        reason: String,
        /// The driver's error, if the driver has seen the PTX.
        source: Option<Box<PtxError>>,
    },
    /// The parameters of a kernel differ from the arguments that the library passes.
    WrongParameters {
        /// The origin of the PTX.
        origin: String,
        /// The name of the kernel.
        entry: String,
        /// The parameters that the PTX declares.
        takes: String,
        /// The arguments that the library passes.
        passes: String,
    },
    /// An object is used with a device other than its own.
    OtherDevice {
        /// The kind of object.
        what: &'static str,
        /// The device that the object belongs to.
        has: String,
        /// The device with which the object is used.
        needs: String,
    },
    /// There are more elements than one reduction supports.
    TooManyElements {
        /// The number of elements.
        n: u64,
        /// The maximum number of elements of a reduction.
        most: u64,
    },
    /// A count in device memory exceeds the number of elements.
    CountTooLarge {
        /// The count.
        count: u64,
        /// The number of elements in the buffer.
        len: u64,
    },
    /// A single result in device memory was requested for an empty input, and would not be 0. In a
    /// [`Group`](crate::Group), an empty input is an error for every operation of the library.
    NoElements {
        /// The name of the operation.
        what: &'static str,
    },
    /// A slice is outside its buffer.
    OutOfBounds {
        /// The first element of the slice.
        start: usize,
        /// One past the last element of the slice.
        end: usize,
        /// The number of elements in the buffer.
        len: usize,
    },
    /// A buffer cannot be divided into rows of this length, or its rows cannot be reduced by this call.
    Rows {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// An array does not have the axis, or cannot be reduced along the axis by this call.
    Axis {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// A buffer does not contain the view, or the view cannot be reduced along the axes by this call.
    View {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// An [expression](fn@crate::op::expr) is not valid for the type of its elements.
    Expression {
        /// The expression, or nothing if it is too long.
        text: String,
        /// The position of the defect: a byte of the text, or its length.
        at: usize,
        /// The problem, and the allowed values.
        reason: String,
    },
    /// A custom operation does not have the properties that the program assumes.
    Custom {
        /// The name of the operation.
        name: &'static str,
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Offsets are not valid for segments, or the segments cannot be reduced by this call.
    Segments {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Values cannot be reduced by these keys, or there are more runs than the outputs have room for.
    Runs {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// The elements of two buffers do not pair up, or cannot be reduced by this call.
    Pairs {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// An interval has a bound that is NaN, or cannot be reduced by this call.
    Interval {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Top-k does not support this k, or does not support it for this input.
    TopK {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Reading from a source failed.
    Source {
        /// The number of elements read before the failure.
        at: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// Elements cannot be [streamed](crate::Reducer::stream) through this number or size of buffers, or
    /// by this number of threads.
    Ring {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Devices cannot form a group, or an object does not belong to the group.
    Group {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// Processes fail to connect, or make different calls.
    World {
        /// The problem, the allowed values, and the remedy.
        reason: String,
    },
    /// NCCL is missing or too old, or has failed.
    Nccl {
        /// The problem and the remedy.
        reason: String,
    },
    /// Memory of another owner cannot be used in place, or bytes cannot be elements of the type.
    Foreign {
        /// The kind of object.
        what: &'static str,
        /// The problem and the allowed values.
        reason: String,
    },
    /// The object cannot be used any more, because an earlier use of it failed and may still be running,
    /// or, for a `World`, because one of its processes has ended.
    Lost {
        /// The kind of object.
        what: &'static str,
        /// The failure and the remedy.
        reason: String,
    },
    /// No kernel supports the chosen launch. Only the test suite chooses launches.
    #[doc(hidden)]
    Choice {
        /// The problem and the allowed values.
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
                write!(f, "{device} does not have {bytes} bytes free; reduce fewer elements at a time")
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
                write!(f, "expected the {what} on {needs}, not on {has}; use one device for both")
            }
            Self::TooManyElements { n, most } => {
                write!(f, "{n} elements; a reduction takes at most {most}; reduce slices of the buffer")
            }
            Self::CountTooLarge { count, len } => {
                write!(f, "the count in device memory is {count}, but the buffer has {len} elements")
            }
            Self::Source { at, .. } => write!(f, "the source failed after {at} elements"),
            Self::NoElements { what } => {
                write!(f, "the {what} of no elements is undefined; give at least one")
            }
            Self::OutOfBounds { start, end, len } => {
                write!(f, "elements {start} to {end} of a buffer that has {len}; end at {len} at most")
            }
            Self::Foreign { what, reason } | Self::Lost { what, reason } => {
                write!(f, "{what}: {reason}")
            }
            Self::Expression { text, at, reason } => {
                write!(f, "expression: {reason}")?;
                if text.is_empty() {
                    return Ok(());
                }
                // One line of text, with a caret below the defect.
                let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                let column = text.get(..*at).unwrap_or(text).chars().count();
                write!(f, "\n  {line}\n  {:column$}^", "")
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
    /// Returns whether the device is lost, so that nothing runs on it any more.
    pub(crate) fn is_sticky(&self) -> bool {
        match self {
            Self::Driver { source, .. } | Self::OutOfMemory { source, .. } => source.is_sticky(),
            _ => false,
        }
    }
}

/// Escapes the characters in another process's text that end a line or control a terminal, and shortens
/// the text to about a line.
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

/// Formats an error and its causes in one line.
pub(crate) fn in_full(error: &dyn StdError) -> String {
    let (mut line, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
