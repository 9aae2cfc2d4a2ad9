//! Runs the `unroll_full` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold_suite::cli::main("unroll_full")
}
