//! Handles, addresses and structures.
#![allow(missing_docs, reason = "cuda.h and its manual describe each field")]

use super::*;

macro_rules! handles {
    ($($name:ident to $what:ident;)*) => {$(
        #[repr(C)]
        #[derive(Debug)]
        pub struct $what {
            _opaque: [u8; 0],
        }
        pub type $name = *mut $what;
    )*};
}

handles! {
    CUarray to CUarray_st;
    CUcontext to CUctx_st;
    CUevent to CUevent_st;
    CUfunction to CUfunc_st;
    CUgraph to CUgraph_st;
    CUgraphExec to CUgraphExec_st;
    CUgraphNode to CUgraphNode_st;
    CUkernel to CUkern_st;
    CUlibrary to CUlib_st;
    CUlinkState to CUlinkState_st;
    CUmemoryPool to CUmemPoolHandle_st;
    CUmodule to CUmod_st;
    CUstream to CUstream_st;
}

/// An address on the device.
pub type CUdeviceptr = u64;

/// The ordinal of a device.
pub type CUdevice = c_int;

/// The handle of a value that kernels set and a conditional node reads.
pub type CUgraphConditionalHandle = u64;

/// The result of a function: 0, one of [`CODES`], or a code that is newer than those.
pub type CUresult = c_int;

/// A function that is called when all preceding work has completed; `status` is the result of that work.
pub type CUstreamCallback =
    Option<unsafe extern "C" fn(stream: CUstream, status: c_int, user_data: *mut c_void)>;

/// A function that is called when all preceding work has completed, unless it failed.
pub type CUhostFn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// A function that returns the dynamic shared memory of a block of `block_size` threads, in bytes.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// The handle of the legacy default stream.
pub const CU_STREAM_LEGACY: CUstream = std::ptr::without_provenance_mut(1);

/// The handle of the calling thread's own default stream.
pub const CU_STREAM_PER_THREAD: CUstream = std::ptr::without_provenance_mut(2);

/// Tag in the array `extra` of a launch: the next value points to the bytes of all parameters.
pub const CU_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);

/// Tag in the array `extra` of a launch: the next value points to the parameters' size in bytes.
pub const CU_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// The last element of the array `extra` of a launch.
pub const CU_LAUNCH_PARAM_END: *mut c_void = std::ptr::null_mut();

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CUuuid {
    pub bytes: [u8; 16],
}

/// `CUlaunchConfig`: the configuration of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block in x, y and z.
    pub block: [c_uint; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: c_uint,
    pub stream: CUstream,
    pub attributes: *mut LaunchAttribute,
    pub attribute_count: c_uint,
}

/// `CUlaunchAttribute`: an id, padding to 8 bytes, and a union of 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchAttribute {
    pub id: CUlaunchAttributeID,
    pub padding: [u8; 4],
    /// The union as words, all initialised. Its meaning depends on `id`: x, y and z of a cluster, or 1
    /// for an enabled feature.
    pub value: [c_uint; 16],
}

impl LaunchAttribute {
    /// Creates an attribute whose value begins with these words, at most 16; zeros follow.
    pub const fn new(id: CUlaunchAttributeID, words: &[c_uint]) -> Self {
        let mut value = [0; 16];
        let mut index = 0;
        while index < words.len() {
            value[index] = words[index];
            index += 1;
        }
        Self { id, padding: [0; 4], value }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUmemLocation {
    pub kind: CUmemLocationType,
    pub id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemAccessDesc {
    pub location: CUmemLocation,
    pub flags: CUmemAccess_flags,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemPoolProps {
    pub alloc_type: CUmemAllocationType,
    pub handle_types: CUmemAllocationHandleType,
    pub location: CUmemLocation,
    pub win32_security_attributes: *mut c_void,
    pub max_size: usize,
    pub usage: c_ushort,
    pub reserved: [u8; 54],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    pub function: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub kernel_params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_KERNEL_NODE_PARAMS_v2 {
    pub function: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub kernel_params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kernel: CUkernel,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY3D_v2 {
    pub src_x_bytes: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_memory_type: CUmemorytype,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr,
    pub src_array: CUarray,
    pub reserved0: *mut c_void,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x_bytes: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_memory_type: CUmemorytype,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr,
    pub dst_array: CUarray,
    pub reserved1: *mut c_void,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMSET_NODE_PARAMS_v1 {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: c_uint,
    pub element_bytes: c_uint,
    pub width: usize,
    pub height: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_HOST_NODE_PARAMS_v1 {
    pub function: CUhostFn,
    pub user_data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: c_ulonglong,
    pub upload_stream: CUstream,
    pub error_node: CUgraphNode,
    pub result: CUgraphInstantiateResult,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
    pub pool_props: CUmemPoolProps,
    pub access_descs: *const CUmemAccessDesc,
    pub access_desc_count: usize,
    pub bytes: usize,
    pub dptr: CUdeviceptr,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY_NODE_PARAMS {
    pub flags: c_int,
    pub reserved: c_int,
    pub copy_ctx: CUcontext,
    pub copy_params: CUDA_MEMCPY3D_v2,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMSET_NODE_PARAMS_v2 {
    pub first: CUDA_MEMSET_NODE_PARAMS_v1,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_CONDITIONAL_NODE_PARAMS {
    pub handle: CUgraphConditionalHandle,
    pub kind: CUgraphConditionalNodeType,
    pub size: c_uint,
    /// The driver's array of `size` graphs, which lives as long as the node.
    pub graphs_out: *mut CUgraph,
    pub ctx: CUcontext,
}

/// `CUgraphNodeParams`: the parameters of a node of any kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUgraphNodeParams {
    pub kind: CUgraphNodeType,
    pub reserved0: [c_int; 3],
    pub value: CUgraphNodeValue,
    pub reserved2: u64,
}

impl CUgraphNodeParams {
    /// Creates parameters of a kind, with all other bytes zero.
    pub const fn new(kind: CUgraphNodeType) -> Self {
        Self { kind, reserved0: [0; 3], value: CUgraphNodeValue { words: [0; 29] }, reserved2: 0 }
    }
}

/// The parameters of a node; the node's kind selects the field. The bytes after that field are zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CUgraphNodeValue {
    pub words: [u64; 29],
    pub kernel: CUDA_KERNEL_NODE_PARAMS_v2,
    pub memcpy: CUDA_MEMCPY_NODE_PARAMS,
    pub memset: CUDA_MEMSET_NODE_PARAMS_v2,
    pub host: CUDA_HOST_NODE_PARAMS_v1,
    pub alloc: CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    pub free: CUdeviceptr,
    pub conditional: CUDA_CONDITIONAL_NODE_PARAMS,
}

impl std::fmt::Debug for CUgraphNodeValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CUgraphNodeValue").finish_non_exhaustive()
    }
}

/// The reason why an executable graph could not be updated from another graph.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUgraphExecUpdateResultInfo {
    pub result: CUgraphExecUpdateResult,
    pub error_node: CUgraphNode,
    pub error_from_node: CUgraphNode,
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// The expected values are those of a C compiler for `cuda.h` of CUDA 13.0 on 64-bit Linux.
    #[test]
    fn structures_are_laid_out_as_in_cuda_h() {
        macro_rules! layouts {
            ($($kind:ty: $size:literal $align:literal $($field:ident $offset:literal)*;)*) => {$(
                assert_eq!(size_of::<$kind>(), $size, stringify!($kind));
                assert_eq!(align_of::<$kind>(), $align, stringify!($kind));
                $(
                    let what = concat!(stringify!($kind), ".", stringify!($field));
                    assert_eq!(offset_of!($kind, $field), $offset, "{what}");
                )*
            )*};
        }
        layouts! {
            CUuuid: 16 1;
            LaunchConfig: 56 8 stream 32 attributes 40;
            LaunchAttribute: 72 8 value 8;
            CUmemLocation: 8 4;
            CUmemAccessDesc: 12 4;
            CUmemPoolProps: 88 8 usage 32;
            CUDA_KERNEL_NODE_PARAMS_v1: 56 8;
            CUDA_KERNEL_NODE_PARAMS_v2: 72 8 kernel_params 40 ctx 64;
            CUDA_MEMCPY3D_v2: 200 8 src_host 40 dst_host 128 depth 192;
            CUDA_MEMSET_NODE_PARAMS_v1: 40 8 element_bytes 20;
            CUDA_HOST_NODE_PARAMS_v1: 16 8;
            CUDA_GRAPH_INSTANTIATE_PARAMS: 32 8 error_node 16 result 24;
            CUDA_MEM_ALLOC_NODE_PARAMS_v1: 120 8 access_descs 88 bytes 104 dptr 112;
            CUDA_MEMCPY_NODE_PARAMS: 216 8 copy_ctx 8 copy_params 16;
            CUDA_MEMSET_NODE_PARAMS_v2: 48 8 ctx 40;
            CUDA_CONDITIONAL_NODE_PARAMS: 32 8 kind 8 size 12 graphs_out 16 ctx 24;
            CUgraphNodeParams: 256 8 reserved0 4 value 16 reserved2 248;
            CUgraphExecUpdateResultInfo: 24 8 error_node 8 error_from_node 16;
        }
    }

    #[test]
    fn launch_attribute_is_zero_padded() {
        let attribute = LaunchAttribute::new(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &[2, 3, 4]);
        assert_eq!(attribute.id, 4);
        assert_eq!(attribute.value[..4], [2, 3, 4, 0]);
    }
}
