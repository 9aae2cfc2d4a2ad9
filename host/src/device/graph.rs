//! Graphs of captured launches, which pay the host's launch cost once.

use warpfold_driver::GraphExec;

use super::{Device, Stream, gaps};
use crate::Result;

/// The work that was enqueued on a stream during its capture. Uses the driver's calls, because cust has
/// no capture.
pub struct Graph {
    device: Device,
    exec: GraphExec,
}

impl Graph {
    /// Captures the work that `work` enqueues on the given stream, without running it. The stream is
    /// borrowed exclusively, so that it has no pending work that `work` could wait for.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Driver`](crate::Error::Driver) if some of it cannot be captured.
    pub fn capture(stream: &mut Stream, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Self> {
        let capture = Capture::begin(stream)?;
        let worked = work(stream);
        // If the work failed, the partial capture is dropped.
        let graph = capture.end();
        worked.and(graph)
    }

    /// Enqueues the captured work.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the driver refuses.
    ///
    /// # Safety
    /// The contracts of the captured work must still hold: all memory that it uses must live until
    /// `stream` was synchronised. The stream must be of the device that the work was captured on.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the graph is destroyed with `self`; the stream is alive; the rest is the caller's
        // contract.
        let launch = |driver| unsafe { gaps::launch_graph(driver, self.exec, stream.cust()) };
        self.device.inner.driver_call(launch)
    }
}

/// A capture of a stream, which ends at the latest when this is dropped.
struct Capture<'s>(Option<&'s Stream>);

impl<'s> Capture<'s> {
    fn begin(stream: &'s Stream) -> Result<Self> {
        // SAFETY: the stream is alive and of the context that `driver_call` enters.
        let begin = |driver| unsafe { gaps::begin_capture(driver, stream.cust()) };
        stream.device().inner.driver_call(begin)?;
        stream.set_capturing(true);
        Ok(Self(Some(stream)))
    }

    fn end(mut self) -> Result<Graph> {
        Self::end_of(self.0.take().expect("it ends once"))
    }

    fn end_of(stream: &Stream) -> Result<Graph> {
        stream.set_capturing(false);
        let end = || {
            let device = stream.device().clone();
            let inner = &device.inner;
            // Enters the context even if the work has made the device abandoned.
            inner.context.enter().map_err(|error| inner.error("cuCtxSetCurrent", error))?;
            // SAFETY: as in `begin`.
            let ended = unsafe { gaps::end_capture(inner.driver, stream.cust()) };
            let exec = ended.map_err(|error| inner.failed(error))?;
            Ok(Graph { device, exec })
        };
        end().inspect_err(|_| {
            // After a transient failure the stream may still be capturing.
            drop(end());
        })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // The work has panicked; its partial capture is dropped.
            let _ = Self::end_of(stream);
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A failure would come from an earlier launch, whose wait reports it.
        // SAFETY: its owner is being dropped, and nothing uses it afterwards.
        let _ =
            self.device.inner.driver_call(|driver| unsafe { gaps::destroy_graph(driver, self.exec) });
    }
}
