//! Contexts. Each thread has a current context, which most other calls act on.

use std::ptr;

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::Context;
use crate::sys;

/// The state of a device's primary context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryContextState {
    /// The context's flags, or those that it will have when it is created, such as
    /// [`sys::CU_CTX_SCHED_BLOCKING_SYNC`].
    pub flags: u32,
    /// Set if the context is retained.
    pub is_active: bool,
}

impl Driver {
    /// Retains the primary context of a device, which the CUDA runtime and all other users in the
    /// process share. The first call creates the context. The context does not become current.
    ///
    /// Each call must be matched by one of [`primary_ctx_release`](Self::primary_ctx_release).
    pub fn primary_ctx_retain(&self, device: Device) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuDevicePrimaryCtxRetain(&mut context, device.raw())) }?;
        Ok(Context::from_raw(context))
    }

    /// Releases a primary context. The last release destroys it and everything in it.
    ///
    /// # Safety
    /// The caller must have called [`primary_ctx_retain`](Self::primary_ctx_retain) for this release,
    /// and must not use the context or its contents afterwards, unless another retain keeps them alive.
    pub unsafe fn primary_ctx_release(&self, device: Device) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a retained context that is not used afterwards.
        unsafe { call!(self.cuDevicePrimaryCtxRelease_v2(device.raw())) }
    }

    /// Sets the flags of a primary context, whether or not it is retained.
    pub fn primary_ctx_set_flags(&self, device: Device, flags: u32) -> Result<(), CallError> {
        // SAFETY: the call takes only numbers, and returns an error for an invalid one.
        unsafe { call!(self.cuDevicePrimaryCtxSetFlags_v2(device.raw(), flags)) }
    }

    /// Returns the flags of a primary context and whether it is retained.
    pub fn primary_ctx_get_state(&self, device: Device) -> Result<PrimaryContextState, CallError> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the call writes two numbers to local variables.
        unsafe { call!(self.cuDevicePrimaryCtxGetState(device.raw(), &mut flags, &mut active)) }?;
        Ok(PrimaryContextState { flags, is_active: active != 0 })
    }

    /// Destroys everything in a primary context, even if other code retains it.
    ///
    /// # Safety
    /// Nothing that was created in the context may be used afterwards, anywhere in the process.
    pub unsafe fn primary_ctx_reset(&self, device: Device) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that the context's contents are not used afterwards.
        unsafe { call!(self.cuDevicePrimaryCtxReset_v2(device.raw())) }
    }

    /// Creates a context and pushes it onto this thread's stack of contexts, which makes it current.
    pub fn ctx_create(&self, device: Device, flags: u32) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuCtxCreate_v2(&mut context, flags, device.raw())) }?;
        Ok(Context::from_raw(context))
    }

    /// Destroys a context and all that is in it.
    ///
    /// # Safety
    /// The context must come from [`ctx_create`](Self::ctx_create). Neither it nor anything created in
    /// it may be used afterwards, on any thread.
    pub unsafe fn ctx_destroy(&self, context: Context) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live context that is not used afterwards.
        unsafe { call!(self.cuCtxDestroy_v2(context.raw())) }
    }

    /// Replaces this thread's current context; `None` leaves the thread without one. The call is cheap.
    ///
    /// # Safety
    /// The context must be alive.
    pub unsafe fn ctx_set_current(&self, context: Option<Context>) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live context; null means none.
        unsafe { call!(self.cuCtxSetCurrent(context.map_or(ptr::null_mut(), Context::raw))) }
    }

    /// Returns the context that is current on this thread.
    pub fn ctx_get_current(&self) -> Result<Option<Context>, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuCtxGetCurrent(&mut context)) }?;
        Ok((!context.is_null()).then(|| Context::from_raw(context)))
    }

    /// Makes a context current on this thread until [`ctx_pop_current`](Self::ctx_pop_current) restores
    /// the previous one.
    ///
    /// # Safety
    /// The context must be alive.
    pub unsafe fn ctx_push_current(&self, context: Context) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live context.
        unsafe { call!(self.cuCtxPushCurrent_v2(context.raw())) }
    }

    /// Pops the current context off this thread's stack and returns it.
    pub fn ctx_pop_current(&self) -> Result<Context, CallError> {
        let mut context = ptr::null_mut();
        // SAFETY: the call writes one handle to a local variable.
        unsafe { call!(self.cuCtxPopCurrent_v2(&mut context)) }?;
        Ok(Context::from_raw(context))
    }

    /// Returns the device of the current context.
    pub fn ctx_get_device(&self) -> Result<Device, CallError> {
        let mut device = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuCtxGetDevice(&mut device)) }?;
        Ok(Device::from_raw(device))
    }

    /// Returns the flags of the current context.
    pub fn ctx_get_flags(&self) -> Result<u32, CallError> {
        let mut flags = 0;
        // SAFETY: the call writes one int to a local variable.
        unsafe { call!(self.cuCtxGetFlags(&mut flags)) }?;
        Ok(flags)
    }

    /// Waits for all work in the current context.
    ///
    /// # Errors
    /// Also returns the errors of that work.
    pub fn ctx_synchronize(&self) -> Result<(), CallError> {
        // SAFETY: the call takes no argument.
        unsafe { call!(self.cuCtxSynchronize()) }
    }

    /// Returns a limit of the current context. `limit` is a number such as [`sys::CU_LIMIT_STACK_SIZE`].
    pub fn ctx_get_limit(&self, limit: sys::CUlimit) -> Result<usize, CallError> {
        let mut value = 0;
        // SAFETY: the call writes one number to a local variable.
        unsafe { call!(self.cuCtxGetLimit(&mut value, limit)) }?;
        Ok(value)
    }

    /// Requests a limit for the current context. The driver may set another value, which
    /// [`ctx_get_limit`](Self::ctx_get_limit) then returns.
    pub fn ctx_set_limit(&self, limit: sys::CUlimit, value: usize) -> Result<(), CallError> {
        // SAFETY: the call takes only numbers, and returns an error for an invalid one.
        unsafe { call!(self.cuCtxSetLimit(limit, value)) }
    }

    /// Returns the range of stream priorities in the current context, as (least, greatest). A lower
    /// number is a greater priority; both are 0 if the device does not support priorities.
    pub fn ctx_get_stream_priority_range(&self) -> Result<(i32, i32), CallError> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the call writes two ints to local variables.
        unsafe { call!(self.cuCtxGetStreamPriorityRange(&mut least, &mut greatest)) }?;
        Ok((least, greatest))
    }

    /// Lets the current context use the memory of another device's context.
    ///
    /// # Safety
    /// `peer` must be alive, and must stay alive while its memory is used.
    pub unsafe fn ctx_enable_peer_access(&self, peer: Context) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that `peer` is alive while its memory is used.
        unsafe { call!(self.cuCtxEnablePeerAccess(peer.raw(), 0)) }
    }

    /// Reverts [`ctx_enable_peer_access`](Self::ctx_enable_peer_access).
    ///
    /// # Safety
    /// `peer` must be alive, and all work of the current context that uses its memory must be complete.
    pub unsafe fn ctx_disable_peer_access(&self, peer: Context) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that `peer` is alive and that no work uses its memory.
        unsafe { call!(self.cuCtxDisablePeerAccess(peer.raw())) }
    }
}
