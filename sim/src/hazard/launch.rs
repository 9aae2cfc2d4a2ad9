//! The observer of one launch.

use std::sync::{Arc, OnceLock};

use crate::module::InstructionInfo;
use crate::observe::{BlockInfo, Detail, Event, Observer};
use crate::places::KeptPlaces;

use super::Hazards;
use super::lent::Lent;
use super::report::Site;
use super::step::Step;
use super::team::Shape;
use super::traits::Order;

/// An observer that checks one launch, made by [`Hazards::launch`].
#[derive(Debug)]
pub struct LaunchCheck<'h> {
    hazards: &'h Hazards,
    launched: OnceLock<Arc<Launched>>,
}

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

/// A running block and, from `round_begin` to `round_end`, the recorded state of all checks.
#[doc(hidden)]
#[derive(Debug)]
pub struct Watched {
    block: BlockCheck,
    world: Option<Lent>,
}

#[derive(Debug)]
pub(super) struct BlockCheck {
    pub(super) launched: Arc<Launched>,
    pub(super) team: u32,
    /// Index of the cluster in `World::teams`.
    pub(super) place: usize,
    pub(super) rank: u32,
    pub(super) first_agent: u32,
    /// For each waiting warp, the barrier, and how often the barrier had opened when the warp arrived.
    pub(super) waiting: Vec<Option<(u32, u32)>>,
}

impl<'h> LaunchCheck<'h> {
    pub(super) fn new(hazards: &'h Hazards) -> Self {
        Self { hazards, launched: OnceLock::new() }
    }
}

impl Observer for LaunchCheck<'_> {
    type Block = Watched;

    fn block_begin(&self, block: &BlockInfo<'_>) -> Watched {
        let launched = self.launched.get_or_init(|| Arc::new(Launched::new(block)));
        let [x, y, _] = std::array::from_fn(|axis| block.grid[axis] / block.cluster[axis]);
        let [cx, cy, cz] = block.cluster_index;
        let team = cx + x * (cy + y * cz);
        let blocks = block.cluster.iter().product();
        let mut world = self.hazards.world();
        world.check_dynamic_shared(block);
        let BlockInfo { warps, shared_bytes, .. } = *block;
        let place = world.enter(team, Shape { blocks, warps, shared_bytes });
        let waiting = vec![None; block.warps as usize];
        let launched = Arc::clone(launched);
        let (rank, first_agent) = (block.rank, block.rank * block.warps);
        let block = BlockCheck { launched, team, place, rank, first_agent, waiting };
        Watched { block, world: None }
    }

    fn round_begin(&self, watched: &mut Watched) {
        watched.world = Some(self.hazards.world());
    }

    fn round_end(&self, watched: &mut Watched) {
        watched.world = None;
    }

    fn instruction(&self, watched: &mut Watched, event: &Event<'_>) {
        let block = &mut watched.block;
        let order = block.launched.orders[event.index as usize];
        let waited = block.waiting[event.warp as usize].take();
        if !order.matters && waited.is_none() {
            return;
        }
        let mut asked = None;
        let world = watched.world.as_mut().unwrap_or_else(|| asked.insert(self.hazards.world()));
        Step::new(world, block, event, order).execute(waited);
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        !Order::of(instruction).matters
    }

    fn landed(&self, watched: &mut Watched, event: &Event<'_>) {
        if let Detail::Copy(copy) = &event.detail {
            let Watched { block, world } = watched;
            let mut asked = None;
            let world = world.as_mut().unwrap_or_else(|| asked.insert(self.hazards.world()));
            Step::new(world, block, event, Order::default()).land(copy);
        }
    }

    fn block_end(&self, Watched { block, .. }: Watched) {
        let world = &mut *self.hazards.world();
        if let Some(place) = world.teams.get_mut(block.place)
            && let Some(team) = place
        {
            team.live -= 1;
            if team.live == 0 {
                world.ended = place.take();
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

    pub(super) fn site(&self, index: u32, block: [u32; 3], warp: u32, lanes: u32) -> Site {
        let info = &self.infos[index as usize];
        let [x, y, _] = self.block_size;
        let linear = warp * 32 + lanes.trailing_zeros() % 32;
        let thread = [linear % x, linear / x % y, linear / x / y];
        let location = info.location.clone();
        Site { line: info.line, text: info.text.clone(), location, block, thread }
    }

    pub(super) fn block_of(&self, team: u32, rank: u32) -> [u32; 3] {
        let clusters: [u32; 3] = std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis]);
        let unravel = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        let (cluster, within) = (unravel(team, clusters), unravel(rank, self.cluster));
        std::array::from_fn(|axis| cluster[axis] * self.cluster[axis] + within[axis])
    }
}
