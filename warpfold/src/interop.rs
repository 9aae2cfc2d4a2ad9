//! Buffers over the memory of `cust` and `cudarc`.

#[cfg(feature = "cust")]
mod cust {
    use ::cust::memory::{DeviceBuffer, DeviceCopy};

    use crate::{Buffer, Device, Element, Result, context::InContext};

    impl<T: Element + DeviceCopy> Buffer<T> {
        /// Takes ownership of a buffer of `cust`, which is dropped after this buffer, its clones and the
        /// reductions that read it. Waits for all work in the device's context, which might still write
        /// the elements.
        ///
        /// # Errors
        /// [`Error::Foreign`](crate::Error::Foreign) for a buffer of another context than the device's,
        /// and [`Error::Driver`](crate::Error::Driver) if that work fails.
        pub fn from_cust(device: &Device, buffer: DeviceBuffer<T>) -> Result<Self> {
            let (address, len) = (buffer.as_device_ptr().as_raw(), buffer.len());
            if len > 0 {
                device.require_own(address)?;
            }
            device.call("waiting for its context", |driver| driver.ctx_synchronize())?;
            let owner = InContext::new(device, buffer);
            // SAFETY: the elements live as long as their owner. Nothing else has access to the owner, so
            // no new work writes them, and earlier writes are complete.
            unsafe { Self::from_raw_parts(device, address, len, owner) }
        }
    }
}

#[cfg(feature = "cudarc")]
mod cudarc {
    use std::sync::Arc;

    use ::cudarc::driver::{CudaSlice, DevicePtr};

    use crate::{Buffer, Device, Element, Error, Result};

    impl<T: Element> Buffer<T> {
        /// Returns a buffer over a slice of `cudarc`. The reference to the slice is dropped after this
        /// buffer, its clones and the reductions that read it. Waits for the slice's stream, which might
        /// still write the elements.
        ///
        /// # Errors
        /// [`Error::Foreign`] for a slice of another context than the device's, and, with `cudarc`'s
        /// error, if the wait fails.
        pub fn from_cudarc(device: &Device, slice: impl Into<Arc<CudaSlice<T>>>) -> Result<Self> {
            let slice = slice.into();
            let refused = |reason| Error::Foreign { what: "cudarc's slice", reason };
            if slice.context().cu_ctx().cast() != device.as_raw_context() {
                let needs = &device.info().name;
                return Err(refused(format!("it is in another context than the device {needs}")));
            }
            let waited = slice.stream().synchronize();
            waited.map_err(|error| refused(format!("waiting for its stream failed: {error:?}")))?;
            let (address, read) = slice.device_ptr(slice.stream());
            drop(read);
            let len = slice.len();
            // SAFETY: the elements live as long as their owner; a shared slice gives no write access,
            // and earlier writes are complete.
            unsafe { Self::from_raw_parts(device, address, len, slice) }
        }
    }
}
