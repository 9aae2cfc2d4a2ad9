//! Runs the `sequential` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("sequential")
}
