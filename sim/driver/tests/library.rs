//! The simulator as `libcuda.so.1`: a program that opens the library runs a kernel through it.
#![cfg(target_os = "linux")]

mod common;

use std::env;
use std::ffi::CString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::OnceLock;

use warpfold_driver::Driver;
use warpfold_driver::sys::*;

/// Returns the path of the library, which is built once and named as programs expect.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(build)
}

fn build() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libcuda/Cargo.toml");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(folder.join("libcuda"));
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let named = folder.join("libcuda.so.1");
    // A library that an earlier run has left would be tested instead of this one.
    let _was_there = fs::remove_file(&named);
    match symlink("libcuda/debug/libcuda.so", &named) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{}: {error}", named.display()),
        _ => {}
    }
    named
}

macro_rules! ok {
    ($driver:ident.$name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments meet the contract of the driver's function.
        let code = unsafe { ($driver.api().$name)($($argument),*) };
        assert_eq!(code, 0, "{}", stringify!($name));
    }};
}

#[test]
fn a_program_that_opens_the_library_runs_a_kernel() {
    let path = library();
    // SAFETY: the library is the simulator's driver.
    let driver = unsafe { Driver::load_from(path) }.expect("it is a driver");
    assert_eq!((driver.version(), driver.is_simulated()), ((13, 0), false));
    assert!(driver.missing().is_empty(), "{:?}", driver.missing());
    let (mut context, mut module, mut function) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let (mut address, mut value) = (0, 0_u32);
    ok!(driver.cuInit(0));
    ok!(driver.cuCtxCreate_v2(&mut context, 0, 0));
    let text = CString::new(common::KERNELS).expect("no zero");
    ok!(driver.cuModuleLoadData(&mut module, text.as_ptr().cast()));
    ok!(driver.cuModuleGetFunction(&mut function, module, c"set".as_ptr()));
    ok!(driver.cuMemAlloc_v2(&mut address, 4));
    let arguments = [common::Pointer(address), common::Word(42)];
    let mut places = arguments.each_ref().map(common::Argument::place);
    let (places, none) = (places.as_mut_ptr(), ptr::null_mut());
    ok!(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ptr::null_mut(), places, none));
    ok!(driver.cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4));
    assert_eq!(value, 42);
    ok!(driver.cuCtxDestroy_v2(context));
}

#[test]
fn get_proc_address_finds_unversioned_names() {
    let path = library();
    // SAFETY: the library is the simulator's driver.
    let driver = unsafe { Driver::load_from(path) }.expect("it is a driver");
    let find = |symbol: &std::ffi::CStr, version| {
        let (mut function, mut status) = (ptr::null_mut(), -1);
        // SAFETY: the arguments meet the contract of the driver's function.
        let code = unsafe {
            let find = driver.api().cuGetProcAddress_v2;
            find(symbol.as_ptr(), &mut function, version, 0, &mut status)
        };
        (code, status, !function.is_null())
    };
    for symbol in
        [c"cuInit", c"cuMemAlloc", c"cuGraphInstantiate", c"cuStreamBeginCapture", c"cuCtxDestroy"]
    {
        assert_eq!(find(symbol, 12_000), (0, CU_GET_PROC_ADDRESS_SUCCESS, true), "{symbol:?}");
    }
    // Functions that are not simulated are found too; only a call reports them.
    for symbol in [c"cuTexRefCreate", c"cuGraphGetEdges", c"cuGetProcAddress", c"cuGetExportTable"] {
        assert_eq!(find(symbol, 13_000), (0, CU_GET_PROC_ADDRESS_SUCCESS, true), "{symbol:?}");
    }
    let none = (CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, false);
    assert_eq!(find(c"cuNothing", 12_000), none);
}

/// NVIDIA's driver waits for pending work before it frees memory, and programs rely on it.
#[test]
fn free_waits_for_pending_work() {
    let path = library();
    // SAFETY: the library is the simulator's driver.
    let driver = unsafe { Driver::load_from(path) }.expect("it is a driver");
    let (mut context, mut stream, mut from, mut to) = (ptr::null_mut(), ptr::null_mut(), 0, 0);
    ok!(driver.cuInit(0));
    ok!(driver.cuCtxCreate_v2(&mut context, 0, 0));
    ok!(driver.cuStreamCreate(&mut stream, CU_STREAM_NON_BLOCKING));
    ok!(driver.cuMemAlloc_v2(&mut from, 4));
    ok!(driver.cuMemAlloc_v2(&mut to, 4));
    ok!(driver.cuMemsetD32Async(from, 42, 1, stream));
    ok!(driver.cuMemcpyDtoDAsync_v2(to, from, 4, stream));
    ok!(driver.cuMemFree_v2(from));
    let mut value = 0_u32;
    ok!(driver.cuMemcpyDtoH_v2((&raw mut value).cast(), to, 4));
    assert_eq!(value, 42);
    ok!(driver.cuCtxDestroy_v2(context));
}

/// Some clients look up every driver function when they start.
#[test]
fn unsupported_functions_are_exported_and_return_an_error() {
    // SAFETY: the library's initialisers are those of a Rust library, and do not affect this program.
    let opened = unsafe { libloading::Library::new(library()) }.unwrap();
    for name in ["cuMipmappedArrayCreate", "cuTexRefCreate", "cuGraphAddChildGraphNode"] {
        // SAFETY: the function takes any arguments, and reads none.
        let found = unsafe { opened.get::<unsafe extern "C" fn() -> c_int>(name.as_bytes()) };
        // SAFETY: the function takes any arguments, and reads none.
        assert_eq!(unsafe { found.unwrap()() }, CUDA_ERROR_NOT_SUPPORTED, "{name}");
    }
}
