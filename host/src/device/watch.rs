//! Watching the simulator: what plans do there, launch by launch and instruction by instruction.

use warpfold_sim::{Args, Entry, Error, Gpu, Launch, Module, Observer, Stats};

/// Watches a simulated device: each launch, and what the host does to device memory.
///
/// [`Device::watched`](super::Device::watched) makes a device with one. All calls come from the thread
/// that uses the device.
pub trait Watcher: Send + Sync {
    /// Carries out a launch: by [`SimLaunch::run`], or observed.
    ///
    /// # Errors
    /// The launch's own, which the caller of the launch then gets.
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error>;

    /// The host has allocated memory, whose contents mean nothing.
    fn allocated(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// The host has written memory, from its own or by a copy on the device.
    fn written(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }

    /// The host reads memory.
    fn read(&self, address: u64, bytes: u64) {
        let _ = (address, bytes);
    }
}

/// A launch that is about to happen on a simulated device.
#[derive(Debug)]
pub struct SimLaunch<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) module: &'a Module,
    pub(super) entry: &'a str,
    pub(super) shape: &'a Launch,
    pub(super) args: &'a Args,
}

impl SimLaunch<'_> {
    /// The kernel.
    pub fn entry(&self) -> &Entry {
        self.module.entry(self.entry).expect("loaded with it")
    }

    /// Its grid, block and shared memory.
    pub fn shape(&self) -> &Launch {
        self.shape
    }

    /// Runs it.
    ///
    /// # Errors
    /// What the simulator refuses or stops.
    pub fn run(&self) -> Result<Stats, Error> {
        self.gpu.launch(self.module, self.entry, self.shape, self.args)
    }

    /// Runs it with an observer, which sees every instruction.
    ///
    /// # Errors
    /// What the simulator refuses or stops.
    pub fn run_observed(&self, observer: &impl Observer) -> Result<Stats, Error> {
        self.gpu.launch_observed(self.module, self.entry, self.shape, self.args, observer)
    }
}
