//! Tensor maps: descriptions of tensors in global memory, for the copies of their boxes by kernels.
#![allow(missing_docs, reason = "cuda.h and its manual describe each")]

use super::constants::constants;

/// An opaque tensor map, which kernels get as a parameter or in memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUtensorMap {
    pub opaque: [u64; 16],
}

constants! { CUtensorMapDataType: c_int
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0;
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1;
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2;
    CU_TENSOR_MAP_DATA_TYPE_INT32 = 3;
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4;
    CU_TENSOR_MAP_DATA_TYPE_INT64 = 5;
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6;
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7;
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8;
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9;
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ = 10;
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11;
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ = 12;
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B = 13;
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B = 14;
    CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15;
}

constants! { CUtensorMapInterleave: c_int
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0;
    CU_TENSOR_MAP_INTERLEAVE_16B = 1;
    CU_TENSOR_MAP_INTERLEAVE_32B = 2;
}

constants! { CUtensorMapSwizzle: c_int
    CU_TENSOR_MAP_SWIZZLE_NONE = 0;
    CU_TENSOR_MAP_SWIZZLE_32B = 1;
    CU_TENSOR_MAP_SWIZZLE_64B = 2;
    CU_TENSOR_MAP_SWIZZLE_128B = 3;
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B = 4;
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B = 5;
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B = 6;
}

constants! { CUtensorMapL2promotion: c_int
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0;
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1;
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2;
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3;
}

constants! { CUtensorMapFloatOOBfill: c_int
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0;
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1;
}
