//! Watching of contexts, by launch and by instruction.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use warpfold_sim::{Entry, Error, Gpu, Launch, Module, Observer, Stats};

use crate::world::LaunchRequest;

/// Watches a context: its launches, and other changes of its memory.
///
/// [`watch`](crate::watch) installs one. The thread that runs the work calls the functions, in the order
/// of execution. They must not call the driver.
pub trait Watcher: Send + Sync {
    /// Carries out a launch by [`SimLaunch::run`] or [`SimLaunch::run_observed`].
    ///
    /// # Errors
    /// Returns the error of the launch, after which the context is lost.
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error>;

    /// Called when memory was allocated; its contents are undefined.
    fn allocated(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Called when memory was freed.
    fn freed(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Called when a copy or a memset writes memory.
    fn written(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Called when a copy reads memory for the host.
    fn read(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// Called when the host reads a result from memory that it accesses without the driver, as reported
    /// by [`Driver::host_takes`](warpfold_driver::Driver::host_takes).
    fn taken(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }
}

/// A launch that a [`Watcher`] is to carry out.
#[derive(Debug)]
pub struct SimLaunch<'a> {
    gpu: &'a Gpu,
    launch: &'a LaunchRequest,
}

impl<'a> SimLaunch<'a> {
    pub(crate) fn new(gpu: &'a Gpu, launch: &'a LaunchRequest) -> Self {
        Self { gpu, launch }
    }

    /// Returns the module of the kernel.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.launch.program
    }

    /// Returns the kernel.
    ///
    /// # Panics
    /// Never: the launch was accepted because the module has the kernel.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        self.launch
            .program
            .entry(self.launch.entry_name())
            .expect("launches are of entries of their module")
    }

    /// Returns grid, block and shared memory.
    #[must_use]
    pub fn shape(&self) -> &Launch {
        &self.launch.shape
    }

    /// Returns the bytes of the parameters.
    #[must_use]
    pub fn parameters(&self) -> &[u8] {
        &self.launch.parameters
    }

    /// Runs the launch.
    ///
    /// # Errors
    /// Returns an error if the simulator refuses or stops the launch.
    pub fn run(&self) -> Result<Stats, Error> {
        let LaunchRequest { program, shape, parameters, .. } = self.launch;
        self.gpu.launch(program, self.launch.entry_name(), shape, parameters)
    }

    /// Runs the launch with an observer, which sees every instruction.
    ///
    /// # Errors
    /// Returns an error if the simulator refuses or stops the launch.
    pub fn run_observed(&self, observer: &impl Observer) -> Result<Stats, Error> {
        let LaunchRequest { program, shape, parameters, .. } = self.launch;
        self.gpu.launch_observed(program, self.launch.entry_name(), shape, parameters, observer)
    }
}

/// A function that is called after launches.
pub type AfterLaunch = fn(&SimLaunch<'_>, &Result<Stats, Error>);

static AFTER: OnceLock<AfterLaunch> = OnceLock::new();

/// Sets a function that is called after every launch of the process, whether watched or not. Returns
/// `false` if there is such a function already, which is kept.
pub fn after_launches(call: AfterLaunch) -> bool {
    AFTER.set(call).is_ok()
}

pub(crate) fn ended(launch: &SimLaunch<'_>, ran: &Result<Stats, Error>) {
    if let Some(call) = AFTER.get() {
        call(launch, ran);
    }
}

/// Totals of the completed launches of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per thread whose predicate held.
    pub thread_instructions: u64,
    /// Blocks that ran to their end.
    pub blocks: u64,
    /// Number of launches.
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

/// Statistics of a launch after it has run; of the first run if a graph repeats the launch.
#[derive(Debug, Default)]
pub struct LaunchRecord(OnceLock<Stats>);

impl LaunchRecord {
    /// Returns the statistics; `None` before the launch has run, and if it failed.
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

/// Takes the record of the last launch that the calling thread has requested, if it was accepted and not
/// taken yet.
#[must_use]
pub fn take_last_launch() -> Option<Arc<LaunchRecord>> {
    LAST.take()
}

pub(crate) fn set_last_launch(record: Option<Arc<LaunchRecord>>) {
    LAST.set(record);
}
