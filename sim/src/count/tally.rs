//! Counters of an instruction, or of a sum of instructions.

use std::ops::AddAssign;

macro_rules! add_fields {
    ($self:ident, $other:ident: $($field:ident)*) => {
        $($self.$field += $other.$field;)*
    };
}

/// Accesses of one kind to shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedAccess {
    /// Warp instructions with at least one accessing lane.
    pub requests: u64,
    /// Passes over the 32 banks.
    pub wavefronts: u64,
    /// Passes that the access would take without bank conflicts: one for 32 lanes of up to 4 bytes, for
    /// 16 lanes of 8 bytes, or for 8 lanes of 16 bytes.
    pub ideal: u64,
    /// Maximum number of different words that one pass requested from one bank: an n-way conflict.
    pub degree: u32,
}

impl SharedAccess {
    /// Returns the passes that bank conflicts added.
    #[must_use]
    pub const fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal
    }
}

impl AddAssign for SharedAccess {
    fn add_assign(&mut self, other: Self) {
        add_fields!(self, other: requests wavefronts ideal);
        self.degree = self.degree.max(other.degree);
    }
}

/// Loads or stores of global memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalAccess {
    /// Warp instructions with at least one accessing lane.
    pub requests: u64,
    /// Sectors of 32 bytes, each counted once per request.
    pub sectors: u64,
    /// Requested bytes in those sectors; a byte that several lanes request counts once per request.
    pub useful_bytes: u64,
}

impl GlobalAccess {
    /// Returns the bytes moved, which are whole sectors.
    #[must_use]
    pub const fn moved_bytes(&self) -> u64 {
        self.sectors * 32
    }

    /// Returns the useful fraction of the bytes moved, from 0 to 1; `None` if nothing moved.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.useful_bytes as f64 / self.moved_bytes() as f64)
    }
}

impl AddAssign for GlobalAccess {
    fn add_assign(&mut self, other: Self) {
        add_fields!(self, other: requests sectors useful_bytes);
    }
}

/// Atomics on global memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AtomicAccess {
    /// Warp instructions with at least one participating lane.
    pub requests: u64,
    /// Participating lanes. Each is one operation on memory.
    pub operations: u64,
    /// Sectors of 32 bytes, each counted once per request.
    pub sectors: u64,
    /// Serialised operations: the maximum number of lanes on one address, summed over the requests.
    pub passes: u64,
}

impl AddAssign for AtomicAccess {
    fn add_assign(&mut self, other: Self) {
        add_fields!(self, other: requests operations sectors passes);
    }
}

/// All counts of an instruction, or of a sum of instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per lane whose predicate held.
    pub thread_instructions: u64,
    /// Branches, counted once per warp.
    pub branches: u64,
    /// Branches whose lanes diverged, counted once per warp.
    pub divergent_branches: u64,
    /// Arrivals of warps at block barriers.
    pub block_barriers: u64,
    /// Barriers of a warp (`bar.warp.sync`).
    pub warp_barriers: u64,
    /// Shuffles, counted once per warp.
    pub shuffles: u64,
    /// Loads from the block's own shared memory.
    pub shared_loads: SharedAccess,
    /// Stores to the block's own shared memory.
    pub shared_stores: SharedAccess,
    /// Atomics on the block's own shared memory.
    pub shared_atomics: SharedAccess,
    /// Accesses of any kind to the shared memory of other blocks of the cluster.
    pub remote_requests: u64,
    /// Loads from global memory.
    pub global_loads: GlobalAccess,
    /// Stores to global memory.
    pub global_stores: GlobalAccess,
    /// `atom` and `red` on global memory.
    pub global_atomics: AtomicAccess,
    /// Asynchronous copies, counted once per lane.
    pub copies: u64,
    /// Bytes that asynchronous copies write.
    pub copy_bytes: u64,
}

impl Tally {
    /// Returns the mean number of lanes whose predicate held, per warp instruction; `None` without
    /// instructions.
    #[must_use]
    pub fn mean_lanes(&self) -> Option<f64> {
        let warps = self.warp_instructions;
        (warps > 0).then(|| self.thread_instructions as f64 / warps as f64)
    }

    /// Returns the sum of loads, stores and atomics of shared memory.
    #[must_use]
    pub fn shared(&self) -> SharedAccess {
        let mut all = self.shared_loads;
        all += self.shared_stores;
        all += self.shared_atomics;
        all
    }

    /// Returns the sum of loads and stores of global memory.
    #[must_use]
    pub fn global(&self) -> GlobalAccess {
        let mut all = self.global_loads;
        all += self.global_stores;
        all
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        add_fields!(self, other: warp_instructions thread_instructions branches divergent_branches
            block_barriers warp_barriers shuffles shared_loads shared_stores shared_atomics
            remote_requests global_loads global_stores global_atomics copies copy_bytes);
    }
}
