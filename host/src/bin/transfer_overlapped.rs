//! Runs `transfer_overlapped`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("transfer_overlapped")
}
