//! Arrays, copies from and to them, and textures and surfaces over them.

mod common;

use std::ffi::CString;
use std::ptr;

use common::{
    Argument, LEGACY, Pointer, Session, Word, code, detail, function, get, launch_with, ok, stream,
};
use warpfold_driver::sys::*;

/// `fetch` samples a 2D texture of floats at the centre of texel (x, y), `plane` does so in row 1 of a
/// layer, and `line` reads a 1D texture of integers; each writes a word per thread. `add` adds to a
/// surface.
const KERNELS: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 to) {
    .reg .b32 %x, %y, %n; .reg .f32 %u, %v, %r, %g, %b, %a; .reg .b64 %t, %d;
    ld.param.u64 %t, [texture]; ld.param.u64 %d, [to]; mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %n, %ntid.x;
    cvt.rn.f32.u32 %u, %x; add.f32 %u, %u, 0f3F000000; cvt.rn.f32.u32 %v, %y; add.f32 %v, %v, 0f3F000000;
    tex.2d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%u, %v}];
    mad.lo.u32 %n, %n, %y, %x; mad.wide.u32 %d, %n, 4, %d; st.global.f32 [%d], %r; ret;
}
.visible .entry plane(.param .u64 texture, .param .u64 to, .param .u32 layer) {
    .reg .b32 %x, %l; .reg .f32 %u, %v, %r, %g, %b, %a; .reg .b64 %t, %d;
    ld.param.u64 %t, [texture]; ld.param.u64 %d, [to]; ld.param.u32 %l, [layer]; mov.u32 %x, %tid.x;
    cvt.rn.f32.u32 %u, %x; add.f32 %u, %u, 0f3F000000; mov.f32 %v, 0f3FC00000;
    tex.a2d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%l, %u, %v, %v}];
    mad.wide.u32 %d, %x, 4, %d; st.global.f32 [%d], %r; ret;
}
.visible .entry line(.param .u64 texture, .param .u64 to) {
    .reg .b32 %x, %r, %g, %b, %a; .reg .b64 %t, %d;
    ld.param.u64 %t, [texture]; ld.param.u64 %d, [to]; mov.u32 %x, %tid.x;
    tex.1d.v4.u32.s32 {%r, %g, %b, %a}, [%t, {%x}]; add.u32 %r, %r, %g;
    mad.wide.u32 %d, %x, 4, %d; st.global.u32 [%d], %r; ret;
}
.visible .entry add(.param .u64 surface, .param .u32 value) {
    .reg .b32 %x, %y, %v, %w; .reg .b64 %s;
    ld.param.u64 %s, [surface]; ld.param.u32 %v, [value]; mov.u32 %x, %tid.x; shl.b32 %x, %x, 2; mov.u32 %y, %tid.y;
    suld.b.2d.b32.trap {%w}, [%s, {%x, %y}]; add.u32 %w, %w, %v; sust.b.2d.b32.trap [%s, {%x, %y}], {%w}; ret;
}";

struct Ready {
    session: Session,
    module: CUmodule,
}

impl Ready {
    fn new() -> Self {
        let session = Session::new();
        let text = CString::new(KERNELS).unwrap();
        Self { session, module: get!(cuModuleLoadData(text.as_ptr().cast())) }
    }

    fn run(&self, name: &str, block: [u32; 2], arguments: &[Argument]) {
        let [x, y] = block;
        let code = launch_with(function(self.module, name), [1; 3], [x, y, 1], 0, LEGACY, arguments);
        assert_eq!(code, 0, "{}", detail());
        ok!(cuCtxSynchronize());
    }

    fn words(&self, name: &str, block: [u32; 2], texture: u64, more: &[Argument]) -> Vec<u32> {
        let count = (block[0] * block[1]) as usize;
        let to = get!(cuMemAlloc_v2(4 * count));
        let arguments: Vec<Argument> =
            [Pointer(texture), Pointer(to)].into_iter().chain(more.iter().copied()).collect();
        self.run(name, block, &arguments);
        let mut words = vec![0_u32; count];
        ok!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), to, 4 * count));
        words
    }
}

fn array(
    [width, height, depth]: [usize; 3],
    format: CUarray_format,
    channels: u32,
    flags: u32,
) -> CUarray {
    let descriptor = CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, channels, flags };
    get!(cuArray3DCreate_v2(&descriptor))
}

fn copy_3d() -> CUDA_MEMCPY3D_v2 {
    // SAFETY: zero is a valid value of each field.
    unsafe { std::mem::zeroed() }
}

fn copy_2d() -> CUDA_MEMCPY2D_v2 {
    // SAFETY: zero is a valid value of each field.
    unsafe { std::mem::zeroed() }
}

fn resource(kind: CUresourcetype, words: &[u64]) -> CUDA_RESOURCE_DESC_v1 {
    let mut value = [0; 16];
    value[..words.len()].copy_from_slice(words);
    CUDA_RESOURCE_DESC_v1 { kind, padding: 0, value, flags: 0, padding_behind: 0 }
}

fn of_array(array: CUarray) -> CUDA_RESOURCE_DESC_v1 {
    resource(CU_RESOURCE_TYPE_ARRAY, &[array.addr() as u64])
}

/// Returns format and channels as a word of [`CUDA_RESOURCE_DESC_v1::value`].
fn texels(format: CUarray_format, channels: u32) -> u64 {
    format as u64 | u64::from(channels) << 32
}

fn sampler(flags: u32) -> CUDA_TEXTURE_DESC_v1 {
    CUDA_TEXTURE_DESC_v1 {
        address_mode: [CU_TR_ADDRESS_MODE_CLAMP; 3],
        filter_mode: CU_TR_FILTER_MODE_POINT,
        flags,
        max_anisotropy: 0,
        mipmap_filter_mode: 0,
        mipmap_level_bias: 0.0,
        min_mipmap_level_clamp: 0.0,
        max_mipmap_level_clamp: 0.0,
        border_color: [0.0; 4],
        reserved: [0; 12],
    }
}

fn texture(of: &CUDA_RESOURCE_DESC_v1, flags: u32) -> u64 {
    get!(cuTexObjectCreate(of, &sampler(flags), ptr::null()))
}

fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}

#[test]
fn rectangle_is_copied_to_an_array_and_back() {
    let ready = Ready::new();
    let array = array([6, 4, 0], CU_AD_FORMAT_FLOAT, 1, 0);
    // Five of the ten floats of each row go to column 1 of rows 1 to 3.
    let image: Vec<f32> = (0..40).map(|at| at as f32).collect();
    let zeros = [0.0_f32; 24];
    let whole = CUDA_MEMCPY2D_v2 {
        src_memory_type: CU_MEMORYTYPE_HOST,
        src_host: zeros.as_ptr().cast(),
        src_pitch: 24,
        dst_memory_type: CU_MEMORYTYPE_ARRAY,
        dst_array: array,
        width_bytes: 24,
        height: 4,
        ..copy_2d()
    };
    ok!(cuMemcpy2D_v2(&whole));
    let part = CUDA_MEMCPY2D_v2 {
        src_x_bytes: 8,
        src_host: image.as_ptr().cast(),
        src_pitch: 40,
        dst_x_bytes: 4,
        dst_y: 1,
        width_bytes: 20,
        height: 3,
        ..whole
    };
    ok!(cuMemcpy2DUnaligned_v2(&part));
    let handle = texture(&of_array(array), 0);
    let found = floats(&ready.words("fetch", [6, 4], handle, &[]));
    let expected: Vec<f32> = (0..24)
        .map(|at| match (at / 6, at % 6) {
            (1.., 1..) => image[(at / 6 - 1) * 10 + at % 6 - 1 + 2],
            _ => 0.0,
        })
        .collect();
    assert_eq!(found, expected);
    // The copy back runs on a stream, to rows with a larger pitch.
    let mut back = [-1.0_f32; 16];
    let stream = stream();
    let from = CUDA_MEMCPY2D_v2 {
        src_x_bytes: 4,
        src_y: 2,
        src_memory_type: CU_MEMORYTYPE_ARRAY,
        src_host: ptr::null(),
        src_array: array,
        dst_memory_type: CU_MEMORYTYPE_HOST,
        dst_host: back.as_mut_ptr().cast(),
        dst_array: ptr::null_mut(),
        dst_pitch: 32,
        width_bytes: 20,
        height: 2,
        ..copy_2d()
    };
    ok!(cuMemcpy2DAsync_v2(&from, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(back, [12., 13., 14., 15., 16., -1., -1., -1., 22., 23., 24., 25., 26., -1., -1., -1.]);
    let outside = CUDA_MEMCPY2D_v2 { dst_y: 2, ..part };
    assert_eq!(code!(cuMemcpy2D_v2(&outside)), CUDA_ERROR_INVALID_VALUE);
    assert!(
        detail().contains(
            "a copy up to [24, 5, 1] reaches past the end of an array of [24, 4, 1] (bytes, rows, \
             planes)"
        ),
        "{}",
        detail()
    );
    ok!(cuTexObjectDestroy(handle));
    ok!(cuArrayDestroy(array));
    assert_eq!(code!(cuArrayDestroy(array)), CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuTexObjectDestroy(handle)), CUDA_ERROR_INVALID_VALUE);
    let _of = ready.session;
}

#[test]
fn layers_are_filled_by_copies_of_three_dimensions() {
    let ready = Ready::new();
    let array = array([4, 3, 5], CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED);
    let image: Vec<f32> = (0..60).map(|at| at as f32 * 0.5).collect();
    let copy = CUDA_MEMCPY3D_v2 {
        src_memory_type: CU_MEMORYTYPE_HOST,
        src_host: image.as_ptr().cast(),
        src_pitch: 16,
        src_height: 3,
        dst_memory_type: CU_MEMORYTYPE_ARRAY,
        dst_array: array,
        width_bytes: 16,
        height: 3,
        depth: 5,
        ..copy_3d()
    };
    ok!(cuMemcpy3D_v2(&copy));
    let handle = texture(&of_array(array), 0);
    for layer in [0, 2, 4] {
        let found = floats(&ready.words("plane", [4, 1], handle, &[Word(layer)]));
        let row = (layer * 12 + 4) as usize;
        assert_eq!(found, image[row..row + 4], "layer {layer}");
    }
    // One plane is copied to plane 1 of device memory, and from there to another plane of the array.
    let memory = get!(cuMemAlloc_v2(2 * 48));
    let out = CUDA_MEMCPY3D_v2 {
        src_z: 3,
        src_memory_type: CU_MEMORYTYPE_ARRAY,
        src_host: ptr::null(),
        src_array: array,
        dst_z: 1,
        dst_memory_type: CU_MEMORYTYPE_DEVICE,
        dst_device: memory,
        dst_array: ptr::null_mut(),
        dst_pitch: 16,
        dst_height: 3,
        depth: 1,
        ..copy
    };
    ok!(cuMemcpy3DAsync_v2(&out, LEGACY));
    let back = CUDA_MEMCPY3D_v2 {
        src_z: 1,
        src_memory_type: CU_MEMORYTYPE_DEVICE,
        src_device: memory,
        dst_z: 0,
        dst_memory_type: CU_MEMORYTYPE_ARRAY,
        dst_array: array,
        ..out
    };
    ok!(cuMemcpy3D_v2(&CUDA_MEMCPY3D_v2 {
        src_array: ptr::null_mut(),
        src_pitch: 16,
        src_height: 3,
        ..back
    }));
    assert_eq!(floats(&ready.words("plane", [4, 1], handle, &[Word(0)])), image[40..44]);
    let mut about = CUDA_ARRAY3D_DESCRIPTOR_v2::default();
    ok!(cuArray3DGetDescriptor_v2(&mut about, array));
    assert_eq!((about.width, about.height, about.depth, about.flags), (4, 3, 5, CUDA_ARRAY3D_LAYERED));
}

#[test]
fn textures_read_linear_and_pitched_memory() {
    let ready = Ready::new();
    let words: Vec<u32> = (0..64).collect();
    let memory = get!(cuMemAlloc_v2(256));
    ok!(cuMemcpyHtoD_v2(memory, words.as_ptr().cast(), 256));
    // Texels of two channels, whose sum is read; past the last texel, 0 is read.
    let linear =
        resource(CU_RESOURCE_TYPE_LINEAR, &[memory, texels(CU_AD_FORMAT_UNSIGNED_INT32, 2), 80]);
    let handle = texture(&linear, CU_TRSF_READ_AS_INTEGER);
    let expected: Vec<u32> = (0..12).map(|at| if at < 10 { 4 * at + 1 } else { 0 }).collect();
    assert_eq!(ready.words("line", [12, 1], handle, &[]), expected);
    // Two rows of three bytes, each read as a fraction of 255.
    let pitch =
        resource(CU_RESOURCE_TYPE_PITCH2D, &[memory, texels(CU_AD_FORMAT_UNSIGNED_INT8, 1), 3, 2, 32]);
    let handle = texture(&pitch, 0);
    let found = floats(&ready.words("fetch", [3, 2], handle, &[]));
    assert_eq!(found, [0.0, 0.0, 0.0, 8.0 / 255.0, 0.0, 0.0]);
    let mut kept = linear;
    ok!(cuTexObjectGetResourceDesc(&mut kept, handle));
    assert_eq!((kept.kind, kept.value), (pitch.kind, pitch.value));
    let mut about = sampler(7);
    ok!(cuTexObjectGetTextureDesc(&mut about, handle));
    assert_eq!(about.flags, 0);
    // A resource larger than its allocation and an empty one are refused.
    let long = resource(CU_RESOURCE_TYPE_LINEAR, &[memory, texels(CU_AD_FORMAT_UNSIGNED_INT32, 2), 264]);
    let mut none = 0;
    assert_eq!(
        code!(cuTexObjectCreate(&mut none, &long, &sampler(0), ptr::null())),
        CUDA_ERROR_INVALID_VALUE
    );
    assert!(detail().contains("reaches past the end of the 256 bytes"), "{}", detail());
    let empty = resource(CU_RESOURCE_TYPE_LINEAR, &[memory, texels(CU_AD_FORMAT_UNSIGNED_INT32, 2), 4]);
    assert_eq!(
        code!(cuTexObjectCreate(&mut none, &empty, &sampler(0), ptr::null())),
        CUDA_ERROR_INVALID_VALUE
    );
    let most = get!(cuDeviceGetTexture1DLinearMaxWidth(CU_AD_FORMAT_FLOAT, 4, 0));
    assert_eq!(most, 1_usize << 28);
}

#[test]
fn surfaces_require_surface_arrays() {
    let ready = Ready::new();
    let plain = array([4, 2, 0], CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    let mut surface = 0;
    assert_eq!(code!(cuSurfObjectCreate(&mut surface, &of_array(plain))), CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("not created for surfaces"), "{}", detail());
    let array = array([4, 2, 0], CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST);
    let words: Vec<u32> = (10..18).collect();
    let fill = CUDA_MEMCPY2D_v2 {
        src_memory_type: CU_MEMORYTYPE_HOST,
        src_host: words.as_ptr().cast(),
        dst_memory_type: CU_MEMORYTYPE_ARRAY,
        dst_array: array,
        width_bytes: 16,
        height: 2,
        ..copy_2d()
    };
    ok!(cuMemcpy2D_v2(&fill));
    let surface = get!(cuSurfObjectCreate(&of_array(array)));
    ready.run("add", [4, 2], &[Pointer(surface), Word(100)]);
    let mut back = [0_u32; 8];
    let out = CUDA_MEMCPY2D_v2 {
        src_memory_type: CU_MEMORYTYPE_ARRAY,
        src_array: array,
        dst_memory_type: CU_MEMORYTYPE_HOST,
        dst_host: back.as_mut_ptr().cast(),
        width_bytes: 16,
        height: 2,
        ..copy_2d()
    };
    ok!(cuMemcpy2D_v2(&out));
    assert_eq!(back, [110, 111, 112, 113, 114, 115, 116, 117]);
    ok!(cuSurfObjectDestroy(surface));
    assert_eq!(code!(cuSurfObjectDestroy(surface)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn arrays_of_one_dimension_are_copied_by_the_byte() {
    let _ready = Ready::new();
    let about = CUDA_ARRAY_DESCRIPTOR_v2 { width: 8, height: 0, format: CU_AD_FORMAT_HALF, channels: 2 };
    let array: CUarray = get!(cuArrayCreate_v2(&about));
    let mut found = CUDA_ARRAY_DESCRIPTOR_v2::default();
    ok!(cuArrayGetDescriptor_v2(&mut found, array));
    assert_eq!(found, about);
    let bytes: Vec<u8> = (0..32).collect();
    ok!(cuMemcpyHtoA_v2(array, 0, bytes.as_ptr().cast(), 32));
    let memory = get!(cuMemAlloc_v2(8));
    ok!(cuMemcpyAtoD_v2(memory, array, 4, 8));
    ok!(cuMemcpyDtoA_v2(array, 24, memory, 8));
    ok!(cuMemcpyAtoA_v2(array, 0, array, 28, 4));
    ok!(cuMemcpyHtoAAsync_v2(array, 16, bytes[1..].as_ptr().cast(), 2, LEGACY));
    let mut back = [0_u8; 32];
    ok!(cuMemcpyAtoHAsync_v2(back.as_mut_ptr().cast(), array, 0, 16, LEGACY));
    ok!(cuMemcpyAtoH_v2(back[16..].as_mut_ptr().cast(), array, 16, 16));
    let expected: Vec<u8> = (8..12).chain(4..16).chain(1..3).chain(18..24).chain(4..12).collect();
    assert_eq!(back.to_vec(), expected);
    assert_eq!(code!(cuMemcpyHtoA_v2(array, 28, bytes.as_ptr().cast(), 8)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn invalid_array_descriptors_are_refused() {
    let _ready = Ready::new();
    let said = |extent: [usize; 3], format, channels, flags| {
        let [width, height, depth] = extent;
        let about = CUDA_ARRAY3D_DESCRIPTOR_v2 { width, height, depth, format, channels, flags };
        let mut array = ptr::null_mut();
        assert_eq!(code!(cuArray3DCreate_v2(&mut array, &about)), CUDA_ERROR_INVALID_VALUE);
        detail()
    };
    assert!(said([4, 4, 0], CU_AD_FORMAT_FLOAT, 3, 0).contains("3 channels; allowed are 1, 2 and 4"));
    assert!(said([4, 4, 0], 77, 1, 0).contains("format 77 is not simulated"));
    assert!(said([0, 4, 0], CU_AD_FORMAT_FLOAT, 1, 0).contains("an array of 0 x 4 x 0 texels"));
    assert!(said([4, 3, 6], CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP).contains("of cubes"));
    assert!(
        said([20_000, 20_000, 2], CU_AD_FORMAT_FLOAT, 1, 0)
            .contains("allowed are 16384 x 16384 x 16384")
    );
    let layered = CUDA_ARRAY3D_LAYERED;
    assert!(said([4, 4, 0], CU_AD_FORMAT_FLOAT, 1, layered).contains("layered"));
}
