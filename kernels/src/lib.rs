//! The device crate: every kernel of the suite, compiled to PTX.
//!
//! One file per variant, named like the variant everywhere else: module, prefix of the PTX symbols
//! (`<variant>_<op>_<dtype>`), binary and JSON key are one identifier. Kernels see the machine
//! through `warpfold-device` alone and compile under both code generators: rustc's own NVPTX target and
//! rust-cuda's `rustc_codegen_nvvm`. Their parameters are the structs of `warpfold-abi`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
#![feature(macro_metavar_expr_concat)]
// A part that is left out has its functions here, and no kernel of them.
#![cfg_attr(
    not(all(feature = "suite", feature = "library")),
    allow(dead_code, unused_imports, unused_macros)
)]
// Kernels are called by the driver, with the contract that their module's doc states.
#![allow(clippy::missing_safety_doc)]

#[cfg(feature = "suite")]
pub mod memory;
pub mod reduce;
#[cfg(feature = "suite")]
pub mod testing;

warpfold_device::dynamic_shared! {
    /// The block's dynamic shared memory, as many elements as the launch asked bytes for.
    pub(crate) fn dynamic_shared: warpfold_dynamic_shared
}

/// What every kernel uses.
pub(crate) mod prelude {
    pub(crate) use crate::dynamic_shared;
    pub(crate) use warpfold_device::{
        Shared, Word, block, grid, kernel, shared_array,
        thread::*,
        warp::{FULL_WARP, Shuffle, WARP_SIZE, lane_id, sync_warp},
    };
}
