//! Device memory, and host memory that kernels write.
//!
//! Memory is freed only when no work uses it any more. Code that enqueues work keeps a reference to the
//! memory until it has waited for the work, or has observed the work's result, whose write is the last
//! access to any memory. If a wait fails and it is unknown whether the work has ended
//! ([`Failed::ended`](crate::context::Failed)), the memory is leaked.

use std::{
    any::Any,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use warpfold_driver::sys;

use crate::{Device, Error, Plain, Result, Stream};

/// Device memory. Memory that the library allocates is aligned to [`Memory::ALIGNMENT`].
pub struct Memory {
    device: Device,
    address: u64,
    bytes: u64,
    hold: Hold,
    leaked: AtomicBool,
}

enum Hold {
    Own,
    Foreign(Option<Box<dyn Any + Send + Sync>>),
}

impl Memory {
    /// Minimum alignment of device memory from the driver. Host memory from it is aligned to pages.
    pub(crate) const ALIGNMENT: usize = 256;

    /// Allocates uninitialized memory. Even memory of 0 bytes has an address.
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<Self> {
        let size = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        let address = device.call("allocating memory", |driver| driver.mem_alloc(size));
        let address = address.map_err(|error| match error {
            Error::Driver { device, source, .. } if source.code == sys::CUDA_ERROR_OUT_OF_MEMORY => {
                Error::OutOfMemory { device, bytes, source }
            }
            other => other,
        })?;
        Ok(Self { device: device.clone(), address, bytes, hold: Hold::Own, leaked: false.into() })
    }

    /// Wraps memory of another owner.
    ///
    /// # Safety
    /// `bytes` bytes at the address must exist on the device until `owner` is dropped.
    pub(crate) unsafe fn foreign(
        device: &Device,
        address: u64,
        bytes: u64,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let hold = Hold::Foreign(Some(owner));
        Self { device: device.clone(), address, bytes, hold, leaked: false.into() }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Enqueues a fill with zeros.
    ///
    /// # Safety
    /// The stream must be of this device. Until the fill has ended, the memory must live, and only work
    /// on the stream may use it.
    pub(crate) unsafe fn clear_on(&self, stream: &Stream) -> Result<()> {
        let bytes = self.bytes as usize;
        self.device.call("clearing its memory", |driver| {
            // SAFETY: the memory has this size, and the caller keeps it alive until the fill has ended.
            unsafe { driver.memset_d8_async(self.address, 0, bytes, stream.raw()) }
        })
    }

    /// Leaks the memory on drop.
    pub(crate) fn keep_for_good(&self) {
        self.leaked.store(true, Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let leaked = *self.leaked.get_mut();
        match &mut self.hold {
            Hold::Foreign(owner) if leaked => std::mem::forget(owner.take()),
            Hold::Own if !leaked => {
                let address = self.address;
                // SAFETY: the memory is owned, and no work uses it: enqueued work keeps a reference.
                self.device.give_back(|driver| unsafe { driver.mem_free(address) });
            }
            _ => {}
        }
    }
}

/// Page-locked host memory that all devices can access, initially zero.
pub(crate) struct HostBytes {
    device: Device,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only this value refers to the bytes on the host. They are changed through `&mut self`, or
// through `HostWords::mark`, whose caller alone uses the words.
unsafe impl Send for HostBytes {}
// SAFETY: a shared reference changes the bytes only by `HostWords::mark`; its caller alone uses them.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let memory =
            device.call("locking host memory", |driver| driver.mem_host_alloc(bytes.max(1), flags))?;
        let start = NonNull::new(memory.cast()).expect("allocated memory has an address");
        // SAFETY: at least `bytes` bytes have just been allocated.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { device: device.clone(), start, bytes })
    }

    /// Returns the memory as elements, without an incomplete one at the end.
    pub(crate) fn elements<T: Plain>(&mut self) -> &mut [T] {
        let start = self.start.cast::<T>();
        assert!(start.is_aligned(), "page-locked memory is aligned for any element");
        // SAFETY: `self.bytes` bytes are initialized, any bytes are a value of a plain type, and the
        // slice borrows this value. A caller that enqueues a copy from here does not borrow the elements
        // again until the copy has ended.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes / size_of::<T>()) }
    }

    pub(crate) fn start(&self) -> *const std::ffi::c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast();
        // SAFETY: the memory is owned, and no work uses it: enqueued work keeps a reference to it.
        self.device.give_back(|driver| unsafe { driver.mem_free_host(start) });
    }
}

/// Page-locked host memory in 8-byte words, initially zero. Kernels write it; the host writes only
/// marks, to detect the kernels' writes.
pub(crate) struct HostWords {
    memory: HostBytes,
    address: u64,
}

impl HostWords {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        let memory = HostBytes::new(device, len * size_of::<u64>())?;
        // SAFETY: the memory is page-locked and alive.
        let address = device.call("locking host memory", |driver| unsafe {
            driver.mem_host_get_device_pointer(memory.start.as_ptr().cast())
        })?;
        Ok(Self { memory, address })
    }

    fn len(&self) -> usize {
        self.memory.bytes / size_of::<u64>()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.memory.device
    }

    pub(crate) fn address(&self, word: usize) -> u64 {
        assert!(word < self.len(), "word {word} of {}", self.len());
        self.address + (word * size_of::<u64>()) as u64
    }

    /// Reports to a simulated driver, which detects unwritten results, that the host reads `bytes` bytes
    /// from a word on. The host must have waited for the kernel that wrote them or for its results.
    pub(crate) fn take(&self, word: usize, bytes: usize) {
        assert!(bytes <= (self.len() - word) * size_of::<u64>(), "{bytes} bytes from word {word} on");
        self.memory.device.driver().host_takes(self.address(word), bytes);
    }

    /// Returns a word. The host must have waited for the last kernel that wrote it, or have observed
    /// that kernel's results.
    pub(crate) fn get(&self, word: usize) -> u64 {
        assert!(word < self.len(), "word {word} of {}", self.len());
        // SAFETY: the word is inside the memory, aligned, and initialized from the start. The device's
        // write precedes the event or the result that the caller has waited for. The read is volatile
        // because the compiler does not know of that write.
        unsafe { self.memory.start.cast::<u64>().as_ptr().add(word).read_volatile() }
    }

    /// Fills `bytes` bytes from a word on with a mark, so that [`differs`](Self::differs) detects a
    /// kernel's writes. No kernel in flight may write these words, and the caller alone must use them.
    pub(crate) fn mark(&self, word: usize, bytes: usize, mark: u32) {
        for unit in self.units(word, bytes) {
            // SAFETY: the unit is inside the memory and aligned, and no kernel writes it now. The write
            // is volatile because a kernel later reads and writes the unit without the compiler's
            // knowledge.
            unsafe { unit.write_volatile(mark) };
        }
    }

    /// Returns whether every unit of 4 bytes differs from the mark, including an incomplete last unit.
    pub(crate) fn differs(&self, word: usize, bytes: usize, mark: u32) -> bool {
        let mut left = bytes;
        self.units(word, bytes).all(|unit| {
            let last = u32::MAX >> (8 * size_of::<u32>().saturating_sub(left));
            left = left.saturating_sub(size_of::<u32>());
            // SAFETY: the unit is inside the memory and initialized. A kernel may write it meanwhile, as
            // a whole; the read is volatile because the compiler does not know of that write.
            (unsafe { unit.read_volatile() } ^ mark) & last != 0
        })
    }

    fn units(&self, word: usize, bytes: usize) -> impl Iterator<Item = *mut u32> {
        assert!(bytes <= (self.len() - word) * size_of::<u64>(), "{bytes} bytes from word {word} on");
        let first = self.memory.start.cast::<u64>().as_ptr().wrapping_add(word).cast::<u32>();
        (0..bytes.div_ceil(size_of::<u32>())).map(move |unit| first.wrapping_add(unit))
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Selection;

    #[test]
    fn leaked_foreign_memory_does_not_drop_its_owner() {
        let device = Device::open(Selection::Sim).unwrap();
        let memory = Memory::new(&device, 8).unwrap();
        for kept in [false, true] {
            let owner = Arc::new(());
            let owned = Box::new(owner.clone());
            // SAFETY: the bytes live until the end of the test.
            let foreign = unsafe { Memory::foreign(&device, memory.address(), 8, owned) };
            if kept {
                foreign.keep_for_good();
            }
            drop(foreign);
            assert_eq!(Arc::strong_count(&owner), 1 + usize::from(kept));
        }
    }

    #[test]
    fn differs_is_true_once_every_unit_is_overwritten() {
        let device = Device::open(Selection::Sim).unwrap();
        let words = HostWords::new(&device, 4).unwrap();
        let write = |byte: usize, value: u8| {
            // SAFETY: the byte is inside the memory, and nothing else uses it.
            unsafe { words.memory.start.as_ptr().add(byte).write_volatile(value) };
        };
        let mark = 0x0403_0201;
        // Bytes before and after the range, and the rest of the last unit, do not count.
        words.mark(1, 14, mark);
        assert!(!words.differs(1, 14, mark));
        for byte in [0, 7, 22, 23, 24] {
            write(byte, 9);
        }
        assert!(!words.differs(1, 14, mark));
        write(8, 9);
        write(15, 9);
        assert!(!words.differs(1, 14, mark));
        write(18, 9);
        assert!(!words.differs(1, 14, mark));
        write(21, 9);
        assert!(words.differs(1, 14, mark));
        assert!(words.differs(1, 0, mark));
    }
}
