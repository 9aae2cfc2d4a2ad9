//! Asynchronous copies from global to shared memory by single threads (`cp.async`), which occupy no
//! registers.

use core::arch::asm;

use crate::Shared;

/// Starts a copy of 16 bytes, which bypasses L1.
///
/// # Safety
/// Both sides must be 16 bytes and 16-byte aligned; `from` must be readable global memory that is not
/// written meanwhile. `to` must not be accessed before this thread has waited for the copy's batch with
/// [`wait`]; other threads must also wait at a barrier after that.
#[inline(always)]
pub unsafe fn copy16(to: Shared<u32>, from: *const u32) {
    // SAFETY: both sides are valid, aligned and not used otherwise meanwhile, as the caller guarantees.
    unsafe {
        asm!(
            "cp.async.cg.shared.global [{0}], [{1}], 16;",
            in(reg32) to.address(), in(reg64) from,
            options(nostack, preserves_flags),
        );
    }
}

/// Commits this thread's copies since the last commit as one batch (a `cp.async` group), which may be
/// empty.
#[inline(always)]
pub fn commit() {
    // SAFETY: the instruction affects only this thread's own copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack, preserves_flags)) }
}

/// Waits until at most the last `BATCHES` batches of this thread are in flight.
#[inline(always)]
pub fn wait<const BATCHES: u32>() {
    // SAFETY: the instruction affects only this thread's own copies.
    unsafe { asm!("cp.async.wait_group {0};", const BATCHES, options(nostack, preserves_flags)) }
}
