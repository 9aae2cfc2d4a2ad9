//! rust-cuda proper: cuda_std under `rustc_codegen_nvvm`.
//!
//! Module-level asm is not part of NVVM IR, so shared arrays are cuda_std's statics; their address
//! is taken once and converted to the shared window, after which the accessors of `asm` serve.

use core::arch::asm;

use cuda_std::{shared, thread, warp};

use super::{Shared, Word};

/// Declares device entry points.
#[macro_export]
macro_rules! kernel {
    ($($(#[$attr:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attr])*
        #[cuda_std::kernel]
        pub unsafe fn $name($($arg: $ty),*) $body
    )*};
}

macro_rules! coordinates {
    ($($(#[$attr:meta])* $name:ident = $function:path;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            $function()
        }
    )*};
}

coordinates! {
    /// Index of this thread in its block, along x.
    thread_idx = thread::thread_idx_x;
    /// Index of this thread in its block, along y.
    thread_idx_y = thread::thread_idx_y;
    /// Index of this block in the grid, along x.
    block_idx = thread::block_idx_x;
    /// Index of this block in the grid, along y.
    block_idx_y = thread::block_idx_y;
    /// Threads of a block, along x.
    block_dim = thread::block_dim_x;
    /// Threads of a block, along y.
    block_dim_y = thread::block_dim_y;
    /// Blocks of the grid, along x.
    grid_dim = thread::grid_dim_x;
    /// Blocks of the grid, along y.
    grid_dim_y = thread::grid_dim_y;
    /// Lane of this thread in its warp, 0 to 31.
    lane_id = warp::lane_id;
}

/// Block barrier: every thread of the block arrives, then all go on. Orders shared and global
/// accesses of the block's threads.
///
/// # Safety
/// Every thread of the block that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync_block() {
    thread::sync_threads();
}

/// Warp barrier over the lanes of `mask`; orders their memory accesses.
///
/// # Safety
/// Every lane named in `mask` must reach it with the same mask, the calling lane among them.
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's contract.
    unsafe { warp::sync_warp(mask) }
}

// cuda_std has no cluster barrier. libNVVM has one intrinsic for its parts, told apart by a constant,
// and knows that it is convergent.
unsafe extern "C" {
    #[link_name = "llvm.nvvm.cluster.barrier"]
    fn cluster_barrier(part: u32);
}
const ARRIVE: u32 = 0;
const WAIT: u32 = 1;
const RELAXED: u32 = 1 << 4;

/// First half of the cluster barrier: this thread has arrived, and what it wrote before is seen by
/// whoever waits (sm_90).
///
/// # Safety
/// Every thread of the cluster that has not exited must arrive once and then wait once, in turns.
#[inline(always)]
pub unsafe fn arrive_cluster() {
    // SAFETY: the caller's contract.
    unsafe { cluster_barrier(ARRIVE) }
}

/// [`arrive_cluster`] that publishes nothing: only says that this thread has come so far (sm_90).
///
/// # Safety
/// As [`arrive_cluster`].
#[inline(always)]
pub unsafe fn arrive_cluster_relaxed() {
    // SAFETY: the caller's contract.
    unsafe { cluster_barrier(ARRIVE | RELAXED) }
}

/// Second half of the cluster barrier: goes on when every thread of the cluster has arrived, and sees
/// what they published (sm_90).
///
/// # Safety
/// As [`arrive_cluster`].
#[inline(always)]
pub unsafe fn wait_cluster() {
    // SAFETY: the caller's contract.
    unsafe { cluster_barrier(WAIT) }
}

/// Lanes over which a shuffle works: a whole warp.
const WIDTH: u32 = super::WARP_SIZE;

#[inline(always)]
pub(super) unsafe fn shuffle_down(mask: u32, value: u32, delta: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { warp::warp_shuffle_down(mask, value, delta, WIDTH) }.0
}

/// `warp_shuffle_up` passes the clamp of `down` and so returns every lane its own value: the source
/// lane is computed here instead.
#[inline(always)]
pub(super) unsafe fn shuffle_up(mask: u32, value: u32, delta: u32) -> u32 {
    let lane = lane_id();
    let source = if lane >= delta { lane - delta } else { lane };
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { warp::warp_shuffle_idx(mask, value, source, WIDTH) }.0
}

#[inline(always)]
pub(super) unsafe fn shuffle_xor(mask: u32, value: u32, lane_mask: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { warp::warp_shuffle_xor(mask, value, lane_mask, WIDTH) }.0
}

#[inline(always)]
pub(super) unsafe fn shuffle_idx(mask: u32, value: u32, lane: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { warp::warp_shuffle_idx(mask, value, lane, WIDTH) }.0
}

macro_rules! warp_reductions {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $op:ident;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        /// Every lane named in `mask` must execute it together, the calling lane among them.
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: $ty) -> $ty {
            // SAFETY: the caller's contract.
            unsafe { warp::warp_reduce(mask, value, warp::WarpReductionOp::$op) }
        }
    )*};
}

warp_reductions! {
    /// The sum over the lanes of `mask`, wrapping around, in one instruction (sm_80).
    redux_add_i32: i32 = Add;
    /// The smallest value of the lanes of `mask`, in one instruction (sm_80).
    redux_min_i32: i32 = Min;
    /// The largest value of the lanes of `mask`, in one instruction (sm_80).
    redux_max_i32: i32 = Max;
    /// The sum over the lanes of `mask`, wrapping around, in one instruction (sm_80).
    redux_add_u32: u32 = Add;
    /// The smallest value of the lanes of `mask`, in one instruction (sm_80).
    redux_min_u32: u32 = Min;
    /// The largest value of the lanes of `mask`, in one instruction (sm_80).
    redux_max_u32: u32 = Max;
}

/// Declares a shared array by name, in units of 16 bytes: what wide loads and bulk copies are aligned to.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_static {
    ($name:ident, $ty:ty, $len:expr) => {
        #[cuda_std::address_space(shared)]
        #[allow(non_upper_case_globals)]
        static mut $name: [core::mem::MaybeUninit<$crate::gpu::Bytes16>;
            ($len * size_of::<$ty>()).div_ceil(16)] =
            [const { core::mem::MaybeUninit::uninit() }; ($len * size_of::<$ty>()).div_ceil(16)];
    };
}

/// What a shared array is made of.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Bytes16([u64; 2]);

/// Address of a [`shared_static!`] array in the shared window.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($name:ident) => {
        $crate::gpu::shared_window(&raw mut $name as u64)
    };
}

pub use {shared_address, shared_static};

/// Generic address of shared memory to its offset in the shared window, which 32 bits always hold.
#[doc(hidden)]
#[inline(always)]
pub fn shared_window(generic: u64) -> u32 {
    let address: u64;
    // SAFETY: arithmetic on an address; nothing is accessed.
    unsafe {
        asm!(
            "cvta.to.shared.u64 {0}, {1};",
            out(reg64) address,
            in(reg64) generic,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    address as u32
}

/// The block's dynamic shared memory, as many elements as the launch asked bytes for.
#[inline(always)]
pub fn dynamic_shared<T: Word>() -> Shared<T> {
    Shared::from_address(shared_window(shared::dynamic_shared_mem::<T>() as u64))
}
