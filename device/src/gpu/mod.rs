//! What the two compilers do differently, and the instructions that everything else is made of. Nothing
//! outside this folder has a `cfg` for the code generator.
//!
//! `llvm` is the NVPTX target of the stock compiler, `nvvm` is rust-cuda's `rustc_codegen_nvvm`. They
//! differ in how a kernel and a shared array are declared, and in what keeps an instruction that several
//! threads execute together *convergent*: neither moved into a branch nor copied into both of its sides.
//! Inline assembly is convergent under neither. So barriers, shuffles and votes are intrinsics that the
//! LLVM in question knows, because what it knows of them includes that they are convergent. Whatever a
//! single thread executes is written in PTX, in [`ptx`], and serves both.

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

/// 16 bytes at a multiple of 16: what shared arrays are made of, because wide loads and bulk copies want
/// that alignment.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Bytes16([u64; 2]);
