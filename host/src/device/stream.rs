//! Orders of launches, and points in them.

use std::fmt;

use super::{Device, cuda};
use crate::Result;

/// An order of launches on a device.
pub struct Stream {
    pub(super) device: Device,
    pub(super) inner: StreamInner,
}

pub(super) enum StreamInner {
    Cuda(cuda::CudaStream),
    /// The simulator finishes a launch before it returns.
    Sim,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Stream {
    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until everything launched on it has finished.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong in a launch.
    pub fn synchronize(&self) -> Result<()> {
        match &self.inner {
            StreamInner::Cuda(stream) => self.device.cuda().synchronize(stream),
            StreamInner::Sim => Ok(()),
        }
    }

    /// The driver's handle, with its context current on this thread; none in the simulator.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the context cannot be made current.
    pub fn raw(&self) -> Result<Option<*mut std::ffi::c_void>> {
        match &self.inner {
            StreamInner::Cuda(stream) => self.device.cuda().raw_stream(stream).map(Some),
            StreamInner::Sim => Ok(None),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let StreamInner::Cuda(stream) = &mut self.inner {
            self.device.cuda().drop_stream(stream);
        }
    }
}

/// A point in a stream's work, with a time stamp. Only GPUs have them.
pub struct Event {
    pub(super) device: Device,
    pub(super) inner: cuda::CudaEvent,
}

impl Event {
    /// Puts it behind everything that was enqueued on the stream so far.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        match &stream.inner {
            StreamInner::Cuda(stream) => self.device.cuda().record(&self.inner, stream),
            StreamInner::Sim => unreachable!("events are made for GPUs only"),
        }
    }

    /// Waits until everything is done that was enqueued on the stream before it was last recorded.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.cuda().synchronize_event(&self.inner)
    }

    /// Whether all that is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        self.device.cuda().is_done(&self.inner)
    }

    /// Microseconds from `start` to here; both must have happened.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when one of them has not, or work before it has failed.
    pub fn microseconds_since(&self, start: &Self) -> Result<f64> {
        self.device.cuda().microseconds_between(&start.inner, &self.inner)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.cuda().drop_event(&mut self.inner);
    }
}
