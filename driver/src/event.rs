//! CUDA events, which mark points in a stream's work and record times.

use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Event, Stream};

impl Driver {
    /// Creates an event in the current context. `flags` is
    /// [`CU_EVENT_DEFAULT`](crate::sys::CU_EVENT_DEFAULT) or a combination such as
    /// [`CU_EVENT_DISABLE_TIMING`](crate::sys::CU_EVENT_DISABLE_TIMING), which makes the event cheaper.
    pub fn event_create(&self, flags: u32) -> Result<Event, CallError> {
        let mut event = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuEventCreate(&mut event, flags)) }?;
        Ok(Event::from_raw(event))
    }

    /// Records the event after all work that was enqueued on the stream so far.
    ///
    /// # Safety
    /// The event and the stream must be alive and belong to the same context.
    pub unsafe fn event_record(&self, event: Event, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live event and a live stream of the same context.
        unsafe { call!(self.cuEventRecord(event.raw(), stream.raw())) }
    }

    /// Returns whether the work before the recorded point is complete; `true` if nothing was recorded.
    ///
    /// # Errors
    /// Also returns the errors of that work.
    ///
    /// # Safety
    /// The event must be alive.
    pub unsafe fn event_query(&self, event: Event) -> Result<bool, CallError> {
        // SAFETY: the caller guarantees a live event.
        let code = unsafe { (self.api().cuEventQuery)(event.raw()) };
        self.is_ready("cuEventQuery", code)
    }

    /// Waits until the work before the recorded point is complete.
    ///
    /// # Errors
    /// Also returns the errors of that work.
    ///
    /// # Safety
    /// The event must be alive.
    pub unsafe fn event_synchronize(&self, event: Event) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live event.
        unsafe { call!(self.cuEventSynchronize(event.raw())) }
    }

    /// Returns the milliseconds between two events, with a resolution of about half a microsecond.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_NOT_READY` if either event is not complete, and `CUDA_ERROR_INVALID_HANDLE`
    /// if either was not recorded or has timing disabled.
    ///
    /// # Safety
    /// Both events must be alive.
    pub unsafe fn event_elapsed_time(&self, start: Event, end: Event) -> Result<f32, CallError> {
        let mut milliseconds = 0.0;
        // SAFETY: the caller guarantees live events; the call writes one number to a local variable.
        unsafe { call!(self.cuEventElapsedTime(&mut milliseconds, start.raw(), end.raw())) }?;
        Ok(milliseconds)
    }

    /// Destroys an event without waiting. Streams that wait for the event continue to wait.
    ///
    /// # Safety
    /// The event must be alive and must not be used afterwards.
    pub unsafe fn event_destroy(&self, event: Event) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live event that is not used afterwards.
        unsafe { call!(self.cuEventDestroy_v2(event.raw())) }
    }
}
