//! Runs a function in a forked child process. Tests of several crates include this file.

use std::ffi::{c_int, c_uint};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn _exit(status: c_int) -> !;
}

/// Seconds after which a hanging child is killed, many times the duration of any test.
const PATIENCE: c_uint = 120;

/// Returns the result of `says` in a forked child, which has only a copy of the calling thread, or
/// `None` if a signal ended the child.
pub(crate) fn in_child(says: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the declarations are those of POSIX. The child only uses parts of the C library that work
    // in the child of a multithreaded process, such as the allocator, and it exits without returning to
    // the test harness.
    unsafe {
        let child = fork();
        if child == 0 {
            alarm(PATIENCE);
            _exit(says().into());
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        // The low byte is zero unless a signal ended the child.
        (status & 0xff == 0).then_some((status >> 8) as u8)
    }
}
