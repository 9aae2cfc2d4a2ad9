//! The warps of a cluster: what orders them, and the shadow of their shared memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{Clock, Foreign};
use super::history::Access;
use super::shadow::{LINE, Line};

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
    pub(super) seen: Vec<Seen>,
    /// What relaxed reads of other warps had seen before a block barrier, and no fence of theirs has
    /// learnt: what is known only if one were there.
    heard: Vec<Seen>,
}

/// What a relaxed read has seen of what was published where it reads.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) told: Arc<Foreign>,
    /// The instruction, and who executed it.
    pub(super) index: u32,
    pub(super) block: [u32; 3],
    pub(super) warp: u32,
    pub(super) lane: u32,
}

impl Seen {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.told, &other.told) && self.index == other.index
    }

    /// Whether an earlier access of a cluster comes before, if what was seen is learnt.
    fn orders(&self, earlier: &Access) -> bool {
        let row = self.told.get(&earlier.team).and_then(|row| row.get(earlier.agent as usize));
        row.is_some_and(|&clock| clock >= earlier.clock)
    }
}

/// Numbered barriers of a block.
const BARRIERS: u32 = 16;
/// Of what was seen and not learnt, so much is remembered for others.
const MOST_HEARD: usize = 64;

/// Adds what was seen to a list, whose oldest go where it is full.
fn add_seen(list: &mut Vec<Seen>, more: &[Seen]) {
    for seen in more {
        if list.iter().any(|known| known.is(seen)) {
            continue;
        }
        if list.len() == MOST_HEARD {
            list.remove(0);
        }
        list.push(seen.clone());
    }
}

impl Warp {
    /// Whether an access of `lanes` at a time is ordered before one of `lane` now.
    pub(super) fn ordered(&self, time: u32, lanes: u32, lane: u32) -> bool {
        let (at, members) = self.ordered_some[lane as usize];
        self.ordered_all > time || at > time && lanes & !members == 0
    }

    /// Sees what was published, by a relaxed read.
    pub(super) fn see(&mut self, seen: Seen) {
        if !self.seen.iter().any(|known| known.is(&seen)) {
            self.seen.push(seen);
        }
    }

    /// The relaxed read of which a fence behind it would order an earlier access before what the warp
    /// does now.
    pub(super) fn unfenced(&self, earlier: &Access) -> Option<&Seen> {
        self.seen.iter().chain(&self.heard).find(|seen| seen.orders(earlier))
    }

    /// Whether all lanes were ordered with each other behind an access at a time.
    pub(super) fn all_ordered(&self, time: u32) -> bool {
        self.ordered_all > time
    }

    /// A barrier of some lanes of the warp.
    pub(super) fn synchronise(&mut self, members: u32, live: u32) {
        if live & !members == 0 {
            self.ordered_all = self.time;
            return;
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
    /// What their relaxed reads had seen, likewise.
    arrived_seen: Vec<Seen>,
    open_seen: Vec<Seen>,
    /// How often it has opened.
    opened: u32,
}

/// What clusters of a launch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    /// Warps of a block.
    pub(super) warps: u32,
    /// Bytes of a block's shared memory.
    pub(super) shared_bytes: u32,
}

/// A cluster while it runs; a launch without clusters has clusters of one block.
#[derive(Debug)]
pub(super) struct Team {
    /// Its number in the grid.
    pub(super) number: u32,
    pub(super) shape: Shape,
    pub(super) warps: Vec<Warp>,
    /// Shadow of each block's shared memory.
    pub(super) shared: Vec<Vec<Line>>,
    /// Those of each block, one block after the other, as far as they were used.
    barriers: Vec<Barrier>,
    cluster: Clock,
    pub(super) mbarriers: BTreeMap<(u32, u64), Clock>,
    /// Bulk and other copies that have landed: the clock of the agent behind the warps.
    pub(super) landed: u32,
    /// Blocks that have not ended.
    pub(super) live: u32,
}

impl Team {
    pub(super) fn new(number: u32, shape: Shape) -> Self {
        let Shape { blocks, warps, shared_bytes } = shape;
        let lines = u64::from(shared_bytes).div_ceil(LINE) as usize;
        let team = Self {
            number,
            shape,
            warps: vec![Warp::default(); (blocks * warps) as usize],
            shared: vec![vec![Line::new(0); lines]; blocks as usize],
            barriers: Vec::new(),
            cluster: Clock::default(),
            mbarriers: BTreeMap::new(),
            landed: 0,
            live: blocks,
        };
        team.restarted(number)
    }

    /// One for another cluster of the same shape, in the memory that this one took.
    pub(super) fn restarted(self, number: u32) -> Self {
        let Self { shape, mut warps, mut shared, mut barriers, .. } = self;
        let agents = warps.len();
        for (index, warp) in warps.iter_mut().enumerate() {
            let mut own = std::mem::take(&mut warp.clock.own);
            own.clear();
            own.resize(agents + 1, 0);
            own[index] = 1;
            *warp = Warp { clock: Clock { own, foreign: None }, time: 1, ..Warp::default() };
        }
        shared.iter_mut().flatten().for_each(|line| *line = Line::new(0));
        barriers.clear();
        let (cluster, mbarriers, live) = (Clock::default(), BTreeMap::new(), shape.blocks);
        Self { number, shape, warps, shared, barriers, cluster, mbarriers, landed: 0, live }
    }

    /// The agent that stands for copies.
    pub(super) fn copies(&self) -> u32 {
        self.warps.len() as u32
    }

    /// What happened before is published; what follows is not.
    pub(super) fn advance(&mut self, agent: u32) {
        self.warps[agent as usize].clock.own[agent as usize] += 1;
    }

    /// A warp arrives at a block barrier; gives how often it had opened.
    pub(super) fn arrive(&mut self, rank: u32, agent: u32, id: u32) -> u32 {
        let place = (rank * BARRIERS + id) as usize;
        if place >= self.barriers.len() {
            self.barriers.resize_with(place + 1, Barrier::default);
        }
        let (barrier, warp) = (&mut self.barriers[place], &self.warps[agent as usize]);
        barrier.arrived.join(&warp.clock);
        if !(warp.seen.is_empty() && warp.heard.is_empty()) {
            add_seen(&mut barrier.arrived_seen, &warp.seen);
            add_seen(&mut barrier.arrived_seen, &warp.heard);
        }
        let opened = barrier.opened;
        self.advance(agent);
        opened
    }

    /// A warp goes on behind a block barrier at which it arrived, and waited.
    pub(super) fn resume(&mut self, rank: u32, agent: u32, id: u32, opened: u32) {
        let barrier = &mut self.barriers[(rank * BARRIERS + id) as usize];
        if barrier.opened == opened {
            barrier.opened += 1;
            barrier.open.join(&barrier.arrived);
            barrier.arrived.forget();
            std::mem::swap(&mut barrier.open_seen, &mut barrier.arrived_seen);
            barrier.arrived_seen.clear();
        }
        let warp = &mut self.warps[agent as usize];
        warp.clock.resume(&barrier.open, agent);
        if !barrier.open_seen.is_empty() {
            add_seen(&mut warp.heard, &barrier.open_seen);
        }
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
