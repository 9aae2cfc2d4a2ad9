//! Memory that is allocated and freed in the order of a stream.

use std::ptr;

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{MemoryPool, Stream};
use crate::sys::{self, CUdeviceptr};

impl Driver {
    /// Memory from the current pool of the stream's device. It may be used once the stream has come
    /// here: by what is enqueued on it later, or waits for that.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn mem_alloc_async(
        &self,
        bytes: usize,
        stream: Stream,
    ) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuMemAllocAsync(&mut address, bytes, stream.raw())) }?;
        Ok(address)
    }

    /// The same from a pool of one's choice.
    ///
    /// # Safety
    /// The stream and the pool must be alive.
    pub unsafe fn mem_alloc_from_pool_async(
        &self,
        bytes: usize,
        pool: MemoryPool,
        stream: Stream,
    ) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        // SAFETY: the caller's contract; it writes one number to a local variable.
        unsafe { call!(self.cuMemAllocFromPoolAsync(&mut address, bytes, pool.raw(), stream.raw())) }?;
        Ok(address)
    }

    /// Frees memory when the stream comes here, whichever stream it was allocated on.
    ///
    /// # Safety
    /// The stream must be alive; the address must have come from
    /// [`mem_alloc_async`](Self::mem_alloc_async) or its like; what uses the memory must be enqueued on
    /// the stream before, or be waited for by it.
    pub unsafe fn mem_free_async(&self, address: CUdeviceptr, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuMemFreeAsync(address, stream.raw())) }
    }

    /// A pool of a device's memory, which no other process sees.
    pub fn mem_pool_create(&self, device: Device) -> Result<MemoryPool, CallError> {
        let properties = sys::CUmemPoolProps {
            alloc_type: sys::CU_MEM_ALLOCATION_TYPE_PINNED,
            handle_types: sys::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation { kind: sys::CU_MEM_LOCATION_TYPE_DEVICE, id: device.raw() },
            win32_security_attributes: ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = ptr::null_mut();
        // SAFETY: the properties live through the call; it writes one handle to a local variable.
        unsafe { call!(self.cuMemPoolCreate(&mut pool, &properties)) }?;
        Ok(MemoryPool::from_raw(pool))
    }

    /// Gives a pool back. Its memory goes when the last allocation of it is freed.
    ///
    /// # Safety
    /// The pool must be one of [`mem_pool_create`](Self::mem_pool_create), alive, and is not afterwards.
    pub unsafe fn mem_pool_destroy(&self, pool: MemoryPool) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuMemPoolDestroy(pool.raw())) }
    }

    /// Returns to the device what the pool holds unused, but for `keep` bytes.
    ///
    /// # Safety
    /// The pool must be alive.
    pub unsafe fn mem_pool_trim_to(&self, pool: MemoryPool, keep: usize) -> Result<(), CallError> {
        // SAFETY: the caller's contract.
        unsafe { call!(self.cuMemPoolTrimTo(pool.raw(), keep)) }
    }

    /// Unused bytes that a pool keeps when streams are synchronised: 0 at first.
    ///
    /// # Safety
    /// The pool must be alive.
    pub unsafe fn mem_pool_set_release_threshold(
        &self,
        pool: MemoryPool,
        bytes: u64,
    ) -> Result<(), CallError> {
        let mut bytes = bytes;
        let (key, value) = (sys::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut bytes).cast());
        // SAFETY: the caller's contract; this attribute is 64 bits wide.
        unsafe { call!(self.cuMemPoolSetAttribute(pool.raw(), key, value)) }
    }

    /// Bytes of a pool that are allocated now.
    ///
    /// # Safety
    /// The pool must be alive.
    pub unsafe fn mem_pool_used(&self, pool: MemoryPool) -> Result<u64, CallError> {
        let mut bytes = 0_u64;
        let (key, value) = (sys::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, (&raw mut bytes).cast());
        // SAFETY: the caller's contract; this attribute is 64 bits wide.
        unsafe { call!(self.cuMemPoolGetAttribute(pool.raw(), key, value)) }?;
        Ok(bytes)
    }
}
