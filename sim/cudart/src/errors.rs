//! Error codes of the runtime, and the last error of each thread.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int},
    io::{self, Write},
    ptr,
};

use crate::runtime::api;

pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const INVALID_SYMBOL: c_int = 13;
pub(crate) const INVALID_MEMCPY_DIRECTION: c_int = 21;
pub(crate) const INSUFFICIENT_DRIVER: c_int = 35;
pub(crate) const MISSING_CONFIGURATION: c_int = 52;
pub(crate) const INVALID_DEVICE_FUNCTION: c_int = 98;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const NOT_SUPPORTED: c_int = 801;

/// Result of a runtime function; an error is a code other than 0.
pub(crate) type Outcome<T = ()> = Result<T, c_int>;

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Converts a code of the driver to an [`Outcome`]. The runtime has the same codes.
pub(crate) fn check(code: c_int) -> Outcome {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Writes a line to standard error. The line is lost if standard error is closed or full.
pub(crate) fn say(line: &str) {
    let _lost = writeln!(io::stderr(), "{line}");
}

/// Returns the code of an outcome. Stores the code of an error as the thread's last error.
pub(crate) fn noted(outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(code) => {
            LAST.set(code);
            code
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> c_int {
    LAST.replace(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> c_int {
    LAST.get()
}

/// Declares error codes with their names. Codes below 100 also have descriptions, because the driver
/// does not define most of these codes.
macro_rules! codes {
    ($($code:literal $name:literal $($text:literal)?,)*) => {
        fn name(code: c_int) -> Option<&'static CStr> {
            match code {
                $($code => Some($name),)*
                _ => None,
            }
        }

        fn own_text(code: c_int) -> Option<&'static CStr> {
            match code {
                $($($code => Some($text),)?)*
                _ => None,
            }
        }
    };
}

codes! {
    0 c"cudaSuccess" c"no error",
    1 c"cudaErrorInvalidValue" c"invalid argument",
    2 c"cudaErrorMemoryAllocation" c"out of memory",
    3 c"cudaErrorInitializationError" c"initialization error",
    4 c"cudaErrorCudartUnloading" c"driver shutting down",
    9 c"cudaErrorInvalidConfiguration" c"invalid configuration argument",
    12 c"cudaErrorInvalidPitchValue" c"invalid pitch argument",
    13 c"cudaErrorInvalidSymbol" c"invalid device symbol",
    16 c"cudaErrorInvalidHostPointer" c"invalid host pointer",
    17 c"cudaErrorInvalidDevicePointer" c"invalid device pointer",
    21 c"cudaErrorInvalidMemcpyDirection" c"invalid copy direction for memcpy",
    35 c"cudaErrorInsufficientDriver" c"CUDA driver version is insufficient for CUDA runtime version",
    52 c"cudaErrorMissingConfiguration" c"__global__ function call is not configured",
    98 c"cudaErrorInvalidDeviceFunction" c"invalid device function",
    100 c"cudaErrorNoDevice",
    101 c"cudaErrorInvalidDevice",
    200 c"cudaErrorInvalidKernelImage",
    201 c"cudaErrorDeviceUninitialized",
    209 c"cudaErrorNoKernelImageForDevice",
    217 c"cudaErrorPeerAccessUnsupported",
    218 c"cudaErrorInvalidPtx",
    222 c"cudaErrorUnsupportedPtxVersion",
    301 c"cudaErrorFileNotFound",
    302 c"cudaErrorSharedObjectSymbolNotFound",
    303 c"cudaErrorSharedObjectInitFailed",
    304 c"cudaErrorOperatingSystem",
    400 c"cudaErrorInvalidResourceHandle",
    401 c"cudaErrorIllegalState",
    500 c"cudaErrorSymbolNotFound",
    600 c"cudaErrorNotReady",
    700 c"cudaErrorIllegalAddress",
    701 c"cudaErrorLaunchOutOfResources",
    702 c"cudaErrorLaunchTimeout",
    704 c"cudaErrorPeerAccessAlreadyEnabled",
    705 c"cudaErrorPeerAccessNotEnabled",
    708 c"cudaErrorSetOnActiveProcess",
    709 c"cudaErrorContextIsDestroyed",
    710 c"cudaErrorAssert",
    712 c"cudaErrorHostMemoryAlreadyRegistered",
    713 c"cudaErrorHostMemoryNotRegistered",
    714 c"cudaErrorHardwareStackError",
    715 c"cudaErrorIllegalInstruction",
    716 c"cudaErrorMisalignedAddress",
    717 c"cudaErrorInvalidAddressSpace",
    718 c"cudaErrorInvalidPc",
    719 c"cudaErrorLaunchFailure",
    720 c"cudaErrorCooperativeLaunchTooLarge",
    800 c"cudaErrorNotPermitted",
    801 c"cudaErrorNotSupported",
    900 c"cudaErrorStreamCaptureUnsupported",
    901 c"cudaErrorStreamCaptureInvalidated",
    902 c"cudaErrorStreamCaptureMerge",
    903 c"cudaErrorStreamCaptureUnmatched",
    904 c"cudaErrorStreamCaptureUnjoined",
    905 c"cudaErrorStreamCaptureIsolation",
    906 c"cudaErrorStreamCaptureImplicit",
    907 c"cudaErrorCapturedEvent",
    908 c"cudaErrorStreamCaptureWrongThread",
    912 c"cudaErrorInvalidClusterSize",
    999 c"cudaErrorUnknown",
}

const UNKNOWN: &CStr = c"unrecognized error code";

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    name(code).unwrap_or(UNKNOWN).as_ptr()
}

/// `cudaGetErrorString`: returns the description declared above, or else that of the driver.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    if let Some(text) = own_text(code) {
        return text.as_ptr();
    }
    let mut text: *const c_char = ptr::null();
    if let Ok(api) = api() {
        // SAFETY: the driver writes null or a pointer to a static text.
        let _ = unsafe { (api.cuGetErrorString)(code, &mut text) };
    }
    if text.is_null() { name(code).unwrap_or(UNKNOWN).as_ptr() } else { text }
}
