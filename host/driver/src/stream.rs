//! Streams, in which work is done in order.

use std::ffi::c_void;
use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Context, Event, Stream};
use crate::sys;

// Every `unsafe fn` below asks for streams, and events, that are alive. The default streams always are,
// in the context that is current.

impl Driver {
    /// A stream in the current context. `flags` is [`sys::CU_STREAM_DEFAULT`], which waits for the
    /// legacy default stream, and that for it, or [`sys::CU_STREAM_NON_BLOCKING`].
    pub fn stream_create(&self, flags: u32) -> Result<Stream, CallError> {
        let mut stream = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuStreamCreate(&mut stream, flags)) }?;
        Ok(Stream::from_raw(stream))
    }

    /// The same with a priority out of
    /// [`ctx_get_stream_priority_range`](Self::ctx_get_stream_priority_range); one outside is moved
    /// inside.
    pub fn stream_create_with_priority(&self, flags: u32, priority: i32) -> Result<Stream, CallError> {
        let mut stream = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuStreamCreateWithPriority(&mut stream, flags, priority)) }?;
        Ok(Stream::from_raw(stream))
    }

    /// Gives a stream back. This does not wait: what was enqueued is still done.
    ///
    /// # Safety
    /// The stream must be alive and is not afterwards.
    pub unsafe fn stream_destroy(&self, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuStreamDestroy_v2(stream.raw())) }
    }

    /// Waits for what was enqueued on a stream.
    ///
    /// # Errors
    /// Those of that work too.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_synchronize(&self, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuStreamSynchronize(stream.raw())) }
    }

    /// Whether all that was enqueued on a stream is done.
    ///
    /// # Errors
    /// Those of that work too.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_query(&self, stream: Stream) -> Result<bool, CallError> {
        // SAFETY: the caller's contract.
        let code = unsafe { (self.api().cuStreamQuery)(stream.raw()) };
        self.is_ready("cuStreamQuery", code)
    }

    /// What is enqueued on the stream from here on waits for what was recorded of the event.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<(), CallError> {
        let flags = sys::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuStreamWaitEvent(stream.raw(), event.raw(), flags)) }
    }

    /// Calls a function of the host when what was enqueued before it is done, if nothing of that failed.
    ///
    /// # Safety
    /// The stream must be alive; `function` may be called with `user_data` on any thread until the
    /// stream was synchronised, must not unwind, and must not call the driver.
    pub unsafe fn launch_host_func(
        &self,
        stream: Stream,
        function: unsafe extern "C" fn(*mut c_void),
        user_data: *mut c_void,
    ) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuLaunchHostFunc(stream.raw(), Some(function), user_data)) }
    }

    /// The flags that a stream was made with.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_flags(&self, stream: Stream) -> Result<u32, CallError> {
        let mut flags = 0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuStreamGetFlags(stream.raw(), &mut flags)) }?;
        Ok(flags)
    }

    /// The priority of a stream.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_priority(&self, stream: Stream) -> Result<i32, CallError> {
        let mut priority = 0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuStreamGetPriority(stream.raw(), &mut priority)) }?;
        Ok(priority)
    }

    /// The context of a stream.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_ctx(&self, stream: Stream) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the caller's contract; it writes one handle to a local variable.
        unsafe { call!(self.cuStreamGetCtx(stream.raw(), &mut context)) }?;
        Ok(Context::from_raw(context))
    }

    /// A number that no other stream of the process has or had.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn stream_get_id(&self, stream: Stream) -> Result<u64, CallError> {
        let mut id = 0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuStreamGetId(stream.raw(), &mut id)) }?;
        Ok(id)
    }

    /// What a query returned: done, not done, or an error.
    pub(crate) fn is_ready(&self, call: &'static str, code: i32) -> Result<bool, CallError> {
        match code {
            sys::CUDA_ERROR_NOT_READY => Ok(false),
            code => self.check(call, code).map(|()| true),
        }
    }
}
