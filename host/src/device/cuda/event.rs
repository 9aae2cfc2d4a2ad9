//! Points in a stream's work.

use std::{
    ffi::{c_int, c_uint},
    ptr,
};

use warpfold_driver::cust::sys::CUevent;

use super::{
    Cuda, CudaStream,
    raw::{
        cuEventCreate, cuEventDestroy_v2, cuEventElapsedTime, cuEventQuery, cuEventRecord,
        cuEventSynchronize,
    },
};
use crate::Result;

pub(in crate::device) struct CudaEvent(CUevent);

// SAFETY: driver handles may be used from any thread on which their context is current, and every use
// here makes it so first.
unsafe impl Send for CudaEvent {}
// SAFETY: as above; the driver locks an event for the length of a call.
unsafe impl Sync for CudaEvent {}

/// `CU_EVENT_DISABLE_TIMING`: without a time stamp an event costs less.
const NO_TIMING: c_uint = 2;

/// `CUDA_ERROR_NOT_READY`
const NOT_READY: c_int = 600;

impl Cuda {
    pub(in crate::device) fn event(&self, timed: bool) -> Result<CudaEvent> {
        let mut event = ptr::null_mut();
        let flags = if timed { 0 } else { NO_TIMING };
        self.raw_call("cuEventCreate", || {
            // SAFETY: writes one handle to a local variable.
            unsafe { cuEventCreate(&mut event, flags) }
        })?;
        Ok(CudaEvent(event))
    }

    pub(in crate::device) fn record(&self, event: &CudaEvent, stream: &CudaStream) -> Result<()> {
        self.raw_call("cuEventRecord", || {
            // SAFETY: both are alive.
            unsafe { cuEventRecord(event.0, stream.raw) }
        })
    }

    /// An error is that of what ran before the event.
    pub(in crate::device) fn synchronize_event(&self, event: &CudaEvent) -> Result<()> {
        self.raw_call("kernel", || {
            // SAFETY: the event is alive.
            unsafe { cuEventSynchronize(event.0) }
        })
    }

    pub(in crate::device) fn is_done(&self, event: &CudaEvent) -> Result<bool> {
        let mut done = true;
        self.raw_call("kernel", || {
            // SAFETY: the event is alive.
            let code = unsafe { cuEventQuery(event.0) };
            done = code != NOT_READY;
            if done { code } else { 0 }
        })?;
        Ok(done)
    }

    pub(in crate::device) fn microseconds_between(
        &self,
        start: &CudaEvent,
        end: &CudaEvent,
    ) -> Result<f64> {
        let mut milliseconds = 0.0;
        self.raw_call("cuEventElapsedTime", || {
            // SAFETY: both are alive; writes one number to a local variable.
            unsafe { cuEventElapsedTime(&mut milliseconds, start.0, end.0) }
        })?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    pub(in crate::device) fn drop_event(&self, event: &mut CudaEvent) {
        // A failure would be that of an earlier launch, which its wait reports.
        let _ = self.raw_call("cuEventDestroy", || {
            // SAFETY: its owner is being dropped, once.
            unsafe { cuEventDestroy_v2(event.0) }
        });
    }
}
