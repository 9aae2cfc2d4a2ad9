//! Structures of the runtime that C code passes, with the layout of CUDA 13.0's `driver_types.h`.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use warpfold_driver::sys::{
    CUDA_HOST_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUDA_MEMSET_NODE_PARAMS_v1, CUgraph,
    CUgraphConditionalHandle, CUstream, LaunchAttribute,
};

/// CUDA's `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim3 {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

/// CUDA's `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: usize,
    pub stream: CUstream,
    pub attributes: *mut LaunchAttribute,
    pub attribute_count: c_uint,
}

/// CUDA's `cudaFuncAttributes`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FuncAttributes {
    pub shared_bytes: usize,
    pub const_bytes: usize,
    pub local_bytes: usize,
    /// The fields from `maxThreadsPerBlock` on.
    pub numbers: [c_int; 13],
    pub reserved: [c_int; 16],
}

/// CUDA's `cudaPointerAttributes`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PointerAttributes {
    pub kind: c_int,
    pub device: c_int,
    pub device_pointer: *mut c_void,
    pub host_pointer: *mut c_void,
    pub reserved: [c_long; 8],
}

/// `cudaPos` or `cudaExtent`: bytes (in arrays, texels), rows and layers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

/// CUDA's `cudaPitchedPtr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Pitched {
    pub pointer: *mut c_void,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `cudaChannelFormatDesc`: the bits of each channel, and their kind.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFormat {
    pub bits: [c_int; 4],
    pub kind: c_int,
}

/// `cudaResourceDesc`: a kind, a union of 128 bytes as words, and flags, which are always 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ResourceDesc {
    pub kind: c_int,
    pub value: [u64; 16],
    pub flags: c_uint,
}

/// CUDA's `cudaTextureDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TextureDesc {
    pub address_mode: [c_int; 3],
    pub filter_mode: c_int,
    pub read_mode: c_int,
    pub srgb: c_int,
    pub border_color: [f32; 4],
    pub normalized_coordinates: c_int,
    pub max_anisotropy: c_uint,
    pub mipmap_filter_mode: c_int,
    /// Mipmap level bias, minimum level and maximum level.
    pub levels: [f32; 3],
    pub disable_trilinear_optimization: c_int,
    pub seamless_cubemap: c_int,
}

/// CUDA's `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memcpy3D {
    pub from_array: *mut c_void,
    pub from_place: Extent,
    pub from: Pitched,
    pub to_array: *mut c_void,
    pub to_place: Extent,
    pub to: Pitched,
    pub extent: Extent,
    pub kind: c_int,
}

/// CUDA's `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelNode {
    pub function: *const c_void,
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: c_uint,
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

/// CUDA's `cudaMemcpyNodeParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemcpyNode {
    pub flags: c_int,
    pub reserved: [c_int; 3],
    pub copy: Memcpy3D,
}

/// The fields of `cudaConditionalNodeParams` that the runtime needs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ConditionalNode {
    pub handle: CUgraphConditionalHandle,
    pub kind: c_int,
    pub size: c_uint,
    pub graphs_out: *mut CUgraph,
}

/// CUDA's `cudaGraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    pub kind: c_int,
    pub reserved: [c_int; 3],
    pub value: NodeValue,
    pub reserved_behind: u64,
}

/// Parameters of a node. The node's kind selects the field.
#[repr(C)]
#[derive(Clone, Copy)]
pub union NodeValue {
    pub words: [u64; 29],
    pub kernel: KernelNode,
    pub memcpy: MemcpyNode,
    pub memset: CUDA_MEMSET_NODE_PARAMS_v1,
    pub host: CUDA_HOST_NODE_PARAMS_v1,
    pub alloc: CUDA_MEM_ALLOC_NODE_PARAMS_v1,
    pub free: *mut c_void,
    pub conditional: ConditionalNode,
}

/// CUDA's `cudaMemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Location {
    pub kind: c_int,
    pub id: c_int,
}

/// CUDA's `cudaDeviceProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DeviceProp {
    pub name: [c_char; 256],
    pub uuid: [u8; 16],
    pub luid: [c_char; 8],
    pub luid_mask: c_uint,
    pub total_bytes: usize,
    pub shared_bytes: usize,
    pub registers: c_int,
    pub warp: c_int,
    pub pitch: usize,
    pub block_threads: c_int,
    pub block: [c_int; 3],
    pub grid: [c_int; 3],
    pub const_bytes: usize,
    pub major: c_int,
    pub minor: c_int,
    pub texture_alignment: usize,
    pub texture_pitch_alignment: usize,
    pub multiprocessors: c_int,
    pub integrated: c_int,
    pub can_map_host: c_int,
    /// The fields from `maxTexture1D` to `maxSurfaceCubemapLayered`.
    pub textures: [c_int; 39],
    pub surface_alignment: usize,
    /// The fields from `concurrentKernels` to `localL1CacheSupported`.
    pub from_concurrent: [c_int; 15],
    pub multiprocessor_shared_bytes: usize,
    /// The fields from `regsPerMultiprocessor` to `cooperativeLaunch`.
    pub from_registers: [c_int; 10],
    pub optin_shared_bytes: usize,
    /// The fields from `pageableMemoryAccessUsesHostPageTables` to `accessPolicyMaxWindowSize`.
    pub from_page_tables: [c_int; 4],
    pub reserved_shared_bytes: usize,
    /// The fields from `hostRegisterSupported` to `hostNumaMultinodeIpcSupported`.
    pub from_host_register: [c_int; 20],
    pub reserved: [c_int; 56],
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Sizes and offsets as a C compiler computes them from CUDA 13.0's headers.
    #[test]
    fn layouts_match_the_cuda_headers() {
        assert_eq!(size_of::<DeviceProp>(), 1008);
        assert_eq!(offset_of!(DeviceProp, major), 360);
        assert_eq!(offset_of!(DeviceProp, multiprocessors), 384);
        assert_eq!(offset_of!(DeviceProp, surface_alignment), 552);
        assert_eq!(offset_of!(DeviceProp, multiprocessor_shared_bytes), 624);
        assert_eq!(offset_of!(DeviceProp, optin_shared_bytes), 672);
        assert_eq!(offset_of!(DeviceProp, reserved_shared_bytes), 696);
        assert_eq!(offset_of!(DeviceProp, reserved), 784);
        assert_eq!(size_of::<FuncAttributes>(), 144);
        assert_eq!(size_of::<PointerAttributes>(), 88);
        assert_eq!(size_of::<Memcpy3D>(), 160);
        assert_eq!(size_of::<KernelNode>(), 56);
        assert_eq!(size_of::<MemcpyNode>(), 176);
        assert_eq!(offset_of!(ConditionalNode, graphs_out), 16);
        assert_eq!(size_of::<NodeParams>(), 256);
        assert_eq!(offset_of!(NodeParams, value), 16);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(size_of::<ChannelFormat>(), 20);
        assert_eq!(size_of::<ResourceDesc>(), 144);
        assert_eq!(offset_of!(ResourceDesc, value), 8);
        assert_eq!(size_of::<TextureDesc>(), 72);
        assert_eq!(offset_of!(TextureDesc, border_color), 24);
        assert_eq!(offset_of!(TextureDesc, normalized_coordinates), 40);
    }
}
