//! Configuration of a simulated device and of a launch, and the statistics of a launch.

use std::time::Duration;

/// Limits and properties of a simulated device.
#[derive(Debug, Clone)]
pub struct Config {
    /// Maximum bytes that allocations and the state of running blocks take together.
    pub memory_limit: u64,
    /// Maximum warp instructions of one launch.
    pub step_limit: u64,
    /// Maximum instructions of each thread of a launch, counted as the instructions of its warp.
    pub thread_step_limit: u64,
    /// Maximum host time of one launch; in an [`Exploration`](crate::Exploration), of each launch in
    /// each execution. The clock is read at least ten times a second, also between blocks.
    pub time_limit: Option<Duration>,
    /// Warp instructions after which a running warp yields to the next one.
    pub quantum: u32,
    /// Host threads that run blocks; `None` uses rayon's global pool. One thread makes every launch
    /// deterministic.
    pub threads: Option<usize>,
    /// Number of bytes to whose multiple the shared memory of a block is rounded up; a GPU rounds
    /// to 128.
    pub shared_granularity: u32,
    /// Number of multiprocessors, as `%nsmid` and `%smid` report it.
    pub sm_count: u32,
    /// Turns usage that PTX allows, but that is usually a mistake, into a fault: a member mask that
    /// names lanes that have exited or never existed.
    pub strict: bool,
}

impl Default for Config {
    /// Returns a configuration with 4 GiB of memory, a limit of 20 billion warp instructions for a
    /// launch and none for a thread, no time limit, a quantum of 4096 warp instructions, rayon's pool,
    /// shared memory of exactly the requested size, 132 multiprocessors, not strict.
    fn default() -> Self {
        Self {
            memory_limit: 4 << 30,
            step_limit: 20_000_000_000,
            thread_step_limit: u64::MAX,
            time_limit: None,
            quantum: 4096,
            threads: None,
            shared_granularity: 1,
            sm_count: 132,
            strict: false,
        }
    }
}

/// Shape and options of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory for each block.
    pub dynamic_shared: u32,
    /// Shape of a cluster in blocks; `None` uses the shape that the entry requires, or else makes each
    /// block its own cluster.
    pub cluster: Option<[u32; 3]>,
    /// Makes all blocks resident at once, so that they may synchronise at a grid barrier
    /// (`cooperative_groups::this_grid().sync()`).
    pub cooperative: bool,
    /// Seed of the order in which lanes, warps and blocks run; `None` for lockstep and round robin. Runs
    /// on one host thread are repeatable.
    pub seed: Option<u64>,
}

impl Launch {
    /// Returns a one-dimensional launch of `grid` blocks with `block` threads each.
    #[must_use]
    pub const fn linear(grid: u32, block: u32) -> Self {
        Self::new([grid, 1, 1], [block, 1, 1])
    }

    /// Returns a launch of `grid` blocks with `block` threads each, in x, y and z.
    #[must_use]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, dynamic_shared: 0, cluster: None, cooperative: false, seed: None }
    }

    /// Sets the dynamic shared memory of each block to `bytes` bytes.
    #[must_use]
    pub const fn with_dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// Makes the launch cooperative.
    #[must_use]
    pub const fn cooperatively(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Runs the threads in an order that the seed chooses: the lanes of a warp diverge before accesses
    /// that other threads may see, and warps and blocks are scheduled at random. Code that is right only
    /// in lockstep, such as warp-synchronous code without `__syncwarp`, usually fails under one of a few
    /// seeds. Such a launch takes several times longer.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the shape of the clusters, in blocks.
    #[must_use]
    pub const fn with_cluster(mut self, cluster: [u32; 3]) -> Self {
        self.cluster = Some(cluster);
        self
    }
}

/// Builder of the parameter bytes of a launch, with each value at its natural alignment.
///
/// This is the layout that PTX gives scalar `.param` variables of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Args {
    bytes: Vec<u8>,
}

impl Args {
    /// Returns an empty list of parameters.
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

    /// Appends raw bytes, such as those of a struct, at an offset that is a multiple of `align` (a power
    /// of two).
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

/// Statistics of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Instructions issued, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions counted once per lane whose predicate held.
    pub thread_instructions: u64,
    /// Blocks that ran to completion.
    pub blocks: u64,
    /// Warps that ran to completion.
    pub warps: u64,
    /// Number of times that a block, or a cluster of blocks, was preempted.
    pub preemptions: u64,
}
