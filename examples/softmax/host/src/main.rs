//! Runs the softmax kernel on random rows: `softmax-host --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    softmax_host::cli::main(std::env::args_os())
}
