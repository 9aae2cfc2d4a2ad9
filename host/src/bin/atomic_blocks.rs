//! Runs the `atomic_blocks` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("atomic_blocks")
}
