//! The warps of a cluster: what orders them, and the shadow of their shared memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::clock::{Clock, Foreign};
use super::shadow::Cell;

/// What is known of a warp.
#[derive(Debug, Clone, Default)]
pub(super) struct Warp {
    pub(super) clock: Clock,
    /// Events of the warp so far.
    pub(super) time: u32,
    /// When all lanes were last ordered with each other.
    ordered_all: u32,
    /// For each lane when it last was at a barrier of some lanes, and which.
    ordered_some: [(u32, u32); 32],
    /// What the last fence would publish.
    pub(super) fenced: Option<Clock>,
    /// What relaxed reads have seen, to be learnt at the next fence.
    pub(super) seen: Vec<Arc<Foreign>>,
}

impl Warp {
    /// Whether an access of `lanes` at a time is ordered before one of `lane` now.
    pub(super) fn ordered(&self, time: u32, lanes: u32, lane: u32) -> bool {
        let (at, members) = self.ordered_some[lane as usize];
        self.ordered_all > time || at > time && lanes & !members == 0
    }

    /// A barrier of some lanes of the warp.
    pub(super) fn synchronise(&mut self, members: u32, live: u32) {
        if live & !members == 0 {
            self.ordered_all = self.time;
        }
        for (lane, ordered) in self.ordered_some.iter_mut().enumerate() {
            if members >> lane & 1 == 1 {
                *ordered = (self.time, members);
            }
        }
    }
}

/// A numbered barrier of a block.
#[derive(Debug, Clone, Default)]
struct Barrier {
    /// What those know who have arrived since it last opened.
    arrived: Clock,
    /// What those knew who arrived before.
    open: Clock,
    /// How often it has opened.
    opened: u32,
}

/// A cluster while it runs; a launch without clusters has clusters of one block.
#[derive(Debug)]
pub(super) struct Team {
    pub(super) warps: Vec<Warp>,
    /// Warps of a block.
    pub(super) block_warps: u32,
    /// Shadow of each block's shared memory.
    pub(super) shared: Vec<Vec<Cell>>,
    barriers: HashMap<(u32, u32), Barrier>,
    cluster: Clock,
    pub(super) mbarriers: HashMap<(u32, u64), Clock>,
    /// Bulk and other copies that have landed: the clock of the agent behind the warps.
    pub(super) landed: u32,
    /// Blocks that have not ended.
    pub(super) live: u32,
}

impl Team {
    pub(super) fn new(blocks: u32, block_warps: u32, shared_bytes: u32) -> Self {
        let agents = (blocks * block_warps) as usize;
        let warp = |index: usize| {
            let mut own = vec![0; agents + 1];
            own[index] = 1;
            Warp { clock: Clock { own, foreign: None }, time: 1, ..Warp::default() }
        };
        let cells = (u64::from(shared_bytes)).div_ceil(super::shadow::CELL) as usize;
        Self {
            warps: (0..agents).map(warp).collect(),
            block_warps,
            shared: vec![vec![Cell::new(0); cells]; blocks as usize],
            barriers: HashMap::new(),
            cluster: Clock::default(),
            mbarriers: HashMap::new(),
            landed: 0,
            live: blocks,
        }
    }

    /// The agent that stands for copies.
    pub(super) fn copies(&self) -> u32 {
        self.warps.len() as u32
    }

    pub(super) fn agent(&self, rank: u32, warp: u32) -> u32 {
        rank * self.block_warps + warp
    }

    /// What happened before is published; what follows is not.
    pub(super) fn advance(&mut self, agent: u32) {
        self.warps[agent as usize].clock.own[agent as usize] += 1;
    }

    /// A warp arrives at a block barrier; gives how often it had opened.
    pub(super) fn arrive(&mut self, rank: u32, agent: u32, id: u32) -> u32 {
        let barrier = self.barriers.entry((rank, id)).or_default();
        barrier.arrived.join(&self.warps[agent as usize].clock);
        let opened = barrier.opened;
        self.advance(agent);
        opened
    }

    /// A warp goes on behind a block barrier at which it waited.
    pub(super) fn resume(&mut self, rank: u32, agent: u32, id: u32, opened: u32) {
        let barrier = self.barriers.entry((rank, id)).or_default();
        if barrier.opened == opened {
            barrier.opened += 1;
            let arrived = std::mem::take(&mut barrier.arrived);
            barrier.open.join(&arrived);
        }
        self.warps[agent as usize].clock.join(&barrier.open);
    }

    pub(super) fn cluster_arrive(&mut self, agent: u32, releases: bool) {
        if releases {
            self.cluster.join(&self.warps[agent as usize].clock);
            self.advance(agent);
        }
    }

    pub(super) fn cluster_wait(&mut self, agent: u32) {
        self.warps[agent as usize].clock.join(&self.cluster);
    }

    pub(super) fn mbarrier_arrive(&mut self, agent: u32, at: (u32, u64)) {
        self.mbarriers.entry(at).or_default().join(&self.warps[agent as usize].clock);
    }

    pub(super) fn mbarrier_wait(&mut self, agent: u32, at: (u32, u64)) {
        if let Some(clock) = self.mbarriers.get(&at) {
            self.warps[agent as usize].clock.join(clock);
        }
    }

    /// A warp learns of every copy that has landed.
    pub(super) fn learn_copies(&mut self, agent: u32) {
        let (copies, landed) = (self.copies() as usize, self.landed);
        self.warps[agent as usize].clock.own[copies] = landed;
    }
}
