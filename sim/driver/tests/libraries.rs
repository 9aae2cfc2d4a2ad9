//! Libraries, whose kernels can be passed as functions, and links.

mod common;

use std::ffi::{CStr, CString, c_void};
use std::fs;
use std::ptr;

use common::{LEGACY, Pointer, Session, Word, code, detail, get, launch_with, ok, peek};
use warpfold_driver::sys::*;

fn library(text: &str) -> CUlibrary {
    let text = CString::new(text).unwrap();
    let (none, values) = (ptr::null_mut(), ptr::null_mut());
    get!(cuLibraryLoadData(text.as_ptr().cast(), none, values, 0, ptr::null_mut(), ptr::null_mut(), 0))
}

fn kernel(library: CUlibrary, name: &CStr) -> CUkernel {
    get!(cuLibraryGetKernel(library, name.as_ptr()))
}

/// Casts a kernel to a function handle, as the interface allows.
fn cast(kernel: CUkernel) -> CUfunction {
    kernel.cast()
}

#[test]
fn library_variables_are_per_context() {
    let first = Session::on(0);
    let library = library(common::KERNELS);
    let (set, bump) = (kernel(library, c"set"), kernel(library, c"bump"));
    assert_eq!(set, kernel(library, c"set"), "one handle each");
    let word = first.word(0);
    assert_eq!(launch_with(cast(set), [1; 3], [1; 3], 0, LEGACY, &[Pointer(word), Word(4)]), 0);
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 4);
    let variable = || {
        let (mut address, mut bytes) = (0, 0);
        ok!(cuLibraryGetGlobal(&mut address, &mut bytes, library, c"variable".as_ptr()));
        assert_eq!(bytes, 4);
        address
    };
    let count = |times| {
        for _ in 0..times {
            assert_eq!(launch_with(cast(bump), [1; 3], [1; 3], 0, LEGACY, &[]), 0);
        }
        ok!(cuCtxSynchronize());
        peek(variable())
    };
    assert_eq!(count(2), 9);
    let second = Session::on(0);
    assert_eq!(count(1), 8, "another context has another variable");
    first.make_current();
    assert_eq!(count(0), 9);

    // A kernel's function belongs to the current context.
    let own: CUfunction = get!(cuKernelGetFunction(set));
    assert_eq!(launch_with(own, [1; 3], [1; 3], 0, LEGACY, &[Pointer(word), Word(6)]), 0);
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 6);
    let module: CUmodule = get!(cuLibraryGetModule(library));
    assert_eq!(get!(cuFuncGetModule(own)), module);
    second.make_current();
    assert_ne!(get!(cuKernelGetFunction(set)), own);

    ok!(cuLibraryUnload(library));
    assert_eq!(code!(cuKernelGetFunction(&mut ptr::null_mut(), set)), CUDA_ERROR_INVALID_HANDLE);
    let code = launch_with(cast(set), [1; 3], [1; 3], 0, LEGACY, &[Pointer(word), Word(6)]);
    assert_eq!(code, CUDA_ERROR_INVALID_HANDLE);
    let code = launch_with(own, [1; 3], [1; 3], 0, LEGACY, &[Pointer(word), Word(6)]);
    assert_eq!(code, CUDA_ERROR_INVALID_HANDLE, "its functions are gone too");
}

#[test]
fn kernels_are_counted_and_described() {
    let _session = Session::new();
    let library = library(common::KERNELS);
    let count: u32 = get!(cuLibraryGetKernelCount(library));
    let mut kernels = vec![ptr::null_mut(); count as usize];
    ok!(cuLibraryEnumerateKernels(kernels.as_mut_ptr(), count, library));
    let name = |kernel| {
        let mut name = ptr::null();
        ok!(cuKernelGetName(&mut name, kernel));
        // SAFETY: the driver's text lives as long as the library.
        unsafe { CStr::from_ptr(name) }.to_str().unwrap()
    };
    let names: Vec<&str> = kernels.iter().map(|&kernel| name(kernel)).collect();
    assert!(["set", "add", "bounded"].iter().all(|name| names.contains(name)), "{names:?}");
    let set = kernel(library, c"set");
    assert_eq!(get!(cuKernelGetLibrary(set)), library);
    let (mut offset, mut size) = (0, 0);
    ok!(cuKernelGetParamInfo(set, 1, &mut offset, &mut size));
    assert_eq!((offset, size), (8, 4));
    let after = code!(cuKernelGetParamInfo(set, 2, &mut offset, &mut size));
    assert_eq!(after, CUDA_ERROR_INVALID_VALUE);
    let bounded = kernel(library, c"bounded");
    let threads: i32 = get!(cuKernelGetAttribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded, 0));
    assert_eq!(threads, 64);
    let most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(cuKernelSetAttribute(most, 100_000, bounded, 0));
    assert_eq!(get!(cuFuncGetAttribute(most, cast(bounded))), 100_000);
    assert_eq!(code!(cuKernelSetAttribute(most, 1, bounded, 99)), CUDA_ERROR_INVALID_DEVICE);
    let none = code!(cuLibraryGetKernel(&mut ptr::null_mut(), library, c"none".as_ptr()));
    assert_eq!(none, CUDA_ERROR_NOT_FOUND, "{}", detail());
}

fn link() -> CUlinkState {
    let mut link = ptr::null_mut();
    ok!(cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &mut link));
    link
}

fn add(link: CUlinkState, kind: CUjitInputType, text: &[u8]) -> c_int {
    let data = text.as_ptr().cast::<c_void>().cast_mut();
    let (none, values) = (ptr::null_mut(), ptr::null_mut());
    code!(cuLinkAddData_v2(link, kind, data, text.len(), c"text".as_ptr(), 0, none, values))
}

#[test]
fn linked_image_contains_every_input() {
    let session = Session::new();
    let link = link();
    assert_eq!(add(link, CU_JIT_INPUT_PTX, common::KERNELS.as_bytes()), 0, "{}", detail());
    let other = ".version 7.8\n.target sm_80\n.address_size 64\n
        .visible .entry twice(.param .u64 to) {
            .reg .b32 %r<1>; .reg .b64 %rd<1>;
            ld.param.u64 %rd0, [to]; ld.u32 %r0, [%rd0]; add.u32 %r0, %r0, %r0; st.u32 [%rd0], %r0; ret;
        }\0";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twice.ptx");
    fs::write(&file, other).unwrap();
    let path = CString::new(file.to_str().unwrap()).unwrap();
    let (none, values) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path.as_ptr(), 0, none, values));
    let (mut image, mut bytes) = (ptr::null_mut(), 0_usize);
    ok!(cuLinkComplete(link, &mut image, &mut bytes));
    let module: CUmodule = get!(cuModuleLoadData(image));
    let word = session.word(0);
    for (name, arguments) in [("set", &[Pointer(word), Word(21)][..]), ("twice", &[Pointer(word)])] {
        let function = common::function(module, name);
        assert_eq!(launch_with(function, [1; 3], [1; 3], 0, LEGACY, arguments), 0);
    }
    ok!(cuCtxSynchronize());
    assert_eq!(peek(word), 42);
    ok!(cuLinkDestroy(link));
    assert_eq!(code!(cuLinkDestroy(link)), CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn unsupported_link_inputs_are_refused() {
    let _session = Session::new();
    let link = link();
    assert_eq!(add(link, CU_JIT_INPUT_CUBIN, b"\x7fELF\xff"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert!(detail().contains("machine code; the simulator takes PTX text only"), "{}", detail());
    assert_eq!(add(link, CU_JIT_INPUT_NVVM, b"BC"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    let (mut image, mut bytes) = (ptr::null_mut(), 0_usize);
    let code = code!(cuLinkComplete(link, &mut image, &mut bytes));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert!(detail().contains("nothing was added"), "{}", detail());
}

#[test]
fn grids_synchronise_by_the_device_runtime() {
    let _session = Session::new();
    let link = link();
    // Twice, each block writes its value and, after a grid barrier, reads that of the next block.
    let text = ".version 7.8\n.target sm_80\n.address_size 64
        .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
        .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
        .visible .entry turn(.param .u64 to) {
            .reg .pred %p; .reg .b32 %i, %n, %next, %value, %code, %round; .reg .b64 %to, %own, %other, %handle;
            .param .b32 scope; .param .b64 handle; .param .b32 flags; .param .b32 code;
            ld.param.u64 %to, [to]; mov.u32 %i, %ctaid.x; mov.u32 %n, %nctaid.x; mov.u32 %round, 0;
            add.u32 %next, %i, 1; rem.u32 %next, %next, %n; mad.wide.u32 %own, %i, 4, %to; mad.wide.u32 %other, %next, 4, %to;
            st.param.b32 [scope], 1; call (handle), cudaCGGetIntrinsicHandle, (scope); ld.param.b64 %handle, [handle];
            mov.u32 %value, %i;
            AGAIN: st.volatile.global.u32 [%own], %value;
            st.param.b64 [handle], %handle; st.param.b32 [flags], 0; call (code), cudaCGSynchronize, (handle, flags);
            ld.param.b32 %code, [code]; ld.volatile.global.u32 %value, [%other];
            call (code), cudaCGSynchronize, (handle, flags); add.u32 %value, %value, %code;
            add.u32 %round, %round, 1; setp.lt.u32 %p, %round, 2; @%p bra AGAIN;
            mad.lo.u32 %value, %code, 1000, %value; st.volatile.global.u32 [%own], %value; ret; }\0";
    assert_eq!(add(link, CU_JIT_INPUT_PTX, text.as_bytes()), 0, "{}", detail());
    assert_eq!(add(link, CU_JIT_INPUT_LIBRARY, b"!<arch>\n other"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_eq!(add(link, CU_JIT_INPUT_LIBRARY, b"!<arch>\n cudaCGSynchronize"), 0, "{}", detail());
    let (mut image, mut bytes) = (ptr::null_mut(), 0_usize);
    ok!(cuLinkComplete(link, &mut image, &mut bytes));
    let module: CUmodule = get!(cuModuleLoadData(image));
    let turn = common::function(module, "turn");
    let mut to: CUdeviceptr = get!(cuMemAlloc_v2(20));
    let mut parameters = [ptr::from_mut(&mut to).cast()];
    let mut found = [0_u32; 5];
    ok!(cuLaunchCooperativeKernel(turn, 5, 1, 1, 64, 1, 1, 0, LEGACY, parameters.as_mut_ptr()));
    ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), to, 20));
    // After two rounds each block has the number of the block two further on.
    assert_eq!(found, [2, 3, 4, 0, 1]);
    // A launch that is not cooperative has no grid barrier, so `cudaCGSynchronize` returns an error.
    let (given, none) = (parameters.as_mut_ptr(), ptr::null_mut());
    ok!(cuLaunchKernel(turn, 1, 1, 1, 1, 1, 1, 0, LEGACY, given, none));
    ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), to, 4));
    assert_eq!(found[0], 1002);
}
