//! Where a driver's functions come from.

use std::ffi::c_void;
use std::ptr::NonNull;

/// A source of driver functions: a library that was opened, or code of this program, such as a
/// simulator.
pub trait Provider: Sync {
    /// What messages call this driver, in a few words: the file that it was opened from, say.
    fn name(&self) -> &str;

    /// The function that the driver exports under this name, such as `cuMemAlloc_v2`. `None` where it
    /// has none. The answer for a name is always the same.
    fn find(&self, name: &str) -> Option<NonNull<c_void>>;

    /// What is known of the last call that failed on the calling thread, beyond its code: one line, such
    /// as the place in the PTX where a kernel failed. It follows the code's own text in a
    /// [`CallError`](crate::CallError), so it starts in lower case and has no full stop.
    fn detail(&self) -> Option<String> {
        None
    }

    /// The host is about to take a result out of memory that it reaches by itself, such as page-locked
    /// memory that a kernel has written: no call of the driver's tells of it. `address` is the device's.
    /// Each result is taken once, behind a wait for what writes it. A driver that watches memory can
    /// tell whether anything has written those bytes since they were last taken.
    fn host_takes(&self, address: u64, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Whether this driver only computes what a GPU would: its times mean nothing then.
    fn simulated(&self) -> bool {
        false
    }
}
