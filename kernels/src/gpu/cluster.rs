//! Thread-block clusters (sm_90): blocks that run together and reach each other's shared memory.
//!
//! The launch says how many blocks a cluster has. The cluster's barrier is the code generators'
//! business, like every barrier.

use core::{arch::asm, marker::PhantomData};

use super::{Shared, Word, arrive_cluster, asm as bits, wait_cluster};

macro_rules! registers {
    ($($(#[$attr:meta])* $name:ident = $register:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value;
            // SAFETY: reads a special register; it does not change while a thread runs.
            unsafe {
                asm!(
                    concat!("mov.u32 {0}, ", $register, ";"),
                    out(reg32) value,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            value
        }
    )*};
}

registers! {
    /// Index of this block in its cluster; 0 without clusters (sm_90).
    cluster_rank = "%cluster_ctarank";
    /// Blocks of the cluster; 1 without clusters (sm_90).
    cluster_dim = "%cluster_nctarank";
}

/// Cluster barrier: every thread of the cluster arrives, then all go on. Orders the memory accesses of
/// the cluster's threads.
///
/// # Safety
/// Every thread of the cluster that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync_cluster() {
    // SAFETY: the caller's contract; each thread arrives once and waits once.
    unsafe {
        arrive_cluster();
        wait_cluster();
    }
}

/// An array in the shared memory of one block of the cluster, for all of its blocks: distributed shared
/// memory.
#[derive(Clone, Copy)]
pub struct Remote<T> {
    /// Offset in the cluster's shared window, which 32 bits always hold.
    address: u32,
    elements: PhantomData<*mut T>,
}

impl<T: Word> Shared<T> {
    /// The array of the same name in block `rank` of the cluster (sm_90).
    ///
    /// # Safety
    /// `rank` must be below [`cluster_dim`].
    #[inline(always)]
    pub unsafe fn of_block(self, rank: u32) -> Remote<T> {
        let address;
        // SAFETY: arithmetic on an address; nothing is accessed.
        unsafe {
            asm!(
                "mapa.shared::cluster.u32 {0}, {1}, {2};",
                out(reg32) address, in(reg32) self.address(), in(reg32) rank,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Remote { address, elements: PhantomData }
    }
}

impl<T: Word> Remote<T> {
    #[inline(always)]
    fn address_of(self, index: u32) -> u32 {
        self.address.wrapping_add(index.wrapping_mul(size_of::<T>() as u32))
    }

    /// Element `index`.
    ///
    /// # Safety
    /// As [`Remote::set`], and the element must have been written before.
    #[inline(always)]
    pub unsafe fn get(self, index: u32) -> T {
        // SAFETY: the caller's contract.
        T::from_bits(unsafe { bits::SharedBits::load_cluster(self.address_of(index)) })
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array. The block that owns it must have begun and must not exit before
    /// this: a cluster barrier lies before and another one behind. A barrier of the cluster must lie
    /// between this write and another thread's access.
    #[inline(always)]
    pub unsafe fn set(self, index: u32, value: T) {
        // SAFETY: the caller's contract.
        unsafe { bits::SharedBits::store_cluster(value.to_bits(), self.address_of(index)) }
    }
}
