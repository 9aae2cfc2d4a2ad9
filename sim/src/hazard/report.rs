//! Findings of hazard checks.

use std::fmt;
use std::sync::Arc;

use crate::error::{Fault, shortened};
use crate::location::Location;
use crate::memory::Space;
use crate::names::readable;

/// A kind of hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HazardKind {
    /// A thread reads what another writes, and nothing orders the two.
    ReadWriteRace,
    /// Two threads write the same place, and nothing orders the two.
    WriteWriteRace,
    /// A race of an access after a relaxed read, often an atomic, that has seen what the other thread
    /// released: only an acquire fence after that read is missing.
    NoAcquire,
    /// Lanes of a warp communicate by volatile accesses without a barrier. That is no race, but what
    /// they see depends on their running in lock step. Found by [`Hazards::strict`] alone.
    ///
    /// [`Hazards::strict`]: crate::Hazards::strict
    LockStep,
    /// A read of memory that nothing has written.
    Unwritten,
    /// The host reads a result that nothing has written.
    UnwrittenResult,
    /// Memory that an asynchronous copy writes is used before a wait for the copy.
    UnwaitedCopy,
    /// A shuffle reads a lane that does not take part in it.
    ShuffleFromInactive,
    /// An `.extern .shared` array with a size, in a launch with dynamic shared memory. ptxas and the
    /// simulator ignore `.extern` on it: it is a static array of that size, and the launch's memory is
    /// located after it, unused, or overlapping other arrays that the kernel considers free.
    SizedExternal,
}

impl fmt::Display for HazardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadWriteRace => "read-write race",
            Self::WriteWriteRace => "write-write race",
            Self::NoAcquire => "race for want of an acquire fence",
            Self::LockStep => "order of lanes that only lock step gives",
            Self::Unwritten => "read of unwritten memory",
            Self::UnwrittenResult => "result that nothing wrote",
            Self::UnwaitedCopy => "copy used before its wait",
            Self::ShuffleFromInactive => "shuffle from an inactive lane",
            Self::SizedExternal => {
                "external shared array with a size, which is not the launch's memory,"
            }
        })
    }
}

/// An instruction executed by a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The text of the instruction.
    pub text: String,
    /// Source location, if the text has line information.
    pub location: Option<Arc<Location>>,
    /// The block in x, y and z.
    pub block: [u32; 3],
    /// The thread in x, y and z.
    pub thread: [u32; 3],
}

impl From<&Fault> for Site {
    fn from(fault: &Fault) -> Self {
        let Fault { line, ref text, ref location, block, thread, .. } = *fault;
        Self { line, text: text.clone(), location: location.clone(), block, thread }
    }
}

/// Writes the thread and its instruction, with the locations besides the user's line.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), ptx line {}, `{}`",
            self.line,
            shortened(&self.text)
        )?;
        self.location.as_ref().map_or(Ok(()), |location| write!(f, "{}", location.around()))
    }
}

/// A hazard; all of one kind between the same two instructions are one finding.
///
/// Its text begins with the user's line, as those of compilers do, if there is line information.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Kind of the hazard.
    pub kind: HazardKind,
    /// Name of the kernel; empty for accesses by the host.
    pub kernel: String,
    /// The state space of the bytes.
    pub space: Space,
    /// Address of the first occurrence.
    pub address: u64,
    /// The buffer that contains the address, and the offset in it, in words.
    pub buffer: Option<String>,
    /// The instruction that found it; `None` for accesses by the host.
    pub access: Option<Site>,
    /// The earlier instruction, for hazards between two.
    pub other: Option<Site>,
    /// The read after which a fence is missing, for [`HazardKind::NoAcquire`].
    pub unfenced: Option<Site>,
    /// Number of occurrences.
    pub count: u64,
}

impl Finding {
    pub(super) fn new(kind: HazardKind, kernel: String, space: Space, address: u64) -> Self {
        Self {
            kind,
            kernel,
            space,
            address,
            buffer: None,
            access: None,
            other: None,
            unfenced: None,
            count: 1,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user =
            |site: &Site| site.location.as_ref().map(|location| location.user().here().to_string());
        if let Some(place) = self.access.as_ref().and_then(user) {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} at {} address {:#x}", self.kind, self.space, self.address)?;
        if let Some(buffer) = &self.buffer {
            write!(f, ", {buffer}")?;
        }
        if let Some(access) = &self.access {
            write!(f, ": kernel `{}`, {access}", readable(&self.kernel))?;
        }
        if let Some(other) = &self.other {
            f.write_str(", against ")?;
            if let Some(place) = user(other) {
                write!(f, "{place}, ")?;
            }
            write!(f, "{other}")?;
        }
        if let Some(unfenced) = &self.unfenced {
            let what = if unfenced.text.contains("atom") { "atomic" } else { "read" };
            write!(f, "; there is no acquire fence after the {what} at ")?;
            if let Some(place) = user(unfenced) {
                write!(f, "{place}, ")?;
            }
            write!(f, "{unfenced}")?;
        }
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}
