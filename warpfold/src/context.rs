//! The guard that makes a context current on a thread, and the error of failed device work.

use warpfold_driver::{CallError, Context, Driver};

/// Makes a context current on this thread; restores the previous one when dropped.
pub(crate) struct Current {
    driver: &'static Driver,
    pushed: bool,
}

impl Current {
    /// # Safety
    /// The context must be alive until the guard is dropped.
    pub(crate) unsafe fn enter(driver: &'static Driver, context: Context) -> Result<Self, CallError> {
        let pushed = driver.ctx_get_current()? != Some(context);
        if pushed {
            // SAFETY: the caller keeps the context alive until the guard is dropped.
            unsafe { driver.ctx_push_current(context) }?;
        }
        Ok(Self { driver, pushed })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // A call may return the error of earlier work without popping the context; the second call then
        // pops it.
        let popped = || self.driver.ctx_pop_current();
        if self.pushed
            && let Err(error) = popped().or_else(|_| popped())
        {
            log::debug!("{error}");
        }
    }
}

/// A value that is dropped with a device's context current, on any thread.
#[cfg(feature = "cust")]
pub(crate) struct InContext<T> {
    device: crate::Device,
    value: std::mem::ManuallyDrop<T>,
}

#[cfg(feature = "cust")]
impl<T> InContext<T> {
    pub(crate) fn new(device: &crate::Device, value: T) -> Self {
        Self { device: device.clone(), value: std::mem::ManuallyDrop::new(value) }
    }
}

#[cfg(feature = "cust")]
impl<T> Drop for InContext<T> {
    fn drop(&mut self) {
        let Self { device, value } = self;
        device.give_back(|_| {
            // SAFETY: the value is dropped here only.
            unsafe { std::mem::ManuallyDrop::drop(value) };
            Ok(())
        });
    }
}

pub(crate) struct Failed<E> {
    pub(crate) error: E,
    /// True if all of the work is known to have ended. If not, its memory must never be freed: the
    /// device could write to it after it has been reallocated.
    pub(crate) ended: bool,
}

impl<E> Failed<E> {
    pub(crate) fn not_begun(error: E) -> Self {
        Self { error, ended: true }
    }

    /// Returns the error, after calling `keep` if the work may still run.
    pub(crate) fn or_keep(self, keep: impl FnOnce()) -> E {
        if !self.ended {
            keep();
        }
        self.error
    }
}
