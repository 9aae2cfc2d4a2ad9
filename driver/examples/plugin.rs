//! A shared library with the `cu*` symbols inside: it uses them, and whoever loads it does not see them.

use std::ffi::c_int;

unsafe extern "C" {
    fn cuInit(flags: u32) -> c_int;
    fn cuDeviceGetCount(count: *mut c_int) -> c_int;
}

/// How many devices there are; the negated code of what went wrong instead.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_count_devices() -> c_int {
    // Without a driver the calls below say so.
    let _ = warpfold_driver::load();
    let mut count = 0;
    // SAFETY: these are the types of the driver's functions; the count is a local variable.
    match unsafe { (cuInit(0), cuDeviceGetCount(&mut count)) } {
        (0, 0) => count,
        (0, code) | (code, _) => -code,
    }
}
