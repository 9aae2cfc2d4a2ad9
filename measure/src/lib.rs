//! Commands on the suite: runs its kernels, explains and checks them in the simulator, compares and
//! tunes them on a GPU, and reports measurements. One module per command, and shared modules.
//!
//! `cargo xtask <command>` calls them. This crate compiles no kernels: callers pass in a [`Builder`].

// Standard output and error may be closed or full, which must not panic: use `cli::stdout` and `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod builder;
pub mod check;
pub mod compare;
mod elements;
pub mod explain;
pub mod failure;
pub mod ladder;
pub mod list;
pub mod machine;
mod options;
pub mod process;
pub mod ptx;
pub mod report;
pub mod run;
pub mod scale;
pub mod suite;
pub mod tune;
pub mod workspace;

pub use builder::Builder;

use warpfold_suite::cli::{files, table};
