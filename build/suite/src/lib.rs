//! Builds the kernels' PTX with both compilers, the archives that the library embeds, the CUDA C twins
//! and CUB. Also locates the workspace and the programs of the machine that these builds use.

// Standard output and error may be closed or full, which must not panic: use `cli::stdout` and `say!`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod arch;
pub mod build_ptx;
pub mod builder;
pub mod cub;
pub mod embed_ptx;
pub mod failure;
pub mod machine;
pub mod parallel;
pub mod process;
pub mod rust_cuda;
pub mod rust_src;
pub mod suite;
pub mod toolchain;
pub mod twins;
pub mod workspace;

pub use builder::Builder;

pub(crate) use warpfold_suite::cli::files;
