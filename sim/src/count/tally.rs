//! What is counted for an instruction, and for any sum of instructions.

use std::ops::AddAssign;

/// Adds every field of another value of the same type.
macro_rules! add_fields {
    ($self:ident, $other:ident: $($field:ident)*) => {
        $($self.$field += $other.$field;)*
    };
}

/// Accesses of one kind to shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedAccess {
    /// Warp instructions with at least one lane that accesses.
    pub requests: u64,
    /// Passes over the 32 banks that they took.
    pub wavefronts: u64,
    /// Passes that the same bytes take without bank conflicts: one per 32 lanes of
    /// 4 bytes and fewer, 16 lanes of 8 or 8 lanes of 16.
    pub ideal: u64,
    /// Most different words that one pass asked of one bank: an n-way conflict.
    pub degree: u32,
}

impl SharedAccess {
    /// Passes that bank conflicts added.
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
    /// Warp instructions with at least one lane that accesses.
    pub requests: u64,
    /// Sectors of 32 bytes that they touched, each once per request.
    pub sectors: u64,
    /// Bytes in those sectors that some lane asked for, each once per request.
    pub useful_bytes: u64,
}

impl GlobalAccess {
    /// Bytes moved: whole sectors.
    #[must_use]
    pub const fn moved_bytes(&self) -> u64 {
        self.sectors * 32
    }

    /// Useful bytes of those moved, from 0 to 1; none if nothing moved.
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
    /// Warp instructions with at least one lane that takes part.
    pub requests: u64,
    /// Lanes of those: operations on memory.
    pub operations: u64,
    /// Sectors of 32 bytes, each once per request.
    pub sectors: u64,
    /// Operations that follow one another: for each request the most lanes that
    /// name one address.
    pub passes: u64,
}

impl AddAssign for AtomicAccess {
    fn add_assign(&mut self, other: Self) {
        add_fields!(self, other: requests operations sectors passes);
    }
}

/// Everything counted for an instruction, or for a sum of instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions, once per warp.
    pub warp_instructions: u64,
    /// Instructions, once per lane whose predicate held.
    pub thread_instructions: u64,
    /// Branches, once per warp.
    pub branches: u64,
    /// Those whose lanes went different ways.
    pub divergent_branches: u64,
    /// Arrivals of warps at block barriers.
    pub block_barriers: u64,
    /// Barriers of a warp (`bar.warp.sync`).
    pub warp_barriers: u64,
    /// Shuffles that warps executed.
    pub shuffles: u64,
    /// Loads from the block's own shared memory.
    pub shared_loads: SharedAccess,
    /// Stores to shared memory.
    pub shared_stores: SharedAccess,
    /// Atomics on shared memory.
    pub shared_atomics: SharedAccess,
    /// Accesses of any kind to the shared memory of other blocks of the cluster.
    pub remote_requests: u64,
    /// Loads from global memory.
    pub global_loads: GlobalAccess,
    /// Stores to global memory.
    pub global_stores: GlobalAccess,
    /// `atom` and `red` on global memory.
    pub global_atomics: AtomicAccess,
    /// Asynchronous copies: each lane's is one.
    pub copies: u64,
    /// Bytes that they write.
    pub copy_bytes: u64,
}

impl Tally {
    /// Lanes whose predicate held, in the mean over warp instructions.
    #[must_use]
    pub fn mean_lanes(&self) -> Option<f64> {
        let warps = self.warp_instructions;
        (warps > 0).then(|| self.thread_instructions as f64 / warps as f64)
    }

    /// Loads, stores and atomics of shared memory together.
    #[must_use]
    pub fn shared(&self) -> SharedAccess {
        let mut all = self.shared_loads;
        all += self.shared_stores;
        all += self.shared_atomics;
        all
    }

    /// Loads and stores of global memory together.
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
