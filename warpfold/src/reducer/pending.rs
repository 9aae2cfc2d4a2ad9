//! Reductions that are still under way.

use std::{fmt, sync::Arc};

use super::{
    core::{Core, Underway},
    host_results::HostResults,
};
use crate::{Error, Result};

/// The result of a reduction that was enqueued on a [`Stream`](crate::Stream).
///
/// Until the end of the reduction it keeps the elements and whatever else the device uses. Dropping it
/// waits for that end. Leaking it leaks all that as well, so that the device never writes to freed
/// memory; the reducer goes on working.
#[must_use = "dropping it waits for the result and throws it away"]
pub struct Pending<R>(State<R>);

#[expect(clippy::large_enum_variant, reason = "a box would be allocated for each reduction")]
enum State<R> {
    /// Of no elements, for which nothing was launched.
    Ready(R),
    Running {
        work: Work,
        decode: fn(HostResults<'_>) -> R,
        /// How many elements there are, of which the device may count fewer.
        len: u64,
    },
}

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

    /// Waits for the result. Later work on the stream is not waited for.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong in the reduction, or in earlier
    /// work of the device; [`Error::CountTooLarge`] for a [count](crate::OnStream::counted) above the
    /// buffer's length.
    pub fn wait(self) -> Result<R> {
        let (mut work, decode, len) = match self.0 {
            State::Ready(result) => return Ok(result),
            State::Running { work, decode, len } => (work, decode, len),
        };
        let Some(underway) = work.underway.take() else { unreachable!("what is taken has no owner") };
        work.core.finish(underway, |results, found| match found.unwrap_or(len) {
            count if count > len => Err(Error::CountTooLarge { count, len }),
            count => Ok(decode(results.of_none_if(count == 0))),
        })?
    }

    /// Whether [`wait`](Self::wait) would return at once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn is_ready(&self) -> Result<bool> {
        match &self.0 {
            State::Ready(_) => Ok(true),
            State::Running { work, .. } => {
                work.underway.as_ref().map_or(Ok(true), |underway| underway.is_ready())
            }
        }
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
            State::Running { .. } => "running",
        };
        f.debug_tuple("Pending").field(&format_args!("{state}")).finish()
    }
}
