//! Bulk asynchronous copies from global to shared memory, and the mbarriers that tell when they have
//! landed (compute capability 9.0).
//!
//! An mbarrier counts phases. A phase is over when as many arrivals as [`Mbarrier::init`] asked for have
//! come and all bytes announced have landed; the next one then begins by itself. A waiter names the
//! phase by its parity, 0 for the first, so it must have seen a phase end before the one after it may
//! end: with more than one phase open to a waiter, their parities would be taken for each other.
//!
//! Copies belong to the asynchronous proxy, which goes to shared memory by a way of its own. What a copy
//! wrote is visible to whoever has waited for it. Reads of a buffer are over before the next copy into
//! it if a block barrier lies between; after writes by threads a proxy fence would be needed, too.

mod ring;

use core::arch::asm;

pub use ring::Ring;

use crate::{Shared, Word};

/// A barrier in shared memory, 8 bytes.
#[derive(Clone, Copy)]
pub struct Mbarrier {
    address: u32,
}

impl Mbarrier {
    /// The barrier in this cell.
    #[inline(always)]
    pub fn at(cell: Shared<u64>) -> Self {
        Self { address: cell.address() }
    }

    /// Makes the cell a barrier whose phases take `arrivals` arrivals each, in phase 0.
    ///
    /// # Safety
    /// The cell must be the block's own, and no barrier yet. [`fence_mbarrier_init`] must lie between
    /// this and the first copy, a block barrier between this and another thread's use, and the cell
    /// must not be used as ordinary memory afterwards.
    #[inline(always)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "mbarrier.init.shared::cta.b64 [{0}], {1};",
                in(reg32) self.address, in(reg32) arrivals,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Announces `bytes` that will land in this phase, and arrives.
    ///
    /// # Safety
    /// The barrier must be initialised, the phase must have an arrival and 2^20 - 1 bytes left to take,
    /// and copies of `bytes` bytes in all must be started on it.
    #[inline(always)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};",
                in(reg32) self.address, in(reg32) bytes,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Waits for the end of the phase of this parity; what landed in it is then visible to this thread.
    ///
    /// # Safety
    /// The barrier must be initialised, and the phase must be the current one or the one before.
    #[inline(always)]
    pub unsafe fn wait(self, parity: u32) {
        // SAFETY: the caller's contract.
        while !unsafe { self.try_wait(parity) } {}
    }

    /// Waits for a time that the hardware chooses; whether the phase is over.
    ///
    /// # Safety
    /// As [`Mbarrier::wait`].
    #[inline(always)]
    unsafe fn try_wait(self, parity: u32) -> bool {
        let over: u32;
        // No `readonly`: nothing may be read before that the copy writes.
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "{{",
                ".reg .pred over;",
                "mbarrier.try_wait.parity.shared::cta.b64 over, [{1}], {2};",
                "selp.u32 {0}, 1, 0, over;",
                "}}",
                out(reg32) over, in(reg32) self.address, in(reg32) parity,
                options(nostack, preserves_flags),
            );
        }
        over != 0
    }
}

/// Makes mbarriers that this thread has initialised known to the copies that it starts after.
#[inline(always)]
pub fn fence_mbarrier_init() {
    // SAFETY: orders memory accesses and does nothing else.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags)) }
}

/// Starts to copy `bytes` from global to shared memory and returns; they land in the current phase of
/// `barrier`, on which they must have been announced. One thread copies for the block.
///
/// # Safety
/// Both sides must be of `bytes` bytes, start at a multiple of 16, and `bytes` must be one; `from`
/// is readable global memory that nobody writes meanwhile. Nobody may access `to` before the phase is
/// over, all reads of what it held must lie before a block barrier, and the block must not exit before
/// the phase is over.
#[inline(always)]
pub unsafe fn copy_bulk<T: Word>(to: Shared<T>, from: *const T, bytes: u32, barrier: Mbarrier) {
    // The own block's addresses are valid in the cluster's window, whose name this instruction wants.
    // SAFETY: the caller's contract.
    unsafe {
        asm!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
            in(reg32) to.address(), in(reg64) from, in(reg32) bytes, in(reg32) barrier.address,
            options(nostack, preserves_flags),
        );
    }
}
