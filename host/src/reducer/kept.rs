//! A launcher that is dropped when nothing that it has launched can still run.

use std::{
    mem::{self, ManuallyDrop},
    ops::{Deref, DerefMut},
};

use warpfold::internal::Launcher;

use super::Reducer;
use crate::{Device, Result};

/// A [`Launcher`] of a reducer's kernels. It stays for good on a device that was given up, where what it
/// has launched may still run.
pub(super) struct KeptLauncher {
    launcher: ManuallyDrop<Launcher>,
    library: warpfold::Reducer,
    // Dropped last: the others are in its context.
    device: Device,
}

impl KeptLauncher {
    pub(super) fn new(reducer: &Reducer) -> Result<Self> {
        let library = reducer.library.clone();
        let launcher = ManuallyDrop::new(Launcher::new(&library)?);
        Ok(Self { launcher, library, device: reducer.device().clone() })
    }

    /// The library's reducer, whose kernels it launches.
    pub(super) fn library(&self) -> &warpfold::Reducer {
        &self.library
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Deref for KeptLauncher {
    type Target = Launcher;

    fn deref(&self) -> &Launcher {
        &self.launcher
    }
}

impl DerefMut for KeptLauncher {
    fn deref_mut(&mut self) -> &mut Launcher {
        &mut self.launcher
    }
}

impl Drop for KeptLauncher {
    fn drop(&mut self) {
        if self.device.is_abandoned() {
            // What still runs needs its code and its slots, which are the library's.
            mem::forget(self.library.clone());
            return;
        }
        // SAFETY: it is dropped here alone, and nothing uses it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.launcher) };
    }
}
