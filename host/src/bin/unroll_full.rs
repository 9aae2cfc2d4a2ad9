//! Runs the `unroll_full` kernel; `--help` shows the options.

fn main() -> std::process::ExitCode {
    warpfold::cli::main("unroll_full")
}
