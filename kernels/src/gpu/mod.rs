//! What a kernel may use of the machine, and the only place that knows a code generator.
//!
//! | here | CUDA C |
//! |---|---|
//! | [`kernel!`](crate::kernel) | `__global__` |
//! | [`thread_idx`], [`block_idx`], [`block_dim`], [`grid_dim`] | `threadIdx.x`, … |
//! | [`sync_block`], [`sync_warp`] | `__syncthreads()`, `__syncwarp(mask)` |
//! | [`Shuffle`] | `__shfl_down_sync`, … |
//! | [`shared_array!`](crate::shared_array), [`dynamic_shared`] | `__shared__ T x[N]`, `extern __shared__` |
//! | [`atomic`] | `cuda::atomic_ref` |
//! | [`fence_device`] | `__threadfence()` |
//! | [`launch_dependents`] | `cudaTriggerProgrammaticLaunchCompletion()` |
//! | [`wait_grid_dependencies`] | `cudaGridDependencySynchronize()` |
//! | [`load16`], [`load16_if`] | `__ldcs((const float4*)p)`, … |
//! | [`dot_i8`], [`dot_u8`] | `__dp4a(a, b, c)` |
//! | [`widen_f16x2`], [`narrow_f16`] | `__half22float2(x)`, `__float2half(x)` |
//! | [`Shared::get16`] | `((const float4*)shared)[i]` |
//! | [`Mbarrier`], [`fence_mbarrier_init`] | `cuda::barrier`, `cuda::ptx::mbarrier_init`, … |
//! | [`copy_bulk`] | `cuda::ptx::cp_async_bulk` |
//! | [`cluster_rank`], [`cluster_dim`] | `cluster.block_rank()`, `cluster.num_blocks()` |
//! | [`arrive_cluster`], [`wait_cluster`], [`sync_cluster`] | `__cluster_barrier_arrive()`, …, `cluster.sync()` |
//! | [`Shared::of_block`], [`Remote`] | `cluster.map_shared_rank(p, rank)` |
//!
//! The last five rows need compute capability 9.0.
//!
//! `llvm` is rustc's own NVPTX target, `nvvm` is cuda_std under `rustc_codegen_nvvm`. They differ in
//! how a kernel and a shared array are declared, and in where coordinates, barriers and shuffles come
//! from. Whatever is written in PTX serves both and lives in `asm`.

mod asm;
pub mod atomic;
mod bulk;
mod cluster;
mod narrow;
mod shared;
mod shuffle;
mod vector;

#[cfg(not(feature = "nvvm"))]
#[path = "llvm.rs"]
mod codegen;
#[cfg(feature = "nvvm")]
#[path = "nvvm.rs"]
mod codegen;

pub use asm::{
    fence_device, launch_dependents, max_nan_f32, max_nan_f64, min_nan_f32, min_nan_f64,
    wait_grid_dependencies,
};
pub use atomic::Atomic;
pub use bulk::{Mbarrier, copy_bulk, fence_mbarrier_init};
pub use cluster::{Remote, cluster_dim, cluster_rank, sync_cluster};
#[cfg(feature = "nvvm")]
#[doc(hidden)]
pub use codegen::{Bytes16, shared_window};
pub use codegen::{
    arrive_cluster, arrive_cluster_relaxed, block_dim, block_dim_y, block_idx, block_idx_y,
    dynamic_shared, grid_dim, grid_dim_y, lane_id, redux_add_i32, redux_add_u32, redux_max_i32,
    redux_max_u32, redux_min_i32, redux_min_u32, sync_block, sync_warp, thread_idx, thread_idx_y,
    wait_cluster,
};
#[doc(hidden)]
pub use codegen::{shared_address, shared_static};
pub use narrow::{dot_i8, dot_u8, narrow_f16, widen_f16x2};
pub use shared::{Shared, Word};
pub use shuffle::{FULL_WARP, Shuffle};
pub use vector::{CacheHint, Cached, EvictFirst, Lanes16, Streaming, load16, load16_if};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Barrier over the whole grid: every block arrives, then all go on. Orders the memory accesses of all
/// threads.
///
/// Each block adds to `counter`, block 0 so much that the top bit flips when all have arrived. That
/// works from either state of the bit: the counter starts at zero once and is never reset.
///
/// # Safety
/// All threads of all blocks must call it, all blocks must be resident together (a cooperative launch),
/// and `counter` must be used by this barrier alone.
#[inline(always)]
pub unsafe fn sync_grid(counter: *mut u32) {
    const FLIPPED: u32 = 1 << 31;
    // SAFETY: the caller's contract; the block barriers make thread 0 speak for its block.
    unsafe {
        sync_block();
        if thread_idx() == 0 {
            let share = if block_idx() == 0 { FLIPPED - (grid_dim() - 1) } else { 1 };
            let before = Atomic::fetch_add::<atomic::AcqRel, atomic::Device>(counter, share);
            while (atomic::load_acquire(counter) ^ before) & FLIPPED == 0 {}
        }
        sync_block();
    }
}

/// Index of this thread in the grid. 64 bits, because grids of more than 2^32 threads are legal.
#[inline(always)]
pub fn global_idx() -> u64 {
    u64::from(block_idx()) * u64::from(block_dim()) + u64::from(thread_idx())
}

/// Threads of the whole grid: the step of a grid-stride loop.
#[inline(always)]
pub fn global_dim() -> u64 {
    u64::from(grid_dim()) * u64::from(block_dim())
}
