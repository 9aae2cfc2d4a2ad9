//! Streams and events.

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

use super::{Device, cust_workarounds};
use crate::Result;

/// A stream of launches on a device, which run in order.
pub struct Stream {
    device: Device,
    stream: ManuallyDrop<CudaStream>,
    capturing: AtomicBool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let stream = device.inner.driver_call(cust_workarounds::non_blocking_stream)?;
        let capturing = AtomicBool::new(false);
        Ok(Self { device: device.clone(), stream: ManuallyDrop::new(stream), capturing })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until everything that was enqueued on the stream has finished. An error may come from any
    /// launch on it.
    ///
    /// If the wait fails without proof that the work has ended, the device is abandoned: later calls are
    /// errors ([`Error::Abandoned`](crate::Error::Abandoned)), and nothing on it is freed.
    pub fn synchronize(&self) -> Result<()> {
        let wait = || self.stream.synchronize();
        if self.is_capturing() {
            // The driver refuses to synchronise during a capture. Nothing runs: enqueued work is
            // recorded, and the capture has exclusive use of the stream.
            return self.device.inner.call("kernel", wait);
        }
        self.device.inner.wait_out("kernel", wait)
    }

    /// Returns the driver's handle and makes its context current on this thread.
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

    /// Stores whether the stream is capturing. Each launch needs this state, and a driver query would
    /// cost more than the rest of the launch.
    pub(super) fn set_capturing(&self, capturing: bool) {
        self.capturing.store(capturing, Ordering::Relaxed);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // The driver completes pending work before it destroys the stream. A failure reported here
            // is that of an earlier launch, whose wait reports it too. SAFETY: `stream` is dropped only
            // here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.stream) };
        }
    }
}

pub struct Event {
    device: Device,
    event: ManuallyDrop<CudaEvent>,
}

impl Event {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let event = device.inner.call("cuEventCreate", || CudaEvent::new(EventFlags::DEFAULT))?;
        Ok(Self { device: device.clone(), event: ManuallyDrop::new(event) })
    }

    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.inner.call("cuEventRecord", || self.event.record(&stream.stream))
    }

    /// Waits until the recorded work is complete. Fails if that work failed.
    pub fn synchronize(&self) -> Result<()> {
        self.device.inner.call("kernel", || self.event.synchronize())
    }

    pub fn is_done(&self) -> Result<bool> {
        let status = self.device.inner.call("kernel", || self.event.query())?;
        Ok(status == EventStatus::Ready)
    }

    /// Returns the microseconds from `start` to this event; both must be complete. On the simulator this
    /// is host time, which says nothing about a GPU.
    pub fn microseconds_since(&self, start: &Self) -> Result<f64> {
        let elapsed = || self.event.elapsed_time_f32(&start.event);
        let milliseconds = self.device.inner.call("cuEventElapsedTime", elapsed)?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.inner.enter().is_ok() {
            // SAFETY: `event` is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.event) };
        }
    }
}
