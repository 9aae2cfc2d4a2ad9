//! Asynchronous copies of a thread from global to shared memory (`cp.async`).
//!
//! A thread starts them and goes on; what they bring needs no registers meanwhile.

use core::arch::asm;

use crate::Shared;

/// Starts to copy 16 bytes. They do not stay in L1.
///
/// # Safety
/// Both sides must be of 16 bytes and start at a multiple of 16; `from` is readable global memory that
/// nobody writes meanwhile. Nobody may access `to` before this thread has waited for their batch by
/// [`wait`] and, in other threads, a barrier has come after that.
#[inline(always)]
pub unsafe fn copy16(to: Shared<u32>, from: *const u32) {
    // SAFETY: the caller's contract.
    unsafe {
        asm!(
            "cp.async.cg.shared.global [{0}], [{1}], 16;",
            in(reg32) to.address(), in(reg64) from,
            options(nostack, preserves_flags),
        );
    }
}

/// Makes a batch of the copies that this thread has started since the last one, of none too.
#[inline(always)]
pub fn commit() {
    // SAFETY: orders this thread's own copies, and does nothing else.
    unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) }
}

/// Waits until no more than the last `BATCHES` batches of this thread are under way.
#[inline(always)]
pub fn wait<const BATCHES: u32>() {
    // SAFETY: orders this thread's own copies, and does nothing else.
    unsafe { asm!("cp.async.wait_group {0};", const BATCHES, options(nostack, preserves_flags)) }
}
