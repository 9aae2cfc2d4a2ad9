//! Parameters, layouts, sizes and arithmetic shared by the kernels and the host library.
//!
//! This covers the kernels' parameters ([`arguments`]), the sizes that kernels are written for and
//! launches must respect ([`ladder`], [`transpose`], [`segments`], [`runs`]), the exchange of partial
//! results between the reducer's blocks ([`reducer`]) and between devices ([`meeting`]), the forms of
//! results ([`form`]), the parts of fused kernels ([`fused`]), the selection of the first elements in an
//! order ([`top`]), the limits of user-defined reductions ([`custom`]), and sums, means and variances
//! with reproducible bits ([`binned`], [`moments`]). The crate has no dependencies, so that both
//! compilers of the kernels and the host's compiler can build it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
#![warn(missing_docs)]

pub mod arguments;
pub mod binned;
pub mod custom;
pub mod form;
pub mod fused;
pub mod ladder;
pub mod meeting;
pub mod moments;
pub mod reducer;
pub mod runs;
pub mod segments;
pub mod top;
pub mod transpose;

pub use arguments::{Arguments, Parameter};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Block sizes of the suite's one-dimensional kernels, in threads: the powers of two in this range.
pub const BLOCK_SIZES: core::ops::RangeInclusive<u32> = WARP_SIZE..=1024;
