//! The loader for systems on which no driver library can be opened. Drivers that are
//! [provided](crate::Driver::provided) work there.

use std::path::Path;

use crate::driver::Driver;
use crate::error::DriverError;

const REASON: &str = if cfg!(target_os = "windows") {
    "nvcuda.dll is not supported yet"
} else {
    "NVIDIA ships no CUDA driver for this system"
};

pub(crate) fn load() -> Result<&'static Driver, DriverError> {
    Err(DriverError::NoDriverHere { reason: REASON })
}

pub(crate) fn load_from(_: &Path) -> Result<&'static Driver, DriverError> {
    load()
}
