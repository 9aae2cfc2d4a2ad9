//! A launcher that is leaked rather than dropped if its launches may still be running.

use std::{
    mem::{self, ManuallyDrop},
    ops::{Deref, DerefMut},
};

use warpfold::internal::Launcher;

use super::Reducer;
use crate::{Device, Result};

/// A [`Launcher`] of a reducer's kernels. It is leaked if the device was abandoned, because its launches
/// may still be running.
pub(super) struct LeakOnAbandonLauncher {
    launcher: ManuallyDrop<Launcher>,
    library: warpfold::Reducer,
    // Dropped last, because the other fields belong to its context.
    device: Device,
}

impl LeakOnAbandonLauncher {
    pub(super) fn new(reducer: &Reducer) -> Result<Self> {
        let library = reducer.library.clone();
        let launcher = ManuallyDrop::new(Launcher::new(&library)?);
        Ok(Self { launcher, library, device: reducer.device().clone() })
    }

    pub(super) fn library(&self) -> &warpfold::Reducer {
        &self.library
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Deref for LeakOnAbandonLauncher {
    type Target = Launcher;

    fn deref(&self) -> &Launcher {
        &self.launcher
    }
}

impl DerefMut for LeakOnAbandonLauncher {
    fn deref_mut(&mut self) -> &mut Launcher {
        &mut self.launcher
    }
}

impl Drop for LeakOnAbandonLauncher {
    fn drop(&mut self) {
        if self.device.is_abandoned() {
            // Running work needs its code and its workspace slots, which the library owns.
            mem::forget(self.library.clone());
            return;
        }
        // SAFETY: `launcher` is dropped only here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.launcher) };
    }
}
