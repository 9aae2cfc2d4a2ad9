//! Streams and events.

use std::{
    any::Any,
    ffi::c_void,
    fmt, slice,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use warpfold_driver::{Driver, Event as RawEvent, Stream as RawStream, sys};

use crate::{Buffer, Device, Error, Plain, Result, context::Failed};

/// A queue of work on a device. Work of one stream runs in order, work of two streams may overlap.
///
/// The streams of this crate and the driver's default stream do not wait for each other. Dropping a
/// stream does not wait: enqueued work still completes.
pub struct Stream {
    device: Device,
    raw: RawStream,
    /// An id, because the driver reuses handles: [`OWN`] with a count for a stream that this crate
    /// created, the driver's id for a foreign stream, or [`UNKNOWN`].
    id: OnceLock<u64>,
    hold: Hold,
}

enum Hold {
    Own,
    Foreign(#[expect(dead_code, reason = "it is dropped")] Box<dyn Any + Send + Sync>),
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let raw = device
            .call("creating a stream", |driver| driver.stream_create(sys::CU_STREAM_NON_BLOCKING))?;
        static IDS: AtomicU64 = AtomicU64::new(0);
        let id = OWN | IDS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { device: device.clone(), raw, id: id.into(), hold: Hold::Own })
    }

    /// Returns a stream that other code has created: a `CUstream`, null for the driver's default stream.
    /// `owner` is dropped after this crate's last use of the stream; pass `()` if the stream lives
    /// longer anyway.
    ///
    /// # Safety
    /// - `stream` must be of the device's context, and live until the returned stream has been dropped
    ///   and all work enqueued through it has ended.
    /// - The stream must not be captured into a graph while this crate uses it, except by
    ///   [`OnStream::launch_into`](crate::OnStream::launch_into).
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void, owner: impl Any + Send + Sync) -> Self {
        let raw = RawStream::from_raw(stream.cast());
        let hold = Hold::Foreign(Box::new(owner));
        Self { device: device.clone(), raw, id: OnceLock::new(), hold }
    }

    /// Returns the stream as a `CUstream`, for calls of the driver.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.raw().cast()
    }

    /// Returns the device of the stream.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether the stream is being captured into a graph. Only
    /// [`OnStream::launch_into`](crate::OnStream::launch_into) can use such a stream; the library also
    /// has its own [recordings](crate::Reducer::record).
    ///
    /// # Errors
    /// [`Error::Driver`] if the query fails.
    pub fn is_recording(&self) -> Result<bool> {
        // SAFETY: the stream is alive.
        let status = self.device.call("querying whether a stream is recording", |driver| unsafe {
            driver.stream_is_capturing(self.raw)
        })?;
        Ok(status != sys::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Waits until all enqueued work is complete.
    ///
    /// # Errors
    /// [`Error::Driver`] if the work fails.
    pub fn synchronize(&self) -> Result<()> {
        self.wait_out().map_err(|failed| failed.error)
    }

    /// Makes later work on this stream wait for the work that is now enqueued on another stream of the
    /// same device. The host does not wait.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or [`Error::Driver`] if the driver fails.
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        self.device.require("stream", &other.device)?;
        let event = Event::new(&self.device)?;
        event.record(other)?;
        event.precede(self)
    }

    /// Makes later work on this stream wait until a buffer's elements, results of another stream, are
    /// written. The host does not wait. Reductions of this library wait without this call; it is for
    /// other work, such as kernels of the program.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or [`Error::Driver`] if the driver fails.
    pub fn wait_for_elements<T: Plain>(&self, buffer: &Buffer<T>) -> Result<()> {
        self.device.require("buffer", buffer.device())?;
        buffer.precede(self)
    }

    /// Makes later work on this stream wait for an event that other code has recorded, a `CUevent`. The
    /// host does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    ///
    /// # Safety
    /// `event` must be alive.
    pub unsafe fn wait_for_event(&self, event: *mut c_void) -> Result<()> {
        let event = RawEvent::from_raw(event.cast());
        self.device.call("waiting for an event", |driver| {
            // SAFETY: the stream is alive, and the caller promises that the event is.
            unsafe { driver.stream_wait_event(self.raw, event) }
        })
    }

    /// Records an event of other code, a `CUevent`, after the work that is now enqueued on this stream.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    ///
    /// # Safety
    /// `event` must be alive and of the device's context.
    pub unsafe fn record_event(&self, event: *mut c_void) -> Result<()> {
        let event = RawEvent::from_raw(event.cast());
        self.device.call("recording an event", |driver| {
            // SAFETY: the stream is alive, and the caller promises that the event is.
            unsafe { driver.event_record(event, self.raw) }
        })
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    /// Returns the id. A foreign stream's id is queried at its first use and not earlier, because the
    /// query would invalidate a capture of the stream.
    fn id(&self) -> u64 {
        *self.id.get_or_init(|| {
            if self.raw == RawStream::PER_THREAD {
                return UNKNOWN;
            }
            // SAFETY: the stream is alive.
            let id = |driver: &Driver| unsafe { driver.stream_get_id(self.raw) };
            self.device.call("numbering a stream", id).unwrap_or(UNKNOWN)
        })
    }

    /// Returns a number that no other stream of the process has, if the driver numbers streams.
    pub(crate) fn known_id(&self) -> Option<u64> {
        Some(self.id()).filter(|&id| id != UNKNOWN)
    }

    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the stream is alive.
        self.device.call("a reduction", |driver| unsafe { driver.stream_query(self.raw) })
    }

    /// Waits until all work has ended, successfully or not, and returns whether that is certain.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait_out().map_or_else(|failed| failed.ended, |()| true)
    }

    pub(crate) fn wait_out(&self) -> Result<(), Failed<Error>> {
        // SAFETY: the stream is alive.
        self.device
            .wait_out("waiting for a stream", |driver| unsafe { driver.stream_synchronize(self.raw) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Hold::Own = self.hold {
            // SAFETY: the stream is owned and not used any more.
            self.device.give_back(|driver| unsafe { driver.stream_destroy(self.raw) });
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

/// The bit that is set in the ids of streams that this crate created.
const OWN: u64 = 1 << 63;

/// The id of the per-thread default stream, which is a different stream in each thread, and of streams
/// of a driver that does not number them.
const UNKNOWN: u64 = u64::MAX;

/// A point in the work of a stream: an event without timing.
pub struct Event {
    device: Device,
    raw: RawEvent,
    /// Id of the stream on which the event was recorded last.
    on: AtomicU64,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let raw = device
            .call("creating an event", |driver| driver.event_create(sys::CU_EVENT_DISABLE_TIMING))?;
        Ok(Self { device: device.clone(), raw, on: UNKNOWN.into() })
    }

    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        self.on.store(stream.id(), Ordering::Relaxed);
        self.device.call("recording an event", |driver| {
            // SAFETY: the event and the stream are alive and of one device.
            unsafe { driver.event_record(self.raw, stream.raw) }
        })
    }

    /// Returns whether the event was recorded last on this stream; later work on the stream then follows
    /// the event without a wait. A new record of an event, on any stream, must follow the work that the
    /// previous record marked.
    pub(crate) fn is_on(&self, stream: &Stream) -> bool {
        stream.known_id() == Some(self.on.load(Ordering::Relaxed))
    }

    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        if self.is_on(stream) {
            return Ok(());
        }
        self.device.call("waiting for an event", |driver| {
            // SAFETY: the event and the stream are alive.
            unsafe { driver.stream_wait_event(stream.raw, self.raw) }
        })
    }

    pub(crate) fn wait_out(&self) -> Result<(), Failed<Error>> {
        // SAFETY: the event is alive.
        self.device.wait_out("a reduction", |driver| unsafe { driver.event_synchronize(self.raw) })
    }

    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        self.device.call("a reduction", |driver| unsafe { driver.event_query(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is owned and not used any more; streams that wait for it are not affected.
        self.device.give_back(|driver| unsafe { driver.event_destroy(self.raw) });
    }
}

/// The latest enqueued write of some memory, which the next use must follow.
#[derive(Clone, Default)]
pub(crate) enum LastWrite {
    #[default]
    None,
    Until(Arc<Event>),
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

    pub(crate) fn wait_ready(&self) -> Result<()> {
        let mut ends = self.ends().iter();
        ends.try_for_each(|end| end.wait_out().map_err(|failed| failed.error))
    }

    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        self.ends().iter().try_for_each(|end| end.precede(stream))
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn is_on_matches_only_the_last_recorded_stream() {
        let device = Device::open(Selection::Sim).unwrap();
        let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
        let event = Event::new(&device).unwrap();
        assert!(!event.is_on(&one));
        event.record(&one).unwrap();
        assert!(event.is_on(&one) && !event.is_on(&other));
        event.record(&other).unwrap();
        assert!(!event.is_on(&one) && event.is_on(&other));
        // SAFETY: the per-thread default stream exists in every thread.
        let of_threads = unsafe { Stream::from_raw(&device, RawStream::PER_THREAD.raw().cast(), ()) };
        event.record(&of_threads).unwrap();
        assert!(!event.is_on(&of_threads));
    }
}
