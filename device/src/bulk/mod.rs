//! Bulk asynchronous copies from global to shared memory, and mbarriers (compute capability 9.0).
//!
//! An mbarrier counts phases. A phase ends when the number of arrivals given to [`Mbarrier::init`] and
//! all announced bytes have arrived; the next one then begins. Waiting threads identify a phase by its
//! parity, which is 0 for the first phase. They must therefore observe the end of each phase before the
//! following one can end; otherwise the parities of two phases would be confused.
//!
//! Copies use the asynchronous proxy. The data of a copy is visible to the threads that have waited for
//! its phase. A block barrier suffices to order reads of a buffer before the next copy into it; writes
//! by threads would also need a proxy fence.

mod ring;

use core::arch::asm;

pub use ring::Ring;

use crate::{Shared, Word};

/// An mbarrier: 8 bytes of shared memory.
#[derive(Clone, Copy)]
pub struct Mbarrier {
    address: u32,
}

impl Mbarrier {
    /// Returns the barrier stored in this cell.
    #[inline(always)]
    pub fn at(cell: Shared<u64>) -> Self {
        Self { address: cell.address() }
    }

    /// Initialises the barrier, in phase 0, with `arrivals` arrivals per phase.
    ///
    /// # Safety
    /// The cell must belong to the block and not be a barrier yet, and must not be used as ordinary
    /// memory afterwards. [`fence_mbarrier_init`] must be called between this and the first copy, and a
    /// block barrier between this and another thread's use.
    #[inline(always)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the cell belongs to the block and is not a barrier yet, as the caller guarantees.
        unsafe {
            asm!(
                "mbarrier.init.shared::cta.b64 [{0}], {1};",
                in(reg32) self.address, in(reg32) arrivals,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Arrives, and announces that copies will deliver `bytes` bytes in this phase.
    ///
    /// # Safety
    /// The barrier must be initialised, the phase must have room for an arrival and for `bytes` (at most
    /// 2^20 - 1 in all), and copies of `bytes` bytes in total must be started on it.
    #[inline(always)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        // SAFETY: the barrier is initialised, and the phase has room, as the caller guarantees.
        unsafe {
            asm!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};",
                in(reg32) self.address, in(reg32) bytes,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Waits for the end of the phase with this parity; its copies are then visible to this thread.
    ///
    /// # Safety
    /// The barrier must be initialised, and the phase must be the current one or its predecessor.
    #[inline(always)]
    pub unsafe fn wait(self, parity: u32) {
        // SAFETY: the callee's conditions are those of this function.
        while !unsafe { self.try_wait(parity) } {}
    }

    /// Waits until the phase ends or a hardware limit is reached; returns whether the phase has ended.
    ///
    /// # Safety
    /// Same as [`Mbarrier::wait`].
    #[inline(always)]
    unsafe fn try_wait(self, parity: u32) -> bool {
        let over: u32;
        // Without `readonly`, so that no read of the copy's destination is moved before the wait.
        // SAFETY: the barrier is initialised, as the caller guarantees.
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

/// Makes the mbarriers that this thread has initialised visible to its later copies.
#[inline(always)]
pub fn fence_mbarrier_init() {
    // SAFETY: the instruction orders memory accesses and has no other effect.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags)) }
}

/// Starts a copy of `bytes` bytes from global to shared memory. The copy completes in the current phase
/// of `barrier`, for which the bytes must have been announced. One thread copies for the whole block.
///
/// # Safety
/// Both sides must have `bytes` bytes and be 16-byte aligned, and `bytes` must be a multiple of 16.
/// `from` must be readable global memory that is not written meanwhile. `to` must not be accessed before
/// the phase has ended, a block barrier must separate all reads of its old contents from the copy, and
/// the block must not exit before the phase has ended.
#[inline(always)]
pub unsafe fn copy_bulk<T: Word>(to: Shared<T>, from: *const T, bytes: u32, barrier: Mbarrier) {
    // The instruction takes `shared::cluster` addresses; a block's own shared addresses are valid ones.
    // SAFETY: both sides are valid, aligned and not used otherwise meanwhile, as the caller guarantees.
    unsafe {
        asm!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
            in(reg32) to.address(), in(reg64) from, in(reg32) bytes, in(reg32) barrier.address,
            options(nostack, preserves_flags),
        );
    }
}
