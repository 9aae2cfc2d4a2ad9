//! Contexts on threads, and what became of work in them.

use warpfold_driver::{CallError, Context, Driver};

/// A context that is current on this thread, until this is dropped; then the one before it is again.
pub(crate) struct Current {
    driver: &'static Driver,
    pushed: bool,
}

impl Current {
    /// # Safety
    /// The context must be alive until this is dropped.
    pub(crate) unsafe fn enter(driver: &'static Driver, context: Context) -> Result<Self, CallError> {
        let pushed = driver.ctx_get_current()? != Some(context);
        if pushed {
            // SAFETY: the caller's contract.
            unsafe { driver.ctx_push_current(context) }?;
        }
        Ok(Self { driver, pushed })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // A call may fail for an earlier one's sake, without having done anything: then the next one
        // does it.
        let popped = || self.driver.ctx_pop_current();
        if self.pushed
            && let Err(error) = popped().or_else(|_| popped())
        {
            log::debug!("{error}");
        }
    }
}

/// Something whose drop needs a device's context to be current on the thread, wherever that is.
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
            // SAFETY: it is dropped here and nowhere else.
            unsafe { std::mem::ManuallyDrop::drop(value) };
            Ok(())
        });
    }
}

/// A failure of work on the device.
pub(crate) struct Failed<E> {
    pub(crate) error: E,
    /// Whether none of the work runs any more. Where that is not known, memory that it names must not be
    /// freed, now or later: the device would write into what belongs to somebody else by then.
    pub(crate) ended: bool,
}

impl<E> Failed<E> {
    /// An error before there was any work.
    pub(crate) fn not_begun(error: E) -> Self {
        Self { error, ended: true }
    }

    /// The error, after something was kept for good if the work may still run.
    pub(crate) fn or_keep(self, keep: impl FnOnce()) -> E {
        if !self.ended {
            keep();
        }
        self.error
    }
}
