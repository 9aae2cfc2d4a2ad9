//! Decoded forms of asynchronous copies and mbarrier operations.

use crate::ast::Type;
use crate::memory::Space;

use super::{AtomicOp, Base, Slot};

/// An operand in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: Space,
    /// Whether shared addresses may name other blocks of the cluster.
    pub(crate) cluster: bool,
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// An operation of the table behind [`Op::Async`](super::Op::Async).
#[derive(Debug, Clone, Copy)]
pub(crate) enum AsyncOp {
    Mbarrier(MbarrierOp),
    Copy(CopyOp),
    Group(GroupOp),
}

/// An operation on an mbarrier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MbarrierOp {
    pub(crate) kind: MbarrierKind,
    pub(crate) at: Place,
    /// The count, the bytes, the state or the parity, as the kind needs one.
    pub(crate) operand: Option<Slot>,
    /// Where the state before an arrival goes, or the outcome of a wait.
    pub(crate) result: SlotOrRow,
}

/// The destination of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotOrRow {
    None,
    Slot(Slot),
    Predicate(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MbarrierKind {
    Init,
    Invalidate,
    /// `.expect_tx` announces the operand's bytes and arrives once; else the
    /// operand is a count. `completes` is false with `.noComplete`.
    Arrive {
        drop: bool,
        expect: bool,
        completes: bool,
    },
    Expect,
    Complete,
    /// `try_wait` if it may block, else `test_wait`.
    Wait {
        blocks: bool,
        parity: bool,
    },
    /// `cp.async.mbarrier.arrive`: an arrival once the thread's copies have landed.
    AfterCopies {
        counted: bool,
    },
}

/// A copy that goes on while its thread does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyOp {
    pub(crate) to: Place,
    pub(crate) bytes: Bytes,
    pub(crate) signal: Signal,
    /// Blocks of the cluster that get the bytes.
    pub(crate) multicast: Option<Slot>,
    /// What is done with the bytes that are there, if they are not replaced.
    pub(crate) change: Option<(AtomicOp, Type)>,
}

/// The bytes that a copy moves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bytes {
    /// `cp.async`: each thread's own few. `read` of them come from memory, none
    /// where the predicate (with its negation) holds; the rest are zero.
    Few { from: Place, bytes: u32, read: Option<Slot>, ignore: Option<(u16, bool)> },
    /// `cp.async.bulk`: as many as the operand says.
    Bulk { from: Place, bytes: Slot },
    /// `st.async` and `red.async`: the values of registers.
    Values { ty: Type, count: u8, data: [Slot; 4] },
}

/// How threads learn that a copy has landed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// Its bytes are taken off the mbarrier's transaction count.
    Mbarrier(Place),
    /// The instruction `cp.async.bulk.wait_group` of bulk copies.
    BulkGroup,
    /// The instruction `cp.async.wait_group` of single copies.
    Group,
}

/// Operations on the groups of a thread's copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupOp {
    Commit {
        bulk: bool,
    },
    /// Waits until at most `pending` groups are under way; with `read`, until the
    /// others have read their sources.
    Wait {
        bulk: bool,
        pending: u32,
        read: bool,
    },
    WaitAll,
}
