//! Launches recorded once and run as one, so that the host's cost of launching is paid once. A GPU's.

use super::{Backend, Device, Stream, cuda, stream::StreamInner};
use crate::{Error, Result};

/// What was enqueued on a stream while it was captured.
pub struct Graph {
    device: Device,
    inner: cuda::CudaGraph,
}

impl Graph {
    /// Records what `work` enqueues on `stream`; none of it runs.
    ///
    /// # Errors
    /// [`Error::Mismatch`] in the simulator; those of `work`; [`Error::Driver`] when something that it
    /// did cannot be recorded.
    pub fn capture(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let device = stream.device().clone();
        match (&*device.backend, &stream.inner) {
            (Backend::Cuda(cuda), StreamInner::Cuda(inner)) => {
                let inner = cuda.capture(inner, work)?;
                Ok(Self { device, inner })
            }
            _ => {
                let reason = format!("{} records no graphs", device.info().name);
                Err(Error::Mismatch { what: "stream", reason })
            }
        }
    }

    /// Enqueues all of it.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Safety
    /// What was recorded must still be allowed: all memory that it names must live until `stream` was
    /// synchronised. The stream must be of the device that it was recorded on.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        match &stream.inner {
            // SAFETY: the caller's contract.
            StreamInner::Cuda(stream) => unsafe { self.device.cuda().launch_graph(&self.inner, stream) },
            StreamInner::Sim => unreachable!("graphs are recorded on GPUs only"),
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.device.cuda().drop_graph(&mut self.inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn the_simulator_has_none() {
        let stream = Device::open(Selection::Sim).unwrap().stream().unwrap();
        let refused = Graph::capture(&stream, || unreachable!("nothing is recorded")).err().unwrap();
        assert!(refused.to_string().contains("records no graphs"), "{refused}");
    }
}
