//! What the kernels and the host agree on, each fact once.
//!
//! The kernels' parameters ([`arguments`]), the sizes that a kernel is written for and a launch must
//! respect ([`ladder`], [`transpose`], [`segments`]), how the blocks of the reducer hand over their
//! values ([`reducer`]) and its launches on several devices theirs ([`meeting`]), what the reductions of
//! others are limited to ([`custom`]), and sums, means and variances that have the same bits wherever
//! they are made ([`binned`], [`moments`]). The crate has no dependencies: both compilers of the kernels
//! and the host's compiler read the same constants, structs and arithmetic.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]

pub mod arguments;
pub mod binned;
pub mod custom;
pub mod ladder;
pub mod meeting;
pub mod moments;
pub mod reducer;
pub mod runs;
pub mod segments;
pub mod transpose;

pub use arguments::{Arguments, Parameter};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// The smallest and the largest block that the suite's one-dimensional kernels take, in threads. Blocks
/// are powers of two.
pub const BLOCK_SIZES: core::ops::RangeInclusive<u32> = WARP_SIZE..=1024;
