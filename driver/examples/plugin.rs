//! A shared library that calls the driver through the `cu*` symbols of `warpfold_driver`. The library
//! contains these symbols, but does not export them.

use std::ffi::c_int;

unsafe extern "C" {
    fn cuInit(flags: u32) -> c_int;
    fn cuDeviceGetCount(count: *mut c_int) -> c_int;
}

/// Returns the number of devices, or the negated error code.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_count_devices() -> c_int {
    // Without a driver, the calls below return an error code.
    let _ = warpfold_driver::load();
    let mut count = 0;
    // SAFETY: the declarations have the types of the driver's functions; `count` is a local variable.
    match unsafe { (cuInit(0), cuDeviceGetCount(&mut count)) } {
        (0, 0) => count,
        (0, code) | (code, _) => -code,
    }
}
