//! Runs `transfer_overlapped`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("transfer_overlapped")
}
