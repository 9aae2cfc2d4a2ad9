//! Tensor maps, which kernels read from their parameters or from memory.

use warpfold_driver::sys::*;
use warpfold_sim::{Swizzle, TensorElement, TensorMap};

use crate::failure::{Outcome, fail_with};
use crate::ffi::{Out, list};
use crate::world;

fn unsupported<T>(detail: String) -> Outcome<T> {
    fail_with(CUDA_ERROR_NOT_SUPPORTED, detail)
}

fn invalid<T>(detail: String) -> Outcome<T> {
    fail_with(CUDA_ERROR_INVALID_VALUE, detail)
}

fn element(kind: CUtensorMapDataType) -> Outcome<TensorElement> {
    Ok(match kind {
        CU_TENSOR_MAP_DATA_TYPE_UINT8 => TensorElement::U8,
        CU_TENSOR_MAP_DATA_TYPE_UINT16 => TensorElement::U16,
        CU_TENSOR_MAP_DATA_TYPE_UINT32 => TensorElement::U32,
        CU_TENSOR_MAP_DATA_TYPE_INT32 => TensorElement::S32,
        CU_TENSOR_MAP_DATA_TYPE_UINT64 => TensorElement::U64,
        CU_TENSOR_MAP_DATA_TYPE_INT64 => TensorElement::S64,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT16 => TensorElement::F16,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32 => TensorElement::F32,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT64 => TensorElement::F64,
        CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 => TensorElement::Bf16,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ => TensorElement::F32Ftz,
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 => TensorElement::Tf32,
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ => TensorElement::Tf32Ftz,
        _ => return invalid(format!("element type of the tensor map is {kind}; allowed is 0 to 12")),
    })
}

fn swizzle(mode: CUtensorMapSwizzle) -> Outcome<Swizzle> {
    Ok(match mode {
        CU_TENSOR_MAP_SWIZZLE_NONE => Swizzle::None,
        CU_TENSOR_MAP_SWIZZLE_32B => Swizzle::B32,
        CU_TENSOR_MAP_SWIZZLE_64B => Swizzle::B64,
        CU_TENSOR_MAP_SWIZZLE_128B => Swizzle::B128,
        _ => return invalid(format!("swizzle of the tensor map is {mode}; allowed is 0 to 3")),
    })
}

/// Alignment of a map that the driver of CUDA 13.0 accepts. Kernels need [`TensorMap::ALIGN`], which is
/// also what CUDA's manual states.
const MAP_ALIGN: usize = 32;

fn put(map: Out<CUtensorMap>, tensor: &TensorMap) -> Outcome {
    if !map.address().is_multiple_of(MAP_ALIGN) {
        return invalid(format!("the address of the tensor map is not a multiple of {MAP_ALIGN}"));
    }
    let bytes = tensor.encode().or_else(|error| invalid(error.to_string()))?;
    let mut opaque = [0; 16];
    for (word, bytes) in opaque.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    map.put(CUtensorMap { opaque })
}

#[expect(clippy::too_many_arguments, reason = "the interface has them")]
pub(crate) fn cuTensorMapEncodeTiled(
    map: Out<CUtensorMap>,
    element_type: CUtensorMapDataType,
    rank: c_uint,
    address: *mut c_void,
    extent: *const u64,
    strides: *const u64,
    box_extent: *const c_uint,
    element_strides: *const c_uint,
    interleave: CUtensorMapInterleave,
    swizzle_mode: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
) -> Outcome {
    world::lock().here()?;
    if !(1..=5).contains(&rank) {
        return invalid(format!("rank of the tensor map is {rank}; allowed is 1 to 5"));
    }
    match interleave {
        CU_TENSOR_MAP_INTERLEAVE_NONE => {}
        CU_TENSOR_MAP_INTERLEAVE_16B | CU_TENSOR_MAP_INTERLEAVE_32B => {
            if rank < 3 {
                return invalid(format!(
                    "rank of the tensor map is {rank}; allowed with interleave {interleave} is 3 to 5"
                ));
            }
            return unsupported(format!(
                "tensor maps with interleave {interleave} are not simulated; interleave 0 is"
            ));
        }
        _ => return invalid(format!("{interleave} is not an interleave")),
    }
    if !(CU_TENSOR_MAP_L2_PROMOTION_NONE..=CU_TENSOR_MAP_L2_PROMOTION_L2_256B).contains(&promotion) {
        return invalid(format!("{promotion} is not an L2 promotion"));
    }
    let fills_nan = match fill {
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE => false,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA => true,
        _ => return invalid(format!("{fill} is not a fill value")),
    };
    if strides.is_null() {
        return invalid(
            "strides of the tensor map are null; allowed is a pointer, also for rank 1".to_owned(),
        );
    }
    let dimensions = rank as usize;
    // SAFETY: by the manual, each array is null or has a value for each dimension, and `strides` one
    // value less. `rank` has been checked to be from 1 to 5.
    let (extents, steps, boxes, element_steps) = unsafe {
        (
            list(extent, dimensions)?,
            list(strides, dimensions - 1)?,
            list(box_extent, dimensions)?,
            list(element_strides, dimensions)?,
        )
    };
    let tensor = TensorMap {
        element: element(element_type)?,
        rank,
        address: address.addr() as u64,
        extent: padded(&extents, 1),
        strides: padded(&steps, 0),
        box_extent: padded(&boxes, 1),
        element_strides: padded(&element_steps, 1),
        swizzle: swizzle(swizzle_mode)?,
        fills_nan,
    };
    put(map, &tensor)
}

fn padded<T: Copy, const N: usize>(values: &[T], rest: T) -> [T; N] {
    std::array::from_fn(|axis| values.get(axis).copied().unwrap_or(rest))
}

pub(crate) fn cuTensorMapReplaceAddress(map: Out<CUtensorMap>, address: *mut c_void) -> Outcome {
    let words = map.get().opaque;
    let mut bytes = [0; TensorMap::BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    // A GPU's driver replaces the address in any bytes, even zeros. The simulator cannot, because its
    // maps have a checksum.
    let Some(tensor) = TensorMap::decode(&bytes) else {
        return invalid("cuTensorMapEncodeTiled has not made this tensor map".to_owned());
    };
    put(map, &TensorMap { address: address.addr() as u64, ..tensor })
}
