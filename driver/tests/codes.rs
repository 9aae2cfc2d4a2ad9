//! Tests of a driver's error codes that cust returns: either as an error of cust's enum, or as a
//! substitute from which the original code is recovered.

mod recorder;

use std::thread;

use recorder::{answer, driver};
use warpfold_driver::sys::*;
use warpfold_driver::{CallError, cust, take_unnamed_code};

use cust::CudaFlags;
use cust::context::CurrentContext;
use cust::error::CudaError;

#[test]
fn every_code_is_preserved_through_cust() {
    driver().bind_symbols().unwrap();
    let mut unnamed = Vec::new();
    for code in (1..1100).chain([4242, -1, c_int::MIN]) {
        answer(code, Some("the detail"));
        let error = cust::init(CudaFlags::empty()).unwrap_err();
        if error == CudaError::UnknownError {
            unnamed.push(code);
        } else {
            assert_eq!(error as c_int, code);
        }
        let expected = driver().check("cuInit", code).unwrap_err();
        assert_eq!(CallError::from_cust("cuInit", error), expected);
        assert!(expected.to_string().ends_with(&format!("{code}): the detail")), "{expected}");
    }
    for code in [36, 46, 222, 226, 720, 803, 901, 912, 916, 999] {
        assert!(unnamed.contains(&code), "{code}");
    }
    assert!(!unnamed.contains(&CUDA_ERROR_ILLEGAL_ADDRESS));
}

#[test]
fn errors_created_by_cust_keep_their_own_text() {
    driver().bind_symbols().unwrap();
    answer(CUDA_ERROR_ILLEGAL_ADDRESS, Some("of an earlier call"));
    let error = CallError::from_cust("cuMemAlloc_v2", CudaError::InvalidMemoryAllocation);
    assert_eq!(
        error.to_string(),
        "cuMemAlloc_v2 failed: Invalid memory allocation (InvalidMemoryAllocation, 100100)"
    );
}

#[test]
fn unnamed_code_is_per_thread_and_taken_once() {
    driver().bind_symbols().unwrap();
    answer(46, None);
    assert_eq!(CurrentContext::synchronize(), Err(CudaError::UnknownError));
    thread::spawn(|| assert_eq!(take_unnamed_code(), CUDA_ERROR_UNKNOWN)).join().unwrap();
    // A call that succeeds, or fails with an error that cust names, does not change the stored code.
    answer(CUDA_SUCCESS, None);
    assert_eq!(CurrentContext::synchronize(), Ok(()));
    answer(CUDA_ERROR_LAUNCH_FAILED, None);
    assert_eq!(CurrentContext::synchronize(), Err(CudaError::LaunchFailed));
    assert_eq!(take_unnamed_code(), 46);
    assert_eq!(take_unnamed_code(), CUDA_ERROR_UNKNOWN);
}
