//! Reductions that are still under way.

use std::{fmt, sync::Arc};

use super::{
    core::{Core, Underway},
    host_results::HostResults,
    plan::CopyOut,
};
use crate::{Error, Result, memory::Memory};

/// The result of a reduction that was enqueued on a [`Stream`](crate::Stream).
///
/// Until the end of the reduction it keeps the elements and whatever else the device uses. Dropping it
/// waits for that end. Leaking it leaks all that as well, so that the device never writes to freed
/// memory; the reducer goes on working.
#[must_use = "dropping it waits for the result and throws it away"]
pub struct Pending<R>(State<R>);

enum State<R> {
    /// Of no elements, for which nothing was launched.
    Ready(R),
    Running {
        work: Work,
        decode: fn(HostResults<'_>) -> R,
        /// How many elements there are, of which the device may count fewer.
        len: u64,
    },
    /// Of several results in device memory.
    Copied { work: Work, from: InDevice<R> },
}

/// Device memory, the number of results there, and what copies them.
pub(super) type InDevice<R> = (Arc<Memory>, usize, CopyOut<R>);

/// What the device uses, which is waited for when it is dropped.
struct Work {
    core: Arc<Core>,
    /// Taken when the wait is over.
    underway: Option<Underway>,
}

impl<R> Pending<R> {
    pub(super) fn ready(result: R) -> Self {
        Self(State::Ready(result))
    }

    pub(super) fn running(
        core: &Arc<Core>,
        underway: Underway,
        decode: fn(HostResults<'_>) -> R,
        len: u64,
    ) -> Self {
        let work = Work { core: core.clone(), underway: Some(underway) };
        Self(State::Running { work, decode, len })
    }

    pub(super) fn copied(core: &Arc<Core>, underway: Underway, from: InDevice<R>) -> Self {
        let work = Work { core: core.clone(), underway: Some(underway) };
        Self(State::Copied { work, from })
    }

    /// Waits for the result, but not for later work on the stream, and copies several results to the
    /// host.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the reduction, earlier work on the device or the copy
    /// of several results has failed; [`Error::CountTooLarge`] for a [count](crate::Counted) above the
    /// buffer's length; [`Error::Forked`] in a child of the process.
    pub fn wait(self) -> Result<R> {
        let (mut work, decode, len) = match self.0 {
            State::Ready(result) => return Ok(result),
            State::Running { work, decode, len } => (work, decode, len),
            State::Copied { mut work, from: (memory, count, copy) } => {
                let underway = work.take();
                work.core.finish(underway, |_, _| ())?;
                // SAFETY: the kernel that wrote the results has finished, and `memory` outlives the
                // copy, which is waited for.
                return unsafe { copy(work.core.device(), memory.address(), count) };
            }
        };
        let underway = work.take();
        work.core.finish(underway, |results, found| match found.unwrap_or(len) {
            count if count > len => Err(Error::CountTooLarge { count, len }),
            count => Ok(decode(results.of_none_if(count == 0))),
        })?
    }

    /// Returns whether the reduction has finished, so that [`wait`](Self::wait) only has to copy or
    /// decode its results.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if it has failed, or earlier work on the device.
    pub fn is_ready(&self) -> Result<bool> {
        match &self.0 {
            State::Ready(_) => Ok(true),
            State::Running { work, .. } | State::Copied { work, .. } => {
                work.underway.as_ref().map_or(Ok(true), |underway| underway.is_ready())
            }
        }
    }
}

impl Work {
    fn take(&mut self) -> Underway {
        self.underway.take().expect("a result is waited for once")
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(underway) = self.underway.take() {
            // What went wrong in a launch that nobody waits for concerns nobody, but for the memory,
            // which is dealt with.
            let _ = self.core.finish(underway, |_, _| ());
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
