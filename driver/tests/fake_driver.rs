//! Tests that calls reach a fake driver library, and that functions which it lacks have fallbacks.
//!
//! The symbols of a process are bound once, so all checks are one test.

mod fake;

use std::ffi::c_int;
use std::fs;
use std::mem::transmute;
use std::path::Path;
use std::ptr;
use std::sync::Barrier;
use std::thread;

use warpfold_driver::sys::{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_UNKNOWN};
use warpfold_driver::{CallError, Driver, DriverError, NOT_LOADED, NOT_PRESENT, Stream, cust, loaded};

use cust::CudaFlags;
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaError;

#[test]
fn calls_reach_the_library_that_was_loaded() {
    let folder = tempfile::tempdir().unwrap();
    refuses_libraries_that_are_not_drivers(folder.path());
    let library = fake::build(folder.path(), "libcuda.so.1", &[]);
    loads_once_during_concurrent_calls(&library);
    dispatches();
    records_graphs();
    falls_back_for_missing_functions();
    explains_errors();
    keeps_codes_without_a_cust_variant();
    refuses_to_bind_a_second_driver(&library, folder.path());
}

fn refuses_libraries_that_are_not_drivers(folder: &Path) {
    let text = folder.join("text.so");
    fs::write(&text, "this is no library\n").unwrap();
    let missing = folder.join("missing.so");
    let stub = fake::build(folder, "stub.so", &["--cfg=stub"]);
    for (path, reason) in [
        (text.as_path(), "text.so"),
        (&missing, "missing.so"),
        (&stub, "stub of a CUDA toolkit"),
        (Path::new("libc.so.6"), "not a CUDA driver"),
    ] {
        // SAFETY: only the stub has functions with a driver's names, and they behave like a driver's.
        let error = unsafe { Driver::load_from(path) }.unwrap_err();
        assert!(matches!(error, DriverError::Unusable { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with("no CUDA driver: "), "{message}");
    }
    assert!(loaded().is_none());
    let error = cust::init(CudaFlags::empty()).unwrap_err();
    assert_eq!(error as c_int, NOT_LOADED);
}

fn loads_once_during_concurrent_calls(library: &Path) {
    let threads = 8;
    let barrier = Barrier::new(threads);
    let drivers: Vec<_> = thread::scope(|scope| {
        let run = |index: usize| {
            barrier.wait();
            if index % 2 == 1 {
                for _ in 0..10_000 {
                    match Device::num_devices() {
                        Ok(count) => assert_eq!(count, 7),
                        Err(error) => assert_eq!(error, CudaError::NotInitialized),
                    }
                }
            }
            // SAFETY: the fake's functions have the types of a driver's and keep their contracts.
            let driver = unsafe { Driver::load_from(library) }.unwrap();
            driver.bind_symbols().unwrap();
            assert_eq!(Device::num_devices(), Ok(7));
            driver
        };
        let handles: Vec<_> = (0..threads).map(|i| scope.spawn(move || run(i))).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    for driver in &drivers {
        assert!(ptr::eq(*driver, drivers[0]));
    }
}

fn dispatches() {
    let driver = loaded().unwrap();
    assert_eq!(driver.version(), (12, 4));
    assert_eq!(cust::init(CudaFlags::empty()), Ok(()));
    assert_eq!(cust::CudaApiVersion::get().unwrap().minor(), 4);
    let device = Device::get_device(5).unwrap();
    assert_eq!(device.get_attribute(DeviceAttribute::L2CacheSize), Ok(38_005));
    assert_eq!(driver.device_get_attribute(device.into(), 97), Ok(97_005));
    // SAFETY: the fake only compares the arguments, and dereferences none.
    let status = unsafe {
        cust::sys::cuLaunchKernel(
            ptr::without_provenance_mut(1),
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            ptr::without_provenance_mut(9),
            ptr::without_provenance_mut(10),
            ptr::without_provenance_mut(11),
        )
    };
    assert_eq!(status as c_int, 0, "an argument was lost on the way");

    let other = driver.find("cuNewerThanTheTable").unwrap();
    // SAFETY: `cuNewerThanTheTable` of the fake has this type.
    let other: extern "C" fn() -> c_int = unsafe { transmute(other) };
    assert_eq!(other(), 4242);
}

fn records_graphs() {
    let driver = loaded().unwrap();
    let [stream, other] = [9, 8].map(|at| Stream::from_raw(ptr::without_provenance_mut(at)));
    // SAFETY: the fake only compares the handles as numbers.
    unsafe {
        driver.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        let graph = driver.stream_end_capture(stream).unwrap();
        let exec = driver.graph_instantiate(graph).unwrap();
        driver.graph_destroy(graph).unwrap();
        driver.graph_launch(exec, stream).unwrap();
        let error = driver.graph_launch(exec, other).unwrap_err();
        assert_eq!((error.call, error.code), ("cuGraphLaunch", 1));
        driver.graph_exec_destroy(exec).unwrap();
        let refused = driver.stream_begin_capture(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        assert_eq!(refused.unwrap_err().call, "cuStreamBeginCapture_v2");
        assert_eq!(driver.stream_end_capture(other).unwrap_err().call, "cuStreamEndCapture");
    }
}

fn falls_back_for_missing_functions() {
    let driver = loaded().unwrap();
    assert!(driver.find("cuMemGetInfo_v2").is_none());
    assert!(driver.missing().contains(&"cuMemGetInfo_v2"));
    assert!(!driver.missing().contains(&"cuInit"));
    let error = cust::memory::mem_get_info().unwrap_err();
    assert_eq!(error as c_int, NOT_PRESENT);
    assert!(error.to_string().contains("the fake says: not found"));
    // The fake has no cuGetErrorName, so the crate's own function is called.
    let mut name = ptr::null();
    // SAFETY: the code is a variant of the enum, and `name` is a local variable.
    let status =
        unsafe { cust::sys::cuGetErrorName(cust::sys::CUresult::CUDA_ERROR_NOT_FOUND, &mut name) };
    assert_eq!(status as c_int, 0);
    assert!(!name.is_null());
}

fn explains_errors() {
    let driver = loaded().unwrap();
    let device = Device::get_device(0).unwrap();
    let error = driver.device_get_attribute(device.into(), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cuDeviceGetAttribute failed: the device is busy or unavailable \
         (CUDA_ERROR_DEVICE_UNAVAILABLE, 46)"
    );
    let error = driver.device_get_attribute(device.into(), 2).unwrap_err();
    assert_eq!(error.to_string(), "cuDeviceGetAttribute failed: the fake says: newer (unnamed, 4242)");
    let error = driver.module_load_ptx("anything").unwrap_err();
    assert_eq!(error.error.code, 222, "cust has no variant for this code");
    assert_eq!(error.log.lines().count(), 2);
    assert_eq!(
        error.to_string(),
        "cuModuleLoadDataEx failed: the PTX is of a version that the driver does not support \
         (CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222): ptxas x, line 9; error : no such version"
    );
    let error = driver.module_load_ptx("zero \0 byte").unwrap_err();
    assert!(error.to_string().contains("offset 5"), "{error}");
}

/// Checks the codes 46, 4242 and 912, which three attributes return and cust's enums lack.
fn keeps_codes_without_a_cust_variant() {
    let device = Device::get_device(0).unwrap();
    for (attribute, code, name) in [
        (DeviceAttribute::MaxThreadsPerBlock, 46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        (DeviceAttribute::MaxBlockDimX, 4242, "unnamed"),
        (DeviceAttribute::MaxBlockDimY, 912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    ] {
        let mut value = 0;
        // SAFETY: the declaration has the types of the driver's function. Its enums are ints as in C, so
        // a code without a variant is a valid value.
        let seen = unsafe { foreign::cuDeviceGetAttribute(&mut value, attribute as c_int, 0) };
        assert_eq!(seen, CUDA_ERROR_UNKNOWN, "{code} must not reach cust");
        let error = device.get_attribute(attribute).unwrap_err();
        assert_eq!(error, CudaError::UnknownError);
        let error = CallError::from_cust("cuDeviceGetAttribute", error);
        assert_eq!((error.code, &*error.name), (code, name));
    }
}

mod foreign {
    use std::ffi::c_int;

    unsafe extern "C" {
        pub(super) fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    }
}

fn refuses_to_bind_a_second_driver(library: &Path, folder: &Path) {
    let other = fake::build(folder, "other.so", &[]);
    // SAFETY: the fake's functions have the types of a driver's and keep their contracts.
    let other = unsafe { Driver::load_from(other) }.unwrap();
    assert_eq!(other.version(), (12, 4), "several drivers may be loaded");
    let error = other.bind_symbols().unwrap_err();
    assert!(matches!(error, DriverError::AlreadyBound { .. }));
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    for name in [library.to_str().unwrap(), other.name()] {
        assert!(text.contains(name), "{text} lacks {name}");
    }
    // SAFETY: the fake's functions have the types of a driver's and keep their contracts.
    let again = unsafe { Driver::load_from(library) }.unwrap();
    assert!(ptr::eq(loaded().unwrap(), again));
}
