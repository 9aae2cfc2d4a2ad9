//! Encoding of tensor maps, and a kernel that copies by one.

mod common;

use std::ffi::{CString, c_void};
use std::ptr;

use common::{LEGACY, Session, code, detail, function, get, ok};
use warpfold_driver::sys::*;

/// Copies the box at (4, 2) of the map, of 8 x 4 words, to `to`.
const KERNEL: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry load(.param .align 64 .b8 map[128], .param .u64 to) {
    .reg .pred %p; .reg .b32 %t, %s, %v; .reg .b64 %m, %d;
    .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
    mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %d, [to];
    mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra READY;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%m, {4, 2}], [bar];
    READY: bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
    mov.u32 %s, tile; mad.lo.u32 %s, %t, 4, %s; ld.shared.u32 %v, [%s];
    mad.wide.u32 %d, %t, 4, %d; st.global.u32 [%d], %v; ret;
}";

#[derive(Clone, Copy)]
struct Arguments {
    element: CUtensorMapDataType,
    rank: u32,
    address: u64,
    extent: [u64; 5],
    strides: [u64; 4],
    box_extent: [u32; 5],
    element_strides: [u32; 5],
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
}

/// A tensor of 16 x 8 words.
const VALID: Arguments = Arguments {
    element: CU_TENSOR_MAP_DATA_TYPE_UINT32,
    rank: 2,
    address: 0x1000,
    extent: [16, 8, 1, 1, 1],
    strides: [64, 512, 512, 512],
    box_extent: [8, 4, 1, 1, 1],
    element_strides: [1; 5],
    interleave: CU_TENSOR_MAP_INTERLEAVE_NONE,
    swizzle: CU_TENSOR_MAP_SWIZZLE_NONE,
    promotion: CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    fill: CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
};

const EMPTY: CUtensorMap = CUtensorMap { opaque: [0; 16] };

fn pointer(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}

fn encode_to(map: *mut CUtensorMap, of: &Arguments) -> c_int {
    let address = pointer(of.address);
    code!(cuTensorMapEncodeTiled(
        map,
        of.element,
        of.rank,
        address,
        of.extent.as_ptr(),
        of.strides.as_ptr(),
        of.box_extent.as_ptr(),
        of.element_strides.as_ptr(),
        of.interleave,
        of.swizzle,
        of.promotion,
        of.fill
    ))
}

/// Encodes a map in the current context.
fn encoded(change: impl FnOnce(&mut Arguments)) -> (c_int, CUtensorMap) {
    let (mut map, mut arguments) = (EMPTY, VALID);
    change(&mut arguments);
    let code = encode_to(&mut map, &arguments);
    (code, map)
}

#[test]
fn arguments_in_range_are_encoded() {
    let _session = Session::new();
    let valid = |change: fn(&mut Arguments)| {
        let (code, map) = encoded(change);
        assert_eq!(code, 0, "{}", detail());
        assert_ne!(map, EMPTY);
    };
    valid(|_| ());
    valid(|of| of.rank = 5);
    valid(|of| of.extent[1] = 1 << 32);
    valid(|of| of.strides[0] = (1 << 40) - 16);
    valid(|of| of.box_extent[1] = 256);
    valid(|of| of.box_extent = [256, 227, 1, 1, 1]);
    valid(|of| of.element_strides = [8; 5]);
    valid(|of| of.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    valid(|of| of.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    valid(|of| (of.box_extent[0], of.swizzle) = (32, CU_TENSOR_MAP_SWIZZLE_128B));
    for element in [
        CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    ] {
        let fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
        let (code, map) = encoded(|of| (of.element, of.fill) = (element, fill));
        assert_eq!(code, 0, "{}", detail());
        assert_ne!(map, EMPTY);
    }
}

#[test]
fn strides_are_not_null() {
    let _session = Session::new();
    for (strides, expected) in [(ptr::null(), CUDA_ERROR_INVALID_VALUE), ([].as_ptr(), 0)] {
        let mut map = EMPTY;
        let code = code!(cuTensorMapEncodeTiled(
            &mut map,
            CU_TENSOR_MAP_DATA_TYPE_UINT8,
            1,
            pointer(0x1000),
            VALID.extent.as_ptr(),
            strides,
            [16].as_ptr(),
            VALID.element_strides.as_ptr(),
            0,
            0,
            0,
            0
        ));
        assert_eq!(code, expected, "{}", detail());
    }
}

#[test]
fn maps_are_encoded_in_a_context() {
    ok!(cuInit(0));
    assert_eq!(encoded(|_| ()), (CUDA_ERROR_INVALID_CONTEXT, EMPTY));
}

#[test]
fn arguments_out_of_range_are_refused() {
    let _session = Session::new();
    let refused = |change: fn(&mut Arguments), code: c_int, expected: &str| {
        let (found, map) = encoded(change);
        assert_eq!(found, code, "{expected}");
        assert!(detail().contains(expected), "{}", detail());
        assert_eq!(map, EMPTY);
    };
    let invalid = |change, expected: &str| refused(change, CUDA_ERROR_INVALID_VALUE, expected);
    invalid(|of| of.rank = 0, "rank of the tensor map is 0; allowed is 1 to 5");
    invalid(|of| of.rank = 6, "rank of the tensor map is 6; allowed is 1 to 5");
    invalid(
        |of| of.address = 0x1008,
        "address of the tensor map is 0x1008; allowed is a multiple of 0x10",
    );
    invalid(|of| of.extent[1] = 0, "extent of the tensor map is 0x0; allowed is 1 to 2^32");
    invalid(|of| of.extent[0] = (1 << 32) + 1, "allowed is 1 to 2^32");
    invalid(|of| of.strides[0] = 72, "stride of the tensor map is 0x48; allowed is a multiple of 0x10");
    invalid(|of| of.strides[0] = 1 << 40, "less than 2^40");
    invalid(|of| of.box_extent[1] = 0, "box extent of the tensor map is 0x0; allowed is 1 to 256");
    invalid(|of| of.box_extent[1] = 257, "box extent of the tensor map is 0x101; allowed is 1 to 256");
    invalid(|of| of.box_extent[0] = 5, "size of a box row in bytes of the tensor map is 0x14");
    invalid(
        |of| of.element_strides[1] = 0,
        "element stride of the tensor map is 0x0; allowed is 1 to 8",
    );
    invalid(
        |of| of.element_strides[1] = 9,
        "element stride of the tensor map is 0x9; allowed is 1 to 8",
    );
    invalid(|of| of.fill = 1, "allowed is zero, or NaN for floating-point elements");
    for (mode, elements) in [(1, 12), (2, 20), (3, 36)] {
        let (code, _) = encoded(|of| (of.swizzle, of.box_extent[0]) = (mode, elements));
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        let span = format!("allowed is at most {:#x}, the span of the swizzle", 16 << mode);
        assert!(detail().contains(&span), "{}", detail());
    }
    invalid(|of| of.box_extent = [256; 5], "is 0x40000; allowed is at most 0x38c00");
    for element in 13..=16 {
        let (code, _) = encoded(|of| of.element = element);
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        assert!(detail().contains("allowed is 0 to 12"), "{}", detail());
    }
    for mode in 4..=7 {
        let (code, _) = encoded(|of| of.swizzle = mode);
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        assert!(detail().contains("allowed is 0 to 3"), "{}", detail());
    }
    invalid(
        |of| of.interleave = CU_TENSOR_MAP_INTERLEAVE_16B,
        "rank of the tensor map is 2; allowed with interleave 1 is 3 to 5",
    );
    invalid(|of| of.interleave = 3, "3 is not an interleave");
    invalid(|of| of.promotion = 4, "4 is not an L2 promotion");
    invalid(|of| of.fill = 2, "2 is not a fill value");
    let unsupported = |change, expected: &str| refused(change, CUDA_ERROR_NOT_SUPPORTED, expected);
    unsupported(
        |of| (of.interleave, of.rank) = (CU_TENSOR_MAP_INTERLEAVE_16B, 3),
        "with interleave 1 are not simulated",
    );
}

#[test]
fn maps_are_aligned() {
    let _session = Session::new();
    let mut maps = [EMPTY; 2];
    let first = (&raw mut maps).cast::<u8>();
    let at = |bytes| first.wrapping_add(bytes).cast();
    assert_eq!(encode_to(at(32), &VALID), 0, "{}", detail());
    assert_eq!(encode_to(at(16), &VALID), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("is not a multiple of 32"), "{}", detail());
    assert_eq!(encode_to(ptr::null_mut(), &VALID), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn rejected_coordinates_are_illegal_instructions() {
    let store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m, {4, -1}], [tile];";
    let load = KERNEL.lines().find(|line| line.contains("{4, 2}")).expect("a copy");
    for copy in [&load.replace("{4, 2}", "{3, 2}"), store] {
        let _session = Session::new();
        let text = CString::new(KERNEL.replace(load, copy)).unwrap();
        let load = function(get!(cuModuleLoadData(text.as_ptr().cast())), "load");
        let to: CUdeviceptr = get!(cuMemAlloc_v2(512));
        let (_, map) = encoded(|of| of.address = to);
        let mut places = [&raw const map as *mut c_void, &raw const to as *mut c_void];
        let places = places.as_mut_ptr();
        ok!(cuLaunchKernel(load, 1, 1, 1, 32, 1, 1, 0, LEGACY, places, ptr::null_mut()));
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_INSTRUCTION);
        assert!(detail().contains("of a tensor at "), "{}", detail());
    }
}

#[test]
fn a_kernel_copies_by_a_map_whose_address_is_replaced() {
    let _session = Session::new();
    let text = CString::new(KERNEL).unwrap();
    let load = function(get!(cuModuleLoadData(text.as_ptr().cast())), "load");
    let words: Vec<u32> = (0..128).collect();
    let tensor = get!(cuMemAlloc_v2(512));
    ok!(cuMemcpyHtoD_v2(tensor, words.as_ptr().cast(), 512));
    let to: CUdeviceptr = get!(cuMemAlloc_v2(128));
    let (_, mut map) = encoded(|_| ());
    ok!(cuTensorMapReplaceAddress(&mut map, pointer(tensor)));
    let run = |map: &CUtensorMap| {
        let mut places =
            [ptr::from_ref(map).cast_mut().cast(), (&raw const to).cast_mut().cast::<c_void>()];
        let places = places.as_mut_ptr();
        let code = code!(cuLaunchKernel(load, 1, 1, 1, 32, 1, 1, 0, LEGACY, places, ptr::null_mut()));
        assert_eq!(code, 0, "{}", detail());
        code!(cuCtxSynchronize())
    };
    assert_eq!(run(&map), 0, "{}", detail());
    let mut found = [0_u32; 32];
    ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), to, 128));
    let expected: Vec<u32> = (2..6).flat_map(|row| row * 16 + 4..row * 16 + 12).collect();
    assert_eq!(found.to_vec(), expected);
    assert_eq!(code!(cuTensorMapReplaceAddress(&mut map, pointer(8))), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("allowed is a multiple of 0x10"), "{}", detail());
    let mut foreign = EMPTY;
    assert_eq!(
        code!(cuTensorMapReplaceAddress(&mut foreign, pointer(tensor))),
        CUDA_ERROR_INVALID_VALUE
    );
    assert!(detail().contains("has not made this tensor map"), "{}", detail());
    assert_eq!(run(&foreign), CUDA_ERROR_ILLEGAL_INSTRUCTION);
    assert!(detail().contains("does not hold a tensor map"), "{}", detail());
}
