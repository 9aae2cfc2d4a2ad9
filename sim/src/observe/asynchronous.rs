//! Events of asynchronous copies and of mbarriers.

use crate::memory::Space;

/// An asynchronous copy, at its issue and at its landing.
///
/// Between the two, its source must not be written, and its target neither read nor written;
/// [`completion`](Self::completion) is the signal that it has landed. A copy to several blocks gives an
/// event for each.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Copy<'a> {
    /// Number of the copy within its cluster, the same at its issue and its landing.
    pub id: u64,
    /// Lanes that copy something.
    pub lanes: u32,
    /// Bytes that each of these lanes writes.
    pub bytes: u32,
    /// Source space, `None` for values of registers. Shared memory is that of the issuing block.
    pub from: Option<Space>,
    /// Address that each lane reads; valid for [`lanes`](Self::lanes) only.
    pub sources: &'a [u64; 32],
    /// Target space.
    pub to: Space,
    /// Rank of the block whose shared memory is written; the issuing block for other spaces.
    pub owner: u32,
    /// Address that each lane writes; valid for [`lanes`](Self::lanes) only.
    pub targets: &'a [u64; 32],
    /// Set if the bytes are combined with those of the target.
    pub reduces: bool,
    /// Signal that the copy has landed.
    pub completion: Completion,
}

/// Signal to threads that an asynchronous copy has landed.
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
/// Lanes that name mbarriers of different blocks give an event for each block.
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
    /// Lanes that found the phase complete that they tested or waited for.
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
    /// `mbarrier.arrive`, also after `.expect_tx`.
    Arrive,
    /// `mbarrier.arrive_drop`: arrives, and leaves the barrier.
    ArriveDrop,
    /// `cp.async.mbarrier.arrive`: arrives after the copies have landed.
    ArriveAfterCopies,
    /// `mbarrier.expect_tx`: announces bytes.
    Expect,
    /// `mbarrier.complete_tx`: completes bytes.
    Complete,
    /// `mbarrier.test_wait`, and a `.try_wait` that has ended.
    Wait,
}
