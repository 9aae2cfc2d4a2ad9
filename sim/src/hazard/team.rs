//! Warps of a cluster: their synchronisation, and the shadow of their shared memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::{Clock, Foreign};
use super::history::Access;
use super::operands::Operands;
use super::shadow::{LINE, Line};

#[derive(Debug, Clone, Default)]
pub(super) struct Warp {
    pub(super) clock: Clock,
    pub(super) time: u32,
    /// Time at which all lanes were last ordered with each other.
    ordered_all: u32,
    /// For each lane, the time and member mask of its last synchronisation with a part of the warp.
    ordered_some: [(u32, u32); 32],
    /// Time of the last arrival at the cluster's barrier that is a release.
    arrived: u32,
    /// Clock at the last fence, which later relaxed writes publish.
    pub(super) fenced: Option<Clock>,
    /// Publications (clocks of releases) seen by relaxed reads, which the next fence acquires.
    pub(super) seen: Vec<Seen>,
    /// Publications seen by relaxed reads of other warps before a block barrier, and not acquired by a
    /// fence. With a fence, the barrier would have passed them to this warp.
    heard: Vec<Seen>,
    pub(super) operands: Operands,
}

/// The publication (the clocks of a release) that a relaxed read has seen, and the read's location.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) told: Arc<Foreign>,
    pub(super) index: u32,
    pub(super) block: [u32; 3],
    pub(super) warp: u32,
    pub(super) lane: u32,
}

impl Seen {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.told, &other.told) && self.index == other.index
    }

    fn orders(&self, earlier: &Access) -> bool {
        let row = self.told.get(&earlier.team).and_then(|row| row.get(earlier.agent as usize));
        row.is_some_and(|&clock| clock >= earlier.clock)
    }
}

const BARRIERS: u32 = 16;
/// Maximum length of a list of [`Seen`] publications.
const MOST_HEARD: usize = 64;

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
    /// Returns whether an access by `lanes` at `time` is ordered before an access by `lane` now.
    pub(super) fn ordered(&self, time: u32, lanes: u32, lane: u32) -> bool {
        let (at, members) = self.ordered_some[lane as usize];
        self.ordered_all > time || at > time && lanes & !members == 0
    }

    pub(super) fn see(&mut self, seen: Seen) {
        if !self.seen.iter().any(|known| known.is(&seen)) {
            self.seen.push(seen);
        }
    }

    pub(super) fn unfenced(&self, earlier: &Access) -> Option<&Seen> {
        self.seen.iter().chain(&self.heard).find(|seen| seen.orders(earlier))
    }

    pub(super) fn all_ordered(&self, time: u32) -> bool {
        self.ordered_all > time
    }

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

#[derive(Debug, Clone, Default)]
struct Barrier {
    /// Joined vector clock of the arrivals since the last opening.
    arrived: Clock,
    /// Joined vector clock of all arrivals before the last opening.
    open: Clock,
    /// [`Seen`] publications of the warps whose clocks are joined in `arrived` and in `open`.
    arrived_seen: Vec<Seen>,
    open_seen: Vec<Seen>,
    opened: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    pub(super) warps: u32,
    pub(super) shared_bytes: u32,
}

/// A running cluster; a launch without clusters has clusters of one block.
#[derive(Debug)]
pub(super) struct Team {
    pub(super) number: u32,
    pub(super) shape: Shape,
    pub(super) warps: Vec<Warp>,
    pub(super) shared: Vec<Vec<Line>>,
    /// Barriers of each block, one block after the other, up to the last used one.
    barriers: Vec<Barrier>,
    cluster: Clock,
    pub(super) mbarriers: BTreeMap<(u32, u64), Clock>,
    /// Completed copies: the clock of the agent that stands for them, numbered after the warps.
    pub(super) landed: u32,
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

    pub(super) fn copies(&self) -> u32 {
        self.warps.len() as u32
    }

    /// Advances a warp's clock after a publication, so that later accesses are not part of it.
    pub(super) fn advance(&mut self, agent: u32) {
        self.warps[agent as usize].clock.own[agent as usize] += 1;
    }

    /// Records the arrival of a warp at a block barrier; returns how many times the barrier had opened.
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

    #[inline]
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
            let warp = &mut self.warps[agent as usize];
            warp.arrived = warp.time;
            self.cluster.join(&warp.clock);
            self.advance(agent);
        }
    }

    pub(super) fn cluster_wait(&mut self, agent: u32) {
        let warp = &mut self.warps[agent as usize];
        // Orders the lanes' accesses before the warp's last arrival. If some lanes have already arrived
        // for the next phase, their accesses before that arrival count as ordered too.
        warp.ordered_all = warp.ordered_all.max(warp.arrived);
        warp.clock.join(&self.cluster);
    }

    pub(super) fn mbarrier_arrive(&mut self, agent: u32, at: (u32, u64)) {
        self.mbarriers.entry(at).or_default().join(&self.warps[agent as usize].clock);
    }

    pub(super) fn mbarrier_wait(&mut self, agent: u32, at: (u32, u64)) {
        if let Some(clock) = self.mbarriers.get(&at) {
            self.warps[agent as usize].clock.join(clock);
        }
    }

    pub(super) fn learn_copies(&mut self, agent: u32) {
        let (copies, landed) = (self.copies() as usize, self.landed);
        self.warps[agent as usize].clock.own[copies] = landed;
    }
}
