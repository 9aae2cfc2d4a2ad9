//! Runs `transfer_pinned`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("transfer_pinned")
}
