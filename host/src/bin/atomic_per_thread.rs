//! Runs the `atomic_per_thread` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("atomic_per_thread")
}
