//! Decoded asynchronous copies and mbarrier operations.

use crate::ast::Type;
use crate::memory::Space;

use super::{AtomicOp, Base, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: Space,
    /// Shared addresses may refer to other blocks of the cluster.
    pub(crate) cluster: bool,
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// An operation of the table that [`Op::Async`](super::Op::Async) indexes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AsyncOp {
    Mbarrier(MbarrierOp),
    Copy(CopyOp),
    Group(GroupOp),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MbarrierOp {
    pub(crate) kind: MbarrierKind,
    pub(crate) at: Place,
    /// The count, the bytes, the state or the parity, depending on the kind.
    pub(crate) operand: Option<Slot>,
    /// Destination of the state before an arrival, or of the result of a wait.
    pub(crate) result: SlotOrRow,
}

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
    /// With `expect`, announces the operand's bytes and arrives once; else the operand is a count.
    /// `completes` is false with `.noComplete`.
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyOp {
    pub(crate) to: Place,
    pub(crate) bytes: Bytes,
    pub(crate) signal: Signal,
    /// Mask of the cluster's blocks that receive the bytes.
    pub(crate) multicast: Option<Slot>,
    /// The reduction with the bytes at the destination; `None` replaces them.
    pub(crate) change: Option<(AtomicOp, Type)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bytes {
    /// `cp.async`: a few bytes per thread. `read` of them come from memory, none where the predicate
    /// (with its negation) holds; the rest are zero.
    Few { from: Place, bytes: u32, read: Option<Slot>, ignore: Option<(u16, bool)> },
    /// `cp.async.bulk`: as many bytes as the operand says.
    Bulk { from: Place, bytes: Slot },
    /// `st.async` and `red.async`: the values of registers.
    Values { ty: Type, count: u8, data: [Slot; 4] },
}

/// The mechanism by which threads observe that a copy has completed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// Subtracts the bytes from the mbarrier's transaction count.
    Mbarrier(Place),
    BulkGroup,
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupOp {
    Commit {
        bulk: bool,
    },
    /// Waits until at most `pending` groups are in flight; with `read`, until the others have read their
    /// sources.
    Wait {
        bulk: bool,
        pending: u32,
        read: bool,
    },
    WaitAll,
}
