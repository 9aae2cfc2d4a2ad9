//! Results of reductions in flight.

use std::{fmt, sync::Arc};

use super::{
    core::{Core, InFlight},
    host_results::{HostResults, Layout},
    plan::CopyOut,
};
use crate::{Error, Result, memory::Memory};

/// The result of a reduction that was enqueued on a [`Stream`](crate::Stream).
///
/// It keeps the elements and all other resources until the reduction has finished. Dropping it waits for
/// that. Leaking it leaks the resources too, so that the device never writes to freed memory; the
/// reducer remains usable.
#[must_use = "dropping it waits for the result and throws it away"]
pub struct Pending<R>(State<R>);

enum State<R> {
    /// The result of no elements, without a launch.
    Ready(R),
    Running {
        work: Work,
        decode: fn(HostResults<'_>) -> R,
        /// The number of elements, or an upper bound if device memory holds the number.
        len: u64,
    },
    /// Several results in device memory.
    Copied { work: Work, from: InDevice<R> },
}

/// Device memory, the layout of the results in it, and the function that copies them.
pub(super) type InDevice<R> = (Arc<Memory>, Layout, CopyOut<R>);

/// A reduction in flight; dropping it waits.
struct Work {
    core: Arc<Core>,
    /// `None` after the wait.
    in_flight: Option<InFlight>,
}

impl<R> Pending<R> {
    pub(super) fn ready(result: R) -> Self {
        Self(State::Ready(result))
    }

    pub(super) fn running(
        core: &Arc<Core>,
        in_flight: InFlight,
        decode: fn(HostResults<'_>) -> R,
        len: u64,
    ) -> Self {
        let work = Work { core: core.clone(), in_flight: Some(in_flight) };
        Self(State::Running { work, decode, len })
    }

    pub(super) fn copied(core: &Arc<Core>, in_flight: InFlight, from: InDevice<R>) -> Self {
        let work = Work { core: core.clone(), in_flight: Some(in_flight) };
        Self(State::Copied { work, from })
    }

    /// Waits for the result, but not for later work on the stream. Several results are copied to the
    /// host.
    ///
    /// # Errors
    /// [`Error::Driver`] if the reduction, earlier work on the device or the copy of several results has
    /// failed; [`Error::CountTooLarge`] for a [count](crate::Counted) above the buffer's length;
    /// [`Error::Forked`] in a forked child process.
    pub fn wait(self) -> Result<R> {
        match self.0 {
            State::Ready(result) => Ok(result),
            State::Running { mut work, decode, len } => {
                work.finish(|results, found| match found.unwrap_or(len) {
                    count if count > len => Err(Error::CountTooLarge { count, len }),
                    count => Ok(decode(results.of_elements(count))),
                })?
            }
            State::Copied { mut work, from: (memory, layout, copy) } => {
                work.finish(|_, _| ())?;
                // SAFETY: the kernel that wrote the results has finished, and `memory` outlives the
                // copy, which is waited for.
                unsafe { copy(work.core.device(), memory.address(), layout) }
            }
        }
    }

    /// Returns whether the reduction has finished, so that [`wait`](Self::wait) only has to copy or
    /// decode its results.
    ///
    /// # Errors
    /// [`Error::Driver`] if the reduction or earlier work on the device has failed.
    pub fn is_ready(&self) -> Result<bool> {
        match &self.0 {
            State::Ready(_) => Ok(true),
            State::Running { work, .. } | State::Copied { work, .. } => {
                work.in_flight.as_ref().map_or(Ok(true), InFlight::is_ready)
            }
        }
    }
}

impl Work {
    fn finish<T>(&mut self, read: impl FnOnce(HostResults<'_>, Option<u64>) -> T) -> Result<T> {
        let in_flight = self.in_flight.take().expect("a result is waited for once");
        self.core.finish(in_flight, read)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            // No caller reads this error, and `finish` leaks memory that may still be in use.
            let _ = self.core.finish(in_flight, |_, _| ());
        }
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.0 {
            State::Ready(_) => "ready",
            State::Running { .. } | State::Copied { .. } => "running",
        };
        f.debug_tuple("Pending").field(&format_args!("{state}")).finish()
    }
}
