//! Several reductions recorded once and run as one.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Answer, Job, kernels::Kernels, workspace::Workspace};
use crate::{Buffer, Op, Result, Stream, device::Graph};

/// Reductions that run one after the other as one launch, a CUDA graph.
///
/// It holds the buffers, and memory of its own for what the reductions write; one replay at a time uses
/// it. A replay allocates nothing.
pub struct Recording {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped first: it refers to the rest. None where there is nothing to reduce.
    graph: Option<Mutex<Graph>>,
    kernels: Arc<Kernels>,
    workspace: Workspace,
    stream: Stream,
    parts: Vec<Part>,
}

/// One reduction.
struct Part {
    job: Job,
    /// The answer for no elements, for which nothing is launched.
    empty: Option<Answer>,
    _input: Buffer,
}

impl Recording {
    pub(super) fn new(kernels: &Arc<Kernels>, reductions: &[(Op, &Buffer)]) -> Result<Self> {
        let device = kernels.device();
        let part = |&(op, buffer): &(Op, &Buffer)| {
            let job = Job::of(op, buffer, device)?;
            // A graph records launches alone, so the kernels are loaded before.
            if job.n > 0 {
                kernels.prepare(op, job.dtype)?;
            }
            Ok(Part { job, empty: job.answer_of_nothing(), _input: buffer.clone() })
        };
        let mut inner = Inner {
            graph: None,
            kernels: kernels.clone(),
            workspace: Workspace::new(device, reductions.len(), "recording")?,
            stream: device.stream()?,
            parts: reductions.iter().map(part).collect::<Result<_>>()?,
        };
        if inner.parts.iter().any(|part| part.job.n > 0) {
            // SAFETY: nothing runs yet; who launches the graph sees to the rest.
            let graph = Graph::capture(&inner.stream, || unsafe { inner.enqueue(&inner.stream) })?;
            inner.graph = Some(Mutex::new(graph));
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many reductions there are.
    pub fn len(&self) -> usize {
        self.inner.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.parts.is_empty()
    }

    /// Runs all of them and waits for the results.
    ///
    /// # Errors
    /// [`Error::ReducerBusy`](crate::Error::ReducerBusy) when a replay was leaked, and
    /// [`Error::Driver`](crate::Error::Driver) when a
    /// launch fails.
    pub fn run(&mut self) -> Result<Results<'_>> {
        start(&self.inner, &self.inner.stream)?.wait()
    }

    /// Launches all of them on a stream and returns at once.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Error::Mismatch`](crate::Error::Mismatch) for the stream of another
    /// device.
    pub fn launch(&mut self, stream: &Stream) -> Result<PendingRecording<'_>> {
        super::require_stream(self.inner.kernels.device(), stream)?;
        start(&self.inner, stream)
    }
}

/// Launches everything. The caller has borrowed the recording for itself for as long as what comes out
/// lives.
fn start<'r>(inner: &'r Arc<Inner>, stream: &Stream) -> Result<PendingRecording<'r>> {
    let workspace = &inner.workspace;
    workspace.claim()?;
    // SAFETY: a share of everything is kept until the wait is over, and the workspace claimed for as
    // long. Who leaks it leaks them.
    let launched = unsafe { inner.launch(stream) };
    if let Err(error) = launched.and_then(|()| workspace.mark(stream)) {
        let _ = stream.synchronize();
        workspace.release(true);
        return Err(error);
    }
    Ok(PendingRecording { recording: inner, work: Some(inner.clone()) })
}

impl Inner {
    /// # Safety
    /// The workspace is claimed, and the caller keeps it and everything else until `stream` was
    /// synchronised.
    unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.workspace.settle(stream) }?;
        match &self.graph {
            // SAFETY: what was recorded names the buffers and the workspace, which the caller keeps.
            Some(graph) => unsafe {
                graph.lock().unwrap_or_else(PoisonError::into_inner).launch(stream)
            },
            None => Ok(()),
        }
    }

    /// Enqueues one reduction after the other.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn enqueue(&self, stream: &Stream) -> Result<()> {
        let Self { kernels, workspace, parts, .. } = self;
        for (at, part) in parts.iter().enumerate().filter(|(_, part)| part.job.n > 0) {
            // SAFETY: the job is that of a buffer that `self` holds; one launch follows the other on the
            // stream, so that each has the workspace to itself; the caller's contract.
            unsafe { kernels.enqueue(stream, &part.job, workspace, workspace.output(at), None) }?;
        }
        Ok(())
    }

    /// A result; nothing runs.
    fn answer(&self, index: usize) -> Option<Answer> {
        let Part { job, empty, .. } = &self.parts[index];
        if job.n == 0 { *empty } else { Some(self.workspace.answer(index, job.op, job.dtype)) }
    }
}

/// A replay under way on a stream. Dropping it waits; leaking it leaves everything as it is, and the
/// recording taken for good.
#[must_use = "dropping it waits for the results and throws them away"]
pub struct PendingRecording<'r> {
    recording: &'r Inner,
    /// Keeps everything alive for a replay that is leaked. Taken when the wait is over.
    work: Option<Arc<Inner>>,
}

impl<'r> PendingRecording<'r> {
    /// Waits for the results. Other work on the stream is not waited for.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong.
    pub fn wait(mut self) -> Result<Results<'r>> {
        self.finish()?;
        Ok(Results { recording: self.recording })
    }

    /// Whether [`wait`](Self::wait) would return at once.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong.
    pub fn is_ready(&self) -> Result<bool> {
        self.recording.workspace.is_ready()
    }

    fn finish(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let waited = work.workspace.wait();
        work.workspace.release(waited.is_err());
        waited
    }
}

impl Drop for PendingRecording<'_> {
    fn drop(&mut self) {
        // As with a single reduction: an error that nobody waits for concerns nobody.
        let _ = self.finish();
    }
}

/// What a replay gave. The next one begins when nobody looks at these any more.
#[derive(Clone, Copy)]
pub struct Results<'r> {
    recording: &'r Inner,
}

impl Results<'_> {
    /// The result of the reduction of a number, in the order in which they were recorded; none for the
    /// extreme of no elements.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, index: usize) -> Option<Answer> {
        self.recording.answer(index)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.recording.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.recording.parts.is_empty()
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs: Vec<Job> = self.inner.parts.iter().map(|part| part.job).collect();
        f.debug_struct("Recording").field("jobs", &jobs).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingRecording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRecording").finish_non_exhaustive()
    }
}

impl fmt::Debug for Results<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len()).map(|index| self.get(index))).finish()
    }
}
