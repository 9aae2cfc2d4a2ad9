//! Differences between the two compilers, and the instructions that everything else is built on. Only
//! this folder has a `cfg` for the code generator.
//!
//! `llvm` is the stock compiler's NVPTX target, `nvvm` is rust-cuda's `rustc_codegen_nvvm`. They declare
//! kernels and shared arrays differently, and they keep instructions that several threads execute
//! together *convergent* (neither moved into a branch nor duplicated into both of its sides) by
//! different means. Neither compiler treats inline assembly as convergent. Barriers, shuffles and votes
//! are therefore intrinsics that the respective LLVM knows to be convergent. Instructions of a single
//! thread are written in PTX, in [`ptx`], for both compilers.

mod intrinsics;
pub(crate) mod ptx;

#[cfg(not(feature = "nvvm"))]
#[path = "llvm.rs"]
mod codegen;
#[cfg(feature = "nvvm")]
#[path = "nvvm.rs"]
mod codegen;

#[cfg(warpfold_sm_90)]
pub(crate) use codegen::cluster::{cluster_arrive, cluster_arrive_relaxed, cluster_wait};
pub(crate) use codegen::{
    redux_add, redux_and, redux_max, redux_min, redux_or, redux_umax, redux_umin, redux_xor,
};
pub(crate) use intrinsics::{
    bar_warp_sync, barrier, barrier_and, barrier_count, barrier_or, shuffle_down, shuffle_idx,
    shuffle_up, shuffle_xor, vote_all, vote_any, vote_ballot,
};

/// Unit of shared arrays: 16 bytes, with the alignment that wide loads and bulk copies require.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Bytes16([u64; 2]);
