//! The suite's tools, one module per command, and what they share.
//!
//! `cargo xtask <command>` runs them; the whole-system tests call them as a library.

pub mod arch;
pub mod build_ptx;
pub mod check;
pub mod check_nvvm;
pub mod compare;
pub mod cub;
pub mod cuda_toolkit;
pub mod doctor;
mod elements;
pub mod explain;
pub mod failure;
pub mod ladder;
pub mod list;
pub mod process;
pub mod ptx;
pub mod report;
pub mod run;
pub mod rust_src;
pub mod suite;
pub mod test;
pub mod toolchain;
pub mod tune;
pub mod twins;
pub mod workspace;
