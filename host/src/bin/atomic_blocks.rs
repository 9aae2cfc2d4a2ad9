//! Runs the `atomic_blocks` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("atomic_blocks")
}
