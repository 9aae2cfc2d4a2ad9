//! The builds and checks of this repository, one module per command, and shared code.
//!
//! `cargo xtask <command>` runs these modules, and the commands of [`warpfold_measure`] with the PTX
//! that is built here. The whole-system tests use this library.

// Standard output and error may be closed or full, which must not panic: use `cli::stdout` and `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod build_sim;
pub mod check_features;
pub mod check_nvvm;
pub mod check_text;
pub mod cuda_toolkit;
pub mod doctor;
pub mod fuzz;
pub mod lint;
pub mod mutate;
pub mod packages;
pub mod public_api;
pub mod pypi;
pub mod python;
pub mod test;

pub(crate) use warpfold_suite::cli::files;
pub(crate) use warpfold_suite_build::{
    build_ptx, failure, process, rust_src, suite, toolchain, workspace,
};
