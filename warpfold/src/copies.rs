//! Synchronous copies between the host and a device.

use std::mem;

use warpfold_driver::{CallError, Driver, Stream as RawStream};

use crate::{Device, Error, Plain, Result, context::Failed, memory::Memory};

impl Device {
    pub(crate) fn copy_in(&self, to: &Memory, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= to.bytes(), "the memory was made for the bytes");
        let copied = self.copied("copying to it", |driver, stream| {
            // SAFETY: `to` lives until the copy has been waited for, or forever if that fails. `bytes`
            // is pageable memory, which the driver has read when the call returns.
            unsafe { driver.memcpy_htod_async(to.address(), bytes.as_ptr().cast(), bytes.len(), stream) }
        });
        copied.map_err(|failed| failed.or_keep(|| to.keep_for_good()))
    }

    /// Copies `len` elements from an address of this device and waits.
    ///
    /// # Safety
    /// `len` elements at the address must be readable, and no enqueued work may write them.
    pub(crate) unsafe fn copy_out<T: Plain>(&self, from: u64, len: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); len];
        let copied = self.copied("copying from it", |driver, stream| {
            let to = values.as_mut_ptr().cast();
            // SAFETY: the vector has room for `len` elements, and lives until the copy has been waited
            // for, or forever if that fails. The caller promises readable elements that are not written.
            unsafe { driver.memcpy_dtoh_async(to, from, len * size_of::<T>(), stream) }
        });
        match copied {
            Ok(()) => Ok(values),
            Err(failed) => Err(failed.or_keep(|| mem::forget(values))),
        }
    }

    pub(crate) fn clear(&self, memory: &Memory) -> Result<()> {
        self.clear_first(memory, memory.bytes())
    }

    /// Clears the first bytes of the memory, or all if it has fewer.
    pub(crate) fn clear_first(&self, memory: &Memory, bytes: u64) -> Result<()> {
        let bytes = bytes.min(memory.bytes()) as usize;
        let cleared = self.copied("clearing its memory", |driver, stream| {
            // SAFETY: the memory has at least this size. It lives until the memset has been waited for
            // or, if that fails, forever.
            unsafe { driver.memset_d8_async(memory.address(), 0, bytes, stream) }
        });
        cleared.map_err(|failed| failed.or_keep(|| memory.keep_for_good()))
    }

    /// Enqueues on the copy stream and waits. A blocking copy is not enough: from pageable memory it
    /// returns before the bytes have arrived, and this library's streams do not wait for the driver's
    /// default stream.
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
