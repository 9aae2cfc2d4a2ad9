//! Tests that cust's calls return errors and do not crash in a program that never loads a driver, on
//! machines with or without a GPU.

use std::mem::{transmute, zeroed};
use std::ptr;

use warpfold_driver::sys::*;
use warpfold_driver::{CallError, NOT_LOADED, cust, entry_points, for_each_function, loaded};

use cust::CudaFlags;
use cust::context::CurrentContext;
use cust::device::Device;
use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::memory::{DeviceBuffer, LockedBuffer, mem_get_info};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

#[test]
fn cust_reports_that_nothing_is_loaded() {
    let expected = CudaError::NotInitialized;
    assert_eq!(cust::init(CudaFlags::empty()), Err(expected));
    assert_eq!(cust::CudaApiVersion::get().unwrap_err(), expected);
    assert_eq!(Device::num_devices(), Err(expected));
    assert_eq!(Device::get_device(0), Err(expected));
    assert_eq!(cust::quick_init().map(|_| ()), Err(expected));
    assert_eq!(CurrentContext::synchronize(), Err(expected));
    assert_eq!(CurrentContext::get_device().map(|_| ()), Err(expected));
    assert_eq!(Module::from_ptx("", &[]).unwrap_err(), expected);
    assert_eq!(Stream::new(StreamFlags::DEFAULT, None).unwrap_err(), expected);
    assert_eq!(Event::new(EventFlags::DEFAULT).unwrap_err(), expected);
    assert_eq!(DeviceBuffer::from_slice(&[1_u32]).unwrap_err(), expected);
    assert_eq!(DeviceBuffer::<u8>::zeroed(16).unwrap_err(), expected);
    assert_eq!(LockedBuffer::new(&0_u32, 4).map(|_| ()), Err(expected));
    assert_eq!(mem_get_info(), Err(expected));
    assert!(loaded().is_none());
}

#[test]
fn errors_can_be_displayed() {
    let error = cust::init(CudaFlags::empty()).unwrap_err();
    assert!(error.to_string().contains("no CUDA driver is loaded"));
    let error = CallError::from_cust("cuInit", error);
    assert_eq!(
        error.to_string(),
        "cuInit failed: initialization error (CUDA_ERROR_NOT_INITIALIZED, 3): \
         the cu* symbols are not bound to a driver"
    );
    for error in [
        CudaError::NoDevice,
        CudaError::NotFound,
        CudaError::UnknownError,
        CudaError::InvalidMemoryAllocation,
    ] {
        assert!(!error.to_string().is_empty());
    }
}

/// Defines `call_typed`, which calls the symbols of `Api`'s functions with zeros and returns the codes.
macro_rules! call_typed {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
        fn call_typed() -> Vec<(&'static str, c_int)> {
            unsafe extern "C" {
                $(fn $name($($argument: $kind),*) -> c_int;)*
            }
            // SAFETY: every argument is a number, a pointer or an optional function, for which zero is a
            // valid value; with no driver loaded nothing is read through them.
            vec![$((stringify!($name), unsafe { $name($(zeroed::<$kind>()),*) }),)*]
        }
    };
}

for_each_function!(call_typed);

#[test]
fn every_entry_point_has_a_fallback() {
    let typed = call_typed();
    for &(name, code) in &typed {
        // `cuGetErrorName` and `cuGetErrorString` work without a driver (see `errors_can_be_displayed`),
        // but here the pointer for the text is null.
        let expected =
            if name.starts_with("cuGetError") { CUDA_ERROR_INVALID_VALUE } else { NOT_LOADED };
        assert_eq!(code, expected, "{name}");
    }
    for entry in entry_points().skip(typed.len()) {
        // SAFETY: with no driver loaded, the symbol jumps to a function of this type.
        let code = unsafe {
            let function: unsafe extern "C" fn() -> c_int = transmute(entry.address);
            function()
        };
        assert_eq!(code, NOT_LOADED, "{}", entry.name);
    }
}

/// Checks that the fallback changes no argument: on x86-64 six are in registers and five on the stack.
#[test]
fn a_call_with_many_arguments_returns_to_its_caller() {
    for _ in 0..1000 {
        // SAFETY: with no driver loaded nothing reads the arguments.
        let status = unsafe {
            let null = ptr::null_mut::<std::ffi::c_void>();
            cust::sys::cuLaunchKernel(
                null.cast(),
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                null.cast(),
                null.cast(),
                null.cast(),
            )
        };
        assert_eq!(status as c_int, NOT_LOADED);
    }
}
