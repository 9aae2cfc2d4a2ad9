//! The device crate: every kernel of the suite, compiled to PTX.
//!
//! One file per variant, named like the variant everywhere else: module, prefix of the PTX symbols
//! (`<variant>_<op>_<dtype>`), binary and JSON key are one identifier. Kernels see the machine
//! through [`gpu`] alone and compile under both code generators: rustc's own NVPTX target and
//! rust-cuda's `rustc_codegen_nvvm`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)]
#![feature(macro_metavar_expr_concat)]
// Shuffles and warp barriers exist only as LLVM intrinsics here.
#![allow(internal_features)]
// Kernels are called by the driver, with the contract that their module's doc states.
#![allow(clippy::missing_safety_doc)]

pub mod gpu;
pub mod memory;
pub mod reduce;
pub mod testing;
