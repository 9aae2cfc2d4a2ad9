//! Thread-block clusters (compute capability 9.0): blocks that run together and reach each other's
//! shared memory.
//!
//! The launch says how many blocks a cluster has, along x. All threads of the cluster call a collective
//! together; blocks are as [`block`] wants them. Each collective works in an array of [`scratch_words`]
//! words, of the same name in all blocks, and is valid in all threads of the cluster.
//!
//! | | block barriers | cluster barriers |
//! |---|--:|--:|
//! | [`all_reduce`] | 1 | 2 |
//! | [`exclusive_scan`] | 2 | 2 |
//! | [`broadcast`] | 0 | 2 |
//!
//! A cluster barrier must lie between two collectives that use the same array.

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
    /// Index of this block in its cluster; 0 without clusters.
    cluster_rank = "%cluster_ctarank";
    /// Blocks of the cluster; 1 without clusters.
    cluster_dim = "%cluster_nctarank";
}

/// First half of the cluster barrier: this thread has arrived, and what it wrote before is seen by
/// whoever waits.
///
/// # Safety
/// Every thread of the cluster that has not exited must arrive once and then wait once, in turns.
#[inline(always)]
pub unsafe fn arrive() {
    // SAFETY: the caller's contract.
    unsafe { gpu::cluster_arrive() }
}

/// [`arrive`] that publishes nothing: only says that this thread has come so far.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn arrive_relaxed() {
    // SAFETY: the caller's contract.
    unsafe { gpu::cluster_arrive_relaxed() }
}

/// Second half of the cluster barrier: goes on when every thread of the cluster has arrived, and sees
/// what they published.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn wait() {
    // SAFETY: the caller's contract.
    unsafe { gpu::cluster_wait() }
}

/// Cluster barrier: every thread of the cluster arrives, then all go on. Orders the memory accesses of
/// the cluster's threads.
///
/// # Safety
/// Every thread of the cluster that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync() {
    // SAFETY: the caller's contract; each thread arrives once and waits once.
    unsafe {
        arrive();
        wait();
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
    /// The array of the same name in block `rank` of the cluster.
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
        T::from_bits(unsafe { ptx::SharedBits::load_cluster(self.address_of(index)) })
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
        unsafe { ptx::SharedBits::store_cluster(value.to_bits(), self.address_of(index)) }
    }
}

impl Remote<u32> {
    /// Writes value `index` of an array of such values.
    ///
    /// # Safety
    /// As [`set`](Self::set), of all its words.
    #[inline(always)]
    pub unsafe fn set_value<T: Value>(self, index: u32, value: T) {
        let mut at = index.wrapping_mul(T::WORDS);
        value.give(&mut |word| {
            // SAFETY: the caller's contract.
            unsafe { self.set(at, word) };
            at += 1;
        });
    }
}

/// Most blocks of a cluster, on any device.
const MAX_BLOCKS: u32 = 16;

/// Words of shared memory that collectives on values of this type work in: one value per block, behind
/// what [`block`] needs.
pub const fn scratch_words<T: Value>() -> usize {
    block::scratch_words::<T>() + (MAX_BLOCKS * T::WORDS) as usize
}

/// Refuses to compile where the array is too small for the type.
struct Fits<T, const LEN: usize>(PhantomData<T>);

impl<T: Value, const LEN: usize> Fits<T, LEN> {
    const CHECK: () =
        assert!(LEN >= scratch_words::<T>(), "scratch needs cluster::scratch_words::<T>() words");
}

/// Where the value of a block is, in the array of every block.
#[inline(always)]
fn place<T: Value>(rank: u32) -> u32 {
    (block::scratch_words::<T>() as u32) / T::WORDS + rank
}

/// Hands this block's value to all blocks of the cluster. Two cluster barriers: the first one because
/// shared memory may be written from outside only once its block has begun, the second one publishes.
///
/// # Safety
/// As [`all_reduce`]; `value` is the block's, valid in its first warp, or in its first 16 threads.
#[inline(always)]
unsafe fn exchange<T: Value, const LEN: usize>(value: T, scratch: SharedArray<u32, LEN>) {
    const { Fits::<T, LEN>::CHECK };
    let rank = cluster_rank();
    // SAFETY: all blocks have begun behind the first barrier; none leaves before the second one; every
    // block writes a place of its own in every array.
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

/// The values of the blocks from `from` to below `to`, combined in their order.
///
/// # Safety
/// Behind [`exchange`]; blocks below `to` are in the cluster.
#[inline(always)]
unsafe fn combine_blocks<T: Value, O: Operation<T>, const LEN: usize>(
    scratch: SharedArray<u32, LEN>,
    to: u32,
) -> T {
    let (mut value, mut rank) = (O::IDENTITY, 0);
    while rank < to {
        // SAFETY: the caller's contract.
        value = O::combine(value, unsafe { scratch.get_value(place::<T>(rank)) });
        rank += 1;
    }
    value
}

/// The values of all threads of the cluster into one, valid in all of them.
///
/// # Safety
/// Called by all threads of the cluster, none of which still uses `scratch`, and whose blocks take the
/// same way.
#[inline(always)]
pub unsafe fn all_reduce<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: the caller's contract.
    unsafe {
        exchange(block::reduce(value, op, scratch), scratch);
        combine_blocks::<T, O, LEN>(scratch, cluster_dim())
    }
}

/// The values of the cluster's threads before each thread, combined in their order, blocks by rank; and
/// the value of the whole cluster. Both valid in all threads.
///
/// # Safety
/// As [`all_reduce`].
#[inline(always)]
pub unsafe fn exclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract.
    unsafe {
        let (before, of_block) = block::exclusive_scan(value, op, scratch);
        exchange(of_block, scratch);
        let before_block = combine_blocks::<T, O, LEN>(scratch, cluster_rank());
        let whole = combine_blocks::<T, O, LEN>(scratch, cluster_dim());
        (O::combine(before_block, before), whole)
    }
}

/// [`exclusive_scan`] that takes each thread's own value in.
///
/// # Safety
/// As [`all_reduce`].
#[inline(always)]
pub unsafe fn inclusive_scan<T: Value, O: Operation<T>, const LEN: usize>(
    value: T,
    op: O,
    scratch: SharedArray<u32, LEN>,
) -> (T, T) {
    // SAFETY: the caller's contract.
    let (before, whole) = unsafe { exclusive_scan(value, op, scratch) };
    (O::combine(before, value), whole)
}

/// The value of thread 0 of block `rank`, in all threads of the cluster.
///
/// # Safety
/// As [`all_reduce`], with the same `rank` in all of them, which the cluster has.
#[inline(always)]
pub unsafe fn broadcast<T: Value, const LEN: usize>(
    value: T,
    rank: u32,
    scratch: SharedArray<u32, LEN>,
) -> T {
    // SAFETY: the caller's contract; every block hands its first thread's value to all.
    unsafe {
        exchange(value, scratch);
        scratch.get_value(place::<T>(rank))
    }
}
