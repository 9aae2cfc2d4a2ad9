//! Launches recorded once and run as one, so that the host's cost of launching is paid once.

use warpfold_driver::GraphExec;

use super::{Device, Stream, gaps};
use crate::Result;

/// What was enqueued on a stream while it was captured. cust captures nothing, so the driver's calls are
/// made directly.
pub struct Graph {
    device: Device,
    exec: GraphExec,
}

impl Graph {
    /// Records what `work` enqueues on the stream, which it is given; none of it runs. Nobody else has
    /// the stream meanwhile, so that nothing is under way there which `work` could wait for.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Driver`](crate::Error::Driver) when something that it did cannot be
    /// recorded.
    pub fn capture(stream: &mut Stream, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Self> {
        let capture = Capture::begin(stream)?;
        let worked = work(stream);
        // What was recorded until the work failed is dropped.
        let graph = capture.end();
        worked.and(graph)
    }

    /// Enqueues all of it.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    ///
    /// # Safety
    /// What was recorded must still be allowed: all memory that it names must live until `stream` was
    /// synchronised. The stream must be of the device that it was recorded on.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the graph is destroyed with `self`; the stream is alive; the caller answers for the
        // rest.
        let launch = |driver| unsafe { gaps::launch_graph(driver, self.exec, stream.cust()) };
        self.device.inner.driver_call(launch)
    }
}

/// A stream that records, until this is dropped: whatever becomes of the work, it records no more.
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
            // On a device that the work has made abandoned, too.
            inner.context.enter().map_err(|error| inner.error("cuCtxSetCurrent", error))?;
            // SAFETY: as for the beginning.
            let ended = unsafe { gaps::end_capture(inner.driver, stream.cust()) };
            let exec = ended.map_err(|error| inner.failed(error))?;
            Ok(Graph { device, exec })
        };
        end().inspect_err(|_| {
            // What failed in passing may have left it recording.
            drop(end());
        })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // The work has panicked; what was recorded is dropped.
            let _ = Self::end_of(stream);
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A failure would be that of an earlier launch, which its wait reports.
        // SAFETY: its owner is being dropped, and nothing uses it afterwards.
        let _ =
            self.device.inner.driver_call(|driver| unsafe { gaps::destroy_graph(driver, self.exec) });
    }
}
