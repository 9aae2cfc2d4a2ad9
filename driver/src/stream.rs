//! Streams, which execute work in order.

use std::ffi::c_void;
use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Context, Event, Stream};
use crate::sys;

// In the safety sections below, the default streams of the current context count as alive.

impl Driver {
    /// Creates a stream in the current context. `flags` is [`sys::CU_STREAM_DEFAULT`], which
    /// synchronises with the legacy default stream, or [`sys::CU_STREAM_NON_BLOCKING`].
    pub fn stream_create(&self, flags: u32) -> Result<Stream, CallError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuStreamCreate(&mut stream, flags)) }?;
        Ok(Stream::from_raw(stream))
    }

    /// Creates a stream with a priority, which the driver clamps to the range of
    /// [`ctx_get_stream_priority_range`](Self::ctx_get_stream_priority_range).
    pub fn stream_create_with_priority(&self, flags: u32, priority: i32) -> Result<Stream, CallError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuStreamCreateWithPriority(&mut stream, flags, priority)) }?;
        Ok(Stream::from_raw(stream))
    }

    /// Destroys a stream without waiting: its enqueued work still completes.
    ///
    /// # Safety
    /// The stream must be alive and must not be used afterwards.
    pub unsafe fn stream_destroy(&self, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live stream that is not used afterwards.
        unsafe { call!(self.cuStreamDestroy_v2(stream.raw())) }
    }

    /// Waits for the work that was enqueued on a stream.
    ///
    /// # Errors
    /// Also returns the errors of that work.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_synchronize(&self, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live stream.
        unsafe { call!(self.cuStreamSynchronize(stream.raw())) }
    }

    /// Returns whether all work that was enqueued on a stream is complete.
    ///
    /// # Errors
    /// Also returns the errors of that work.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_query(&self, stream: Stream) -> Result<bool, CallError> {
        // SAFETY: the caller guarantees a live stream.
        let code = unsafe { (self.api().cuStreamQuery)(stream.raw()) };
        self.is_ready("cuStreamQuery", code)
    }

    /// Makes all work that is enqueued on the stream after this call wait for the event.
    ///
    /// # Safety
    /// The stream and the event must be alive.
    pub unsafe fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<(), CallError> {
        let flags = sys::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the caller guarantees a live stream and a live event.
        unsafe { call!(self.cuStreamWaitEvent(stream.raw(), event.raw(), flags)) }
    }

    /// Enqueues a host function, which is called when all preceding work has completed without an error.
    ///
    /// # Safety
    /// The stream must be alive. Until the stream was synchronised, `function` must be callable with
    /// `user_data` on any thread; it must not unwind, and must not call the driver.
    pub unsafe fn launch_host_func(
        &self,
        stream: Stream,
        function: unsafe extern "C" fn(*mut c_void),
        user_data: *mut c_void,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live stream, and a function that it may call on any thread.
        unsafe { call!(self.cuLaunchHostFunc(stream.raw(), Some(function), user_data)) }
    }

    /// Returns the flags that a stream was created with.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_flags(&self, stream: Stream) -> Result<u32, CallError> {
        let mut flags = 0;
        // SAFETY: the caller guarantees a live stream; the call writes one number to a local variable.
        unsafe { call!(self.cuStreamGetFlags(stream.raw(), &mut flags)) }?;
        Ok(flags)
    }

    /// Returns the priority of a stream.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_priority(&self, stream: Stream) -> Result<i32, CallError> {
        let mut priority = 0;
        // SAFETY: the caller guarantees a live stream; the call writes one number to a local variable.
        unsafe { call!(self.cuStreamGetPriority(stream.raw(), &mut priority)) }?;
        Ok(priority)
    }

    /// Returns the context of a stream.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_ctx(&self, stream: Stream) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the caller guarantees a live stream; the call writes one handle to a local variable.
        unsafe { call!(self.cuStreamGetCtx(stream.raw(), &mut context)) }?;
        Ok(Context::from_raw(context))
    }

    /// Returns an id that is unique among all streams in the lifetime of the process.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_id(&self, stream: Stream) -> Result<u64, CallError> {
        let mut id = 0;
        // SAFETY: the caller guarantees a live stream; the call writes one number to a local variable.
        unsafe { call!(self.cuStreamGetId(stream.raw(), &mut id)) }?;
        Ok(id)
    }

    pub(crate) fn is_ready(&self, call: &'static str, code: i32) -> Result<bool, CallError> {
        match code {
            sys::CUDA_ERROR_NOT_READY => Ok(false),
            code => self.check(call, code).map(|()| true),
        }
    }
}
