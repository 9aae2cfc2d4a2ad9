//! Events of asynchronous copies and of mbarriers.

use crate::memory::Space;

/// An asynchronous copy, when it is issued and when it lands.
///
/// Between the two, neither its source may be written nor its target read or
/// written; [`completion`](Self::completion) says how threads learn that it has
/// landed. A copy to several blocks gives an event for each.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Copy<'a> {
    /// Number of the copy within its cluster; its landing has the same.
    pub id: u64,
    /// Lanes that copy something.
    pub lanes: u32,
    /// Bytes that each of them writes.
    pub bytes: u32,
    /// The space that is read, `None` for values of registers. Shared memory is
    /// that of the issuing block.
    pub from: Option<Space>,
    /// Address that each lane reads; only those of [`lanes`](Self::lanes) count.
    pub sources: &'a [u64; 32],
    /// The space that is written.
    pub to: Space,
    /// Rank of the block whose shared memory is written; the issuing block's own
    /// when it is another space.
    pub owner: u32,
    /// Address that each lane writes; only those of [`lanes`](Self::lanes) count.
    pub targets: &'a [u64; 32],
    /// Whether the bytes are combined with those that are there.
    pub reduces: bool,
    /// How threads learn that the copy has landed.
    pub completion: Completion,
}

/// How threads learn that an asynchronous copy has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// Its bytes are taken off the transaction count of an mbarrier.
    Mbarrier {
        /// Rank of the block that the mbarrier is in.
        owner: u32,
        /// Its shared address there.
        address: u64,
    },
    /// It is the instruction `cp.async.bulk.wait_group`.
    BulkGroup,
    /// `cp.async.wait_group` or an arrival by `cp.async.mbarrier.arrive`.
    Group,
}

/// An operation of a warp on mbarriers.
///
/// Lanes that name mbarriers of different blocks give an event for each block.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Mbarrier<'a> {
    /// What is done to it.
    pub operation: MbarrierOperation,
    /// Lanes that do it.
    pub lanes: u32,
    /// Rank of the block that the mbarriers are in.
    pub owner: u32,
    /// Shared address of each lane's mbarrier; only those of
    /// [`lanes`](Self::lanes) count.
    pub addresses: &'a [u64; 32],
    /// Lanes that found the phase complete that they tested or waited for.
    pub complete: u32,
}

/// What is done to an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MbarrierOperation {
    /// The instruction `mbarrier.init` begins it.
    Init,
    /// The instruction `mbarrier.inval` ends it.
    Invalidate,
    /// `mbarrier.arrive`, also after `.expect_tx`.
    Arrive,
    /// The instruction `mbarrier.arrive_drop` arrives and leaves.
    ArriveDrop,
    /// `cp.async.mbarrier.arrive`: the arrival comes once the copies have landed.
    ArriveAfterCopies,
    /// The instruction `mbarrier.expect_tx` expects bytes.
    Expect,
    /// The instruction `mbarrier.complete_tx` counts bytes.
    Complete,
    /// `mbarrier.test_wait` and a `.try_wait` that has ended.
    Wait,
}
