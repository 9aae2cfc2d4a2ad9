//! Commands on the suite, which `cargo xtask <command>` calls: they run its kernels, explain and check
//! them in the simulator, compare and tune them on a GPU, and report measurements. One module per
//! command, and shared modules.
//!
//! Commands get PTX from a [`Builder`], which tests replace.

// Standard output and error may be closed or full, which must not panic: use `cli::stdout` and `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod check;
pub mod compare;
pub mod contest;
mod elements;
pub mod explain;
pub mod ladder;
mod list;
mod markers;
mod options;
pub mod report;
pub mod run;
mod scale;
pub mod suite;
pub mod tune;

pub use warpfold_suite_build::{Builder, builder, failure, machine, process, workspace};

use warpfold_suite::cli::{files, table};
