//! The observer of one launch.

use std::sync::{Arc, OnceLock};

use crate::module::InstructionInfo;
use crate::observe::{BlockInfo, Detail, Event, Observer};
use crate::places::KeptPlaces;

use super::Hazards;
use super::report::Site;
use super::step::Step;
use super::team::Team;
use super::traits::Order;

/// Checks one launch; made by [`Hazards::launch`].
#[derive(Debug)]
pub struct LaunchCheck<'h> {
    hazards: &'h Hazards,
    launched: OnceLock<Arc<Launched>>,
}

/// What all blocks of a launch have in common.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) kernel: String,
    pub(super) places: KeptPlaces,
    orders: Vec<Order>,
    infos: Vec<InstructionInfo>,
    grid: [u32; 3],
    pub(super) block_size: [u32; 3],
    pub(super) cluster: [u32; 3],
}

/// A block while it runs.
#[doc(hidden)]
#[derive(Debug)]
pub struct BlockCheck {
    pub(super) launched: Arc<Launched>,
    pub(super) team: u32,
    /// The place of the cluster among those that are watched.
    pub(super) place: usize,
    pub(super) rank: u32,
    /// For each warp the barrier that it waits at, and how often that had opened.
    pub(super) waiting: Vec<Option<(u32, u32)>>,
}

impl<'h> LaunchCheck<'h> {
    pub(super) fn new(hazards: &'h Hazards) -> Self {
        Self { hazards, launched: OnceLock::new() }
    }
}

impl Observer for LaunchCheck<'_> {
    type Block = BlockCheck;

    fn block_begin(&self, block: &BlockInfo<'_>) -> BlockCheck {
        let launched = self.launched.get_or_init(|| Arc::new(Launched::new(block)));
        let [x, y, _] = std::array::from_fn(|axis| block.grid[axis] / block.cluster[axis]);
        let [cx, cy, cz] = block.cluster_index;
        let team = cx + x * (cy + y * cz);
        let blocks = block.cluster.iter().product();
        let mut world = self.hazards.world();
        world.check_dynamic_shared(block);
        let place = world.enter(team, || Team::new(team, blocks, block.warps, block.shared_bytes));
        let waiting = vec![None; block.warps as usize];
        BlockCheck { launched: Arc::clone(launched), team, place, rank: block.rank, waiting }
    }

    fn instruction(&self, block: &mut BlockCheck, event: &Event<'_>) {
        let order = block.launched.orders[event.index as usize];
        let waited = block.waiting[event.warp as usize].take();
        if !order.matters && waited.is_none() {
            return;
        }
        let mut world = self.hazards.world();
        let mut step = Step { world: &mut world, block, event, order };
        step.begin(waited);
        step.execute();
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        !Order::of(instruction).matters
    }

    fn landed(&self, block: &mut BlockCheck, event: &Event<'_>) {
        if let Detail::Copy(copy) = &event.detail {
            let order = Order::default();
            Step { world: &mut self.hazards.world(), block, event, order }.land(copy);
        }
    }

    fn block_end(&self, block: BlockCheck) {
        let mut world = self.hazards.world();
        if let Some(place) = world.teams.get_mut(block.place)
            && let Some(team) = place
        {
            team.live -= 1;
            if team.live == 0 {
                *place = None;
            }
        }
    }
}

impl Launched {
    fn new(block: &BlockInfo<'_>) -> Self {
        Self {
            kernel: block.entry.name().to_owned(),
            places: block.places.keep(),
            orders: Order::of_entry(block.entry),
            infos: block.entry.instructions().to_vec(),
            grid: block.grid,
            block_size: block.block_size,
            cluster: block.cluster,
        }
    }

    /// The place of an instruction and a thread.
    pub(super) fn site(&self, index: u32, block: [u32; 3], warp: u32, lanes: u32) -> Site {
        let info = &self.infos[index as usize];
        let [x, y, _] = self.block_size;
        let linear = warp * 32 + lanes.trailing_zeros() % 32;
        let thread = [linear % x, linear / x % y, linear / x / y];
        let location = info.location.clone();
        Site { line: info.line, text: info.text.clone(), location, block, thread }
    }

    /// The block of a cluster's rank.
    pub(super) fn block_of(&self, team: u32, rank: u32) -> [u32; 3] {
        let clusters: [u32; 3] = std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis]);
        let unravel = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        let (cluster, within) = (unravel(team, clusters), unravel(rank, self.cluster));
        std::array::from_fn(|axis| cluster[axis] * self.cluster[axis] + within[axis])
    }
}
