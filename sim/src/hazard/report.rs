//! What hazard checks find.

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
    /// Two threads write one place, and nothing orders the two.
    WriteWriteRace,
    /// A race of an access that comes behind a relaxed read, often an atomic, which has seen what the
    /// other thread released: nothing is missing but an acquire fence behind that read.
    NoAcquire,
    /// Lanes of a warp talk to each other by volatile accesses with no barrier between. That is no race,
    /// and what they see depends on the lanes' running in lock step. Found by [`Hazards::strict`] alone.
    ///
    /// [`Hazards::strict`]: crate::Hazards::strict
    LockStep,
    /// A read of memory that nothing has written.
    Unwritten,
    /// The host reads a result that nothing has written.
    UnwrittenResult,
    /// Memory is used that an asynchronous copy writes, before a wait for the copy.
    UnwaitedCopy,
    /// A shuffle reads a lane that does not take part in it.
    ShuffleFromInactive,
    /// An `.extern .shared` array with a size, in a launch that gives dynamic shared memory. ptxas and
    /// the simulator ignore `.extern` on it: it is a static array of that size, and the launch's memory
    /// lies behind it, over nothing or over other arrays that the kernel takes for free.
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

/// An instruction of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The text of the instruction.
    pub text: String,
    /// Where it comes from, if the text has line information.
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

/// The thread and its instruction, with what is beside the user's line.
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

/// A hazard: all of one kind between the same two instructions are one finding.
///
/// It shows itself with the user's line first, as compilers do, where the text has line information.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of hazard it is.
    pub kind: HazardKind,
    /// The kernel; empty for what the host does.
    pub kernel: String,
    /// The state space of the bytes.
    pub space: Space,
    /// The address of the first place where it happened.
    pub address: u64,
    /// The buffer that the address lies in and where in it, in words.
    pub buffer: Option<String>,
    /// The instruction that found it; none for what the host does.
    pub access: Option<Site>,
    /// The earlier instruction that it collides with, of hazards that have two.
    pub other: Option<Site>,
    /// Of [`HazardKind::NoAcquire`], the read behind which a fence is missing.
    pub unfenced: Option<Site>,
    /// How many places there were.
    pub count: u64,
}

impl Finding {
    /// One of which nothing else is known.
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
