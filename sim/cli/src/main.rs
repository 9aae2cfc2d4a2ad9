//! `warpfold-sim`: GPU kernels and whole CUDA programs without a GPU. See `warpfold-sim --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    warpfold_sim_cli::main()
}
