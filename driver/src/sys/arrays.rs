//! Arrays, textures and surfaces: constants and structures.
#![allow(missing_docs, reason = "cuda.h and its manual describe each")]

use super::constants::constants;
use super::*;

/// The handle of a texture, which kernels take as an integer.
pub type CUtexObject = c_ulonglong;

/// The handle of a surface.
pub type CUsurfObject = c_ulonglong;

constants! { CUarray_format: c_int
    CU_AD_FORMAT_UNSIGNED_INT8 = 1;
    CU_AD_FORMAT_UNSIGNED_INT16 = 2;
    CU_AD_FORMAT_UNSIGNED_INT32 = 3;
    CU_AD_FORMAT_SIGNED_INT8 = 8;
    CU_AD_FORMAT_SIGNED_INT16 = 9;
    CU_AD_FORMAT_SIGNED_INT32 = 10;
    CU_AD_FORMAT_HALF = 16;
    CU_AD_FORMAT_FLOAT = 32;
}

constants! { CUaddress_mode: c_int
    CU_TR_ADDRESS_MODE_WRAP = 0;
    CU_TR_ADDRESS_MODE_CLAMP = 1;
    CU_TR_ADDRESS_MODE_MIRROR = 2;
    CU_TR_ADDRESS_MODE_BORDER = 3;
}

constants! { CUfilter_mode: c_int
    CU_TR_FILTER_MODE_POINT = 0;
    CU_TR_FILTER_MODE_LINEAR = 1;
}

constants! { CUresourcetype: c_int
    CU_RESOURCE_TYPE_ARRAY = 0;
    CU_RESOURCE_TYPE_MIPMAPPED_ARRAY = 1;
    CU_RESOURCE_TYPE_LINEAR = 2;
    CU_RESOURCE_TYPE_PITCH2D = 3;
}

pub const CUDA_ARRAY3D_LAYERED: c_uint = 1;
pub const CUDA_ARRAY3D_SURFACE_LDST: c_uint = 2;
pub const CUDA_ARRAY3D_CUBEMAP: c_uint = 4;
pub const CUDA_ARRAY3D_TEXTURE_GATHER: c_uint = 8;

pub const CU_TRSF_READ_AS_INTEGER: c_uint = 1;
pub const CU_TRSF_NORMALIZED_COORDINATES: c_uint = 2;
pub const CU_TRSF_SRGB: c_uint = 0x10;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_ARRAY_DESCRIPTOR_v2 {
    pub width: usize,
    pub height: usize,
    pub format: CUarray_format,
    pub channels: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v2 {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub format: CUarray_format,
    pub channels: c_uint,
    pub flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY2D_v2 {
    pub src_x_bytes: usize,
    pub src_y: usize,
    pub src_memory_type: CUmemorytype,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr,
    pub src_array: CUarray,
    pub src_pitch: usize,
    pub dst_x_bytes: usize,
    pub dst_y: usize,
    pub dst_memory_type: CUmemorytype,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr,
    pub dst_array: CUarray,
    pub dst_pitch: usize,
    pub width_bytes: usize,
    pub height: usize,
}

/// `CUDA_RESOURCE_DESC`: a kind, a union of 128 bytes, and flags, which are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_RESOURCE_DESC_v1 {
    pub kind: CUresourcetype,
    pub padding: c_uint,
    /// The union as words: for an array, its handle; for linear memory, the address, the format and
    /// channels (lower and upper half of one word), and the bytes; for pitched memory, the address, the
    /// format and channels, the texels per row, the rows, and the pitch in bytes.
    pub value: [u64; 16],
    pub flags: c_uint,
    pub padding_behind: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_TEXTURE_DESC_v1 {
    pub address_mode: [CUaddress_mode; 3],
    pub filter_mode: CUfilter_mode,
    pub flags: c_uint,
    pub max_anisotropy: c_uint,
    pub mipmap_filter_mode: CUfilter_mode,
    pub mipmap_level_bias: f32,
    pub min_mipmap_level_clamp: f32,
    pub max_mipmap_level_clamp: f32,
    pub border_color: [f32; 4],
    pub reserved: [c_int; 12],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_RESOURCE_VIEW_DESC_v1 {
    /// The format of the view; 0 for the resource's own format.
    pub format: c_int,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub first_level: c_uint,
    pub last_level: c_uint,
    pub first_layer: c_uint,
    pub last_layer: c_uint,
    pub reserved: [c_uint; 16],
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The expected values are those of a C compiler for `cuda.h` of CUDA 13.0 on 64-bit Linux.
    #[test]
    fn structures_are_laid_out_as_in_cuda_h() {
        assert_eq!(size_of::<CUDA_ARRAY_DESCRIPTOR_v2>(), 24);
        assert_eq!(size_of::<CUDA_ARRAY3D_DESCRIPTOR_v2>(), 40);
        assert_eq!(offset_of!(CUDA_ARRAY3D_DESCRIPTOR_v2, flags), 32);
        assert_eq!(size_of::<CUDA_MEMCPY2D_v2>(), 128);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v2, src_host), 24);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v2, dst_host), 80);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v2, height), 120);
        assert_eq!(size_of::<CUDA_RESOURCE_DESC_v1>(), 144);
        assert_eq!(offset_of!(CUDA_RESOURCE_DESC_v1, value), 8);
        assert_eq!(offset_of!(CUDA_RESOURCE_DESC_v1, flags), 136);
        assert_eq!(size_of::<CUDA_TEXTURE_DESC_v1>(), 104);
        assert_eq!(offset_of!(CUDA_TEXTURE_DESC_v1, border_color), 40);
        assert_eq!(size_of::<CUDA_RESOURCE_VIEW_DESC_v1>(), 112);
    }
}
