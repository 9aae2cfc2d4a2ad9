//! Watching contexts: what runs there, launch by launch and instruction by instruction.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use warpfold_sim::{Entry, Error, Gpu, Launch, Module, Observer, Stats};

use crate::world::Launching;

/// Watches a context: each launch, and what else changes its memory.
///
/// [`watch`](crate::watch) puts one in its place. The calls come from whichever thread runs the
/// work, in the order in which it runs, and must not call the driver.
pub trait Watcher: Send + Sync {
    /// Carries out a launch: by [`SimLaunch::run`], or observed.
    ///
    /// # Errors
    /// The launch's own, which then loses the context.
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error>;

    /// Memory was allocated, whose contents mean nothing.
    fn allocated(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Some memory was given back.
    fn freed(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// A copy or a memset writes memory.
    fn written(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// A copy reads memory for the host.
    fn read(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// The host takes a result out of memory that it reaches by itself, as it has said by
    /// [`Driver::host_takes`](warpfold_driver::Driver::host_takes).
    fn taken(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }
}

/// A launch that is about to happen.
#[derive(Debug)]
pub struct SimLaunch<'a> {
    gpu: &'a Gpu,
    launch: &'a Launching,
}

impl<'a> SimLaunch<'a> {
    pub(crate) fn new(gpu: &'a Gpu, launch: &'a Launching) -> Self {
        Self { gpu, launch }
    }

    /// The module that the kernel is of.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.launch.program
    }

    /// The kernel.
    ///
    /// # Panics
    /// Never: the launch was accepted because the module has it.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        self.launch
            .program
            .entry(self.launch.entry_name())
            .expect("launches are of entries of their module")
    }

    /// Its grid, block and shared memory.
    #[must_use]
    pub fn shape(&self) -> &Launch {
        &self.launch.shape
    }

    /// The bytes of its parameters.
    #[must_use]
    pub fn parameters(&self) -> &[u8] {
        &self.launch.parameters
    }

    /// Runs it.
    ///
    /// # Errors
    /// What the simulator refuses or stops.
    pub fn run(&self) -> Result<Stats, Error> {
        let Launching { program, shape, parameters, .. } = self.launch;
        self.gpu.launch(program, self.launch.entry_name(), shape, parameters)
    }

    /// Runs it with an observer, which sees every instruction.
    ///
    /// # Errors
    /// What the simulator refuses or stops.
    pub fn run_observed(&self, observer: &impl Observer) -> Result<Stats, Error> {
        let Launching { program, shape, parameters, .. } = self.launch;
        self.gpu.launch_observed(program, self.launch.entry_name(), shape, parameters, observer)
    }
}

/// What the launches of a stream have executed since it was made, those that are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Instructions, counted once for each warp.
    pub warp_instructions: u64,
    /// Instructions, counted once for each thread whose predicate held.
    pub thread_instructions: u64,
    /// Blocks that ran to their end.
    pub blocks: u64,
    /// How many launches there were.
    pub launches: u64,
}

impl Counters {
    pub(crate) fn add(&mut self, stats: &Stats) {
        self.warp_instructions += stats.warp_instructions;
        self.thread_instructions += stats.thread_instructions;
        self.blocks += stats.blocks;
        self.launches += 1;
    }
}

/// What one launch has executed, once it has run. Of a launch that a graph repeats, the first run.
#[derive(Debug, Default)]
pub struct LaunchRecord(OnceLock<Stats>);

impl LaunchRecord {
    /// None before it has run, and if it failed.
    #[must_use]
    pub fn stats(&self) -> Option<&Stats> {
        self.0.get()
    }

    pub(crate) fn set(&self, stats: &Stats) {
        self.0.get_or_init(|| *stats);
    }
}

thread_local! {
    static LAST: RefCell<Option<Arc<LaunchRecord>>> = const { RefCell::new(None) };
}

/// The record of the launch that the calling thread has asked for last, if it was accepted and nobody
/// has taken it yet.
#[must_use]
pub fn take_last_launch() -> Option<Arc<LaunchRecord>> {
    LAST.take()
}

pub(crate) fn set_last_launch(record: Option<Arc<LaunchRecord>>) {
    LAST.set(record);
}
