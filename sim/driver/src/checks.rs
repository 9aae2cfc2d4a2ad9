//! A watcher that checks the work of a context for hazards.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use warpfold_sim::{Error, Fault, Hazards, Stats};

use crate::watch::{SimLaunch, Watcher};

/// A [`Watcher`] that detects hazards in all work, and collects the faults that end launches.
///
/// The launches must run on one host thread: see [`Hazards`].
#[derive(Default)]
pub struct Checks {
    hazards: Hazards,
    faults: Mutex<Vec<Fault>>,
    after: Option<Box<After>>,
}

type After = dyn Fn(&Checks) + Send + Sync;

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl Checks {
    /// Creates checks with a new hazard detector, which has not observed any memory yet.
    #[must_use]
    pub fn new(hazards: Hazards) -> Self {
        Self { hazards, ..Self::default() }
    }

    /// Sets a function that is called after each launch, and each time the host gets a result.
    #[must_use]
    pub fn telling(mut self, after: impl Fn(&Self) + Send + Sync + 'static) -> Self {
        self.after = Some(Box::new(after));
        self
    }

    /// Returns the hazard detector, which holds the findings.
    #[must_use]
    pub fn hazards(&self) -> &Hazards {
        &self.hazards
    }

    /// Takes the faults that ended launches.
    #[must_use]
    pub fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self) {
        if let Some(after) = &self.after {
            after(self);
        }
    }
}

impl Watcher for Checks {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        let ran = launch.run_observed(&self.hazards.launch());
        if let Err(Error::Fault(fault)) = &ran {
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(Fault::clone(fault));
        }
        self.tell();
        ran
    }

    fn allocated(&self, address: u64, bytes: u64) {
        self.hazards.allocated(address, bytes);
    }

    fn freed(&self, address: u64, bytes: u64) {
        self.hazards.freed(address, bytes);
    }

    fn written(&self, address: u64, bytes: u64) {
        self.hazards.written(address, bytes);
    }

    fn read(&self, address: u64, bytes: u64) {
        self.hazards.read(address, bytes);
        self.tell();
    }

    fn taken(&self, address: u64, bytes: u64) {
        self.hazards.taken(address, bytes);
        self.tell();
    }
}
