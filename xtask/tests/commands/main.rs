//! The commands of `cargo xtask`, most of them with scripts in place of the programs that they call.

mod build_ptx;
mod cases;
mod check_nvvm;
mod cli;
mod compare;
mod cub;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cuda_toolkit;
mod fake;
mod fuzz;
mod hostile;
mod ladder;
mod machine_code;
mod nvcc;
mod nvvm_workspace;
mod output;
mod refused;
mod report;
mod tune;
mod twins;
