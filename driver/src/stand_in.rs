//! Stand-ins for a missing driver or driver function.

use std::ffi::{CStr, c_char, c_int};

use crate::sys::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_INITIALIZED, CUDA_SUCCESS, Code,
};

/// Expands to the body of a stand-in, which reads no argument and returns a code. The stand-ins of
/// `cuGetErrorName` and `cuGetErrorString` do return a text, because cust dereferences it unchecked.
macro_rules! stand_in {
    (cuGetErrorName($code:ident, $text:ident) $otherwise:expr) => {
        // SAFETY: callers of cuGetErrorName pass null or a pointer that is valid for writing.
        unsafe { $crate::stand_in::answer($text, $crate::stand_in::describe($code).0) }
    };
    (cuGetErrorString($code:ident, $text:ident) $otherwise:expr) => {
        // SAFETY: callers of cuGetErrorString pass null or a pointer that is valid for writing.
        unsafe { $crate::stand_in::answer($text, $crate::stand_in::describe($code).1) }
    };
    ($name:ident($($argument:ident),*) $otherwise:expr) => {{
        $(let _ = $argument;)*
        $otherwise
    }};
}
pub(crate) use stand_in;

/// # Safety
/// `out` must be null or valid for writing a pointer.
pub(crate) unsafe fn answer(out: *mut *const c_char, text: &'static CStr) -> c_int {
    if out.is_null() {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so it is valid for writing, as the caller guarantees.
    unsafe { out.write(text.as_ptr()) };
    CUDA_SUCCESS
}

/// Returns the name and the text of a code. If stand-ins return the code, the text mentions the driver.
pub(crate) fn describe(code: c_int) -> (&'static CStr, &'static CStr) {
    match (code, Code::of(code)) {
        (CUDA_ERROR_NOT_INITIALIZED, Some(known)) => (known.c_name(), c"no CUDA driver is loaded"),
        (CUDA_ERROR_NOT_FOUND, Some(known)) => {
            (known.c_name(), c"not found, or the CUDA driver does not have this function")
        }
        (_, Some(known)) => (known.c_name(), known.c_text()),
        (_, None) => (c"unnamed", c"unknown error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn every_code_has_a_text() {
        for code in [0, 1, 3, 34, 46, 100, 500, 999, 100_100, -1] {
            let (name, text) = describe(code);
            assert!(!name.is_empty() && !text.is_empty());
            let mut written = ptr::null();
            // SAFETY: `written` is a local variable of the type that the function writes.
            assert_eq!(unsafe { answer(&mut written, text) }, CUDA_SUCCESS);
            assert_eq!(written, text.as_ptr());
        }
    }

    #[test]
    fn null_output_pointer_is_an_error() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { answer(ptr::null_mut(), c"") }, CUDA_ERROR_INVALID_VALUE);
    }
}
