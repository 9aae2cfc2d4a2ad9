//! What a child by `fork` says: a number, as the tests of several crates ask for.

use std::ffi::{c_int, c_uint};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn _exit(status: c_int) -> !;
}

/// Seconds after which a child that hangs is ended: many times what any takes.
const PATIENCE: c_uint = 120;

/// Returns what a function returns in a child of this process, of which only that thread goes on there;
/// `None` for one that does not come back.
pub(crate) fn in_child(says: impl FnOnce() -> u8) -> Option<u8> {
    // SAFETY: the declarations are those of POSIX. Of the C library the child uses what serves a child
    // of several threads, such as the allocator, and it ends without going back to the test harness.
    unsafe {
        let child = fork();
        if child == 0 {
            alarm(PATIENCE);
            _exit(says().into());
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        // The low byte is the signal that has ended it.
        (status & 0xff == 0).then_some((status >> 8) as u8)
    }
}
