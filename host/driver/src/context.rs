//! Contexts. A thread has one that is current, which most other calls are about.

use std::ptr;

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::Context;
use crate::sys;

/// How a device's primary context stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryContextState {
    /// The flags that it has or will have, like [`sys::CU_CTX_SCHED_BLOCKING_SYNC`].
    pub flags: u32,
    /// Whether somebody holds it.
    pub is_active: bool,
}

impl Driver {
    /// The primary context of a device, which it shares with the CUDA runtime and whoever else asks. It
    /// is made if nobody holds it. It does not become current.
    ///
    /// Each call is to be met by one of [`primary_ctx_release`](Self::primary_ctx_release).
    pub fn primary_ctx_retain(&self, device: Device) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuDevicePrimaryCtxRetain(&mut context, device.raw())) }?;
        Ok(Context::from_raw(context))
    }

    /// Lets go of a primary context. With its last holder it is destroyed, and all that is in it.
    ///
    /// # Safety
    /// The caller must hold it by a [`primary_ctx_retain`](Self::primary_ctx_retain) of its own, and
    /// neither use it nor what is in it afterwards on the strength of that.
    pub unsafe fn primary_ctx_release(&self, device: Device) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuDevicePrimaryCtxRelease_v2(device.raw())) }
    }

    /// Sets the flags of a primary context, active or not.
    pub fn primary_ctx_set_flags(&self, device: Device, flags: u32) -> Result<(), CallError> {
        // SAFETY: it takes numbers; a wrong one is an error.
        unsafe { call!(self.cuDevicePrimaryCtxSetFlags_v2(device.raw(), flags)) }
    }

    /// Whether a primary context is held, and its flags.
    pub fn primary_ctx_get_state(&self, device: Device) -> Result<PrimaryContextState, CallError> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: it writes two numbers to local variables.
        unsafe { call!(self.cuDevicePrimaryCtxGetState(device.raw(), &mut flags, &mut active)) }?;
        Ok(PrimaryContextState { flags, is_active: active != 0 })
    }

    /// Destroys all that is in a primary context, whoever holds it.
    ///
    /// # Safety
    /// Nobody in the process may use anything that was made in it afterwards.
    pub unsafe fn primary_ctx_reset(&self, device: Device) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuDevicePrimaryCtxReset_v2(device.raw())) }
    }

    /// Makes a context of its own and pushes it on this thread's stack, so that it is current.
    pub fn ctx_create(&self, device: Device, flags: u32) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuCtxCreate_v2(&mut context, flags, device.raw())) }?;
        Ok(Context::from_raw(context))
    }

    /// Destroys a context and all that is in it.
    ///
    /// # Safety
    /// It must be one that [`ctx_create`](Self::ctx_create) made, and neither it nor what was made in it
    /// be used afterwards, on any thread.
    pub unsafe fn ctx_destroy(&self, context: Context) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuCtxDestroy_v2(context.raw())) }
    }

    /// Makes a context current on this thread, in the place of what was; or none. It is cheap.
    ///
    /// # Safety
    /// The context must be alive.
    pub unsafe fn ctx_set_current(&self, context: Option<Context>) -> Result<(), CallError> {
        // SAFETY: the caller's contract; null stands for none.
        unsafe { call!(self.cuCtxSetCurrent(context.map_or(ptr::null_mut(), Context::raw))) }
    }

    /// The context that is current on this thread.
    pub fn ctx_get_current(&self) -> Result<Option<Context>, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuCtxGetCurrent(&mut context)) }?;
        Ok((!context.is_null()).then(|| Context::from_raw(context)))
    }

    /// Makes a context current on this thread until [`ctx_pop_current`](Self::ctx_pop_current), which
    /// brings back what was.
    ///
    /// # Safety
    /// The context must be alive.
    pub unsafe fn ctx_push_current(&self, context: Context) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuCtxPushCurrent_v2(context.raw())) }
    }

    /// Takes the current context off this thread's stack and returns it.
    pub fn ctx_pop_current(&self) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: it writes one handle to a local variable.
        unsafe { call!(self.cuCtxPopCurrent_v2(&mut context)) }?;
        Ok(Context::from_raw(context))
    }

    /// The device of the current context.
    pub fn ctx_get_device(&self) -> Result<Device, CallError> {
        let mut device = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuCtxGetDevice(&mut device)) }?;
        Ok(Device::from_raw(device))
    }

    /// The flags of the current context.
    pub fn ctx_get_flags(&self) -> Result<u32, CallError> {
        let mut flags = 0;
        // SAFETY: it writes one int to a local variable.
        unsafe { call!(self.cuCtxGetFlags(&mut flags)) }?;
        Ok(flags)
    }

    /// Waits for all work in the current context.
    ///
    /// # Errors
    /// Those of that work too.
    pub fn ctx_synchronize(&self) -> Result<(), CallError> {
        // SAFETY: it takes nothing.
        unsafe { call!(self.cuCtxSynchronize()) }
    }

    /// A limit of the current context, by a number like [`sys::CU_LIMIT_STACK_SIZE`].
    pub fn ctx_get_limit(&self, limit: sys::CUlimit) -> Result<usize, CallError> {
        let mut value = 0;
        // SAFETY: it writes one number to a local variable.
        unsafe { call!(self.cuCtxGetLimit(&mut value, limit)) }?;
        Ok(value)
    }

    /// Asks for a limit of the current context. The driver may set another: see
    /// [`ctx_get_limit`](Self::ctx_get_limit).
    pub fn ctx_set_limit(&self, limit: sys::CUlimit, value: usize) -> Result<(), CallError> {
        // SAFETY: it takes numbers; a wrong one is an error.
        unsafe { call!(self.cuCtxSetLimit(limit, value)) }
    }

    /// The priorities that streams of the current context may have, as (least, greatest). A lower number
    /// is a greater priority; both are 0 where the device knows none.
    pub fn ctx_get_stream_priority_range(&self) -> Result<(i32, i32), CallError> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: it writes two ints to local variables.
        unsafe { call!(self.cuCtxGetStreamPriorityRange(&mut least, &mut greatest)) }?;
        Ok((least, greatest))
    }

    /// Lets the current context use the memory of another device's context.
    ///
    /// # Safety
    /// The other context must be alive, and stay so while its memory is used.
    pub unsafe fn ctx_enable_peer_access(&self, peer: Context) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuCtxEnablePeerAccess(peer.raw(), 0)) }
    }

    /// Takes [`ctx_enable_peer_access`](Self::ctx_enable_peer_access) back.
    ///
    /// # Safety
    /// The other context must be alive, and work that uses its memory from here be done.
    pub unsafe fn ctx_disable_peer_access(&self, peer: Context) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuCtxDisablePeerAccess(peer.raw())) }
    }
}
