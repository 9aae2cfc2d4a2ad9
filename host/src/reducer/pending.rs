//! Reductions under way.

use std::{fmt, sync::Arc};

use super::{Answer, Core, Job};
use crate::{Buffer, Result, Stream};

/// A reduction under way on a stream, or of an empty buffer.
///
/// It keeps what the device uses alive. Dropping it waits; leaking it leaves everything as it is, and
/// the reducer taken for good.
#[must_use = "dropping it waits for the result and throws it away"]
pub struct PendingReduction {
    /// The answer for no elements, for which nothing was launched.
    empty: Option<Answer>,
    /// Taken when the wait is over.
    work: Option<Work>,
}

/// What the device uses, and what for.
struct Work {
    core: Arc<Core>,
    job: Job,
    _input: Buffer,
}

impl PendingReduction {
    pub(super) fn of_nothing(answer: Option<Answer>) -> Self {
        Self { empty: answer, work: None }
    }

    /// Enqueues a job that is not empty.
    pub(super) fn enqueue(core: &Arc<Core>, stream: &Stream, job: Job, input: &Buffer) -> Result<Self> {
        core.workspace.claim()?;
        // SAFETY: the job is that of the buffer, a share of which is kept, as of the core, until the
        // wait is over; the workspace is claimed for as long. Who leaks this leaks them.
        let launched = unsafe { core.launch(stream, &job) };
        if let Err(error) = launched.and_then(|()| core.workspace.mark(stream)) {
            let _ = stream.synchronize();
            core.workspace.release(true);
            return Err(error);
        }
        let work = Work { core: core.clone(), job, _input: input.clone() };
        Ok(Self { empty: None, work: Some(work) })
    }

    /// Waits for the result: none for the extreme of no elements. Other work on the stream is not waited
    /// for.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong.
    pub fn wait(mut self) -> Result<Option<Answer>> {
        match self.work.take() {
            Some(work) => work.finish().map(Some),
            None => Ok(self.empty),
        }
    }

    /// Whether [`wait`](Self::wait) would return at once.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong.
    pub fn is_ready(&self) -> Result<bool> {
        self.work.as_ref().map_or(Ok(true), |work| work.core.workspace.is_ready())
    }
}

impl Work {
    fn finish(&self) -> Result<Answer> {
        let workspace = &self.core.workspace;
        let waited = workspace.wait();
        let answer = waited.map(|()| workspace.answer(0, self.job.op, self.job.dtype));
        workspace.release(answer.is_err());
        answer
    }
}

impl Drop for PendingReduction {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // What went wrong in a launch that nobody waits for concerns nobody; a failed stream runs
            // nothing any more, so the memory may go either way.
            let _ = work.finish();
        }
    }
}

impl fmt::Debug for PendingReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReduction")
            .field("job", &self.work.as_ref().map(|work| work.job))
            .finish_non_exhaustive()
    }
}
