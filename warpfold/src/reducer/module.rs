//! PTX modules that a device has loaded.

use std::ffi::CString;

use warpfold_driver::{Function, Module as RawModule, PtxError, sys};

use warpfold_ptx::Arch;

use crate::{Device, Error, Result, ptx::Ptx};

pub(super) struct Module {
    device: Device,
    raw: RawModule,
    origin: String,
    overlaps: bool,
}

impl Module {
    pub(super) fn load(device: &Device, ptx: &Ptx) -> Result<Self> {
        let raw = device.call("loading kernels", |driver| Ok(driver.module_load_ptx(&ptx.text)))?;
        let raw = raw.map_err(|error| rejected(&ptx.origin, error))?;
        let (device, origin) = (device.clone(), ptx.origin.clone());
        Ok(Self { device, raw, origin, overlaps: ptx.arch >= Arch::HOPPER })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether launches of the library's kernels in this module may overlap with the previous
    /// launch. The kernels then wait for it by an instruction that exists from Hopper on.
    pub(super) fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Returns a kernel by its entry's name, valid until the module is dropped. A simulated device loads
    /// modules with kernels that it does not accept, and refuses these kernels here.
    pub(super) fn function(&self, entry: &str) -> Result<Function> {
        let entry = CString::new(entry).expect("names have no zero");
        let found = self.device.call("preparing a kernel", |driver| {
            // SAFETY: the module is loaded as long as `self` lives.
            match unsafe { driver.module_get_function(self.raw, &entry) } {
                Err(error) if error.code == sys::CUDA_ERROR_INVALID_PTX => Ok(Err(error)),
                found => found.map(Ok),
            }
        })?;
        found.map_err(|error| rejected(&self.origin, PtxError { error, log: String::new() }))
    }
}

fn rejected(origin: &str, error: PtxError) -> Error {
    Error::PtxRejected {
        origin: origin.to_owned(),
        reason: "the device does not accept it".to_owned(),
        source: Some(Box::new(error)),
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: `self` owns the module. Callers that enqueued its kernels have waited for them, or
        // leak the module.
        self.device.give_back(|driver| unsafe { driver.module_unload(self.raw) });
    }
}
