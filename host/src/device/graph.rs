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
    /// Records what `work` enqueues on `stream`; none of it runs.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Driver`](crate::Error::Driver) when something that it did cannot be
    /// recorded.
    pub fn capture(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let device = stream.device().clone();
        // SAFETY: the stream is alive and of the context that `driver_call` enters.
        device.inner.driver_call(|driver| unsafe { gaps::begin_capture(driver, stream.cust()) })?;
        stream.set_capturing(true);
        let worked = work();
        stream.set_capturing(false);
        // SAFETY: as above.
        let end = |driver| unsafe { gaps::end_capture(driver, stream.cust()) };
        let recorded = device.inner.driver_call(end);
        let graph = recorded.map(|exec| Self { device, exec });
        // What was recorded until the work failed is dropped.
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

impl Drop for Graph {
    fn drop(&mut self) {
        // A failure would be that of an earlier launch, which its wait reports.
        // SAFETY: its owner is being dropped, and nothing uses it afterwards.
        let _ =
            self.device.inner.driver_call(|driver| unsafe { gaps::destroy_graph(driver, self.exec) });
    }
}
