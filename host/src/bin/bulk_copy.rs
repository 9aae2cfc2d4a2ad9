//! Runs `bulk_copy`; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("bulk_copy")
}
