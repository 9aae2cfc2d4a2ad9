//! Events of asynchronous copies and of mbarriers.

use crate::memory::Space;
use crate::tensor_map::TilePiece;

/// An asynchronous copy, at its issue or at its completion.
///
/// From the issue to the completion, the source must not be written, and the target must be neither read
/// nor written; [`completion`](Self::completion) is the signal to waiting threads. A copy to several
/// blocks is reported as one event for each.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Copy<'a> {
    /// Number of the copy within its cluster, the same at its issue and its completion.
    pub id: u64,
    /// Lanes whose copies are issued or completed.
    pub lanes: u32,
    /// Bytes that each of these lanes writes.
    pub bytes: u32,
    /// Source space; `None` for register values. Shared memory is that of the issuing block.
    pub from: Option<Space>,
    /// Address that each lane reads; valid for [`lanes`](Self::lanes) only.
    pub sources: &'a [u64; 32],
    /// Target space.
    pub to: Space,
    /// Rank of the block whose shared memory is written; for other spaces, of the issuing block.
    pub owner: u32,
    /// Address that each lane writes; valid for [`lanes`](Self::lanes) only.
    pub targets: &'a [u64; 32],
    /// For a copy of a tensor's box, its bytes in shared and in global memory; other copies are
    /// contiguous and have none. [`sources`](Self::sources) and [`targets`](Self::targets) are the start
    /// of the box in shared memory, and of the tensor in global memory.
    pub pieces: &'a [TilePiece],
    /// Set if the copy is a reduction, which combines its bytes with those of the target.
    pub reduces: bool,
    /// Signal that the copy is complete.
    pub completion: Completion,
}

/// Signal to threads that an asynchronous copy is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The bytes are subtracted from the transaction count of an mbarrier.
    Mbarrier {
        /// Rank of the block that contains the mbarrier.
        owner: u32,
        /// Shared address of the mbarrier.
        address: u64,
    },
    /// A wait by `cp.async.bulk.wait_group`.
    BulkGroup,
    /// A wait by `cp.async.wait_group`, or an arrival by `cp.async.mbarrier.arrive`.
    Group,
}

/// An operation of a warp on mbarriers.
///
/// Operations on mbarriers of different blocks are reported as one event for each block.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Mbarrier<'a> {
    /// The operation.
    pub operation: MbarrierOperation,
    /// Lanes that execute the operation.
    pub lanes: u32,
    /// Rank of the block that contains the mbarriers.
    pub owner: u32,
    /// Shared address of each lane's mbarrier; valid for [`lanes`](Self::lanes) only.
    pub addresses: &'a [u64; 32],
    /// Lanes whose tested or awaited phase is complete.
    pub complete: u32,
}

/// An operation on an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MbarrierOperation {
    /// `mbarrier.init`.
    Init,
    /// `mbarrier.inval`.
    Invalidate,
    /// `mbarrier.arrive`, also with `.expect_tx`.
    Arrive,
    /// `mbarrier.arrive_drop`: arrives, and lowers the expected count of later phases.
    ArriveDrop,
    /// `cp.async.mbarrier.arrive`: arrives when the lane's copies are complete.
    ArriveAfterCopies,
    /// `mbarrier.expect_tx`: announces bytes.
    Expect,
    /// `mbarrier.complete_tx`: subtracts transferred bytes.
    Complete,
    /// `mbarrier.test_wait`, or a `.try_wait` that has ended.
    Wait,
}
