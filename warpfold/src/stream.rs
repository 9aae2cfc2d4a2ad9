//! Streams, and points in their work.

use std::{
    any::Any,
    ffi::c_void,
    fmt, slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use warpfold_driver::{Event as RawEvent, Stream as RawStream, sys};

use crate::{Buffer, Device, Error, Plain, Result, context::Failed};

/// A queue of work on a device: what is enqueued on it is done in order, what is on two streams may
/// overlap.
///
/// The streams of this crate do not wait for the driver's default stream, nor that for them. Dropping a
/// stream does not wait: what was enqueued is still done.
pub struct Stream {
    device: Device,
    raw: RawStream,
    /// What no other stream ever has: the driver gives handles again. [`MANY`] of the handle that stands
    /// for a stream of each thread.
    id: u64,
    hold: Hold,
}

/// Whose the stream is.
enum Hold {
    Own,
    /// Somebody else's, with what keeps it there.
    Foreign(#[expect(dead_code, reason = "it is dropped")] Box<dyn Any + Send + Sync>),
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let raw = device
            .call("making a stream", |driver| driver.stream_create(sys::CU_STREAM_NON_BLOCKING))?;
        Ok(Self::of(device, raw, Hold::Own))
    }

    /// A stream that somebody else has made, such as another library: a `CUstream`, of which null is the
    /// driver's default stream. `owner` is kept as long as the stream is used here; `()` will do where
    /// the stream stays anyway.
    ///
    /// # Safety
    /// - `stream` must be of the device's context, and stay until what is returned, and all that was
    ///   enqueued through it, is gone or done.
    /// - It must not be recording into a graph while it is used here.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void, owner: impl Any + Send + Sync) -> Self {
        let raw = RawStream::from_raw(stream.cast());
        Self::of(device, raw, Hold::Foreign(Box::new(owner)))
    }

    fn of(device: &Device, raw: RawStream, hold: Hold) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(MANY + 1);
        let is_of_each_thread = raw == RawStream::PER_THREAD;
        let id = if is_of_each_thread { MANY } else { IDS.fetch_add(1, Ordering::Relaxed) };
        Self { device: device.clone(), raw, id, hold }
    }

    /// The stream as a `CUstream`, for calls of the driver.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.raw().cast()
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether somebody is recording into a graph what is enqueued here: then it is of no use to this
    /// library, which has [recordings](crate::Reducer::record) of its own.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses to say.
    pub fn is_recording(&self) -> Result<bool> {
        // SAFETY: the stream is alive.
        let status = self.device.call("asking whether a stream is recording", |driver| unsafe {
            driver.stream_is_capturing(self.raw)
        })?;
        Ok(status != sys::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Waits until everything that was enqueued on it is done.
    ///
    /// # Errors
    /// [`Error::Driver`] with what went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        self.wait_out().map_err(|failed| failed.error)
    }

    /// Makes what is enqueued here from now on wait for what is enqueued on another stream of the same
    /// device now. The host does not wait.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or [`Error::Driver`] when the driver refuses.
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        self.device.require("stream", &other.device)?;
        let event = Event::new(&self.device)?;
        event.record(other)?;
        event.precede(self)
    }

    /// Makes what is enqueued here from now on wait until a buffer's elements are there, which are
    /// results of another stream. The host does not wait. Reductions do so by themselves; this is for
    /// work of others.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or [`Error::Driver`] when the driver refuses.
    pub fn wait_for_elements<T: Plain>(&self, buffer: &Buffer<T>) -> Result<()> {
        self.device.require("buffer", buffer.device())?;
        buffer.precede(self)
    }

    /// Makes what is enqueued here from now on wait for an event that somebody else has recorded, a
    /// `CUevent`. The host does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Safety
    /// `event` must be alive.
    pub unsafe fn wait_for_event(&self, event: *mut c_void) -> Result<()> {
        let event = RawEvent::from_raw(event.cast());
        self.device.call("waiting for an event", |driver| {
            // SAFETY: the stream is alive; the caller answers for the event.
            unsafe { driver.stream_wait_event(self.raw, event) }
        })
    }

    /// Records an event of somebody else's, a `CUevent`: it then stands for what is enqueued here now.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    ///
    /// # Safety
    /// `event` must be alive and of the device's context.
    pub unsafe fn record_event(&self, event: *mut c_void) -> Result<()> {
        let event = RawEvent::from_raw(event.cast());
        self.device.call("recording an event", |driver| {
            // SAFETY: the stream is alive; the caller answers for the event.
            unsafe { driver.event_record(event, self.raw) }
        })
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    /// Whether everything is done that was enqueued on it.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the stream is alive.
        self.device.call("a reduction", |driver| unsafe { driver.stream_query(self.raw) })
    }

    /// Waits until everything is done, well or not, or says that this is not known.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait_out().map_or_else(|failed| failed.ended, |()| true)
    }

    /// Waits until everything is done, or says that this is not known.
    pub(crate) fn wait_out(&self) -> Result<(), Failed<Error>> {
        // SAFETY: the stream is alive.
        self.device
            .wait_out("waiting for a stream", |driver| unsafe { driver.stream_synchronize(self.raw) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Hold::Own = self.hold {
            // SAFETY: it is ours, and gone for everybody else.
            self.device.give_back(|driver| unsafe { driver.stream_destroy(self.raw) });
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

/// The number of whatever is no single stream.
const MANY: u64 = 0;

/// A point in a stream's work. It has no time stamp.
pub struct Event {
    device: Device,
    raw: RawEvent,
    /// The number of the stream in which it was recorded last, if it was.
    on: AtomicU64,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let raw = device
            .call("making an event", |driver| driver.event_create(sys::CU_EVENT_DISABLE_TIMING))?;
        Ok(Self { device: device.clone(), raw, on: MANY.into() })
    }

    /// Makes it stand for what is enqueued on a stream of this device now.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        self.on.store(stream.id, Ordering::Relaxed);
        self.device.call("recording an event", |driver| {
            // SAFETY: both are alive, and of one device.
            unsafe { driver.event_record(self.raw, stream.raw) }
        })
    }

    /// Whether what is enqueued on a stream comes behind what it stands for anyway: it was recorded
    /// there last. Whoever records an event again, on whatever stream, has it come behind what it stood
    /// for.
    pub(crate) fn is_on(&self, stream: &Stream) -> bool {
        stream.id != MANY && self.on.load(Ordering::Relaxed) == stream.id
    }

    /// Makes what is enqueued on a stream from now on wait for what it stands for.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        if self.is_on(stream) {
            return Ok(());
        }
        self.device.call("waiting for an event", |driver| {
            // SAFETY: both are alive.
            unsafe { driver.stream_wait_event(stream.raw, self.raw) }
        })
    }

    /// Waits until what it stands for is done, or says that this is not known.
    pub(crate) fn wait_out(&self) -> Result<(), Failed<Error>> {
        // SAFETY: the event is alive.
        self.device.wait_out("a reduction", |driver| unsafe { driver.event_synchronize(self.raw) })
    }

    /// Whether what it stands for is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        self.device.call("a reduction", |driver| unsafe { driver.event_query(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is ours, and gone for everybody else; streams that wait for it still do.
        self.device.give_back(|driver| unsafe { driver.event_destroy(self.raw) });
    }
}

/// What was enqueued last to write some memory, if anything was: whatever uses the memory next comes
/// behind it.
#[derive(Clone, Default)]
pub(crate) enum LastWrite {
    #[default]
    None,
    /// One that is over with what an event stands for.
    Until(Arc<Event>),
    /// One that is over with what several stand for.
    UntilAll(Arc<[Arc<Event>]>),
}

impl LastWrite {
    fn ends(&self) -> &[Arc<Event>] {
        match self {
            Self::None => &[],
            Self::Until(end) => slice::from_ref(end),
            Self::UntilAll(ends) => ends,
        }
    }

    /// Waits until it is over.
    pub(crate) fn settle(&self) -> Result<()> {
        let mut ends = self.ends().iter();
        ends.try_for_each(|end| end.wait_out().map_err(|failed| failed.error))
    }

    /// Makes what is enqueued on a stream from now on wait for it.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.ends().iter().try_for_each(|end| end.precede(stream))
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn a_point_in_a_stream_is_on_that_stream_and_on_none_of_each_thread() {
        let device = Device::open(Selection::Sim).unwrap();
        let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
        let event = Event::new(&device).unwrap();
        assert!(!event.is_on(&one));
        event.record(&one).unwrap();
        assert!(event.is_on(&one) && !event.is_on(&other));
        event.record(&other).unwrap();
        assert!(!event.is_on(&one) && event.is_on(&other));
        // SAFETY: every thread has this stream.
        let of_threads = unsafe { Stream::from_raw(&device, RawStream::PER_THREAD.raw().cast(), ()) };
        event.record(&of_threads).unwrap();
        assert!(!event.is_on(&of_threads));
    }
}
