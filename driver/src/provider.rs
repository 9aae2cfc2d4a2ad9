//! Sources of a driver's functions.

use std::ffi::c_void;
use std::ptr::NonNull;

/// A source of driver functions: an open library, or code of this program, such as a simulator.
pub trait Provider: Sync {
    /// Returns a short name of this driver for messages, such as the file that it was opened from.
    fn name(&self) -> &str;

    /// Returns the function that the driver exports under this name, such as `cuMemAlloc_v2`, or `None`.
    /// Must always return the same result for the same name.
    fn find(&self, name: &str) -> Option<NonNull<c_void>>;

    /// Returns one line of detail on the last failed call of the calling thread, such as the location in
    /// the PTX where a kernel failed. It follows the code's own text in a
    /// [`CallError`](crate::CallError), so it starts in lower case and has no full stop.
    fn detail(&self) -> Option<String> {
        None
    }

    /// Reports that the host is about to read a result directly from host-accessible memory, such as
    /// page-locked memory that a kernel has written. No driver call shows such a read. `address` is the
    /// device address of the result. Each result is read once, after a wait for the work that writes it.
    /// A driver that tracks memory can then detect a result that was not written since the last read.
    fn host_takes(&self, address: u64, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Returns whether this driver only simulates a GPU, so that its timings are meaningless.
    fn simulated(&self) -> bool {
        false
    }
}
