//! What kernels in Rust are made of: GPU primitives, and collectives by scope.
//!
//! For crates of kernels that are compiled to PTX, by the stock compiler's NVPTX target or by
//! rust-cuda's `rustc_codegen_nvvm` (feature `nvvm`). One source serves both.
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
//! `examples/softmax` of the repository is a crate of kernels that uses it: how it is built, launched
//! and tested.
//!
//! # Scopes
//!
//! | module | who works together | what it has |
//! |---|---|---|
//! | [`thread`] | nobody | coordinates, fences, the block's barriers, values of one thread combined |
//! | [`warp`] | the 32 lanes of a warp | shuffles, votes, barrier; reduce, scans, broadcast |
//! | [`block`] | the threads of a block | reduce, all-reduce, scans, broadcast |
//! | [`cluster`] | the blocks of a cluster (compute capability 9.0) | barrier, distributed shared memory; all-reduce, scan, broadcast |
//! | [`grid`] | the blocks of a launch | barrier, overlap of launches; reduce in one launch, all-reduce, scan, broadcast |
//!
//! [`reduction`] has whole kernels: arrays of any length to one value, or to one for each row, by any
//! operation. [`reducer!`] declares those of one's own [`Reduction`](reduction::Reduction), which
//! `warpfold::Reducer` launches; `examples/statistics` has some.
//! [`binned`] has sums of floats that have the same bits in any order.
//!
//! A collective moves any [`Value`] and combines by any [`Operation`](op::Operation), a user's own among
//! them; several values go together as a tuple. Sums of integers of 32 and 64 bits, and extremes and
//! bitwise operations of those of 32, take the hardware's reduction of a warp by themselves. Blocks need
//! not be whole warps. What a collective needs of shared memory is an argument whose type says how much
//! there is; too little does not compile.
//!
//! # Names
//!
//! What `cuda_std` has is called as there ([`thread::thread_idx_x`], [`thread::sync_threads`],
//! [`warp::warp_vote_ballot`]). Barriers are unsafe here, because threads that miss one are undefined
//! behaviour.
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
//! | [`memory::load16`], [`memory::load16_if`] | `__ldcs((const float4*)p)`, … |
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
//! [`bulk`] and [`cluster`] need compute capability 9.0; the crate that is compiled for it says so with
//! `--cfg warpfold_sm_90`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)]
// The names of a reducer's kernels.
#![feature(macro_metavar_expr_concat)]
// For what is large in a closure: what is not inlined hands its values on through local memory.
#![feature(stmt_expr_attributes)]
// Barriers, shuffles and votes exist only as LLVM intrinsics here.
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
