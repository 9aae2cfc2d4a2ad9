//! Events of streams, which mark points and take times.

use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Event, Stream};

impl Driver {
    /// An event in the current context. `flags` are [`CU_EVENT_DEFAULT`](crate::sys::CU_EVENT_DEFAULT),
    /// or such as [`CU_EVENT_DISABLE_TIMING`](crate::sys::CU_EVENT_DISABLE_TIMING): an event that takes
    /// no time costs less.
    pub fn event_create(&self, flags: u32) -> Result<Event, CallError> {
        let mut event = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuEventCreate(&mut event, flags)) }?;
        Ok(Event::from_raw(event))
    }

    /// The event stands from here on for what was enqueued on the stream so far.
    ///
    /// # Safety
    /// Both must be alive, and of one context.
    pub unsafe fn event_record(&self, event: Event, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuEventRecord(event.raw(), stream.raw())) }
    }

    /// Whether what an event stands for is done. One that was never recorded is.
    ///
    /// # Errors
    /// Those of that work too.
    ///
    /// # Safety
    /// The event must be alive.
    pub unsafe fn event_query(&self, event: Event) -> Result<bool, CallError> {
        // SAFETY: the caller's contract.
        let code = unsafe { (self.api().cuEventQuery)(event.raw()) };
        self.is_ready("cuEventQuery", code)
    }

    /// Waits for what an event stands for.
    ///
    /// # Errors
    /// Those of that work too.
    ///
    /// # Safety
    /// The event must be alive.
    pub unsafe fn event_synchronize(&self, event: Event) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuEventSynchronize(event.raw())) }
    }

    /// Milliseconds from one event to another, to about half a microsecond.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_READY`, if either is not done; `CUDA_ERROR_INVALID_HANDLE`, if either was not
    /// recorded or takes no time.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn event_elapsed_time(&self, start: Event, end: Event) -> Result<f32, CallError> {
        let mut milliseconds = 0.0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuEventElapsedTime(&mut milliseconds, start.raw(), end.raw())) }?;
        Ok(milliseconds)
    }

    /// Gives an event back. This does not wait: streams that wait for it still do.
    ///
    /// # Safety
    /// The event must be alive and is not afterwards.
    pub unsafe fn event_destroy(&self, event: Event) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuEventDestroy_v2(event.raw())) }
    }
}
