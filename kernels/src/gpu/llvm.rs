//! rustc's own NVPTX target: coordinates, barriers and shuffles are LLVM intrinsics.
//!
//! Barriers and shuffles must not be inline asm: rustc does not mark asm convergent, so LLVM could
//! move it into or out of divergent code. The intrinsics carry the attribute.

use core::arch::{asm, global_asm, nvptx};

use super::{Shared, Word};

/// Declares device entry points.
///
/// ```ignore
/// kernel! {
///     /// Writes one.
///     pub fn write_one(output: *mut u32) { unsafe { *output = 1 } }
/// }
/// ```
#[macro_export]
macro_rules! kernel {
    ($($(#[$attr:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attr])*
        // SAFETY: the names are prefixed with their variant, so no two symbols collide.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($($arg: $ty),*) $body
    )*};
}

macro_rules! coordinates {
    ($($(#[$attr:meta])* $name:ident = $intrinsic:ident;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name() -> u32 {
            // SAFETY: reads a special register that every thread has.
            unsafe { nvptx::$intrinsic() }
        }
    )*};
}

coordinates! {
    /// Index of this thread in its block, along x.
    thread_idx = _thread_idx_x;
    /// Index of this thread in its block, along y.
    thread_idx_y = _thread_idx_y;
    /// Index of this block in the grid, along x.
    block_idx = _block_idx_x;
    /// Index of this block in the grid, along y.
    block_idx_y = _block_idx_y;
    /// Threads of a block, along x.
    block_dim = _block_dim_x;
    /// Threads of a block, along y.
    block_dim_y = _block_dim_y;
    /// Blocks of the grid, along x.
    grid_dim = _grid_dim_x;
    /// Blocks of the grid, along y.
    grid_dim_y = _grid_dim_y;
}

unsafe extern "C" {
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn laneid() -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.barrier.cluster.arrive"]
    fn barrier_cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed"]
    fn barrier_cluster_arrive_relaxed();
    #[link_name = "llvm.nvvm.barrier.cluster.wait"]
    fn barrier_cluster_wait();
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_sync_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    fn redux_sync_min(value: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    fn redux_sync_max(value: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_sync_umin(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_sync_umax(value: u32, mask: u32) -> u32;
}

/// Lane of this thread in its warp, 0 to 31.
#[inline(always)]
pub fn lane_id() -> u32 {
    // SAFETY: reads a special register.
    unsafe { laneid() }
}

/// Block barrier: every thread of the block arrives, then all go on. Orders shared and global
/// accesses of the block's threads.
///
/// # Safety
/// Every thread of the block that has not exited must reach the same barrier.
#[inline(always)]
pub unsafe fn sync_block() {
    // SAFETY: the caller's contract.
    unsafe { nvptx::_syncthreads() }
}

/// Warp barrier over the lanes of `mask`; orders their memory accesses.
///
/// # Safety
/// Every lane named in `mask` must reach it with the same mask, the calling lane among them.
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's contract.
    unsafe { bar_warp_sync(mask) }
}

/// First half of the cluster barrier: this thread has arrived, and what it wrote before is seen by
/// whoever waits (sm_90).
///
/// # Safety
/// Every thread of the cluster that has not exited must arrive once and then wait once, in turns.
#[inline(always)]
pub unsafe fn arrive_cluster() {
    // SAFETY: the caller's contract.
    unsafe { barrier_cluster_arrive() }
}

/// [`arrive_cluster`] that publishes nothing: only says that this thread has come so far (sm_90).
///
/// # Safety
/// As [`arrive_cluster`].
#[inline(always)]
pub unsafe fn arrive_cluster_relaxed() {
    // SAFETY: the caller's contract.
    unsafe { barrier_cluster_arrive_relaxed() }
}

/// Second half of the cluster barrier: goes on when every thread of the cluster has arrived, and sees
/// what they published (sm_90).
///
/// # Safety
/// As [`arrive_cluster`].
#[inline(always)]
pub unsafe fn wait_cluster() {
    // SAFETY: the caller's contract.
    unsafe { barrier_cluster_wait() }
}

/// Upper clamp of a whole-warp `down`, `bfly` or `idx` shuffle; `up` clamps at lane 0.
const LAST_LANE: u32 = 31;

#[inline(always)]
pub(super) unsafe fn shuffle_down(mask: u32, value: u32, delta: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { shfl_down(mask, value, delta, LAST_LANE) }
}

#[inline(always)]
pub(super) unsafe fn shuffle_up(mask: u32, value: u32, delta: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { shfl_up(mask, value, delta, 0) }
}

#[inline(always)]
pub(super) unsafe fn shuffle_xor(mask: u32, value: u32, lane_mask: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { shfl_bfly(mask, value, lane_mask, LAST_LANE) }
}

#[inline(always)]
pub(super) unsafe fn shuffle_idx(mask: u32, value: u32, lane: u32) -> u32 {
    // SAFETY: the caller's contract (`Shuffle`).
    unsafe { shfl_idx(mask, value, lane, LAST_LANE) }
}

macro_rules! warp_reductions {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $intrinsic:ident as $raw:ty;)*) => {$(
        $(#[$attr])*
        ///
        /// # Safety
        /// Every lane named in `mask` must execute it together, the calling lane among them.
        #[inline(always)]
        pub unsafe fn $name(mask: u32, value: $ty) -> $ty {
            // SAFETY: the caller's contract.
            unsafe { $intrinsic(value as $raw, mask) as $ty }
        }
    )*};
}

warp_reductions! {
    /// The sum over the lanes of `mask`, wrapping around, in one instruction (sm_80).
    redux_add_i32: i32 = redux_sync_add as u32;
    /// The smallest value of the lanes of `mask`, in one instruction (sm_80).
    redux_min_i32: i32 = redux_sync_min as i32;
    /// The largest value of the lanes of `mask`, in one instruction (sm_80).
    redux_max_i32: i32 = redux_sync_max as i32;
    /// The sum over the lanes of `mask`, wrapping around, in one instruction (sm_80).
    redux_add_u32: u32 = redux_sync_add as u32;
    /// The smallest value of the lanes of `mask`, in one instruction (sm_80).
    redux_min_u32: u32 = redux_sync_umin as u32;
    /// The largest value of the lanes of `mask`, in one instruction (sm_80).
    redux_max_u32: u32 = redux_sync_umax as u32;
}

/// Declares a shared array by name, at module scope of the PTX. A Rust static cannot stand in: this
/// target has no way to put one into the shared address space.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_static {
    ($name:ident, $ty:ty, $len:expr) => {
        core::arch::global_asm!(
            concat!(".shared .align 16 .b8 ", stringify!($name), "[{bytes}];"),
            bytes = const $len * size_of::<$ty>(),
        );
    };
}

/// Address of a [`shared_static!`] array in the shared window.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($name:ident) => {{
        let address: u32;
        // SAFETY: takes the address of an array that `shared_static!` declared.
        unsafe {
            core::arch::asm!(
                concat!("mov.u32 {0}, ", stringify!($name), ";"),
                out(reg32) address,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

pub use {shared_address, shared_static};

global_asm!(".extern .shared .align 16 .b8 warpfold_dynamic_shared[];");

/// The block's dynamic shared memory, as many elements as the launch asked bytes for.
#[inline(always)]
pub fn dynamic_shared<T: Word>() -> Shared<T> {
    let address: u32;
    // SAFETY: takes the address of the array declared above.
    unsafe {
        asm!(
            "mov.u32 {0}, warpfold_dynamic_shared;",
            out(reg32) address,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    Shared::from_address(address)
}

/// Where a panic would end: kernels are written so that none is left in the PTX (build-ptx rejects a file
/// that calls anything), but the language wants a handler. cuda_std brings its own.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
