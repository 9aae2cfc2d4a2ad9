//! Stream-ordered memory allocation.

use std::ptr;

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{MemoryPool, Stream};
use crate::sys::{self, CUdeviceptr};

impl Driver {
    /// Allocates memory in stream order from the current pool of the stream's device. Only work that is
    /// ordered after this point of the stream may use the memory.
    ///
    /// # Safety
    /// The stream must be alive.
    pub unsafe fn mem_alloc_async(
        &self,
        bytes: usize,
        stream: Stream,
    ) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        // SAFETY: the caller guarantees a live stream; the call writes one number to a local variable.
        unsafe { call!(self.cuMemAllocAsync(&mut address, bytes, stream.raw())) }?;
        Ok(address)
    }

    /// Allocates like [`mem_alloc_async`](Self::mem_alloc_async), but from the given pool.
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
        // SAFETY: the caller guarantees a live stream and pool; the call writes to a local variable.
        unsafe { call!(self.cuMemAllocFromPoolAsync(&mut address, bytes, pool.raw(), stream.raw())) }?;
        Ok(address)
    }

    /// Frees memory in stream order. The stream may differ from the allocation's.
    ///
    /// # Safety
    /// The stream must be alive; the address must come from [`mem_alloc_async`](Self::mem_alloc_async)
    /// or [`mem_alloc_from_pool_async`](Self::mem_alloc_from_pool_async); all work that uses the memory
    /// must be ordered before this point of the stream.
    pub unsafe fn mem_free_async(&self, address: CUdeviceptr, stream: Stream) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live stream, and that all uses of the memory precede the free.
        unsafe { call!(self.cuMemFreeAsync(address, stream.raw())) }
    }

    /// Creates a pool of a device's memory that is not shared with other processes.
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
        // SAFETY: the properties outlive the call, which writes one handle to a local variable.
        unsafe { call!(self.cuMemPoolCreate(&mut pool, &properties)) }?;
        Ok(MemoryPool::from_raw(pool))
    }

    /// Destroys a pool. Its memory is released when its last allocation is freed.
    ///
    /// # Safety
    /// The pool must come from [`mem_pool_create`](Self::mem_pool_create), must be alive, and must not
    /// be used afterwards.
    pub unsafe fn mem_pool_destroy(&self, pool: MemoryPool) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live pool that is not used afterwards.
        unsafe { call!(self.cuMemPoolDestroy(pool.raw())) }
    }

    /// Releases the pool's unused memory to the device, except for `keep` bytes.
    ///
    /// # Safety
    /// The pool must be alive.
    pub unsafe fn mem_pool_trim_to(&self, pool: MemoryPool, keep: usize) -> Result<(), CallError> {
        // SAFETY: the caller guarantees a live pool.
        unsafe { call!(self.cuMemPoolTrimTo(pool.raw(), keep)) }
    }

    /// Sets how many unused bytes a pool keeps when streams are synchronised. The default is 0.
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
        // SAFETY: the caller guarantees a live pool; the attribute is a 64-bit number.
        unsafe { call!(self.cuMemPoolSetAttribute(pool.raw(), key, value)) }
    }

    /// Returns how many bytes of a pool are currently allocated.
    ///
    /// # Safety
    /// The pool must be alive.
    pub unsafe fn mem_pool_used(&self, pool: MemoryPool) -> Result<u64, CallError> {
        let mut bytes = 0_u64;
        let (key, value) = (sys::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, (&raw mut bytes).cast());
        // SAFETY: the caller guarantees a live pool; the attribute is a 64-bit number.
        unsafe { call!(self.cuMemPoolGetAttribute(pool.raw(), key, value)) }?;
        Ok(bytes)
    }
}
