//! GPU primitives and collectives by scope (thread, warp, block, cluster, grid), for kernels written in
//! Rust. A *collective* is a function that the threads of a scope call together, like those of CUB.

// Empty for the host, so that tools for all packages of the workspace can include this one. The
// attribute removes what follows it, and so precedes the features that a stable compiler refuses.
#![cfg(target_arch = "nvptx64")]
//!
//! Kernels that use this crate are compiled to PTX by the stock compiler's NVPTX target, which
//! `warpfold-build` runs from a build script, or by rust-cuda's `rustc_codegen_nvvm` (feature `nvvm`).
//!
//! ```ignore
//! #![no_std]
//! #![feature(abi_ptx, asm_experimental_arch)]
//! use warpfold_device::{block, grid, kernel, op::Sum, shared_array, thread};
//!
//! shared_array! { fn scratch: block_sums_scratch = [u32; block::scratch_words::<f32>()] }
//!
//! kernel! {
//!     /// Sums `block_dim` elements per block.
//!     pub fn block_sums(input: *const f32, n: u64, output: *mut f32) {
//!         let i = grid::thread_index();
//!         let value = if i < n { unsafe { *input.add(i as usize) } } else { 0.0 };
//!         let sum = unsafe { block::reduce(value, Sum, scratch()) };
//!         if thread::thread_idx_x() == 0 {
//!             unsafe { *output.add(thread::block_idx_x() as usize) = sum };
//!         }
//!     }
//! }
//! ```
//!
//! In the repository, `examples/template` is the shortest program with such a crate, and
//! `examples/softmax` shows how one is launched and tested.
//!
//! # Scopes
//!
//! | module | participants | contents |
//! |---|---|---|
//! | [`thread`] | one thread | coordinates, fences, the block's barriers, reduce and scans of one thread's values |
//! | [`warp`] | the 32 lanes of a warp | shuffles, votes, barrier; reduce, scans, broadcast |
//! | [`block`] | the threads of a block | reduce, all-reduce, scans, broadcast |
//! | [`cluster`] | the blocks of a cluster (compute capability 9.0) | barrier, distributed shared memory; all-reduce, scans, broadcast |
//! | [`grid`] | the blocks of a launch | barrier, overlap of launches; reduce in one launch, all-reduce, scans, broadcast |
//!
//! [`reduction`] has complete kernels, which reduce arrays of any length to one value or to one per row
//! by any operation. [`reducer!`] declares the kernels of a user-defined
//! [`Reduction`](reduction::Reduction), which `warpfold::Reducer` launches: of a function's values
//! ([`Mapped`](reduction::Mapped)), of a comparison ([`FirstBy`](reduction::FirstBy)), or of partial
//! results of any kind, as in `examples/statistics`. [`binned`] has sums of floats whose bits do not
//! depend on the order of the elements.
//!
//! A collective takes any [`Value`] and any [`Operation`](op::Operation), including user-defined ones; a
//! tuple combines several values at once. Sums of 32- and 64-bit integers, and extremes and bitwise
//! operations of 32-bit ones, use the hardware's warp reduction. Blocks need not be whole warps. The
//! type of a collective's shared memory states its length; too small an array does not compile.
//!
//! # Names
//!
//! Functions that `cuda_std` also has keep its names ([`thread::thread_idx_x`],
//! [`thread::sync_threads`], [`warp::warp_vote_ballot`]). Barriers are unsafe here, because it is
//! undefined behaviour if a thread misses one.
//!
//! | here | CUDA C |
//! |---|---|
//! | [`kernel!`] | `__global__` |
//! | [`thread::thread_idx_x`], … | `threadIdx.x`, … |
//! | [`thread::sync_threads`], [`warp::sync_warp`] | `__syncthreads()`, `__syncwarp(mask)` |
//! | [`Shuffle`](warp::Shuffle) | `__shfl_down_sync`, … |
//! | [`shared_array!`], [`dynamic_shared!`] | `__shared__ T x[N]`, `extern __shared__` |
//! | [`atomic`] | `cuda::atomic_ref` |
//! | [`thread::device_fence`] | `__threadfence()` |
//! | [`grid::launch_dependents`] | `cudaTriggerProgrammaticLaunchCompletion()` |
//! | [`grid::wait_grid_dependencies`] | `cudaGridDependencySynchronize()` |
//! | [`memory::load16`], [`memory::load16_if`] | `*(const float4*)p`, with a cache hint |
//! | [`memory::store16`] | `*(float4*)p = x` |
//! | [`math::exp2`], [`math::log2`], [`math::fma`] | `exp2f(x)`, `__log2f(x)`, `fma(a, b, c)` |
//! | [`narrow::dot_i8`], [`narrow::dot_u8`] | `__dp4a(a, b, c)` |
//! | [`narrow::widen_f16x2`], [`narrow::narrow_f16`] | `__half22float2(x)`, `__float2half(x)` |
//! | [`Shared::get16`], [`Shared::set16`] | `((const float4*)shared)[i]`, … |
//! | [`bulk::Mbarrier`], [`bulk::fence_mbarrier_init`] | `cuda::barrier`, `cuda::ptx::mbarrier_init`, … |
//! | [`bulk::copy_bulk`] | `cuda::ptx::cp_async_bulk` |
//! | [`cluster::cluster_rank`], [`cluster::cluster_dim`] | `cluster.block_rank()`, `cluster.num_blocks()` |
//! | [`cluster::arrive`], [`cluster::wait`], [`cluster::sync`] | `__cluster_barrier_arrive()`, …, `cluster.sync()` |
//! | [`Shared::of_block`], [`cluster::Remote`] | `cluster.map_shared_rank(p, rank)` |
//!
//! [`bulk`] and [`cluster`] need compute capability 9.0 and exist only with `--cfg warpfold_sm_90`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)]
// `reducer!` concatenates the names of its kernels.
#![feature(macro_metavar_expr_concat)]
// For `#[inline]` on large closures, which would otherwise pass their values through local memory.
#![feature(stmt_expr_attributes)]
// Barriers, shuffles and votes are available only as LLVM intrinsics.
#![allow(internal_features)]

mod gpu;
mod shared;
mod value;

pub mod atomic;
pub mod binned;
pub mod block;
#[cfg(warpfold_sm_90)]
pub mod bulk;
#[cfg(warpfold_sm_90)]
pub mod cluster;
pub mod copy;
#[doc(hidden)]
pub mod expression;
pub mod grid;
pub mod math;
pub mod memory;
pub mod narrow;
pub mod op;
pub mod reduction;
pub mod thread;
pub mod warp;

#[doc(hidden)]
pub use warpfold_abi as abi;

#[doc(hidden)]
pub use gpu::Bytes16;
pub use shared::{Shared, SharedArray, Word};
pub use value::Value;
