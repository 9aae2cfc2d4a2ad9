//! Device memory, host memory that the device can access, and copies.
//!
//! Device addresses are integers, and sizes are in bytes. Host memory is passed by pointer and not by
//! slice, because the device may access it long after a call has returned.

use std::ffi::c_void;
use std::ptr;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Context, Stream};
use crate::sys::{self, CUdeviceptr};

/// The driver's information on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttributes {
    /// The memory type, such as [`sys::CU_MEMORYTYPE_DEVICE`]; 0 for an address unknown to the driver.
    pub memory_type: sys::CUmemorytype,
    /// Set for managed memory, which host and device share.
    pub is_managed: bool,
    /// The ordinal of the device that owns the memory; negative if none does.
    pub device_ordinal: i32,
    /// The context of the allocation, if the driver reports it.
    pub context: Option<Context>,
    /// The address by which kernels access the memory; 0 if they cannot.
    pub device_address: CUdeviceptr,
    /// The address by which the host accesses the memory; null if it cannot.
    pub host_address: *mut c_void,
    /// The start of the allocation that contains the address; 0 if there is none.
    pub range_start: CUdeviceptr,
    /// The size of that allocation in bytes.
    pub range_bytes: usize,
}

impl Driver {
    /// Returns the free and the total memory of the current context's device, in bytes.
    pub fn mem_get_info(&self) -> Result<(usize, usize), CallError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two numbers to local variables.
        unsafe { call!(self.cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok((free, total))
    }

    /// Allocates uninitialised memory of the current context's device, aligned to 256 bytes.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_OUT_OF_MEMORY`, or `CUDA_ERROR_INVALID_VALUE` for zero bytes.
    pub fn mem_alloc(&self, bytes: usize) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        // SAFETY: the call writes one number to a local variable.
        unsafe { call!(self.cuMemAlloc_v2(&mut address, bytes)) }?;
        Ok(address)
    }

    /// Allocates managed memory. `flags` is [`sys::CU_MEM_ATTACH_GLOBAL`] or a similar flag.
    pub fn mem_alloc_managed(&self, bytes: usize, flags: u32) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        // SAFETY: the call writes one number to a local variable.
        unsafe { call!(self.cuMemAllocManaged(&mut address, bytes, flags)) }?;
        Ok(address)
    }

    /// Frees memory of [`mem_alloc`](Self::mem_alloc) or [`mem_alloc_managed`](Self::mem_alloc_managed).
    /// The call may or may not wait for the device; do not rely on either.
    ///
    /// # Safety
    /// The address must come from one of these functions, and nothing may use the memory any more,
    /// including pending work.
    pub unsafe fn mem_free(&self, address: CUdeviceptr) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that the address was allocated, and is in use no more.
        unsafe { call!(self.cuMemFree_v2(address)) }
    }

    /// Allocates page-locked host memory, which the device copies without a staging buffer, and which
    /// kernels may access. `flags` is 0 or a combination such as [`sys::CU_MEMHOSTALLOC_PORTABLE`].
    pub fn mem_host_alloc(&self, bytes: usize, flags: u32) -> Result<*mut c_void, CallError> {
        let mut address = ptr::null_mut();
        // SAFETY: the call writes one pointer to a local variable.
        unsafe { call!(self.cuMemHostAlloc(&mut address, bytes, flags)) }?;
        Ok(address)
    }

    /// Frees memory of [`mem_host_alloc`](Self::mem_host_alloc).
    ///
    /// # Safety
    /// The address must come from that function, and nothing, including pending work, may still use it.
    pub unsafe fn mem_free_host(&self, address: *mut c_void) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that the address was allocated, and is in use no more.
        unsafe { call!(self.cuMemFreeHost(address)) }
    }

    /// Page-locks existing host memory. `flags` is 0 or a combination such as
    /// [`sys::CU_MEMHOSTREGISTER_PORTABLE`].
    ///
    /// # Safety
    /// The memory must stay allocated until [`mem_host_unregister`](Self::mem_host_unregister).
    pub unsafe fn mem_host_register(
        &self,
        address: *mut c_void,
        bytes: usize,
        flags: u32,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that the memory stays allocated until it is unregistered.
        unsafe { call!(self.cuMemHostRegister_v2(address, bytes, flags)) }
    }

    /// Reverts [`mem_host_register`](Self::mem_host_register).
    ///
    /// # Safety
    /// No pending work may depend on the memory being page-locked.
    pub unsafe fn mem_host_unregister(&self, address: *mut c_void) -> Result<(), CallError> {
        // SAFETY: the caller guarantees that no pending work depends on the page lock.
        unsafe { call!(self.cuMemHostUnregister(address)) }
    }

    /// Returns the device address of page-locked host memory.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_VALUE` if the memory is not page-locked.
    ///
    /// # Safety
    /// The memory must be allocated.
    pub unsafe fn mem_host_get_device_pointer(
        &self,
        address: *mut c_void,
    ) -> Result<CUdeviceptr, CallError> {
        let mut mapped = 0;
        // SAFETY: the caller guarantees allocated memory; the call writes to a local variable.
        unsafe { call!(self.cuMemHostGetDevicePointer_v2(&mut mapped, address, 0)) }?;
        Ok(mapped)
    }

    /// Returns the start and the size in bytes of the allocation that contains an address.
    ///
    /// # Errors
    /// Returns `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_FOUND` if no allocation contains it.
    pub fn mem_get_address_range(
        &self,
        address: CUdeviceptr,
    ) -> Result<(CUdeviceptr, usize), CallError> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: the call does not access the address, and writes two numbers to local variables.
        unsafe { call!(self.cuMemGetAddressRange_v2(&mut start, &mut bytes, address)) }?;
        Ok((start, bytes))
    }

    /// Returns the driver's information on an address of host or device. Any address is allowed.
    pub fn pointer_get_attributes(&self, address: CUdeviceptr) -> Result<PointerAttributes, CallError> {
        let mut context: sys::CUcontext = ptr::null_mut();
        let mut host_address: *mut c_void = ptr::null_mut();
        let (mut memory_type, mut managed, mut device_ordinal) = (0_i32, 0_u32, -1_i32);
        let (mut device_address, mut range_start, mut range_bytes) = (0_u64, 0_u64, 0_usize);
        let mut attributes = [
            sys::CU_POINTER_ATTRIBUTE_CONTEXT,
            sys::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            sys::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            sys::CU_POINTER_ATTRIBUTE_HOST_POINTER,
            sys::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            sys::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            sys::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            sys::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut values: [*mut c_void; 8] = [
            (&raw mut context).cast(),
            (&raw mut memory_type).cast(),
            (&raw mut device_address).cast(),
            (&raw mut host_address).cast(),
            (&raw mut managed).cast(),
            (&raw mut device_ordinal).cast(),
            (&raw mut range_start).cast(),
            (&raw mut range_bytes).cast(),
        ];
        let (count, keys) = (attributes.len() as u32, attributes.as_mut_ptr());
        // SAFETY: both arrays have `count` elements, and each value points to a variable of its
        // attribute's type. The call does not access the address.
        unsafe { call!(self.cuPointerGetAttributes(count, keys, values.as_mut_ptr(), address)) }?;
        Ok(PointerAttributes {
            memory_type,
            is_managed: managed != 0,
            device_ordinal,
            context: (!context.is_null()).then(|| Context::from_raw(context)),
            device_address,
            host_address,
            range_start,
            range_bytes,
        })
    }
}

/// Copies and fills.
///
/// # Safety
/// For every function of this block, the ranges must be allocated, and the caller must be allowed to
/// read the source and write the destination. The functions that take a stream return before the work is
/// complete: until the stream was synchronised, the ranges must stay allocated, and nothing else may
/// write the source or access the destination, unless stream order or an event separates the accesses.
impl Driver {
    /// Copies from the host to the device. May return early, but not before the source was read.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memcpy_htod(
        &self,
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyHtoD_v2(to, from, bytes)) }
    }

    /// Copies from the device to the host, and waits until the copy is complete.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memcpy_dtoh(
        &self,
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyDtoH_v2(to, from, bytes)) }
    }

    /// Copies from the host to the device in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply. Page-locked source memory is read when the
    /// device executes the copy.
    pub unsafe fn memcpy_htod_async(
        &self,
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyHtoDAsync_v2(to, from, bytes, stream.raw())) }
    }

    /// Copies from the device to the host in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memcpy_dtoh_async(
        &self,
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyDtoHAsync_v2(to, from, bytes, stream.raw())) }
    }

    /// Copies within a device in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memcpy_dtod_async(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw())) }
    }

    /// Copies between addresses of host or device in stream order; the driver infers the direction.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memcpy_async(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyAsync(to, from, bytes, stream.raw())) }
    }

    /// Copies from the memory of one context to that of another in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply, and both contexts must be alive.
    pub unsafe fn memcpy_peer_async(
        &self,
        (to, to_context): (CUdeviceptr, Context),
        (from, from_context): (CUdeviceptr, Context),
        bytes: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        let (to_context, from_context) = (to_context.raw(), from_context.raw());
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream.raw())) }
    }

    /// Sets `count` bytes of device memory. May return before they are set.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memset_d8(&self, to: CUdeviceptr, value: u8, count: usize) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemsetD8_v2(to, value, count)) }
    }

    /// Sets `count` bytes of device memory in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memset_d8_async(
        &self,
        to: CUdeviceptr,
        value: u8,
        count: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemsetD8Async(to, value, count, stream.raw())) }
    }

    /// Sets `count` 32-bit words at a 4-byte aligned address in stream order.
    ///
    /// # Safety
    /// The conditions in the docs of this `impl` block apply.
    pub unsafe fn memset_d32_async(
        &self,
        to: CUdeviceptr,
        value: u32,
        count: usize,
        stream: Stream,
    ) -> Result<(), CallError> {
        // SAFETY: the caller guarantees the conditions in the docs of this `impl` block.
        unsafe { call!(self.cuMemsetD32Async(to, value, count, stream.raw())) }
    }
}
