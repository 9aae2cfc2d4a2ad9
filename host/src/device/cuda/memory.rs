//! Memory of the GPU, and page-locked memory of the host.

use std::{
    ptr::{self, NonNull},
    slice,
};

use warpfold_driver::cust::{
    self,
    error::CudaError,
    memory::{DevicePointer, cuda_free, cuda_malloc},
};

use super::{
    Cuda, CudaStream,
    raw::{
        cuMemAllocHost_v2, cuMemFreeHost, cuMemHostGetDevicePointer_v2, cuMemcpyDtoDAsync_v2,
        cuMemcpyDtoH_v2, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8_v2, cuMemsetD8Async,
        cuStreamSynchronize,
    },
};
use crate::{Error, Result};

/// Page-locked host memory that nothing writes once it was made.
pub(in crate::device) struct LockedBytes {
    address: NonNull<u8>,
    len: usize,
}

impl LockedBytes {
    pub(in crate::device) fn as_slice(&self) -> &[u8] {
        // SAFETY: `lock` wrote this many bytes there, nothing writes later, and its owner unlocks them
        // last of all.
        unsafe { slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

// SAFETY: memory that nothing writes once it was made.
unsafe impl Send for LockedBytes {}
// SAFETY: as above.
unsafe impl Sync for LockedBytes {}

/// Page-locked host memory that kernels write, in words.
pub(in crate::device) struct LockedWords {
    words: NonNull<u64>,
    len: usize,
    /// On the device.
    pub(in crate::device) address: u64,
}

// SAFETY: a plain piece of memory, which any thread may free.
unsafe impl Send for LockedWords {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for LockedWords {}

impl LockedWords {
    /// A word as it is now.
    pub(in crate::device) fn get(&self, index: usize) -> u64 {
        assert!(index < self.len, "word {index} of {}", self.len);
        // SAFETY: it lies inside, is aligned, and the memory is there as long as this is. What else
        // touches it is the device, for which a volatile access is made.
        unsafe { self.words.add(index).read_volatile() }
    }

    /// Sets all words. Nothing runs that writes them.
    pub(in crate::device) fn fill(&mut self, word: u64) {
        for index in 0..self.len {
            // SAFETY: as above.
            unsafe { self.words.add(index).write_volatile(word) };
        }
    }
}

impl Cuda {
    pub(in crate::device) fn free_memory(&self) -> Result<u64> {
        self.call("cuMemGetInfo", cust::memory::mem_get_info).map(|(free, _)| free as u64)
    }

    pub(in crate::device) fn allocate(&self, bytes: u64) -> Result<u64> {
        self.enter()?;
        // SAFETY: nothing is read before it is written: kernels and copies see to that.
        match unsafe { cuda_malloc::<u8>(bytes as usize) } {
            Ok(pointer) => Ok(pointer.as_raw()),
            Err(CudaError::OutOfMemory) => Err(Error::OutOfMemory {
                device: self.info.name.clone(),
                needed: bytes,
                free: self.free_memory()?,
            }),
            Err(error) => Err(self.error("cuMemAlloc", error)),
        }
    }

    pub(in crate::device) fn free(&self, address: u64) {
        // A failed free reports an earlier launch's error, which that launch's wait reports too.
        let _ = self.call("cuMemFree", || {
            // SAFETY: the address came from `allocate` and its owner is being dropped.
            unsafe { cuda_free(DevicePointer::<u8>::from_raw(address)) }
        });
    }

    pub(in crate::device) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.raw_call("cuMemcpyHtoD", || {
            // SAFETY: `Allocation` checked the range, and the slice is readable.
            unsafe { cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) }
        })?;
        // From memory that may be paged out the driver copies by way of its own, and may return before
        // the last bytes have left that.
        self.wait_for_default_stream()
    }

    pub(in crate::device) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.raw_call("cuMemcpyDtoH", || {
            // SAFETY: `Allocation` checked the range, and the slice is writable.
            unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) }
        })
    }

    pub(in crate::device) fn fill(&self, address: u64, value: u8, len: u64) -> Result<()> {
        self.raw_call("cuMemsetD8", || {
            // SAFETY: `Allocation` checked the range.
            unsafe { cuMemsetD8_v2(address, value, len as usize) }
        })?;
        // The driver returns before the bytes are set.
        self.wait_for_default_stream()
    }

    /// Waits for what the driver does on its default stream, for which streams of ours do not wait.
    fn wait_for_default_stream(&self) -> Result<()> {
        self.raw_call("cuStreamSynchronize", || {
            // SAFETY: null is the default stream.
            unsafe { cuStreamSynchronize(ptr::null_mut()) }
        })
    }

    pub(in crate::device) fn copy(
        &self,
        stream: &CudaStream,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<()> {
        self.raw_call("cuMemcpyDtoDAsync", || {
            // SAFETY: `Allocation` checked both ranges, which its owner keeps until the stream is done.
            unsafe { cuMemcpyDtoDAsync_v2(to, from, len as usize, stream.raw) }
        })
    }

    /// # Safety
    /// The range of the device must be allocated, and both memories live until the stream was
    /// synchronised.
    pub(in crate::device) unsafe fn write_on(
        &self,
        stream: &CudaStream,
        address: u64,
        bytes: &[u8],
    ) -> Result<()> {
        self.raw_call("cuMemcpyHtoDAsync", || {
            // SAFETY: the caller's contract.
            unsafe { cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), stream.raw) }
        })
    }

    pub(in crate::device) fn lock(&self, bytes: &[u8]) -> Result<LockedBytes> {
        let mut memory = ptr::null_mut();
        self.raw_call("cuMemAllocHost", || {
            // SAFETY: writes one pointer to a local variable; the driver refuses what it cannot lock.
            unsafe { cuMemAllocHost_v2(&mut memory, bytes.len().max(1)) }
        })?;
        let address = NonNull::new(memory.cast::<u8>()).expect("the driver has allocated");
        // SAFETY: fresh memory of that size.
        unsafe { address.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(LockedBytes { address, len: bytes.len() })
    }

    pub(in crate::device) fn unlock(&self, bytes: &mut LockedBytes) {
        // As with `free`: what went wrong earlier is reported where it happened.
        let _ = self.raw_call("cuMemFreeHost", || {
            // SAFETY: the address came from `lock` and its owner is being dropped.
            unsafe { cuMemFreeHost(bytes.address.as_ptr().cast()) }
        });
    }

    /// # Safety
    /// The range must be allocated, and live until the stream was synchronised.
    pub(in crate::device) unsafe fn fill_on(
        &self,
        stream: &CudaStream,
        address: u64,
        value: u8,
        len: u64,
    ) -> Result<()> {
        self.raw_call("cuMemsetD8Async", || {
            // SAFETY: the caller's contract.
            unsafe { cuMemsetD8Async(address, value, len as usize, stream.raw) }
        })
    }

    /// Words of zero.
    pub(in crate::device) fn lock_words(&self, len: usize) -> Result<LockedWords> {
        let mut bytes = self.lock(&vec![0; 8 * len])?;
        let mut address = 0;
        // Under unified addressing it is the host's own; the driver says so, or that it is not.
        let asked = self.raw_call("cuMemHostGetDevicePointer", || {
            // SAFETY: the memory was locked just now; one address is written to a local variable.
            unsafe { cuMemHostGetDevicePointer_v2(&mut address, bytes.address.as_ptr().cast(), 0) }
        });
        match asked {
            Ok(()) => Ok(LockedWords { words: bytes.address.cast(), len, address }),
            Err(error) => {
                self.unlock(&mut bytes);
                Err(error)
            }
        }
    }

    pub(in crate::device) fn unlock_words(&self, words: &mut LockedWords) {
        self.unlock(&mut LockedBytes { address: words.words.cast(), len: 8 * words.len });
    }
}
