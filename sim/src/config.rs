//! What a caller states about a simulated device and a launch, and what a
//! launch reports back.

use std::time::Duration;

/// Limits and shape of a simulated device.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes that allocations and live blocks may take together.
    pub memory_limit: u64,
    /// Warp instructions that one launch may execute.
    pub step_limit: u64,
    /// Instructions that one thread of a launch may execute, as its warp does.
    pub thread_step_limit: u64,
    /// Time of the host that one launch may take, and each launch of an exploration in each execution;
    /// the clock is looked at at least ten times in a second, also between blocks.
    pub time_limit: Option<Duration>,
    /// Warp instructions after which a running warp gives way to the next one.
    pub quantum: u32,
    /// Host threads that run blocks; `None` takes rayon's global pool, and one
    /// thread makes every launch deterministic.
    pub threads: Option<usize>,
    /// Multiprocessors of the device, which `%nsmid` and `%smid` show.
    pub sm_count: u32,
    /// Whether what PTX allows and is mostly a mistake fails, too: a member mask that names lanes that
    /// have exited or never existed.
    pub strict: bool,
}

impl Default for Config {
    /// 4 GiB of memory, 20 thousand million steps, of one thread, too, any time, rayon's pool, 132
    /// multiprocessors, not strict.
    fn default() -> Self {
        Self {
            memory_limit: 4 << 30,
            step_limit: 20_000_000_000,
            thread_step_limit: u64::MAX,
            time_limit: None,
            quantum: 4096,
            threads: None,
            sm_count: 132,
            strict: false,
        }
    }
}

/// Grid and block shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory for each block.
    pub dynamic_shared: u32,
    /// Shape of a cluster in blocks; `None` takes what the entry requires, else
    /// each block is a cluster of its own.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks are on the device at a time, and may wait for each other at a barrier of the
    /// grid (`cooperative_groups::this_grid().sync()`).
    pub cooperative: bool,
    /// What chooses in which order lanes, warps and blocks run; `None` for lock step and turns. Runs on
    /// one host thread repeat.
    pub seed: Option<u64>,
}

impl Launch {
    /// A one-dimensional launch of `grid` blocks with `block` threads each.
    #[must_use]
    pub const fn linear(grid: u32, block: u32) -> Self {
        Self::new([grid, 1, 1], [block, 1, 1])
    }

    /// A launch of `grid` blocks with `block` threads each, in x, y and z.
    #[must_use]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, dynamic_shared: 0, cluster: None, cooperative: false, seed: None }
    }

    /// The same launch with `bytes` of dynamic shared memory for each block.
    #[must_use]
    pub const fn with_dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// The same launch as a cooperative one.
    #[must_use]
    pub const fn cooperatively(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// The same launch with its threads in an order that the seed chooses: the lanes of a warp part ways
    /// in front of accesses that others may see, and warps and blocks have their turns as it comes. What
    /// is right only in lock step, as warp-synchronous code without `__syncwarp`, mostly goes wrong
    /// under one of a few seeds. Such a launch takes several times longer.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The same launch in clusters of this shape, in blocks.
    #[must_use]
    pub const fn with_cluster(mut self, cluster: [u32; 3]) -> Self {
        self.cluster = Some(cluster);
        self
    }
}

/// Builds the parameter bytes of a launch, each value at its natural alignment.
///
/// This is the layout that PTX gives scalar `.param` variables of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Args {
    bytes: Vec<u8>,
}

impl Args {
    /// Makes a launch without parameters.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Appends a device pointer (8 bytes).
    #[must_use]
    pub fn ptr(self, value: u64) -> Self {
        self.u64(value)
    }

    /// Appends an unsigned 32-bit value.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    /// Appends a signed 32-bit value.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.bytes(&value.to_le_bytes(), 4)
    }

    /// Appends an unsigned 64-bit value.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes(), 8)
    }

    /// Appends a single-precision value.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }

    /// Appends a double-precision value.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.u64(value.to_bits())
    }

    /// Appends raw bytes at a multiple of `align` (a power of two).
    #[must_use]
    pub fn bytes(mut self, value: &[u8], align: usize) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(align.max(1)), 0);
        self.bytes.extend_from_slice(value);
        self
    }
}

impl AsRef<[u8]> for Args {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a launch executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Instructions issued, counted once for each warp.
    pub warp_instructions: u64,
    /// Instructions counted once for each lane whose predicate held.
    pub thread_instructions: u64,
    /// Blocks that ran to their end.
    pub blocks: u64,
    /// Warps that ran to their end.
    pub warps: u64,
    /// Times that a block, or a cluster of blocks, gave way to another one.
    pub preemptions: u64,
}
