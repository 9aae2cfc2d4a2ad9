//! Hazard checks: races, reads of unwritten memory, uses of copies before a wait.
//!
//! [`Hazards`] tracks a device's memory across launches; [`Hazards::launch`] returns the observer of one
//! launch. Two accesses race if one of them writes, not both are atomic or volatile, and no chain of
//! block, warp or cluster barriers, mbarriers, and releases with their acquires orders them. Only the
//! synchronisation of a run counts, not its schedule: a race is found whichever access is executed
//! first.
//!
//! A warp publishes and acquires as a whole, so a race is not found if only a warp barrier is missing
//! between a write and another lane's release. The records of a word are its last plain write, its last
//! strong write, and the last reads of two warps. Once a part of a word is accessed, each byte has
//! records of its own.
//!
//! The operands of `wgmma.mma_async` in shared memory are read until the warp waits for the product: a
//! write before that is a race, also by the same warp.
//!
//! A race is reported as [`HazardKind::NoAcquire`] if a relaxed read has seen the other thread's
//! release, so that a fence after the read would prevent the race. Kernels are often written this way,
//! and work on today's GPUs.

mod clock;
mod copies;
mod global;
mod history;
mod launch;
mod lent;
mod operands;
mod ranges;
mod report;
mod shadow;
mod step;
mod team;
mod touch;
mod traits;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::memory::Space;
use crate::observe::BlockInfo;
use clock::Foreign;
use global::Global;
use lent::{Home, Lent};
use team::{Shape, Team};

pub use launch::LaunchCheck;
pub use report::{Finding, HazardKind, Site};

/// Hazard checks of the launches of a device.
///
/// The launches must run on one host thread: the order that atomics establish is derived from the order
/// in which they are observed, which with several threads differs from the order of execution.
///
/// ```
/// use warpfold_sim::{Args, Config, Gpu, Hazards, Launch, Module};
///
/// let ptx = "
/// .version 7.8
/// .target sm_80
/// .address_size 64
/// .visible .entry swap()
/// {
///     .reg .b32 %r<6>;
///     .shared .align 4 .b8 cells[256];
///     mov.u32 %r0, %tid.x;
///     shl.b32 %r1, %r0, 2;
///     mov.u32 %r2, cells;
///     add.u32 %r3, %r2, %r1;
///     st.shared.u32 [%r3], %r0;
///     xor.b32 %r4, %r1, 128;
///     add.u32 %r4, %r2, %r4;
///     ld.shared.u32 %r5, [%r4];
///     ret;
/// }";
/// let gpu = Gpu::new(Config { threads: Some(1), ..Config::default() });
/// let hazards = Hazards::new();
/// let module = Module::parse(ptx)?;
/// let observer = hazards.launch();
/// gpu.launch_observed(&module, "swap", &Launch::linear(1, 64), &Args::new(), &observer)?;
/// assert!(hazards.findings().iter().any(|found| found.to_string().starts_with("read-write race")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hazards {
    world: Arc<Home>,
}

impl Default for Hazards {
    fn default() -> Self {
        Self { world: Home::new() }
    }
}

/// Kernel, kind, and the indices of the two instructions.
type Key = (String, HazardKind, u32, u32);

#[derive(Debug, Default)]
struct World {
    /// Number of the current launch, from 1.
    launch: u32,
    global: Global,
    /// Clusters of the current launch that have not ended; empty slots are reused.
    teams: Vec<Option<Team>>,
    /// The cluster that ended last, whose memory the next one reuses.
    ended: Option<Team>,
    /// Clocks published at global addresses, either to all clusters (`None`) or to one.
    places: HashMap<(u64, Option<u32>), Arc<Foreign>>,
    findings: BTreeMap<Key, Finding>,
    strict: bool,
}

impl World {
    fn check_dynamic_shared(&mut self, block: &BlockInfo<'_>) {
        let entry = block.entry;
        let Some(address) = entry.program.sized_external else { return };
        if block.dynamic_shared > 0 {
            let (kind, kernel, space) =
                (HazardKind::SizedExternal, entry.name().to_owned(), Space::Shared);
            let address = address.into();
            let key = (kernel.clone(), kind, 0, 0);
            let new = || Finding {
                buffer: block.places.keep().holder(space, address),
                ..Finding::new(kind, kernel, space, address)
            };
            self.findings.entry(key).or_insert_with(new);
        }
    }

    fn enter(&mut self, number: u32, shape: Shape) -> usize {
        let is = |team: &Option<Team>| team.as_ref().is_some_and(|team| team.number == number);
        if let Some(place) = self.teams.iter().position(is) {
            return place;
        }
        let free = self.teams.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.teams.push(None);
            self.teams.len() - 1
        });
        let ended = self.ended.take().filter(|team| team.shape == shape);
        let again = ended.map(|team| team.restarted(number));
        self.teams[place] = Some(again.unwrap_or_else(|| Team::new(number, shape)));
        place
    }

    fn unwritten_result(&mut self, address: u64) {
        let (kind, space) = (HazardKind::UnwrittenResult, Space::Global);
        let new = || Finding::new(kind, String::new(), space, address);
        self.findings.entry((String::new(), kind, 0, 0)).or_insert_with(new);
    }
}

impl Hazards {
    /// Creates checks without records of any memory. Memory that was not passed to
    /// [`allocated`](Self::allocated) counts as written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates checks that also report likely mistakes that are not races: volatile accesses through
    /// which lanes of a warp communicate without a barrier, as if they ran in lockstep.
    #[must_use]
    pub fn strict() -> Self {
        let checks = Self::default();
        checks.world().strict = true;
        checks
    }

    /// Records an allocation, whose bytes count as unwritten until they are written.
    pub fn allocated(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.allocated(address, bytes);
        }
    }

    /// Removes freed memory from the records.
    pub fn freed(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.freed(address, bytes);
        }
    }

    /// Records a write by the host.
    pub fn written(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.host_wrote(address, bytes);
        }
    }

    /// Records a copy to the host. Reports a finding if some of the bytes are allocated and unwritten.
    pub fn read(&self, address: u64, bytes: u64) {
        let mut world = self.world();
        if bytes > 0
            && let Some(address) = world.global.first_unwritten(address, bytes)
        {
            world.unwritten_result(address);
        }
    }

    /// Records that the host reads a result from memory that it accesses directly, such as page-locked
    /// memory. Reports a finding if no kernel, copy or memset has written some of the bytes since the
    /// last such read. Writes by the host itself to such memory are not observed, and do not count.
    pub fn taken(&self, address: u64, bytes: u64) {
        let mut world = self.world();
        if bytes > 0
            && let Some(address) = world.global.take(address, bytes)
        {
            world.unwritten_result(address);
        }
    }

    /// Returns the observer of the next launch, for
    /// [`Gpu::launch_observed`](crate::Gpu::launch_observed).
    #[must_use]
    pub fn launch(&self) -> LaunchCheck<'_> {
        let mut world = self.world();
        world.launch += 1;
        // Everything before a launch is ordered before everything in it.
        world.teams.clear();
        world.ended = None;
        world.places.clear();
        LaunchCheck::new(self)
    }

    /// Returns the findings, ordered by kernel and kind, and removes them. A hazard that occurs again is
    /// reported again.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut self.world().findings).into_values().collect()
    }

    /// Returns the findings, ordered by kernel and kind.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.world().findings.values().cloned().collect()
    }

    fn world(&self) -> Lent {
        Home::take(&self.world)
    }
}
