//! The device crate: every kernel of the suite, compiled to PTX.
//!
//! Each variant of a kernel has one file. The file's name is also the name of the program that runs the
//! variant, its key in JSON and the prefix of its PTX symbols (`<variant>_<op>_<dtype>`). Kernels access
//! the hardware only through `warpfold-device` and compile under both code generators, rustc's own NVPTX
//! target and rust-cuda's `rustc_codegen_nvvm`. Their parameters are structs of `warpfold-abi`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
#![feature(macro_metavar_expr_concat)]
// If one of these features is off, functions that only its kernels call are unused.
#![cfg_attr(
    not(all(feature = "suite", feature = "library", feature = "matrices")),
    allow(dead_code, unused_imports, unused_macros)
)]
// Kernels are launched, not called. The docs of their modules state the launch conditions.
#![allow(clippy::missing_safety_doc)]

#[cfg(feature = "suite")]
pub mod memory;
pub mod reduce;
#[cfg(feature = "suite")]
pub mod testing;

warpfold_device::dynamic_shared! {
    /// The block's dynamic shared memory, of the size that the launch requested.
    pub(crate) fn dynamic_shared: warpfold_dynamic_shared
}

pub(crate) mod prelude {
    pub(crate) use crate::dynamic_shared;
    pub(crate) use warpfold_device::{
        Shared, Word, block, grid, kernel, shared_array,
        thread::*,
        warp::{FULL_WARP, Shuffle, WARP_SIZE, lane_id, sync_warp},
    };
}
