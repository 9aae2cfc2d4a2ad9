//! Hazard checks: races, reads of what nothing wrote, copies that nobody waited for.
//!
//! [`Hazards`] remembers a device's memory across launches; [`Hazards::launch`] gives
//! the observer of one launch. Two accesses race if one of them writes, not both are
//! atomic or volatile, and no chain of block, warp or cluster barriers, mbarriers and
//! releases with their acquires orders them. What one run orders is judged, not what
//! its scheduling happened to do: a race shows whichever access came first.
//!
//! A warp publishes and learns as a whole, so a race that only a missing warp barrier
//! between a write and another lane's release makes is not found. Everything else
//! that is remembered is remembered for the last plain write, the last other one and
//! the last reads of two warps of every word, and of every byte of a word that was not always accessed
//! as a whole.
//!
//! A race of which a relaxed read has seen the other side's release, so that a fence
//! behind it would order the two, is told apart as [`HazardKind::NoAcquire`]: kernels
//! are often written so, and go well on the GPUs of today.

mod clock;
mod copies;
mod global;
mod history;
mod launch;
mod lent;
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

/// Checks the launches of a device.
///
/// The launches must run on one host thread: what atomics order is learnt in the order
/// in which they are observed, which is else not that in which they happened.
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

/// What hazards of one kind between two instructions have in common: kernel, kind,
/// and the instructions' indices.
type Key = (String, HazardKind, u32, u32);

/// Everything that is remembered.
#[derive(Debug, Default)]
struct World {
    /// Number of the present launch, from 1.
    launch: u32,
    global: Global,
    /// Clusters of the present launch that have not ended, in places that others have when they have.
    teams: Vec<Option<Team>>,
    /// The one that has ended last, whose memory the next one takes.
    ended: Option<Team>,
    /// What was published at places in global memory; for the block's own use where a
    /// cluster is named.
    places: HashMap<(u64, Option<u32>), Arc<Foreign>>,
    findings: BTreeMap<Key, Finding>,
    /// Whether what is no race, and mostly a mistake, is a finding, too.
    strict: bool,
}

impl World {
    /// What the launch gives as dynamic shared memory must be what the kernel takes for it.
    fn check_dynamic_shared(&mut self, block: &BlockInfo<'_>) {
        let entry = block.entry;
        let Some(address) = entry.program.sized_external else { return };
        if block.shared_bytes > entry.static_shared_bytes() {
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

    /// The place of a cluster of the present launch, which is made if it is not there.
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

    /// The host reads a result at an address where nothing has written one.
    fn unwritten_result(&mut self, address: u64) {
        let (kind, space) = (HazardKind::UnwrittenResult, Space::Global);
        let new = || Finding::new(kind, String::new(), space, address);
        self.findings.entry((String::new(), kind, 0, 0)).or_insert_with(new);
    }
}

impl Hazards {
    /// Checks that know nothing of any memory; what no call of
    /// [`allocated`](Self::allocated) names is taken to hold something.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, which also find what is no race and mostly a mistake: volatile accesses by which lanes
    /// of a warp talk to each other with no barrier between, as if they ran in lock step.
    #[must_use]
    pub fn strict() -> Self {
        let checks = Self::default();
        checks.world().strict = true;
        checks
    }

    /// Memory was allocated: it holds nothing until it is written.
    pub fn allocated(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.allocated(address, bytes);
        }
    }

    /// Memory was freed: what was known of it is forgotten.
    pub fn freed(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.freed(address, bytes);
        }
    }

    /// The host has written memory.
    pub fn written(&self, address: u64, bytes: u64) {
        if bytes > 0 {
            self.world().global.host_wrote(address, bytes);
        }
    }

    /// A copy reads memory for the host: what was allocated, and written by nobody, is a finding.
    pub fn read(&self, address: u64, bytes: u64) {
        let mut world = self.world();
        if bytes > 0
            && let Some(address) = world.global.first_unwritten(address, bytes)
        {
            world.unwritten_result(address);
        }
    }

    /// The host takes a result out of memory that it reaches by itself: what no kernel, copy or memset
    /// has written there since the host did so before, or ever, is a finding. What the host itself
    /// writes there is seen by nobody, and is no result.
    pub fn taken(&self, address: u64, bytes: u64) {
        let mut world = self.world();
        if bytes > 0
            && let Some(address) = world.global.take(address, bytes)
        {
            world.unwritten_result(address);
        }
    }

    /// The observer of a launch, which is the next one.
    #[must_use]
    pub fn launch(&self) -> LaunchCheck<'_> {
        let mut world = self.world();
        world.launch += 1;
        // All that happened before has happened before all that comes.
        world.teams.clear();
        world.ended = None;
        world.places.clear();
        LaunchCheck::new(self)
    }

    /// What was found, by kernel and kind, which is forgotten: what is found again is told again.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut self.world().findings).into_values().collect()
    }

    /// What was found, by kernel and kind.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.world().findings.values().cloned().collect()
    }

    fn world(&self) -> Lent {
        Home::take(&self.world)
    }
}
