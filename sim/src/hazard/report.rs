//! What hazard checks find.

use std::fmt;

use crate::memory::Space;

/// A kind of hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HazardKind {
    /// A thread reads what another writes, and nothing orders the two.
    ReadWriteRace,
    /// Two threads write one place, and nothing orders the two.
    WriteWriteRace,
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
pub struct Site {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The instruction's text.
    pub text: String,
    /// The block in x, y and z.
    pub block: [u32; 3],
    /// The thread in x, y and z.
    pub thread: [u32; 3],
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), ptx line {}, `{}`",
            self.line, self.text
        )
    }
}

/// A hazard: all of one kind between the same two instructions are one finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: HazardKind,
    /// The kernel; empty for what the host does.
    pub kernel: String,
    /// The state space.
    pub space: Space,
    /// The address of the first place where it happened.
    pub address: u64,
    /// The instruction that found it; none for what the host does.
    pub access: Option<Site>,
    /// The earlier instruction that it collides with, of hazards that have two.
    pub other: Option<Site>,
    /// How many places there were.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} address {:#x}", self.kind, self.space, self.address)?;
        if let Some(access) = &self.access {
            write!(f, ": {access}")?;
        }
        if let Some(other) = &self.other {
            write!(f, ", against {other}")?;
        }
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}
