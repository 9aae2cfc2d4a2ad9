//! A minimal `libcuda.so.1` for the tests, which checks the arguments that it receives. With `--cfg
//! stub` it behaves like the stub library of a CUDA toolkit.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

const INVALID_VALUE: c_int = 1;
const DEVICE_UNAVAILABLE: c_int = 46;
const UNSUPPORTED_PTX_VERSION: c_int = 222;
const INVALID_CLUSTER_SIZE: c_int = 912;
const NEWER_THAN_THE_LIST: c_int = 4242;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> c_int {
    if flags == 0 { 0 } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    if cfg!(stub) {
        return 34;
    }
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { *version = 12_040 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: c_int, text: *mut *const c_char) -> c_int {
    let known = match code {
        INVALID_VALUE => c"the fake says: invalid",
        UNSUPPORTED_PTX_VERSION => c"the fake says: PTX too new",
        NEWER_THAN_THE_LIST => c"the fake says: newer",
        500 => c"the fake says: not found",
        _ => {
            // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
            unsafe { *text = ptr::null() };
            return INVALID_VALUE;
        }
    };
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { *text = known.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { *count = 7 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { *device = ordinal };
    0
}

/// Writes a value computed from attribute and device; attributes 1 to 3 are errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    match attribute {
        1 => return DEVICE_UNAVAILABLE,
        2 => return NEWER_THAN_THE_LIST,
        3 => return INVALID_CLUSTER_SIZE,
        _ => {}
    }
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { *value = attribute * 1000 + device };
    0
}

/// Succeeds if all eleven arguments have the values that the test passes.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    let numbers = [grid_x, grid_y, grid_z, block_x, block_y, block_z, shared];
    let pointers = [function.addr(), stream.addr(), parameters.addr(), extra.addr()];
    if numbers == [2, 3, 4, 5, 6, 7, 8] && pointers == [1, 9, 10, 11] { 0 } else { INVALID_VALUE }
}

/// Rejects every module, and writes a log if the options name a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    _module: *mut *mut c_void,
    _image: *const c_void,
    count: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
) -> c_int {
    let option = |number| {
        // SAFETY: both arrays have `count` elements.
        (0..count as usize).find_map(|i| unsafe { (*options.add(i) == number).then(|| *values.add(i)) })
    };
    if let (Some(buffer), Some(length)) = (option(5), option(6)) {
        let log = b"ptxas fatal : fake\nptxas x, line 9; error : no such version\n\0";
        assert!(length.addr() >= log.len());
        // SAFETY: the buffer has at least `log.len()` bytes, as the assertion above checks.
        unsafe { ptr::copy_nonoverlapping(log.as_ptr(), buffer.cast(), log.len()) };
    }
    UNSUPPORTED_PTX_VERSION
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(_module: *mut c_void) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuNewerThanTheTable() -> c_int {
    4242
}

/// Accepts stream 9 only. Its capture yields graph 20, whose instantiation yields graph 21.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_int) -> c_int {
    if (stream.addr(), mode) == (9, 1) { 0 } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    if stream.addr() != 9 {
        return INVALID_VALUE;
    }
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { graph.write(ptr::without_provenance_mut(20)) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    made: *mut *mut c_void,
    graph: *mut c_void,
    flags: u64,
) -> c_int {
    if (graph.addr(), flags) != (20, 0) {
        return INVALID_VALUE;
    }
    // SAFETY: the caller passes a pointer to a variable, as it would to a driver.
    unsafe { made.write(ptr::without_provenance_mut(21)) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: *mut c_void) -> c_int {
    assert_eq!(graph.addr(), 20);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(graph: *mut c_void, stream: *mut c_void) -> c_int {
    if (graph.addr(), stream.addr()) == (21, 9) { 0 } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(graph: *mut c_void) -> c_int {
    assert_eq!(graph.addr(), 21);
    0
}
