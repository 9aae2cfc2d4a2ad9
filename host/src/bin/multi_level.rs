//! Runs the `multi_level` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("multi_level")
}
