//! Copies between the host and a device, which are over when a call returns.

use std::mem;

use warpfold_driver::{CallError, Driver, Stream as RawStream};

use crate::{Device, Error, Plain, Result, context::Failed, memory::Memory};

impl Device {
    /// Copies bytes to memory of this device. They are there when this returns.
    pub(crate) fn copy_in(&self, to: &Memory, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= to.bytes(), "the memory was made for the bytes");
        let copied = self.copied("copying to it", |driver, stream| {
            // SAFETY: both ranges are there until the copy is waited for, or kept for good below. Of
            // pageable bytes the driver has its own copy when the call returns.
            unsafe { driver.memcpy_htod_async(to.address(), bytes.as_ptr().cast(), bytes.len(), stream) }
        });
        copied.map_err(|failed| failed.or_keep(|| to.keep_for_good()))
    }

    /// Copies `len` elements from an address of this device.
    ///
    /// # Safety
    /// `len` elements must be readable there, and nothing that is enqueued may write them.
    pub(crate) unsafe fn copy_out<T: Plain>(&self, from: u64, len: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); len];
        let copied = self.copied("copying from it", |driver, stream| {
            let to = values.as_mut_ptr().cast();
            // SAFETY: the vector has room for `len` elements, until the copy is waited for or for
            // good; the caller answers for the elements.
            unsafe { driver.memcpy_dtoh_async(to, from, len * size_of::<T>(), stream) }
        });
        match copied {
            Ok(()) => Ok(values),
            Err(failed) => Err(failed.or_keep(|| mem::forget(values))),
        }
    }

    /// Sets memory to zero. It is when this returns.
    pub(crate) fn clear(&self, memory: &Memory) -> Result<()> {
        let cleared = self.copied("clearing its memory", |driver, stream| {
            // SAFETY: all bytes are the memory's, which is there until this is waited for, or for good.
            unsafe { driver.memset_d8_async(memory.address(), 0, memory.bytes() as usize, stream) }
        });
        cleared.map_err(|failed| failed.or_keep(|| memory.keep_for_good()))
    }

    /// Enqueues on the stream for copies and waits. A blocking copy would not do: from pageable memory
    /// it returns before the bytes have arrived, and no stream of ours waits for the driver's default
    /// one.
    fn copied(
        &self,
        doing: &'static str,
        enqueue: impl FnOnce(&'static Driver, RawStream) -> Result<(), CallError>,
    ) -> Result<(), Failed<Error>> {
        let stream = self.copy_stream();
        let enqueued = self.call(doing, |driver| enqueue(driver, stream));
        // SAFETY: the stream lives as long as the device.
        let waited = self.wait_out(doing, |driver| unsafe { driver.stream_synchronize(stream) });
        waited.and(enqueued.map_err(Failed::not_begun))
    }
}
