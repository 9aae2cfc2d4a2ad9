//! PTX that a device has loaded.

use std::ffi::CString;

use warpfold_driver::{Function, Module as RawModule};

use crate::{Device, Error, Result, arch::Arch, ptx::Ptx};

/// PTX that a device has compiled and loaded, until this is dropped.
pub(super) struct Module {
    device: Device,
    raw: RawModule,
    overlaps: bool,
}

impl Module {
    /// # Errors
    /// [`Error::PtxRejected`] for PTX that the device does not take.
    pub(super) fn load(device: &Device, ptx: &Ptx) -> Result<Self> {
        let raw = device.call("loading kernels", |driver| Ok(driver.module_load_ptx(&ptx.text)))?;
        let raw = raw.map_err(|error| Error::PtxRejected {
            origin: ptx.origin.clone(),
            reason: "the device does not take it".to_owned(),
            source: Some(Box::new(error)),
        })?;
        Ok(Self { device: device.clone(), raw, overlaps: ptx.arch >= Arch::HOPPER })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Whether the library's kernels in it wait themselves for the launch before: PTX for older
    /// architectures cannot.
    pub(super) fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// A kernel by the name of its entry. It must not be used when the module is gone.
    pub(super) fn function(&self, entry: &str) -> Result<Function> {
        let entry = CString::new(entry).expect("names have no zero");
        self.device.call("preparing a kernel", |driver| {
            // SAFETY: the module is loaded as long as `self`.
            unsafe { driver.module_get_function(self.raw, &entry) }
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module is ours; whoever enqueued its kernels has waited for them, or keeps this
        // for good.
        self.device.give_back(|driver| unsafe { driver.module_unload(self.raw) });
    }
}
