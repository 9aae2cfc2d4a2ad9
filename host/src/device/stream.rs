//! Orders of launches, and points in them.

use std::{
    ffi::c_void,
    fmt,
    mem::ManuallyDrop,
    sync::atomic::{AtomicBool, Ordering},
};

use warpfold_driver::cust::{
    event::{Event as CudaEvent, EventFlags, EventStatus},
    stream::Stream as CudaStream,
};

use super::{Device, gaps};
use crate::Result;

/// An order of launches on a device.
pub struct Stream {
    device: Device,
    stream: ManuallyDrop<CudaStream>,
    /// Whether it records what is enqueued on it.
    capturing: AtomicBool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let stream = device.inner.driver_call(gaps::non_blocking_stream)?;
        let capturing = AtomicBool::new(false);
        Ok(Self { device: device.clone(), stream: ManuallyDrop::new(stream), capturing })
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until everything launched on it has finished.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) with what went wrong in a launch.
    ///
    /// Where that fails in a way that leaves open whether something still runs, the device is abandoned:
    /// later calls are errors ([`Error::Abandoned`](crate::Error::Abandoned)), and nothing of it is
    /// freed.
    pub fn synchronize(&self) -> Result<()> {
        let wait = || self.stream.synchronize();
        if self.is_capturing() {
            // The driver refuses that. Nothing runs: what is enqueued is recorded, and who captures has
            // the stream to himself.
            return self.device.inner.call("kernel", wait);
        }
        self.device.inner.wait_out("kernel", wait)
    }

    /// The driver's handle, with its context current on this thread.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    pub fn raw(&self) -> Result<*mut c_void> {
        self.device.inner.enter()?;
        Ok(self.stream.as_inner().cast())
    }

    pub(super) fn cust(&self) -> &CudaStream {
        &self.stream
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capturing.load(Ordering::Relaxed)
    }

    /// Says whether it captures: a launch must know, and asking the driver each time would cost more
    /// than the launch's own part.
    pub(super) fn set_capturing(&self, capturing: bool) {
        self.capturing.store(capturing, Ordering::Relaxed);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // What it still has to do is done before the driver lets it go. A failure would be that of
            // an earlier launch, which its wait reports.
            // SAFETY: it is dropped here alone, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.stream) };
        }
    }
}

/// A point in a stream's work.
pub struct Event {
    device: Device,
    event: ManuallyDrop<CudaEvent>,
}

impl Event {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let event = device.inner.call("cuEventCreate", || CudaEvent::new(EventFlags::DEFAULT))?;
        Ok(Self { device: device.clone(), event: ManuallyDrop::new(event) })
    }

    /// Puts it behind what was enqueued on a stream so far.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) when the driver refuses.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.inner.call("cuEventRecord", || self.event.record(&stream.stream))
    }

    /// Waits until everything is done that was enqueued on the stream before it was last recorded. An
    /// error is that of what ran before.
    pub fn synchronize(&self) -> Result<()> {
        self.device.inner.call("kernel", || self.event.synchronize())
    }

    /// Whether all that is done.
    pub fn is_done(&self) -> Result<bool> {
        let status = self.device.inner.call("kernel", || self.event.query())?;
        Ok(status == EventStatus::Ready)
    }

    /// Microseconds from `start` to here; both must have happened. On the simulator it is the host's
    /// time that the simulation took, which says nothing of a GPU.
    pub fn microseconds_since(&self, start: &Self) -> Result<f64> {
        let elapsed = || self.event.elapsed_time_f32(&start.event);
        let milliseconds = self.device.inner.call("cuEventElapsedTime", elapsed)?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: it is dropped here alone, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.event) };
        }
    }
}
