//! Every `CUresult` of CUDA 13: number, name, text, and whether it is sticky.

use std::ffi::{CStr, c_int};

/// One code that a driver function may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The value that the function returns.
    pub number: c_int,
    /// Set if every later call in the context, or in the process, returns this code as well. The
    /// contents of the device's memory are then lost.
    pub is_sticky: bool,
    name: &'static CStr,
    text: &'static CStr,
}

impl Code {
    /// Returns the code with this number, if CUDA 13 has one.
    pub fn of(number: c_int) -> Option<&'static Self> {
        let index = CODES.binary_search_by_key(&number, |code| code.number).ok()?;
        Some(&CODES[index])
    }

    /// Returns the name in `cuda.h`, such as `CUDA_ERROR_INVALID_VALUE`.
    pub fn name(&self) -> &'static str {
        self.name.to_str().expect("names are ASCII")
    }

    /// Returns the meaning of the code in a few words.
    pub fn text(&self) -> &'static str {
        self.text.to_str().expect("texts are ASCII")
    }

    /// Returns the name as `cuGetErrorName` gives it.
    pub fn c_name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the text as `cuGetErrorString` gives it.
    pub fn c_text(&self) -> &'static CStr {
        self.text
    }
}

macro_rules! terminated {
    ($text:expr) => {
        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a zero inside"),
        }
    };
}

macro_rules! is_sticky {
    () => {
        false
    };
    (sticky) => {
        true
    };
}

/// Defines the codes from rows of number, name, an optional `sticky`, and text.
macro_rules! codes {
    ($($number:literal $name:ident $($sticky:ident)? $text:literal;)*) => {
        $(
            #[doc = concat!("\"", $text, "\"")]
            pub const $name: c_int = $number;
        )*

        /// All codes in ascending order.
        pub const CODES: &[Code] = &[$(
            Code {
                number: $number,
                is_sticky: is_sticky!($($sticky)?),
                name: terminated!(stringify!($name)),
                text: terminated!($text),
            },
        )*];
    };
}

codes! {
    0 CUDA_SUCCESS "no error";
    1 CUDA_ERROR_INVALID_VALUE "invalid argument";
    2 CUDA_ERROR_OUT_OF_MEMORY "out of memory";
    3 CUDA_ERROR_NOT_INITIALIZED "initialization error";
    4 CUDA_ERROR_DEINITIALIZED "driver shutting down";
    5 CUDA_ERROR_PROFILER_DISABLED "profiler disabled while an external profiling tool is used";
    6 CUDA_ERROR_PROFILER_NOT_INITIALIZED "profiler not initialized";
    7 CUDA_ERROR_PROFILER_ALREADY_STARTED "profiler already started";
    8 CUDA_ERROR_PROFILER_ALREADY_STOPPED "profiler already stopped";
    34 CUDA_ERROR_STUB_LIBRARY "CUDA driver is a stub library";
    36 CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER "the installed driver is too old for this call";
    46 CUDA_ERROR_DEVICE_UNAVAILABLE "the device is busy or unavailable";
    100 CUDA_ERROR_NO_DEVICE "no CUDA-capable device is detected";
    101 CUDA_ERROR_INVALID_DEVICE "invalid device ordinal";
    102 CUDA_ERROR_DEVICE_NOT_LICENSED "the device has no valid GRID licence";
    200 CUDA_ERROR_INVALID_IMAGE "device kernel image is invalid";
    201 CUDA_ERROR_INVALID_CONTEXT "invalid device context";
    202 CUDA_ERROR_CONTEXT_ALREADY_CURRENT "context is already current";
    205 CUDA_ERROR_MAP_FAILED "mapping of buffer object failed";
    206 CUDA_ERROR_UNMAP_FAILED "unmapping of buffer object failed";
    207 CUDA_ERROR_ARRAY_IS_MAPPED "array is mapped";
    208 CUDA_ERROR_ALREADY_MAPPED "resource already mapped";
    209 CUDA_ERROR_NO_BINARY_FOR_GPU "no kernel image is available for execution on the device";
    210 CUDA_ERROR_ALREADY_ACQUIRED "resource already acquired";
    211 CUDA_ERROR_NOT_MAPPED "resource not mapped";
    212 CUDA_ERROR_NOT_MAPPED_AS_ARRAY "resource not mapped as array";
    213 CUDA_ERROR_NOT_MAPPED_AS_POINTER "resource not mapped as pointer";
    214 CUDA_ERROR_ECC_UNCORRECTABLE sticky "uncorrectable ECC error encountered";
    215 CUDA_ERROR_UNSUPPORTED_LIMIT "limit is not supported on this architecture";
    216 CUDA_ERROR_CONTEXT_ALREADY_IN_USE
        "exclusive-thread device already in use by a different thread";
    217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "peer access is not supported between these two devices";
    218 CUDA_ERROR_INVALID_PTX "a PTX JIT compilation failed";
    219 CUDA_ERROR_INVALID_GRAPHICS_CONTEXT "invalid OpenGL or DirectX context";
    220 CUDA_ERROR_NVLINK_UNCORRECTABLE sticky
        "uncorrectable NVLink error detected during the execution";
    221 CUDA_ERROR_JIT_COMPILER_NOT_FOUND "PTX JIT compiler library not found";
    222 CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        "the PTX is of a version that the driver does not support";
    223 CUDA_ERROR_JIT_COMPILATION_DISABLED "PTX JIT compilation was disabled";
    224 CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY "the provided execution affinity is not supported";
    225 CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC
        "the PTX calls cudaDeviceSynchronize, which is not supported";
    226 CUDA_ERROR_CONTAINED sticky
        "invalid access of peer memory over NVLink, or a hardware error, was contained";
    300 CUDA_ERROR_INVALID_SOURCE "device kernel image is invalid";
    301 CUDA_ERROR_FILE_NOT_FOUND "file not found";
    302 CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND "shared object symbol not found";
    303 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED "shared object initialization failed";
    304 CUDA_ERROR_OPERATING_SYSTEM "OS call failed or operation not supported on this OS";
    400 CUDA_ERROR_INVALID_HANDLE "invalid resource handle";
    401 CUDA_ERROR_ILLEGAL_STATE "the operation cannot be performed in the present state";
    402 CUDA_ERROR_LOSSY_QUERY "attempted introspection would be semantically lossy";
    500 CUDA_ERROR_NOT_FOUND "named symbol not found";
    600 CUDA_ERROR_NOT_READY "device not ready";
    700 CUDA_ERROR_ILLEGAL_ADDRESS sticky "an illegal memory access was encountered";
    701 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES "too many resources requested for launch";
    702 CUDA_ERROR_LAUNCH_TIMEOUT sticky "the launch timed out and was terminated";
    703 CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING "launch uses incompatible texturing mode";
    704 CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED "peer access is already enabled";
    705 CUDA_ERROR_PEER_ACCESS_NOT_ENABLED "peer access has not been enabled";
    708 CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE "cannot set while device is active in this process";
    709 CUDA_ERROR_CONTEXT_IS_DESTROYED "context is destroyed";
    710 CUDA_ERROR_ASSERT sticky "device-side assert triggered";
    711 CUDA_ERROR_TOO_MANY_PEERS "peer mapping resources exhausted";
    712 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
        "part or all of the requested memory range is already mapped";
    713 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
        "pointer does not correspond to a registered memory region";
    714 CUDA_ERROR_HARDWARE_STACK_ERROR sticky "hardware stack error";
    715 CUDA_ERROR_ILLEGAL_INSTRUCTION sticky "an illegal instruction was encountered";
    716 CUDA_ERROR_MISALIGNED_ADDRESS sticky "misaligned address";
    717 CUDA_ERROR_INVALID_ADDRESS_SPACE sticky
        "operation not supported on global/shared address space";
    718 CUDA_ERROR_INVALID_PC sticky "invalid program counter";
    719 CUDA_ERROR_LAUNCH_FAILED sticky "unspecified launch failure";
    720 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE "too many blocks in cooperative launch";
    721 CUDA_ERROR_TENSOR_MEMORY_LEAK sticky "tensor memory not completely freed";
    800 CUDA_ERROR_NOT_PERMITTED "operation not permitted";
    801 CUDA_ERROR_NOT_SUPPORTED "operation not supported";
    802 CUDA_ERROR_SYSTEM_NOT_READY "system not yet initialized";
    803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        "system has unsupported display driver / cuda driver combination";
    804 CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
        "forward compatibility was attempted on non supported HW";
    805 CUDA_ERROR_MPS_CONNECTION_FAILED
        "MPS client failed to connect to the MPS control daemon or the MPS server";
    806 CUDA_ERROR_MPS_RPC_FAILURE
        "the remote procedure call between MPS server and MPS client failed";
    807 CUDA_ERROR_MPS_SERVER_NOT_READY "MPS server is not ready to accept new MPS client requests";
    808 CUDA_ERROR_MPS_MAX_CLIENTS_REACHED
        "the hardware resources for another MPS client are exhausted";
    809 CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED
        "the hardware resources for another device connection are exhausted";
    810 CUDA_ERROR_MPS_CLIENT_TERMINATED sticky "the MPS client has been terminated by the server";
    811 CUDA_ERROR_CDP_NOT_SUPPORTED
        "CUDA dynamic parallelism is not supported in this configuration";
    812 CUDA_ERROR_CDP_VERSION_MISMATCH
        "unsupported interaction between different versions of CUDA Dynamic Parallelism";
    900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "operation not permitted when stream is capturing";
    901 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        "operation failed due to a previous error during capture";
    902 CUDA_ERROR_STREAM_CAPTURE_MERGE
        "operation would result in a merge of separate capture sequences";
    903 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED "capture was not ended in the same stream as it began";
    904 CUDA_ERROR_STREAM_CAPTURE_UNJOINED "capturing stream has unjoined work";
    905 CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        "dependency created on uncaptured work in another stream";
    906 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        "operation would make the legacy stream depend on a capturing blocking stream";
    907 CUDA_ERROR_CAPTURED_EVENT
        "operation not permitted on an event last recorded in a capturing stream";
    908 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
        "attempt to terminate a thread-local capture sequence from another thread";
    909 CUDA_ERROR_TIMEOUT "wait operation timed out";
    910 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
        "the graph update would change what an instantiated graph cannot change";
    911 CUDA_ERROR_EXTERNAL_DEVICE sticky "an asynchronous error has occurred outside of CUDA";
    912 CUDA_ERROR_INVALID_CLUSTER_SIZE "the cluster of a launch is misconfigured";
    913 CUDA_ERROR_FUNCTION_NOT_LOADED "the function is not loaded";
    914 CUDA_ERROR_INVALID_RESOURCE_TYPE
        "a resource is not of a type that is valid for the operation";
    915 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
        "a resource is insufficient or not applicable for the operation";
    916 CUDA_ERROR_KEY_ROTATION "the key rotation failed";
    999 CUDA_ERROR_UNKNOWN "unknown error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_so_that_each_is_found() {
        assert!(CODES.is_sorted_by(|a, b| a.number < b.number));
        for code in CODES {
            assert_eq!(Code::of(code.number), Some(code));
        }
        assert_eq!(Code::of(-1), None);
        assert_eq!(Code::of(9999), None);
    }

    #[test]
    fn a_code_has_its_name_and_one_line_of_text() {
        for code in CODES {
            assert!(code.name().starts_with("CUDA_"), "{code:?}");
            assert!(!code.text().is_empty() && code.text().lines().count() == 1, "{code:?}");
        }
        let code = Code::of(CUDA_ERROR_ILLEGAL_ADDRESS).unwrap();
        assert_eq!((code.number, code.name()), (700, "CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert!(code.is_sticky);
        assert!(!Code::of(CUDA_ERROR_OUT_OF_MEMORY).unwrap().is_sticky);
    }
}
