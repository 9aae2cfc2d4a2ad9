//! Thread-block clusters (compute capability 9.0): co-scheduled blocks with access to each other's
//! shared memory.
//!
//! The launch sets the number of blocks per cluster, along x. All threads of the cluster call a
//! collective together; blocks are one-dimensional, as in [`block`]. Each collective works in an array
//! of [`scratch_words`] words, the same array in all blocks, and its result is valid in all threads.
//!
//! | | block barriers | cluster barriers |
//! |---|--:|--:|
//! | [`all_reduce`] | 1 | 2 |
//! | [`exclusive_scan`], [`inclusive_scan`] | 2 | 2 |
//! | [`broadcast`] | 0 | 2 |
//!
//! A cluster barrier must separate two collectives that use the same array.

use core::{arch::asm, marker::PhantomData};

use crate::{
    Shared, SharedArray, Value, Word, block,
    gpu::{self, ptx},
    op::Operation,
    thread::thread_idx_x,
};

macro_rules! registers {
    ($($(#[$attr:meta])* $name:ident = $register:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value;
            // SAFETY: the instruction reads a special register, which is constant in a thread.
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
    /// Returns the index of this block in its cluster; 0 without clusters.
    cluster_rank = "%cluster_ctarank";
    /// Returns the number of blocks of the cluster; 1 without clusters.
    cluster_dim = "%cluster_nctarank";
}

/// Arrives at the cluster barrier; publishes this thread's writes to the threads that [`wait`].
///
/// # Safety
/// Every thread of the cluster that has not exited must alternate between one arrival and one [`wait`].
#[inline(always)]
pub unsafe fn arrive() {
    // SAFETY: all threads of the cluster alternate between arrival and wait, as the caller guarantees.
    unsafe { gpu::cluster_arrive() }
}

/// Arrives as [`arrive`] does, but orders no memory accesses.
///
/// # Safety
/// Same as [`arrive`].
#[inline(always)]
pub unsafe fn arrive_relaxed() {
    // SAFETY: all threads of the cluster alternate between arrival and wait, as the caller guarantees.
    unsafe { gpu::cluster_arrive_relaxed() }
}

/// Waits until all threads of the cluster have arrived and their published writes are visible.
///
/// # Safety
/// Same as [`arrive`].
#[inline(always)]
pub unsafe fn wait() {
    // SAFETY: all threads of the cluster alternate between arrival and wait, as the caller guarantees.
    unsafe { gpu::cluster_wait() }
}

/// Waits until every thread of the cluster has arrived; orders their memory accesses.
///
/// # Safety
/// Every thread of the cluster that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync() {
    // SAFETY: all threads of the cluster call it; each arrives once and then waits once.
    unsafe {
        arrive();
        wait();
    }
}

/// An array in the shared memory of one block, accessible to its cluster (distributed shared memory).
#[derive(Clone, Copy)]
pub struct Remote<T> {
    /// Offset in the cluster's shared window; it always fits in 32 bits.
    address: u32,
    elements: PhantomData<*mut T>,
}

impl<T: Word> Shared<T> {
    /// Returns the same array in block `rank` of the cluster.
    ///
    /// # Safety
    /// `rank` must be below [`cluster_dim`].
    #[inline(always)]
    pub unsafe fn of_block(self, rank: u32) -> Remote<T> {
        let address;
        // SAFETY: the instruction computes an address and accesses no memory.
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

    /// Reads element `index`.
    ///
    /// # Safety
    /// Same as [`Remote::set`], and the element must have been written before.
    #[inline(always)]
    pub unsafe fn get(self, index: u32) -> T {
        // SAFETY: the element has been written, and its block is running, as the caller guarantees.
        T::from_bits(unsafe { ptx::SharedBits::load_cluster(self.address_of(index)) })
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array. The block that owns it must have started and must not have
    /// exited: one cluster barrier must precede this access, and another one must follow it. A cluster
    /// barrier must separate this write from another thread's access.
    #[inline(always)]
    pub unsafe fn set(self, index: u32, value: T) {
        // SAFETY: the element exists, and its block is running, as the caller guarantees.
        unsafe { ptx::SharedBits::store_cluster(value.to_bits(), self.address_of(index)) }
    }
}

impl Remote<u32> {
    /// Writes value `index` of an array of multi-word values.
    ///
    /// # Safety
    /// Same as [`set`](Self::set), for all words of the value.
    #[inline(always)]
    pub unsafe fn set_value<T: Value>(self, index: u32, value: T) {
        let mut at = index.wrapping_mul(T::WORDS);
        value.give(&mut |word| {
            // SAFETY: all words of the value are inside the array, as the caller guarantees.
            unsafe { self.set(at, word) };
            at += 1;
        });
    }
}

/// Maximum number of blocks per cluster, on any device.
const MAX_BLOCKS: u32 = 16;

/// Returns the words that collectives on this type need: those of [`block`], and one value per block.
pub const fn scratch_words<T: Value>() -> usize {
    block::scratch_words::<T>() + (MAX_BLOCKS * T::WORDS) as usize
}

struct Fits<T, const LEN: usize>(PhantomData<T>);

impl<T: Value, const LEN: usize> Fits<T, LEN> {
    const CHECK: () =
        assert!(LEN >= scratch_words::<T>(), "scratch needs cluster::scratch_words::<T>() words");
}

/// Returns the index of a block's value in every block's array.
#[inline(always)]
fn place<T: Value>(rank: u32) -> u32 {
    (block::scratch_words::<T>() as u32) / T::WORDS + rank
}

/// Writes this block's value to the arrays of all blocks. Two cluster barriers: the first because a
/// block's shared memory is writable only after it has started, the second to publish.
///
/// # Safety
/// Same as [`all_reduce`]; `value` is the block's, valid in thread 0.
#[inline(always)]
unsafe fn exchange<T: Value, const LEN: usize>(value: T, scratch: SharedArray<u32, LEN>) {
    const { Fits::<T, LEN>::CHECK };
    let rank = cluster_rank();
    // SAFETY: all blocks have started after the first barrier, and none exits before the second; every
    // block writes its own element of each array.
    unsafe {
        sync();
        if thread_idx_x() == 0 {
            let mut to = 0;
            while to < cluster_dim() {
                scratch.of_block(to).set_value(place::<T>(rank), value);
                to += 1;
            }
        }
        sync();
    }
}

/// Combines the values of the blocks below `to`, in rank order.
///
/// # Safety
/// Called after [`exchange`]; blocks below `to` are in the cluster.
#[inline(always)]
unsafe fn combine_blocks<T: Value, O: Operation<T>, const LEN: usize>(
    scratch: SharedArray<u32, LEN>,
    to: u32,
) -> T {
    let (mut value, mut rank) = (O::IDENTITY, 0);
    while rank < to {
        // SAFETY: `exchange` has written the values of all blocks of the cluster.
        value = O::combine(value, unsafe { scratch.get_value(place::<T>(rank)) });
        rank += 1;
    }
    value
}

/// Reduces the values of all threads of the cluster.
///
/// # Safety
/// Called by all threads of the cluster in uniform control flow, when none still uses `scratch`.
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: all threads of the cluster call it, and none uses `scratch`, as the caller guarantees.
    unsafe {
        exchange(block::reduce(value, op, scratch), scratch);
        combine_blocks::<T, O, LEN>(scratch, cluster_dim())
    }
}

/// Combines the values of the cluster's threads before each thread, in thread order, with blocks in the
/// order of their ranks. Returns the result and the value of the whole cluster.
///
/// # Safety
/// Same as [`all_reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: all threads of the cluster call it, and none uses `scratch`, as the caller guarantees.
    unsafe {
        let (before, of_block) = block::exclusive_scan(value, op, scratch);
        exchange(of_block, scratch);
        let before_block = combine_blocks::<T, O, LEN>(scratch, cluster_rank());
        let whole = combine_blocks::<T, O, LEN>(scratch, cluster_dim());
        (O::combine(before_block, before), whole)
    }
}

/// Scans as [`exclusive_scan`] does, but includes each thread's own value.
///
/// # Safety
/// Same as [`all_reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the callee's conditions are those of this function.
    let (before, whole) = unsafe { exclusive_scan(value, op, scratch) };
    (O::combine(before, value), whole)
}

/// Returns the value of thread 0 of block `rank` in all threads of the cluster.
///
/// # Safety
/// Same as [`all_reduce`]; `rank` must be in the cluster and the same in all threads.
#[inline(always)]
pub unsafe fn broadcast<T: Value, const LEN: usize>(
    value: T,
    rank: u32,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: the conditions are those of `exchange`, which has written the value of block `rank`.
    unsafe {
        exchange(value, scratch);
        scratch.get_value(place::<T>(rank))
    }
}
