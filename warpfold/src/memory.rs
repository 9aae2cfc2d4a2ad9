//! Memory of the device, and of the host where kernels write.
//!
//! One rule holds for all of it: it is freed when no work uses it any more, and not before. Whoever
//! enqueues work keeps a share of the memory until the work was waited for, or has written its result
//! as the last thing that it does with any memory, and the host has seen that. Where a wait fails in a
//! way that leaves open whether the work has ended ([`Failed::ended`](crate::context::Failed)), the
//! memory is never freed.

use std::{
    any::Any,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use warpfold_driver::sys;

use crate::{Device, Error, Plain, Result, Stream};

/// Bytes of device memory, at a multiple of [`Memory::ALIGNMENT`] where they are the library's own.
pub struct Memory {
    device: Device,
    address: u64,
    bytes: u64,
    hold: Hold,
    /// Whether it is never to be freed.
    kept: AtomicBool,
}

/// Whose the memory is.
enum Hold {
    Own,
    /// Somebody else's, with what keeps it there.
    Foreign(Option<Box<dyn Any + Send + Sync>>),
}

impl Memory {
    /// What the driver aligns memory to, at least; that of the host to pages.
    pub(crate) const ALIGNMENT: usize = 256;

    /// Memory of any contents. There is an address even of no bytes.
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<Self> {
        let size = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        let address = device.call("allocating memory", |driver| driver.mem_alloc(size));
        let address = address.map_err(|error| match error {
            Error::Driver { device, source, .. } if source.code == sys::CUDA_ERROR_OUT_OF_MEMORY => {
                Error::OutOfMemory { device, bytes, source }
            }
            other => other,
        })?;
        Ok(Self { device: device.clone(), address, bytes, hold: Hold::Own, kept: false.into() })
    }

    /// Memory of any owner's.
    ///
    /// # Safety
    /// `bytes` bytes must be at the address of the device until `owner` is dropped.
    pub(crate) unsafe fn foreign(
        device: &Device,
        address: u64,
        bytes: u64,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let hold = Hold::Foreign(Some(owner));
        Self { device: device.clone(), address, bytes, hold, kept: false.into() }
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

    /// Enqueues that all bytes become zero.
    ///
    /// # Safety
    /// Nothing but what is enqueued on the stream, which is of this device, uses the memory until this
    /// has ended, and it lives as long.
    pub(crate) unsafe fn clear_on(&self, stream: &Stream) -> Result<()> {
        let bytes = self.bytes as usize;
        self.device.call("clearing its memory", |driver| {
            // SAFETY: the memory has all of these bytes; the caller's contract.
            unsafe { driver.memset_d8_async(self.address, 0, bytes, stream.raw()) }
        })
    }

    /// Sees to it that the memory is never freed.
    pub(crate) fn keep_for_good(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let kept = *self.kept.get_mut();
        match &mut self.hold {
            Hold::Foreign(owner) if kept => std::mem::forget(owner.take()),
            Hold::Own if !kept => {
                let address = self.address;
                // SAFETY: the memory is ours, and by the rule above no work names it any more.
                self.device.give_back(|driver| unsafe { driver.mem_free(address) });
            }
            _ => {}
        }
    }
}

/// Page-locked host memory, which all devices reach. All zero at first.
pub(crate) struct HostBytes {
    device: Device,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the bytes are plain memory that only this value names on the host; they are changed by whoever
// has it for himself, or as `HostWords::mark` says.
unsafe impl Send for HostBytes {}
// SAFETY: as above.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let memory =
            device.call("locking host memory", |driver| driver.mem_host_alloc(bytes.max(1), flags))?;
        let start = NonNull::new(memory.cast()).expect("allocated memory has an address");
        // SAFETY: at least `bytes` bytes were allocated just now.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { device: device.clone(), start, bytes })
    }

    /// The memory as elements, of which it holds a whole number or the rest is left out.
    pub(crate) fn elements<T: Plain>(&mut self) -> &mut [T] {
        let start = self.start.cast::<T>();
        assert!(start.is_aligned(), "page-locked memory is aligned for any element");
        // SAFETY: `self.bytes` bytes are there, zero at first and elements since, and any bytes are an
        // element of a plain type; they are borrowed as long as this value. A caller who has the device
        // copy from here keeps the value to himself until the copy has ended.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes / size_of::<T>()) }
    }

    /// Where the device copies from.
    pub(crate) fn start(&self) -> *const std::ffi::c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast();
        // SAFETY: the memory is ours, and by the rule above no work names it any more.
        self.device.give_back(|driver| unsafe { driver.mem_free_host(start) });
    }
}

/// Page-locked host memory in words of 8 bytes, which kernels write, and the host only to see whether
/// they have. All zero at first.
pub(crate) struct HostWords {
    memory: HostBytes,
    /// Where kernels find it.
    address: u64,
}

impl HostWords {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        let memory = HostBytes::new(device, len * size_of::<u64>())?;
        // SAFETY: the memory is page-locked, and there.
        let address = device.call("locking host memory", |driver| unsafe {
            driver.mem_host_get_device_pointer(memory.start.as_ptr().cast())
        })?;
        Ok(Self { memory, address })
    }

    fn len(&self) -> usize {
        self.memory.bytes / size_of::<u64>()
    }

    /// The device whose kernels write them.
    pub(crate) fn device(&self) -> &Device {
        &self.memory.device
    }

    /// Where a kernel finds a word.
    pub(crate) fn address(&self, word: usize) -> u64 {
        assert!(word < self.len(), "word {word} of {}", self.len());
        self.address + (word * size_of::<u64>()) as u64
    }

    /// Tells the driver that the host takes a result of `bytes` bytes, from the word `word` on. A kernel
    /// has written it, whose end or whose result the host has waited for.
    pub(crate) fn take(&self, word: usize, bytes: usize) {
        assert!(bytes <= (self.len() - word) * size_of::<u64>(), "{bytes} bytes from word {word} on");
        self.memory.device.driver().host_takes(self.address(word), bytes);
    }

    /// A word as the last kernel left it whose end the host has waited for, or whose results it has
    /// seen.
    pub(crate) fn get(&self, word: usize) -> u64 {
        assert!(word < self.len(), "word {word} of {}", self.len());
        // SAFETY: the word is inside, at a multiple of its size, and initialised from the start. The
        // device has written it before what the caller has waited for; volatile, because the compiler
        // does not know of that.
        unsafe { self.memory.start.cast::<u64>().as_ptr().add(word).read_volatile() }
    }

    /// Fills `bytes` bytes from the word `word` on with a mark, by which [`differs`](Self::differs) sees
    /// whether a kernel has written there since. No kernel that is under way may write there, and nobody
    /// else on the host have these words: they are those of a cell or a workspace, which is somebody's.
    pub(crate) fn mark(&self, word: usize, bytes: usize, mark: u32) {
        for unit in self.units(word, bytes) {
            // SAFETY: the unit is inside, at a multiple of its size, and no kernel writes it now;
            // volatile, because one reads and writes it later, of which the compiler does not know.
            unsafe { unit.write_volatile(mark) };
        }
    }

    /// Whether no 4 bytes of these, nor what is left of 4 at the end, are as a mark is there.
    pub(crate) fn differs(&self, word: usize, bytes: usize, mark: u32) -> bool {
        let mut left = bytes;
        self.units(word, bytes).all(|unit| {
            let last = u32::MAX >> (8 * size_of::<u32>().saturating_sub(left));
            left = left.saturating_sub(size_of::<u32>());
            // SAFETY: the unit is inside and initialised. A kernel may write it meanwhile, in one piece;
            // volatile, because the compiler does not know of that.
            (unsafe { unit.read_volatile() } ^ mark) & last != 0
        })
    }

    /// The units of 4 bytes that hold `bytes` bytes from the word `word` on.
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
    fn memory_of_others_that_is_kept_keeps_its_owner() {
        let device = Device::open(Selection::Sim).unwrap();
        let memory = Memory::new(&device, 8).unwrap();
        for kept in [false, true] {
            let owner = Arc::new(());
            let owned = Box::new(owner.clone());
            // SAFETY: the bytes are there to the end of the test.
            let foreign = unsafe { Memory::foreign(&device, memory.address(), 8, owned) };
            if kept {
                foreign.keep_for_good();
            }
            drop(foreign);
            assert_eq!(Arc::strong_count(&owner), 1 + usize::from(kept));
        }
    }

    #[test]
    fn what_is_written_over_a_mark_is_seen_when_all_of_it_is() {
        let device = Device::open(Selection::Sim).unwrap();
        let words = HostWords::new(&device, 4).unwrap();
        let write = |byte: usize, value: u8| {
            // SAFETY: the byte is inside, and nobody else uses it.
            unsafe { words.memory.start.as_ptr().add(byte).write_volatile(value) };
        };
        let mark = 0x0403_0201;
        // What lies before, behind and in the rest of the last 4 bytes does not count.
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
