//! Grid execution: distributes clusters over host threads and resumes preempted ones. Without clusters,
//! each block is a cluster of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::config::Stats;
use crate::error::{Error, Fault, FaultKind};

use super::cluster::{Cluster, Progress};
use super::guided::Guide;
use super::{Launched, Probe};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) in_use: u64,
    pub(crate) limit: u64,
}

pub(crate) fn run<P: Probe>(
    launch: &Launched<'_>,
    probe: &P,
    limits: Limits,
    pool: Option<&rayon::ThreadPool>,
) -> Result<Stats, Error> {
    let total = launch.cluster_count().iter().map(|&extent| u64::from(extent)).product();
    let bytes = Cluster::bytes(launch);
    let capacity = limits.limit.saturating_sub(limits.in_use) / bytes;
    if capacity == 0 {
        let name = &launch.entry.name;
        let what = match launch.cluster_blocks() {
            1 => format!("a block of `{name}`"),
            blocks => format!("a cluster of {blocks} blocks of `{name}`"),
        };
        let Limits { in_use, limit } = limits;
        return Err(Error::MemoryLimit { what, requested: bytes, in_use, limit });
    }
    let threads = match (launch.config.threads, pool) {
        (Some(1), _) => 1,
        _ if !has_threads() => 1,
        // A seeded order is reproducible on one thread only.
        _ if probe.guide().is_some() => 1,
        (_, Some(pool)) => pool.current_num_threads(),
        (_, None) => rayon::current_num_threads(),
    };
    let workers = (threads as u64).min(total).min(capacity) as usize;
    let grid = Grid {
        launch,
        probe,
        schedule: Mutex::new(Schedule::new(total, workers, capacity)),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
        steps: AtomicU64::new(launch.config.step_limit),
        deadline: launch.deadline(),
    };
    grid.work_on(workers, pool);
    let fault = grid.fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    match fault {
        Some(fault) => Err(Error::Fault(fault)),
        None => Ok(grid.schedule.into_inner().unwrap_or_else(PoisonError::into_inner).stats),
    }
}

/// Returns whether the current process is the first to use a thread pool. A child created by `fork` has
/// none of the pool's threads.
pub(crate) fn has_threads() -> bool {
    /// Id of the process that used a pool first, or 0.
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let here = std::process::id();
    let first = PROCESS.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    first.err().is_none_or(|first| first == here)
}

struct Grid<'l, P> {
    launch: &'l Launched<'l>,
    probe: &'l P,
    schedule: Mutex<Schedule>,
    stop: AtomicBool,
    fault: Mutex<Option<Box<Fault>>>,
    steps: AtomicU64,
    deadline: Option<Instant>,
}

struct Schedule {
    next: u64,
    total: u64,
    suspended: VecDeque<Cluster>,
    spare: Vec<Cluster>,
    live: u64,
    /// Clusters in memory, live or spare.
    made: u64,
    capacity: u64,
    window: u64,
    resumed: u64,
    stats: Stats,
}

enum Work {
    Start(u64, Option<Cluster>),
    Resume(Cluster),
}

impl Schedule {
    fn new(total: u64, workers: usize, capacity: u64) -> Self {
        Self {
            next: 0,
            total,
            suspended: VecDeque::new(),
            spare: Vec::new(),
            live: 0,
            made: 0,
            capacity,
            window: 2 * workers as u64,
            resumed: 0,
            stats: Stats::default(),
        }
    }

    /// Returns a new cluster while few are live, else the one suspended longest.
    ///
    /// Suspended clusters may wait for clusters that have not started, so the limit on live clusters
    /// doubles after each live cluster has had about two turns and none has finished.
    fn take(&mut self, guide: Option<&Guide>) -> Option<Work> {
        let room = self.made < self.capacity || !self.spare.is_empty();
        let wanted = self.live < self.window || self.suspended.is_empty();
        if let Some(guide) = guide {
            let first = guide.below(self.suspended.len() as u64) as usize;
            self.suspended.rotate_left(first);
        }
        if self.next < self.total && room && wanted {
            self.next += 1;
            self.live += 1;
            let place = self.spare.pop();
            self.made += u64::from(place.is_none());
            return Some(Work::Start(self.next - 1, place));
        }
        let cluster = self.suspended.pop_front()?;
        self.resumed += 1;
        if self.resumed > 2 * self.live {
            self.resumed = 0;
            self.window = self.window.saturating_mul(2);
        }
        Some(Work::Resume(cluster))
    }
}

impl<P: Probe> Grid<'_, P> {
    fn work_on(&self, workers: usize, pool: Option<&rayon::ThreadPool>) {
        let spread = || {
            rayon::scope(|scope| {
                for _ in 1..workers {
                    scope.spawn(|_| self.work());
                }
                self.work();
            });
        };
        match (workers, pool) {
            (1, _) => self.work(),
            (_, Some(pool)) => pool.install(spread),
            (_, None) => spread(),
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let Some(work) = self.schedule().take(self.probe.guide()) else { return };
            let mut cluster = match work {
                Work::Resume(cluster) => cluster,
                Work::Start(index, place) => {
                    let mut cluster = place.unwrap_or_else(|| Cluster::new(self.launch));
                    let place = |guide: &Guide| guide.place(index, self.schedule().total);
                    let index = self.probe.guide().map_or(index, place);
                    cluster.reset(self.launch, index, self.probe);
                    cluster
                }
            };
            let mut executed = Stats::default();
            let progress =
                cluster.turn(self.launch, self.probe, self.reserve(), self.deadline, &mut executed);
            self.spend(executed.warp_instructions);
            match progress {
                Ok(Progress::Finished) => {
                    cluster.finish(self.probe);
                    let blocks = u64::from(self.launch.cluster_blocks());
                    let warps = blocks * u64::from(self.launch.warps());
                    let mut schedule = self.schedule();
                    schedule.account(executed);
                    schedule.stats.blocks += blocks;
                    schedule.stats.warps += warps;
                    schedule.live -= 1;
                    schedule.resumed = 0;
                    schedule.spare.push(cluster);
                }
                Ok(Progress::OutOfTime) => {
                    return self.end(cluster.endless(self.launch, self.launch.out_of_time()));
                }
                Ok(Progress::Yielded) => {
                    let mut schedule = self.schedule();
                    schedule.account(executed);
                    schedule.stats.preemptions += 1;
                    schedule.suspended.push_back(cluster);
                }
                Ok(Progress::OutOfSteps) => {
                    let kind = FaultKind::StepLimit { limit: self.launch.config.step_limit };
                    return self.end(cluster.endless(self.launch, kind));
                }
                Err(fault) => return self.end(fault),
            }
        }
    }

    /// Returns the warp instructions that a cluster may execute now. Concurrent clusters get the same
    /// number: the limit is exact with one thread, and each further thread may exceed it by one turn.
    fn reserve(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn spend(&self, steps: u64) {
        let take = |left: u64| Some(left.saturating_sub(steps));
        let _before = self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    fn end(&self, fault: Box<Fault>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(fault);
    }
}

impl Schedule {
    fn account(&mut self, executed: Stats) {
        self.stats.warp_instructions += executed.warp_instructions;
        self.stats.thread_instructions += executed.thread_instructions;
    }
}
