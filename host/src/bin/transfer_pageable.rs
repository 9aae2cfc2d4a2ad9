//! Runs `transfer_pageable`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("transfer_pageable")
}
