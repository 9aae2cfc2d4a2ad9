//! The private tables of NVIDIA's runtime, as the runtime calls them.

mod common;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{alone, api, detail, ok};
use warpfold_driver::sys::*;
use warpfold_sim_driver::driver;

const RUNTIME: u128 = 0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9;
const TOOL_CALLBACKS: u128 = 0xa094798c_2e74_2e74_93f2_0800200c0a66;
const CONTEXT_STORAGE: u128 = 0xc693336e_1121_df11_a8c3_68f355d89593;
const INTEGRITY: u128 = 0xd4082055_bde6_704b_8d34_ba123c66e1f2;
const TOOL_CONTEXTS: u128 = 0x21318c60_9714_3248_8ca6_41ff7324c8f2;

type Word = *const c_void;

/// Returns the table of an identifier, or the error.
fn table(id: u128) -> Result<*const Word, c_int> {
    let mut table = ptr::null();
    let id = CUuuid { bytes: id.to_be_bytes() };
    // SAFETY: both pointers are valid until the call returns.
    let code = unsafe { (driver().api().cuGetExportTable)(&mut table, &id) };
    if code == 0 { Ok(table.cast()) } else { Err(code) }
}

/// Returns a function of a table.
///
/// # Safety
/// `F` is the function pointer type of this function.
unsafe fn function<F: Copy>(id: u128, index: usize) -> F {
    assert_eq!(size_of::<F>(), size_of::<Word>());
    // SAFETY: the tables have more words than the index, and the caller names the word's type.
    unsafe { table(id).unwrap().add(index).cast::<F>().read() }
}

fn initialised() -> &'static warpfold_driver::Api {
    ok!(cuInit(0));
    api()
}

#[test]
fn tables_begin_with_their_size() {
    initialised();
    // SAFETY: the first word of these tables is a number.
    let bytes = |id| unsafe { table(id).unwrap().cast::<usize>().read() };
    assert_eq!(bytes(RUNTIME), 13 * 8);
    assert_eq!(bytes(TOOL_CALLBACKS), 7 * 8);
    assert_eq!(bytes(INTEGRITY), 3 * 8);
    assert_eq!(bytes(TOOL_CONTEXTS), 95 * 8);
    assert_eq!(table(0), Err(CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn the_primary_context_keeps_its_handle() {
    let _alone = alone();
    let api = initialised();
    type PrimaryContext = unsafe extern "C" fn(*mut CUcontext, CUdevice) -> c_int;
    // SAFETY: this is the type of function 2.
    let primary_context: PrimaryContext = unsafe { function(RUNTIME, 2) };
    let (mut handle, mut retained, mut version) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: all pointers are valid until the calls return.
    unsafe {
        assert_eq!(primary_context(&mut handle, 0), 0);
        // As inactive, it can be current, but not be used.
        assert_eq!((api.cuCtxSetCurrent)(handle), 0);
        assert_eq!((api.cuCtxGetApiVersion)(handle, &mut version), CUDA_ERROR_INVALID_CONTEXT);
        for _ in 0..2 {
            assert_eq!((api.cuDevicePrimaryCtxRetain)(&mut retained, 0), 0);
            assert_eq!((retained, (api.cuCtxSynchronize)()), (handle, 0));
            assert_eq!((api.cuDevicePrimaryCtxReset_v2)(0), 0);
            assert_eq!((api.cuCtxGetApiVersion)(handle, &mut version), CUDA_ERROR_INVALID_CONTEXT);
            // The reset has not released it.
            assert_eq!((api.cuDevicePrimaryCtxRelease_v2)(0), 0);
            assert_eq!((api.cuDevicePrimaryCtxRelease_v2)(0), CUDA_ERROR_INVALID_CONTEXT);
        }
        assert_eq!(primary_context(&mut handle, 99), CUDA_ERROR_INVALID_DEVICE);
    }
}

static DESTROYED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn destroy(context: CUcontext, key: *mut c_void, value: *mut c_void) {
    let mut version = 0;
    // SAFETY: the pointer is valid until the call returns.
    let code = unsafe { (driver().api().cuCtxGetApiVersion)(context, &mut version) };
    assert_eq!(code, 0, "the context still exists");
    DESTROYED.fetch_add(key.addr() + value.addr(), Ordering::Relaxed);
}

#[test]
fn contexts_store_values_until_they_end() {
    let api = initialised();
    type Put = unsafe extern "C" fn(
        CUcontext,
        *mut c_void,
        *mut c_void,
        Option<unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void)>,
    ) -> c_int;
    type Remove = unsafe extern "C" fn(CUcontext, *mut c_void) -> c_int;
    type Get = unsafe extern "C" fn(*mut *mut c_void, CUcontext, *mut c_void) -> c_int;
    // SAFETY: these are the types of functions 0, 1 and 2.
    let (put, remove, get): (Put, Remove, Get) = unsafe {
        (function(CONTEXT_STORAGE, 0), function(CONTEXT_STORAGE, 1), function(CONTEXT_STORAGE, 2))
    };
    let number = ptr::without_provenance_mut::<c_void>;
    let (mut context, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: all pointers are valid until the calls return. Keys and values are never dereferenced.
    unsafe {
        assert_eq!((api.cuCtxCreate_v2)(&mut context, 0, 0), 0);
        assert_eq!(get(&mut value, context, number(1)), CUDA_ERROR_INVALID_HANDLE);
        // No context is the current one.
        assert_eq!(put(ptr::null_mut(), number(1), number(10), Some(destroy)), 0);
        assert_eq!(put(context, number(2), number(20), Some(destroy)), 0);
        assert_eq!(put(context, number(3), number(30), None), 0);
        assert_eq!((get(&mut value, context, number(1)), value), (0, number(10)));
        assert_eq!(remove(context, number(2)), 0);
        assert_eq!(get(&mut value, context, number(2)), CUDA_ERROR_INVALID_HANDLE);
        assert_eq!((api.cuCtxDestroy_v2)(context), 0);
        assert_eq!(get(&mut value, context, number(1)), CUDA_ERROR_INVALID_CONTEXT);
    }
    assert_eq!(DESTROYED.load(Ordering::Relaxed), 11);
}

/// Destructors run without the driver's lock, so that other threads may call it meanwhile.
#[test]
fn primary_context_that_ends_cannot_be_retained() {
    let _alone = alone();
    let api = initialised();
    unsafe extern "C" fn retain(_ctx: CUcontext, _key: *mut c_void, _value: *mut c_void) {
        let mut ctx = ptr::null_mut();
        // SAFETY: the pointer is valid until the call returns.
        let code = unsafe { (driver().api().cuDevicePrimaryCtxRetain)(&mut ctx, 0) };
        assert_eq!(code, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    type Put = unsafe extern "C" fn(
        CUcontext,
        *mut c_void,
        *mut c_void,
        Option<unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void)>,
    ) -> c_int;
    // SAFETY: this is the type of function 0.
    let put: Put = unsafe { function(CONTEXT_STORAGE, 0) };
    let (mut ctx, mut flags, mut active) = (ptr::null_mut(), 0, 0);
    // SAFETY: all pointers are valid until the calls return. Key and value are never dereferenced.
    unsafe {
        assert_eq!((api.cuDevicePrimaryCtxRetain)(&mut ctx, 0), 0);
        assert_eq!(put(ctx, ptr::null_mut(), ptr::null_mut(), Some(retain)), 0);
        assert_eq!((api.cuDevicePrimaryCtxRelease_v2)(0), 0);
        assert_eq!((api.cuDevicePrimaryCtxGetState)(0, &mut flags, &mut active), 0);
        assert_eq!(active, 0);
        assert_eq!((api.cuDevicePrimaryCtxRetain)(&mut ctx, 0), 0);
        assert_eq!((api.cuCtxSetCurrent)(ctx), 0);
        assert_eq!((api.cuCtxSynchronize)(), 0);
        assert_eq!((api.cuCtxSetCurrent)(ptr::null_mut()), 0);
        assert_eq!((api.cuDevicePrimaryCtxRelease_v2)(0), 0);
    }
}

#[test]
fn no_tool_wants_callbacks() {
    initialised();
    type Flags = unsafe extern "C" fn(*mut *const c_uint, *mut usize);
    for index in [2, 6] {
        let (mut first, mut count) = (ptr::null(), 0);
        // SAFETY: this is the type of functions 2 and 6, and both pointers are valid until it returns.
        unsafe { function::<Flags>(TOOL_CALLBACKS, index)(&mut first, &mut count) };
        assert_ne!(count, 0);
        // SAFETY: the function has returned an array of this many numbers, which lives on.
        let flags = unsafe { std::slice::from_raw_parts(first, count) };
        assert!(flags.iter().all(|&flag| flag == 0));
    }
}

#[test]
fn unsimulated_functions_are_not_supported() {
    initialised();
    // SAFETY: these functions take any arguments, and read none.
    let code = unsafe { function::<unsafe extern "C" fn() -> c_int>(RUNTIME, 9)() };
    assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
    let says = "function 9 of the driver's private table `runtime` is not simulated";
    assert!(detail().contains(says), "{}", detail());
}
