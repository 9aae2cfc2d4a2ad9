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
    /// An unordered read and write of the same memory by two threads.
    ReadWriteRace,
    /// Unordered writes of the same memory by two threads.
    WriteWriteRace,
    /// A race after a relaxed read, often an atomic, that has seen the other thread's release: only an
    /// acquire fence after that read is missing.
    NoAcquire,
    /// Volatile accesses by which lanes of a warp communicate without a barrier. This is not a race, but
    /// the values read depend on the lanes running in lockstep. Found by [`Hazards::strict`] only.
    ///
    /// [`Hazards::strict`]: crate::Hazards::strict
    LockStep,
    /// A read of memory that was never written.
    Unwritten,
    /// A read by the host of a result that was never written.
    UnwrittenResult,
    /// An access to the target of an asynchronous copy before a wait for the copy.
    UnwaitedCopy,
    /// A shuffle that reads from a lane that does not take part in it.
    ShuffleFromInactive,
    /// An `.extern .shared` array with a size, in a launch with dynamic shared memory. ptxas and the
    /// simulator ignore `.extern` on it: it is a static array of that size, and the launch's dynamic
    /// memory is located after it. A kernel that uses the array as dynamic memory leaves that memory
    /// unused, or accesses other arrays past the end of this one.
    SizedExternal,
}

impl fmt::Display for HazardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadWriteRace => "read-write race",
            Self::WriteWriteRace => "write-write race",
            Self::NoAcquire => "race due to a missing acquire fence",
            Self::LockStep => "communication of lanes that is correct only in lockstep",
            Self::Unwritten => "read of unwritten memory",
            Self::UnwrittenResult => "result that was never written",
            Self::UnwaitedCopy => "copy used before its wait",
            Self::ShuffleFromInactive => "shuffle from an inactive lane",
            Self::SizedExternal => "external shared array with a size (not the launch's dynamic memory)",
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

/// Writes the thread, its instruction, and its source locations except `Location::user`, which a
/// finding writes before the site.
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

/// A hazard that the checks have found. All hazards of one kind between the same two instructions are
/// one finding.
///
/// With line information, its text begins with the user's source line, like a compiler's message.
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
    /// Description of the buffer that contains the address, and of the offset in it.
    pub buffer: Option<String>,
    /// The instruction whose execution revealed the hazard; `None` for accesses by the host.
    pub access: Option<Site>,
    /// The earlier instruction, for hazards between two instructions.
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
            write!(f, "; an acquire fence is missing after the {what} at ")?;
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
