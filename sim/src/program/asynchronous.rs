//! Decoded asynchronous copies and mbarrier operations.

use crate::ast::Type;
use crate::memory::Space;
use crate::tensor_map::MapField;

use super::{AtomicOp, Base, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) space: Space,
    /// Shared addresses may refer to other blocks of the cluster.
    pub(crate) cluster: bool,
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// An asynchronous operation. [`Op::Async`](super::Op::Async) has its index in `Program::asynchronous`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AsyncOp {
    Mbarrier(MbarrierOp),
    Copy(CopyOp),
    Tensor(TensorOp),
    /// `tensormap.replace` of a field by a value.
    ReplaceMap(Place, MapField, Slot),
    /// `tensormap.cp_fenceproxy` of a map, to the first place from the second one.
    CopyMap([Place; 2]),
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
    /// With `expect`, announces the operand's bytes and arrives once; else the operand is the number of
    /// arrivals. `completes` is false with `.noComplete`.
    Arrive {
        drop: bool,
        expect: bool,
        completes: bool,
    },
    Expect,
    Complete,
    /// `mbarrier.try_wait` if `blocks` is set, else `mbarrier.test_wait`.
    Wait {
        blocks: bool,
        parity: bool,
    },
    /// `cp.async.mbarrier.arrive`: an arrival when the thread's copies are complete.
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
    /// The reduction of the copied values with those at the destination; `None` to overwrite these.
    pub(crate) change: Option<(AtomicOp, Type)>,
}

/// `cp.async.bulk.tensor`, to shared memory if the signal is an mbarrier, and to the tensor otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TensorOp {
    /// The tensor map, in global, const or parameter memory.
    pub(crate) map: Place,
    /// Coordinates of the box; as many as the map must have dimensions.
    pub(crate) coordinates: [Slot; 5],
    pub(crate) rank: u32,
    pub(crate) shared: Place,
    pub(crate) signal: Signal,
    pub(crate) multicast: Option<Slot>,
    pub(crate) change: Option<AtomicOp>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bytes {
    /// `cp.async`: copies the first `read` bytes, by default all, and fills the rest of `bytes` with
    /// zeros; writes only zeros if predicate `ignore` (its row, and whether it is negated) holds.
    Few { from: Place, bytes: u32, read: Option<Slot>, ignore: Option<(u16, bool)> },
    /// `cp.async.bulk`: `bytes` is the operand with the number of bytes.
    Bulk { from: Place, bytes: Slot },
    /// `st.async` and `red.async`: the values of registers.
    Values { ty: Type, count: u8, data: [Slot; 4] },
}

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
    /// Waits until at most `pending` groups are in flight; with `read`, until all but the last `pending`
    /// groups have read their sources.
    Wait {
        bulk: bool,
        pending: u32,
        read: bool,
    },
    WaitAll,
}
