//! Driver calls that cust does not have, or only in a form of its own. Results are integers, as in C:
//! the enum of `cust::sys` cannot hold the codes that drivers have learned since.

use std::ffi::{c_int, c_uint, c_void};

use warpfold_driver::cust::sys::{CUdeviceptr, CUevent, CUfunction, CUstream};

unsafe extern "C" {
    pub(super) fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    pub(super) fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
    ) -> c_int;
    pub(super) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: CUfunction,
        block: c_int,
        shared_bytes: usize,
    ) -> c_int;
    pub(super) fn cuMemcpyDtoDAsync_v2(
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> c_int;
    pub(super) fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) -> c_int;
    pub(super) fn cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) -> c_int;
    pub(super) fn cuMemFreeHost(memory: *mut c_void) -> c_int;
    pub(super) fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> c_int;
    pub(super) fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) -> c_int;
    pub(super) fn cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) -> c_int;
    pub(super) fn cuMemHostGetDevicePointer_v2(
        address: *mut CUdeviceptr,
        memory: *mut c_void,
        flags: c_uint,
    ) -> c_int;
    pub(super) fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int) -> c_int;
    pub(super) fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) -> c_int;
    pub(super) fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> c_int;
    pub(super) fn cuStreamDestroy_v2(stream: CUstream) -> c_int;
    pub(super) fn cuStreamSynchronize(stream: CUstream) -> c_int;
    pub(super) fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> c_int;
    pub(super) fn cuEventRecord(event: CUevent, stream: CUstream) -> c_int;
    pub(super) fn cuEventSynchronize(event: CUevent) -> c_int;
    pub(super) fn cuEventQuery(event: CUevent) -> c_int;
    pub(super) fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> c_int;
    pub(super) fn cuEventDestroy_v2(event: CUevent) -> c_int;
}
