//! The builds and checks of this repository, one module per command, and shared code.
//!
//! `cargo xtask <command>` runs them, and the commands of [`warpfold_lab`] with the PTX that is built
//! here; the whole-system tests use this library.

// Standard output and error may be closed or full, which must not panic: use `cli::stdout` and `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod arch;
pub mod build_ptx;
pub mod build_sim;
pub mod cases;
pub mod check_features;
pub mod check_nvvm;
pub mod check_text;
pub mod cub;
pub mod cuda_toolkit;
pub mod doctor;
pub mod embed_ptx;
pub mod examples;
pub mod from_packages;
pub mod fuzz;
pub mod mutate;
pub mod packages;
pub mod public_api;
pub mod pypi;
pub mod python;
pub mod rust_src;
pub mod suite;
pub mod test;
pub mod toolchain;
pub mod twins;

pub(crate) use warpfold_lab::{failure, process, ptx, workspace};
pub(crate) use warpfold_suite::cli::files;
