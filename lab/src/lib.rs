//! What can be done with the suite: run its kernels, explain and check them in the simulator, compare
//! and tune them on a GPU, and show what was measured. One module per command, and what they share.
//!
//! `cargo xtask <command>` calls them. Nothing here compiles a kernel: who calls hands in a [`Builder`],
//! which does.

// Standard output and error may be closed or full, which is no reason to panic: `cli::stdout`, `say!`.
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
