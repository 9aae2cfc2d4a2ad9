//! CUDA graphs of captured launches. A graph of many launches is enqueued by a single driver call.

use warpfold_driver::GraphExec;

use super::{Device, Stream, cust_workarounds};
use crate::Result;

/// An executable graph of captured work. Uses the driver's calls, because cust cannot capture.
pub struct Graph {
    device: Device,
    exec: GraphExec,
}

impl Graph {
    /// Captures the work that `work` enqueues on the given stream, without running it. The exclusive
    /// borrow of the stream ensures that `work` cannot wait for earlier work on it. Fails if some of the
    /// work cannot be captured.
    pub fn capture(stream: &mut Stream, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Self> {
        let capture = Capture::begin(stream)?;
        let worked = work(stream);
        // If the work failed, the partial capture is dropped.
        let graph = capture.end();
        worked.and(graph)
    }

    /// Enqueues the captured work.
    ///
    /// # Safety
    /// The contracts of the captured work must still hold: all memory that it uses must live until
    /// `stream` was synchronised. The stream must belong to the device that the work was captured on.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the graph is destroyed only when `self` is dropped, and the stream is alive. By this
        // function's contract, the memory that the graph uses is alive too.
        let launch =
            |driver| unsafe { cust_workarounds::launch_graph(driver, self.exec, stream.cust()) };
        self.device.inner.driver_call(launch)
    }
}

/// A running capture, which ends at the latest on drop.
struct Capture<'s>(Option<&'s Stream>);

impl<'s> Capture<'s> {
    fn begin(stream: &'s Stream) -> Result<Self> {
        // SAFETY: the stream is alive and of the context that `driver_call` enters.
        let begin = |driver| unsafe { cust_workarounds::begin_capture(driver, stream.cust()) };
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
            // Enters the context even if a wait in `work` has failed and marked the device as abandoned.
            inner.context.enter().map_err(|error| inner.error("cuCtxSetCurrent", error))?;
            // SAFETY: the stream is alive and of the context that was just entered.
            let ended = unsafe { cust_workarounds::end_capture(inner.driver, stream.cust()) };
            let exec = ended.map_err(|error| inner.failed(error))?;
            Ok(Graph { device, exec })
        };
        end().inspect_err(|_| {
            // After a transient failure the stream may still be capturing: end the capture again.
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
        // The driver may report the failure of an earlier launch here, which the wait for that launch
        // reports. SAFETY: the graph is destroyed only here, and not used afterwards.
        let _ = self
            .device
            .inner
            .driver_call(|driver| unsafe { cust_workarounds::destroy_graph(driver, self.exec) });
    }
}
