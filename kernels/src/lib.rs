//! The device crate: every kernel of the suite, compiled to PTX.
//!
//! One file per variant. One identifier is the module, the prefix of the PTX symbols
//! (`<variant>_<op>_<dtype>`), the binary and the JSON key. Kernels access the hardware only through
//! `warpfold-device` and compile under both code generators, rustc's own NVPTX target and rust-cuda's
//! `rustc_codegen_nvvm`. Their parameters are the structs of `warpfold-abi`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
#![feature(macro_metavar_expr_concat)]
// Without a part's feature its functions are compiled, but no kernel uses them.
#![cfg_attr(
    not(all(feature = "suite", feature = "library", feature = "matrices")),
    allow(dead_code, unused_imports, unused_macros)
)]
// The driver calls the kernels; their modules' docs state the contract.
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
